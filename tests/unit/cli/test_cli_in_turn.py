"""A command on several instances: what one of them meets is told, the others have their turn, and what was
done is printed, whatever ends the rest."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.reports import a_backup
from zbackup.cli import snapshot
from zbackup.cli.main import invoke
from zbackup.jobs.backup.snapshot import SnapshotReport
from zbackup.jobs.context import Context
from zbackup.model.errors import LockNotTaken
from zbackup.model.server import LockChoice

INSTANCE = """
[instance.{name}]
engine = "mysql"
datasets = ["tank/{name}"]
socket = "/run/{name}.sock"
user = "zbackup"
"""
NAMES = ("blog", "shop", "wiki")
DENIED = PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/etc/shop.password")
TAKEN = SnapshotReport(backup=a_backup(), lock=LockChoice("ftwrl", ""), warnings=())

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command; the turns of some instances end so."""
    config = tmp_path / "zbackup.toml"
    config.write_text("".join(INSTANCE.format(name=name) for name in NAMES))

    def take(*options: str, **ends: BaseException) -> int:
        def act(ctx: Context, _: object) -> SnapshotReport:
            if end := ends.get(ctx.instance):
                raise end
            return TAKEN

        monkeypatch.setattr(snapshot, "snapshot", act)
        return invoke(["snapshot", "--config", str(config), *options])

    return take


def reports(text: str) -> int:
    return text.count("last transaction")


def test_a_file_that_may_not_be_read_costs_the_others_nothing(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(shop=DENIED) == 1
    said = capsys.readouterr()
    assert reports(said.out) == 2
    assert said.err == "zbackup: shop: [Errno 13] Permission denied: '/etc/shop.password'\n"
    assert run(shop=LockNotTaken("busy"), wiki=DENIED) == 8, "the status is that of the first failure"
    assert reports(capsys.readouterr().out) == 1
    assert run("--json", shop=DENIED) == 1
    rows = json.loads(capsys.readouterr().out)["data"]
    assert [row["instance"] for row in rows] == list(NAMES)
    assert rows[1]["error"]["kind"] == "ZbackupError" and "Permission denied" in rows[1]["error"]["message"]


def test_of_one_alone_it_is_no_defect_either(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("shop", shop=DENIED) == 1
    assert capsys.readouterr().err == "zbackup: [Errno 13] Permission denied: '/etc/shop.password'\n"


def test_what_was_done_before_an_interruption_is_told(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(blog=LockNotTaken("busy"), wiki=KeyboardInterrupt()) == 130
    said = capsys.readouterr()
    assert reports(said.out) == 1
    assert said.err == "zbackup: blog: busy\nzbackup: interrupted\n"
    assert run("--json", shop=KeyboardInterrupt()) == 130
    said = capsys.readouterr()
    done, cut = json.loads(said.out)["data"]
    assert "snapshot" in done and (cut["instance"], cut["error"]["kind"]) == ("shop", "Interrupted")
    assert said.err == "zbackup: interrupted\n"


def test_with_nothing_done_an_interruption_is_all_there_is(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--json", blog=KeyboardInterrupt()) == 130
    assert json.loads(capsys.readouterr().out)["error"]["kind"] == "Interrupted"


def test_what_was_done_before_a_defect_is_told(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    defect = "zbackup: unexpected TypeError: oh no (run again with --debug for the details)\n"
    assert run(shop=TypeError("oh no")) == 1
    said = capsys.readouterr()
    assert (reports(said.out), said.err) == (1, defect)
    assert run("--json", "--debug", shop=TypeError("oh no")) == 1
    said = capsys.readouterr()
    assert [row.get("error", {}).get("kind") for row in json.loads(said.out)["data"]] == [None, "TypeError"]
    assert "Traceback" in said.err and said.err.endswith(defect)
