"""The verdict of `zbackup init` on the daemon, by what systemd, ZFS and the journal say."""

import grp
import os
import pwd
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.plan.test_init_verdict import LATER, START
from zbackup.clock import SystemClock
from zbackup.config.load import parse
from zbackup.config.settings import Settings
from zbackup.features.init.jobs import host, verdict
from zbackup.jobs.journal import JobState, Journal
from zbackup.model.errors import CommandFailed, DatasetNotFound
from zbackup.model.progress import Silent

ALL = "snapshot,userprop,hold,release"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Two instances of a daemon that runs; ZFS knows the dataset of the second."""
    text = f"daemon = {{state_dir = '{tmp_path}'}}\n"
    for name in ("gone", "shop"):
        text += f"[instance.{name}]\nengine = 'mysql'\ndatasets = ['tank/{name}']\nsocket = '/s'\n"
        text += f"[instance.{name}.schedule]\nsnapshot = '5m'\n"

    def allow(argv: Sequence[str], *, mutates: bool, timeout: float) -> str:
        if argv[-1] == "tank/gone":
            raise DatasetNotFound(tuple(argv), 1, "cannot open 'tank/gone': dataset does not exist")
        return f"---- Permissions on {argv[-1]} ----\nLocal permissions:\n\tuser nobody-s {ALL[:-8]}\n"

    monkeypatch.setattr(verdict, "run", allow)
    monkeypatch.setattr(host, "service_user", lambda: "nobody-s")
    monkeypatch.setattr(host, "is_active", lambda: True)
    monkeypatch.setattr(host, "service_started", lambda clock: START)
    return parse(text, "here")


def test_a_dataset_that_is_gone_hides_nothing_of_the_others(settings: Settings) -> None:
    gone, lacking = verdict.verdict(settings, SystemClock(), Silent())
    assert isinstance(gone, CommandFailed) and "dataset does not exist" in str(gone)
    assert str(lacking).endswith(f"(release): zfs allow -u nobody-s {ALL} tank/shop")
    assert lacking.exit_status == 9


def allowed(monkeypatch: pytest.MonkeyPatch, who: str) -> None:
    """On every dataset there is what the daemon needs, for these."""

    def allow(argv: Sequence[str], *, mutates: bool, timeout: float) -> str:
        return f"---- Permissions on {argv[-1]} ----\nLocal permissions:\n\t{who} {ALL}\n"

    monkeypatch.setattr(verdict, "run", allow)


def looked(tmp_path: Path, *names: str) -> None:
    """The daemon has looked at these instances."""
    now = datetime.now(UTC)
    Journal(tmp_path).write([JobState(instance=name, job="watch", last=now) for name in names])


def test_a_daemon_with_all_its_rights_that_has_looked_does_its_work(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed(monkeypatch, "user nobody-s")
    looked(tmp_path, "gone", "shop")
    assert list(verdict.verdict(settings, SystemClock(), Silent())) == []


@pytest.mark.parametrize(("group", "lacking"), [("own", 0), ("main", 0), ("others", 2)])
def test_a_right_of_a_group_is_the_daemons_where_it_belongs_to_that(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, lacking: int
) -> None:
    groups = [SimpleNamespace(gr_name=name, gr_gid=gid) for gid, name in enumerate(("main", "own", "others"))]
    monkeypatch.setattr(pwd, "getpwnam", lambda name: SimpleNamespace(pw_name=name, pw_gid=0))
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, 1])
    monkeypatch.setattr(grp, "getgrall", lambda: groups)
    allowed(monkeypatch, f"group {group}")
    looked(tmp_path, "gone", "shop")
    told = [str(each) for each in verdict.verdict(settings, SystemClock(), Silent())]
    assert len(told) == lacking and all("lacks rights on tank/" in each for each in told)


def test_an_instance_without_a_schedule_is_not_the_daemons_to_back_up(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = (
        f"daemon = {{state_dir = '{tmp_path}'}}\n[instance.x]\nengine = 'mysql'\ndatasets = ['tank/gone']\n"
    )
    monkeypatch.setattr(verdict, "LIMIT_S", 0.0)
    assert list(verdict.verdict(parse(by_hand, "here"), SystemClock(), Silent())) == []


def test_a_daemon_that_has_ended_is_said_to(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it had looked at everything before."""
    monkeypatch.setattr(host, "service_user", lambda: "root")
    monkeypatch.setattr(host, "is_active", lambda: False)
    for names in ((), ("gone", "shop")):
        looked(tmp_path, *names)
        (ended,) = verdict.verdict(settings, SystemClock(), Silent())
        assert "the daemon has ended" in str(ended) and ended.exit_status


def test_what_the_daemons_user_wrote_into_its_journal_is_cut_and_none_of_it_raises(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "service_user", lambda: "root")
    monkeypatch.setattr(verdict, "LIMIT_S", 0.0)
    (tmp_path / "daemon.json").write_text(
        '{"jobs": ["shop", {"instance": "shop", "job": ["watch"], "failures": "x"}]}'
    )
    told = [str(each) for each in verdict.verdict(settings, SystemClock(), Silent())]
    assert [each.partition(":")[0] for each in told] == ["gone", "shop"], told
    assert all("has not inspected it" in each for each in told)
    row = JobState(instance="shop", job="watch", failures=1, failed=LATER, message="x" * 99_999)
    Journal(tmp_path).write([row, JobState(instance="gone", job="watch", last=datetime.now(UTC))])
    (said,) = verdict.verdict(settings, SystemClock(), Silent())
    assert said.exit_status == 9 and len(str(said)) < 1200


class Told(Silent):
    """The phases there were. In each the daemon looks at one more instance."""

    def __init__(self, journal: Journal, looks: list[str]) -> None:
        self.phases: list[str] = []
        self._journal, self._looks, self._looked = journal, looks, list[JobState]()

    def phase(self, name: str, detail: str = "") -> None:
        self.phases.append(f"{name} ({detail})" if detail else name)
        if self._looks:
            one = self._looks.pop(0)
            self._looked.append(JobState(instance=one, job="watch", last=datetime.now(UTC)))
            self._journal.write(self._looked)


def test_it_says_whom_it_waits_for(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "service_user", lambda: "root")
    told = Told(Journal(tmp_path), ["shop", "gone"])
    assert list(verdict.verdict(settings, SystemClock(), told)) == []
    waiting = "waiting until the daemon has inspected"
    assert told.phases == [f"{waiting} gone, shop (at most 120 s)", f"{waiting} gone (at most 120 s)", ""]


def test_whom_it_waits_for_is_said_once(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the daemon takes."""
    monkeypatch.setattr(host, "service_user", lambda: "root")
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            looked(tmp_path, "gone", "shop")

    monkeypatch.setattr(verdict.time, "sleep", sleep)
    told = Told(Journal(tmp_path), [])
    assert list(verdict.verdict(settings, SystemClock(), told)) == []
    assert len(pauses) == 3 and len(told.phases) == 2 and told.phases[-1] == ""
