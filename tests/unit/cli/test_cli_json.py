"""JSON of each command's result: the documentation knows every key, and no other."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.unit import archived, copied, switched, undone
from tests.unit.cli.test_log_lines import DROP, READ
from tests.unit.reports import (
    ASKED,
    DEV,
    DRILLED,
    LEFT_OUT,
    LISTING,
    PLAN,
    PRUNED,
    RECEIVED,
    REPORT,
    SOUND,
    STALE,
    STATUS,
    VERIFIED,
    WINDOW,
    a_backup,
    a_status,
    done,
)
from tests.unit.shipped import in_json
from zbackup.cli import (
    check,
    clone_create,
    json_shapes,
    key,
    listing,
    prune,
    received,
    release,
    restore_report,
    snapshot,
    status,
    verify,
    window,
)
from zbackup.cli.command_context import Done, Failed, conclude
from zbackup.cli.log_lines import entry_shape, read_shape
from zbackup.cli.options import Options
from zbackup.cli.output import JSON_VERSION
from zbackup.features.fleet import command as fleet
from zbackup.features.init import words
from zbackup.features.init.setup import SetupStep
from zbackup.features.webpage import command as web
from zbackup.jobs.backup.snapshot import SnapshotPlan, SnapshotReport
from zbackup.jobs.dev_clones.create import CreatePlan
from zbackup.jobs.watch.check import CheckReport
from zbackup.model.errors import DatabaseError, ZbackupError
from zbackup.model.finding import Finding
from zbackup.model.fleet import Fleet, FleetMember
from zbackup.model.foreign import Foreign
from zbackup.model.server import LockChoice
from zbackup.model.shipping import KeyTrial

JSON_PAGE = (Path(__file__).parents[3] / "docs/reference/json.md").read_text()


FLEET = Fleet(
    looked=datetime(2024, 5, 1, 12, tzinfo=UTC),
    members=(FleetMember(address="tank/b", path="db1", instance="shop"),),
    unreachable=(("zfs:x", "gone"),),
)
FOREIGN = Foreign(name="auto", snapshots=a_backup().snapshots, missing=("tank/other",))
STEP = SetupStep(kind="run", text="let it", argv=("zfs", "allow"))


def everything_in_json() -> dict[str, Any]:
    plan = SnapshotPlan(name="n", members=(("a", "/a"),), lock=LockChoice("none", "r"), warnings=())
    report = SnapshotReport(backup=a_backup(), lock=LockChoice("none", "r"), warnings=("w",))
    finding = Finding(severity="ok", subject="s", text="t")
    return {
        "init": words.report_shape("/c", ["shop"], [STEP], [STEP], [], seconds=41.0),
        "init --print": words.report_shape("/c", [], [STEP], [], ["p"], seconds=1.0, configuration="x"),
        "snapshot": snapshot._report_shape(done(report)),
        "snapshot --dry-run": snapshot._plan_shape(done(plan)),
        "list": listing._shape(done(LISTING)),
        "list --from": listing._shape(done(replace(LISTING, address="zfs:vault", servers=(a_backup(),)))),
        "list --foreign": listing._shape(done(replace(LISTING, foreign=(FOREIGN,)))),
        "window": window._shape(done(window.SeenWindow(WINDOW))),
        "window --from": window._shape(
            done(window.SeenWindow(replace(WINDOW, promised=None, lacking=()), "zfs:vault"))
        ),
        "prune": prune._report_shape(done(PRUNED)),
        "prune --dry-run": prune._plan_shape(done(PRUNED.plan)),
        "status": status._shape(done(a_status())),
        "check": check._shape(done(CheckReport(instance="shop", findings=(finding,)))),
        "restore": restore_report.report_shape(ASKED, REPORT),
        "restore --dry-run": restore_report.plan_shape(ASKED, PLAN),
        "restore --skip": restore_report.plan_shape(ASKED, replace(PLAN, left_out=LEFT_OUT)),
        "clone list": [json_shapes.clone(STATUS), json_shapes.clone(DEV)],
        "clone create": clone_create.report_shape([DEV]),
        "clone create --dry-run": clone_create.plan_shape(
            CreatePlan(names=("shop-dev1",), backup=a_backup(), restore=None, masks=("/mask.sql",)),
            ASKED,
        ),
        "verify": verify._shape(done(verify.Verified(VERIFIED, None))),
        "verify --drill here": verify._shape(done(verify.Verified(None, DRILLED))),
        "verify --drill": verify._shape(done(verify.Verified(SOUND, DRILLED))),
        "received": [received._shape(RECEIVED)],
        "fleet": fleet.shape(FLEET),
        "key": key._shape(done(KeyTrial(name="n", streams=1, read=2, log=3))),
        "web --login": web.shape("http://127.0.0.1:8420/login?link=x"),
        "release": release._shape(done([STALE]), yes=False),
        "release --keep": release._kept_shape("shop", [a_backup()], yes=True),
        "log": [entry_shape(DROP), read_shape(READ)],
        **archived.in_json(),
        **in_json(),
        **switched.in_json(),
        **copied.in_json(),
        **undone.in_json(),
    }


@pytest.mark.parametrize("command", everything_in_json())
def test_json_is_json_and_every_key_is_documented(command: str) -> None:
    shape = json.loads(json.dumps(everything_in_json()[command]))
    documented = set(re.findall(r"`(\w+)`", JSON_PAGE))
    assert _keys(shape) - documented == set()


def test_orphans_are_there_by_their_old_name_too() -> None:
    """The document's version tells when a key goes, and it has not changed."""
    shape = prune._plan_shape(done(replace(PRUNED.plan, orphans=("a stream",))))
    assert (shape["orphans"], shape["strays"], JSON_VERSION) == (("a stream",), ("a stream",), 2)


def test_no_key_is_documented_that_does_not_exist() -> None:
    in_tables = {k for line in JSON_PAGE.splitlines() if line.startswith("| `")
                 for k in re.findall(r"`(\w+)`", line.split("|")[1])}  # fmt: skip
    existing = set().union(*(_keys(shape) for shape in everything_in_json().values()))
    assert in_tables - existing == {"instance", "destroyed", "dsn", "environment", "configuration"} - existing


def test_one_that_fails_does_not_hide_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes: list[Done[str] | Failed] = [Failed("wiki", DatabaseError("down")), done("fine")]

    def finish(options: Options) -> int:
        with pytest.raises(typer.Exit) as left:
            conclude(
                options, "check", outcomes, shape=lambda d: {"said": d.result}, text=lambda ds: ds[0].result
            )
        return int(left.value.exit_code)

    assert finish(Options()) == DatabaseError.exit_status
    said = capsys.readouterr()
    assert (said.out, said.err) == ("fine\n", "zbackup: wiki: down\n")
    assert finish(Options(json=True)) == DatabaseError.exit_status
    assert json.loads(capsys.readouterr().out)["data"] == [
        {"instance": "wiki", "error": {"kind": "DatabaseError", "message": "down", "exit_status": 7}},
        {"instance": "shop", "said": "fine"},
    ]
    assert issubclass(DatabaseError, ZbackupError)


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) else set()
