"""The host that `zbackup init` and `install-service` rely on: its systemd, the service's files and the
program that its units start as root."""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from zbackup.features.init.jobs import host
from zbackup.features.init.plan.service import SETTINGS, UNITS, WRITTEN_PROGRAM
from zbackup.model.errors import CommandFailed, Refused
from zbackup.proc import run_directory

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


class Systemctl:
    """What systemd says of the daemon: whether it is active, and its properties."""

    def __init__(self, *, active: bool = False, **properties: str) -> None:
        self.active, self.properties, self.asked = active, properties, 0

    def __call__(self, argv: Sequence[str], *, mutates: bool, timeout: float) -> str:
        self.asked += 1
        assert argv[0] == "systemctl" and argv[-1] == "zbackup.service" and not mutates
        if argv[1] == "is-active":
            if not self.active:
                raise CommandFailed(tuple(argv), 3, "")
            return ""
        (wanted,) = (word.removeprefix("--property=") for word in argv if word.startswith("--property="))
        return f"{self.properties.get(wanted, '')}\n"


@pytest.fixture
def systemctl(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Systemctl]:
    def put(**said: object) -> Systemctl:
        made = Systemctl(**said)  # type: ignore[arg-type]
        monkeypatch.setattr(host, "run", made)
        return made

    return put


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


# whether the daemon runs


def test_where_systemd_does_not_run_it_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systemctl: Callable[..., Systemctl]
) -> None:
    asked = systemctl(active=True)
    monkeypatch.setattr(host, "SYSTEMD", tmp_path / "system")
    assert (host.inspect().systemd, host.inspect().active, asked.asked) == (False, False, 0)


@pytest.mark.parametrize("active", [True, False])
def test_under_systemd_the_daemon_is_active_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systemctl: Callable[..., Systemctl], active: bool
) -> None:
    systemctl(active=active)
    monkeypatch.setattr(host, "SYSTEMD", tmp_path)
    assert (host.inspect().systemd, host.inspect().active) == (True, active)


@pytest.mark.parametrize(("said", "user"), [("", "root"), ("zbackup", "zbackup")])
def test_the_daemon_runs_as_the_units_user(systemctl: Callable[..., Systemctl], said: str, user: str) -> None:
    systemctl(User=said)
    assert host.service_user() == user


@pytest.mark.parametrize(
    ("said", "started"),
    [("", NOW), ("0", NOW), ("40000000", NOW - timedelta(seconds=60))],
    ids=["never", "not now", "a minute ago"],
)
def test_the_daemon_was_started_when_its_process_was(
    systemctl: Callable[..., Systemctl], said: str, started: datetime
) -> None:
    """By the clock since the boot, which nobody sets."""
    systemctl(ExecMainStartTimestampMonotonic=said)
    clock = SimpleNamespace(now=lambda: NOW, monotonic=lambda: 100.0)
    assert host.service_started(clock) == started  # type: ignore[arg-type]


# its program


def test_the_units_start_the_zbackup_that_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called, installed = program(tmp_path / "venv/zbackup"), program(tmp_path / "bin/zbackup")
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setattr(sys, "argv", [str(called), "init"])
    assert host.own_program() == str(called)


@pytest.mark.parametrize("called", ["", "zbackup", "pytest", "gone/zbackup", "directory/zbackup"])
def test_what_is_no_zbackup_of_a_known_place_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    """Not even one that lies where somebody happens to stand."""
    installed = program(tmp_path / "bin/zbackup")
    program(tmp_path / "zbackup"), program(tmp_path / "pytest")
    (tmp_path / "directory/zbackup").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(installed.parent))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / called) if called not in ("", "zbackup") else called])
    assert host.own_program() == str(installed)
    installed.unlink()
    assert host.own_program() == WRITTEN_PROGRAM


def test_no_unit_starts_as_root_what_others_could_replace(rooted: Path) -> None:
    mine = program(rooted / "zbackup")
    host.require_roots_program(str(mine))
    mine.chmod(0o777)
    with pytest.raises(Refused, match="as root"):
        host.require_roots_program(str(mine))


# its files


def test_every_file_of_the_service_is_brought_along() -> None:
    texts = host.texts()
    assert set(texts) == {*UNITS, *SETTINGS} and all(texts.values())
    assert f"ExecStart={WRITTEN_PROGRAM} daemon" in texts["zbackup.service"]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files of the service lie: own/ counts before packaged/."""
    own, packaged = str(tmp_path / "own"), str(tmp_path / "packaged")
    monkeypatch.setattr(host, "UNIT_DIRECTORY", own)
    monkeypatch.setattr(host, "UNIT_DIRECTORIES", (own, packaged))
    monkeypatch.setattr(host, "SETTING_DIRECTORIES", {name: (f"{own}/{name}", packaged) for name in SETTINGS})
    monkeypatch.setattr(host, "SETTINGS", {name: f"{own}/{name}" for name in SETTINGS})
    monkeypatch.setattr(host, "DROP_INS", (f"{own}/zbackup.service.d/servers.conf",))
    return tmp_path


def written(path: Path, text: str = "x") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_where_nothing_is_installed_nothing_is_there(places: Path) -> None:
    assert host.there() == {} and host.inspect().units == {}


def test_of_two_places_the_administrators_counts(places: Path) -> None:
    own = written(places / "own/zbackup.service")
    written(places / "packaged/zbackup.service")
    web = written(places / "packaged/zbackup-web.service")
    setting = written(places / "own/zbackup.sysusers.conf/zbackup.conf")
    written(places / "packaged/zbackup.conf")
    assert host.inspect().units == {
        "zbackup.service": own,
        "zbackup-web.service": web,
        "zbackup.sysusers.conf": setting,
        "zbackup.tmpfiles.conf": str(places / "packaged/zbackup.conf"),
    }


def test_only_what_is_in_the_administrators_place_is_ours_to_compare(places: Path) -> None:
    written(places / "packaged/zbackup.service")
    ours = {
        written(places / "own/zbackup.service", "unit"): "unit",
        written(places / "own/zbackup.service.d/servers.conf", "groups"): "groups",
        written(places / "own/zbackup.tmpfiles.conf/zbackup.conf", "made"): "made",
    }
    (places / "own/zbackup-web.service").mkdir()
    assert host.there() == ours


# its user


def test_a_host_has_the_daemons_user_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no-such-user", "root"):
        monkeypatch.setattr(host, "USER", name)
        monkeypatch.setattr(run_directory, "USER", name)
        there = name == "root"
        assert (host.inspect().user, host.daemon_group()) == (there, 0 if there else None)


@pytest.mark.parametrize(
    ("mode", "own_group", "may"),
    [(0o640, True, True), (0o640, False, False), (0o600, True, False), (0o644, False, True)],
)
def test_the_daemon_reads_what_its_group_or_everybody_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, own_group: bool, may: bool
) -> None:
    file = tmp_path / "config.toml"
    file.touch()
    file.chmod(mode)
    monkeypatch.setattr(host, "daemon_group", lambda: file.stat().st_gid if own_group else None)
    assert host.daemon_may_read(file) is may


def test_a_group_has_a_name_or_none() -> None:
    assert (host.group_name(0), host.group_name(4_000_000)) == ("root", "")
