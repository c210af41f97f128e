"""What people and scripts read of each command's result, and that the documentation knows every key."""

import dataclasses
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
import typer

from tests.unit import switched
from tests.unit.shipped import TARGET, in_json
from zbackup.catalog.local import Catalog
from zbackup.cli import (
    check,
    clone,
    clone_create,
    listing,
    prune,
    release,
    restore_report,
    shapes,
    snapshot,
    status,
    verify,
    window,
)
from zbackup.cli.options import Options
from zbackup.cli.working import Done, Failed, conclude
from zbackup.jobs.check import CheckReport
from zbackup.jobs.clone import CloneStatus
from zbackup.jobs.clone_create import CreatePlan
from zbackup.jobs.context import Context
from zbackup.jobs.journal import Remembered
from zbackup.jobs.prune import PrunePlan, PruneReport, Skipped
from zbackup.jobs.restore import RestorePlan, RestoreReport
from zbackup.jobs.shipped import Shipped
from zbackup.jobs.snapshot import SnapshotPlan, SnapshotReport
from zbackup.jobs.stale import Stale
from zbackup.jobs.status import Status
from zbackup.jobs.verify_at import ReadBack, VerifyReport
from zbackup.jobs.window import WindowReport
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.errors import DatabaseError, UsageError, ZbackupError
from zbackup.model.finding import Finding
from zbackup.model.log import Transaction
from zbackup.model.moment import parse_moment
from zbackup.model.record import Record
from zbackup.model.recovery import Recovered, ReplayRange
from zbackup.model.retention import Retention, Span, Tier
from zbackup.model.server import LockChoice
from zbackup.model.shipped import arrived_of
from zbackup.model.snapshot import Snapshot
from zbackup.model.space import Pool, Space
from zbackup.plan.retention import Kept, RetentionPlan
from zbackup.plan.tiers import TierSpace
from zbackup.plan.window import Gap, Range, RecoveryWindow, Window

BERLIN = ZoneInfo("Europe/Berlin")
JSON_PAGE = (Path(__file__).parents[3] / "docs/reference/json.md").read_text()


def at(minute: int, second: float = 0) -> datetime:
    return datetime(2024, 5, 1, 8, minute, int(second), round(second % 1 * 1e6), UTC)


def a_backup(**changes: Any) -> Backup:
    record = Record(
        backup="b1", instance="shop", engine="mysql",
        members=(("tank/my db", "/db"), ("tank/my db/log", "/db/log")),
        taken=at(0), lock="backup-lock", server_uuid="u", server_version="9.7.0", role="primary",
        position="binlog.000012:4567", gtid="u:1-9", as_of=at(0, 0.5), complete_to=at(1),
        lock_wait_ms=3, lock_held_ms=41,
    )  # fmt: skip
    snapshots = tuple(
        Snapshot(dataset=d, name="zbackup-20240501T080000Z", guid=n, createtxg=5, created=at(0), used=1024,
                 written=2048, holds=1, clones=("tank/zbackup/c/0",))
        for n, (d, _) in enumerate(record.members)
    )  # fmt: skip
    return Backup(record=dataclasses.replace(record, **changes), snapshots=snapshots)


def a_transaction(minute: int, start: int, gtid: str) -> Transaction:
    return Transaction(
        start=f"binlog.000012:{start}", end=f"binlog.000012:{start + 100}",
        committed=at(minute, 59.25), gtid=gtid,
    )  # fmt: skip


ASKED = restore_report.Asked("shop", parse_moment("2024-05-01 10:02", BERLIN, at(30)))
REPLAY = ReplayRange(
    last_applied=a_transaction(1, 5000, "u:41"), first_skipped=a_transaction(2, 5100, "u:42"),
    transactions=32, log_bytes=3 * 1024**2, out_of_order=0, effective_target=ASKED.moment.at,
)  # fmt: skip
PLAN = RestorePlan(
    name="shop-x", target=ASKED.moment.at, base=a_backup(), log=None, reason="newest before", replay=REPLAY
)
CLONE = Clone(
    id="i", name="shop-x", instance="shop", engine="mysql", kind="restore", state="ready", created=at(30),
    backup="zbackup-20240501T080000Z", target=ASKED.moment.at.isoformat(), reached="u:1-41", port=3307,
)  # fmt: skip
STATUS = CloneStatus(
    clone=CLONE, dataset="tank/zbackup/shop-x", running=True, socket="/run/zbackup/shop-x/mysqld.sock",
    connect="mysql --socket=/run/zbackup/shop-x/mysqld.sock", used=4096,
)  # fmt: skip
REPORT = RestoreReport(
    plan=PLAN, clone=CLONE, socket=STATUS.socket, connect=STATUS.connect,
    recovered=Recovered(
        last_applied=REPLAY.last_applied, first_skipped=None, position="binlog.000012:5100", gtid="u:1-41",
        base_exact=True,
    ),
)  # fmt: skip
LISTING = listing.Listing(
    Catalog((), (a_backup(), a_backup(purpose="log", as_of=None)), (("t@x", "newer"),)),
    Window(start=at(0, 0.5), end=None),
)  # fmt: skip


@dataclasses.dataclass
class Place:
    """As much of a context as a report is rendered with."""

    instance: str = "shop"
    zone: ZoneInfo = BERLIN
    retention: Retention = Retention(tiers=(Tier(step=Span(1, "day"), span=None),))  # noqa: RUF009


def done(result: Any) -> Done[Any]:
    return Done(cast(Context, Place()), result)


def test_restore_report_for_people() -> None:
    assert restore_report.render_report(ASKED, REPORT).splitlines() == [
        "Restored shop as of 2024-05-01 10:02:00 CEST (Europe/Berlin) = 2024-05-01T08:02:00Z",
        "  base           zbackup-20240501T080000Z (last transaction 2024-05-01 10:00:00.500000 CEST)",
        "  log from       a snapshot to be taken now",
        "  replayed       32 transactions, 3.0 MiB of log",
        "  last applied   2024-05-01 10:01:59.250000 CEST, binlog.000012:5000 to 5100, GTID u:41",
        "  first skipped  none: the log ends before",
        "  position       binlog.000012:5100",
        "  GTIDs          u:1-41",
        "  clone          shop-x",
        "  socket         /run/zbackup/shop-x/mysqld.sock",
        "  port           127.0.0.1:3307",
        "  newest before",
        "",
        "Connect with:",
        "  mysql --socket=/run/zbackup/shop-x/mysqld.sock",
    ]


def test_restore_plan_says_what_is_unusual() -> None:
    asked = restore_report.Asked("shop", parse_moment("2024-05-01 10:02:00.5", BERLIN, at(30)))
    replay = dataclasses.replace(REPLAY, last_applied=None, out_of_order=2)
    plan = dataclasses.replace(PLAN, replay=replay, log=a_backup(), warnings=("2 channels write one log",))
    text = restore_report.render_plan(asked, plan)
    assert text.startswith("Plan for shop as of 2024-05-01 10:02:00.500000 CEST")
    assert "log from       zbackup-20240501T080000Z" in text
    assert "none: the base is the newest state before" in text
    assert "the cut is at 2024-05-01 10:02:00 CEST" in text
    assert "warning: 2 transactions behind the cut carry an earlier time" in text
    assert "warning: 2 channels write one log" in text
    assert restore_report.plan_shape(asked, plan)["warnings"] == ["2 channels write one log"]


def test_one_transaction_is_one() -> None:
    one = dataclasses.replace(PLAN, replay=dataclasses.replace(REPLAY, transactions=1, out_of_order=1))
    text = restore_report.render_plan(ASKED, one)
    assert "would replay   1 transaction," in text
    assert "warning: 1 transaction behind the cut" in text


def test_list_for_people() -> None:
    text = listing.render("shop", LISTING, BERLIN)
    lines = text.splitlines()
    assert lines[0] == "Instance shop"
    assert re.split(r"  +", lines[1]) == [h.upper() for h in listing.HEADER]
    assert re.split(r"  +", lines[2]) == [
        "zbackup-20240501T080000Z", "2024-05-01 10:00:00 CEST", "backup-lock (waited 3 ms, held 41 ms)",
        "binlog.000012:4567", "2.0 KiB", "4.0 KiB", "2", "1",
    ]  # fmt: skip
    assert lines[3].endswith("log only; unfinished")
    assert "after 2024-05-01 10:00:00.500000 CEST and up to now can be restored (Europe/Berlin)" in text
    assert lines[-1] == "t@x cannot be read: newer"
    assert "Nothing can be restored yet" in listing.render(
        "x", listing.Listing(Catalog((), (), ()), None), BERLIN
    )


def test_snapshot_for_people() -> None:
    report = SnapshotReport(
        backup=a_backup(), lock=LockChoice("backup-lock", "all InnoDB"), warnings=("careful",)
    )
    assert snapshot._report_text([done(report)]).splitlines() == [
        "shop: zbackup-20240501T080000Z of tank/my db, tank/my db/log",
        "  last transaction 2024-05-01 10:00:00.500000 CEST, log position binlog.000012:4567",
        "  lock backup-lock, waited 3 ms, held 41 ms: all InnoDB",
        "  warning: careful",
    ]


def test_check_for_people() -> None:
    findings = (
        Finding(severity="ok", subject="datasets", text="tank/my db"),
        Finding(severity="error", subject="server", text="down", exit_status=7),
    )
    assert check.render(CheckReport(instance="shop", findings=findings)).splitlines() == [
        "Instance shop: not ready (1 error, 0 warnings)",
        "  ok       datasets: tank/my db",
        "  ERROR    server: down",
    ]


def test_clones_for_people() -> None:
    text = clone.render([STATUS, dataclasses.replace(STATUS, running=False)], BERLIN, at(30))
    assert re.split(r"  +", text.splitlines()[1]) == [
        "shop-x", "shop", "2024-05-01 10:02:00 CEST", "running", "3307", "4.0 KiB", "-",
        "zbackup-20240501T080000Z", "mysql --socket=/run/zbackup/shop-x/mysqld.sock",
    ]  # fmt: skip
    assert "stopped" in text
    assert clone.render([], BERLIN, at(30)) == "There are no clones."


DEV = dataclasses.replace(
    STATUS,
    clone=dataclasses.replace(
        CLONE, kind="dev", login="zbackup_clone", until=at(31).isoformat(), masked=True, parent="base"
    ),
    password=Path("/clones/shop-x/password"),
)


def test_a_dev_clone_for_people() -> None:
    row = re.split(r"  +", clone.render([DEV], BERLIN, at(30)).splitlines()[1])
    assert row[6:8] == ["1 min 0 s", "base"]
    protected = dataclasses.replace(DEV.clone, protected=at(32).isoformat())
    row = re.split(
        r"  +", clone.render([dataclasses.replace(DEV, clone=protected)], BERLIN, at(30)).splitlines()[1]
    )
    assert row[6] == "2 min 0 s (protected)"
    assert re.split(r"  +", clone.render([DEV], BERLIN, at(32)).splitlines()[1])[6] == "over"
    shown = clone.render_one(DEV, BERLIN, at(30))
    assert "/clones/shop-x/password" in shown and re.search(r"^Masked +yes$", shown, flags=re.M)
    made = clone_create.render([DEV], BERLIN)
    assert made.startswith("shop-x runs") and "in /clones/shop-x/password" in made


@pytest.mark.parametrize(("text", "seconds"), [("8h", 28800.0), ("90m", 5400.0), ("never", None)])
def test_a_lease_is_read(text: str, seconds: float | None) -> None:
    assert clone_create.lease_of(text) == seconds


def test_what_is_no_lease_is_said() -> None:
    with pytest.raises(UsageError, match='"soon" is no length of time'):
        clone_create.lease_of("soon")


GIB = 1024**3


def a_status(**changes: Any) -> Status:
    pool = Pool(name="tank", size=100 * GIB, free=15 * GIB, fragmentation=1, health="ONLINE")
    low = Finding(severity="warning", subject="space", text="tank has 15% free", why="W.", fix="zfs list")
    well = Status(
        instance="shop",
        looked=at(2),
        newest=a_backup(),
        backups=3,
        clones=1,
        window=Window(start=at(0), end=None),
        gaps=(),
        lost=at(0) - at(0),
        space=Space(data=40 * GIB, snapshots=GIB, clones=0, available=15 * GIB, pool=pool),
        tiers=(TierSpace("hourly", 2, GIB), TierSpace("to be pruned", 1, 2048)),
        jobs=(
            Remembered(instance="shop", job="reconcile", last=at(0)),
            Remembered(
                instance="shop", job="snapshot", last=at(0), seconds=1.5, next=at(5), why="on schedule"
            ),
            Remembered(
                instance="shop",
                job="prune",
                failures=2,
                failed=at(1),
                message="busy",
                next=at(1),
                why="failed",
            ),
        ),
        daemon_runs=True,
        working="zbackup restore (pid 7)",
        shipped=(
            Shipped(destination="offsite", newest=arrived_of(a_backup()), behind=at(2) - at(0), max_lag=None),
            Shipped(destination="cloud", newest=None, behind=None, max_lag=at(1) - at(0)),
        ),
        findings=(low,),
    )
    return dataclasses.replace(well, **changes)


def test_a_status_for_people() -> None:
    assert (
        status.render(a_status(), BERLIN)
        == """\
Instance shop: WARNING
  WARNING: space: tank has 15% free
      W.
      $ zfs list
  newest snapshot  zbackup-20240501T080000Z, 2 min 0 s ago, data as of 2024-05-01 10:00:00.500000 CEST, \
locked for 41 ms
  can be restored  after 2024-05-01 10:00:00 CEST, up to now
  next snapshot    in 3 min 0 s, 2024-05-01 10:05:00 CEST (on schedule)
  next prune       now (failed)
  last snapshot    well, 2024-05-01 10:00:00 CEST, took 1.5 s
  last prune       failed 2 times, last 2024-05-01 10:01:00 CEST: busy
  daemon           runs
  works on it      zbackup restore (pid 7)
  at offsite       zbackup-20240501T080000Z, 2 min 0 s behind, data as of 2024-05-01 10:00:00.500000 CEST
  at cloud         nothing yet
  space            data 40.0 GiB, snapshots 1.0 GiB, clones 0 B; tank has 15.0 GiB free (15%)
  backups          3; hourly: 2 (1.0 GiB), to be pruned: 1 (2.0 KiB)"""
    )


def test_a_status_of_nothing() -> None:
    text = status.render(
        a_status(newest=None, window=None, jobs=(), daemon_runs=False, working="", findings=()), BERLIN
    )
    assert text.startswith("Instance shop: well\n  newest snapshot  none\n  can be restored  nothing yet\n")
    assert "daemon           does not run" in text


WINDOW = WindowReport(
    now=at(30),
    window=RecoveryWindow(
        ranges=(
            Range(after=at(0), to=at(5), live=False),
            Range(after=at(9), to=at(30), live=True),
        ),
        gaps=(Gap(after=at(5), to=at(9), cause="purged", older="z-1", newer="z-2", why="it is gone"),),
        looked=True,
    ),
    retention=Place.retention,
    promised=at(1),
    lacking=((at(5), at(9)),),
    kept=(Kept(a_backup(), ("daily 2024-05-01",)),),
    note="",
)
PRUNED = PruneReport(
    plan=PrunePlan(
        retention=RetentionPlan((Kept(a_backup(), ("daily 2024-05-01", "held by me")),), (a_backup(),)),
        freed=3 * 1024**2,
    ),
    destroyed=(a_backup(),),
    skipped=(Skipped(a_backup(), "busy"),),
)


def test_a_window_for_people() -> None:
    lines = window.render(cast(Context, Place()), WINDOW)
    assert lines[0] == "Instance shop (Europe/Berlin)"
    assert [line.split()[0] for line in lines[2:6]] == ["restorable", "promised", "daily", "other"]
    assert "x" in lines[2] and "#" in lines[2] and lines[4].count("|") == 1
    assert lines[-4:] == [
        "Any moment after 2024-05-01 10:00:00 CEST and up to 2024-05-01 10:05:00 CEST can be restored.",
        "Any moment after 2024-05-01 10:09:00 CEST and up to now can be restored.",
        "GAP after 2024-05-01 10:05:00 CEST up to 2024-05-01 10:09:00 CEST, purged: it is gone.",
        "The promise of the last 7 days lacks 2024-05-01 10:05:00 CEST to 2024-05-01 10:09:00 CEST.",
    ]


def test_nothing_to_restore_has_no_picture() -> None:
    empty = dataclasses.replace(WINDOW, window=RecoveryWindow(ranges=(), gaps=(), looked=False))
    assert window.render(cast(Context, Place()), empty)[1].startswith("Nothing can be restored yet")


def test_a_prune_for_people() -> None:
    plan = prune._plan_text([done(PRUNED.plan)]).splitlines()
    assert plan[0] == "Instance shop"
    assert [re.split(r"  +", line)[0] for line in plan[2:4]] == ["keep", "destroy"]
    assert plan[2].endswith("daily 2024-05-01; held by me")
    assert plan[-1] == "1 backup would be destroyed, which would free 3.0 MiB; 1 stay."
    assert prune._report_text([done(PRUNED)]).splitlines() == [
        "shop: destroyed 1 backup; 1 stay",
        "  skipped zbackup-20240501T080000Z: busy",
    ]
    whole = dataclasses.replace(PRUNED, skipped=())
    assert prune._report_text([done(whole)]) == "shop: destroyed 1 backup, which freed 3.0 MiB; 1 stay"
    nothing = RetentionPlan(PRUNED.plan.retention.keep, ())
    idle = PruneReport(plan=PrunePlan(retention=nothing, freed=0), destroyed=(), skipped=())
    assert prune._report_text([done(idle)]) == "shop: nothing is to be destroyed; 1 stay"


STALE = Stale(kind="hold", name="tank/a@one", tag="zbackup-ship:db1:shop:old", why="it is gone")
VERIFIED = VerifyReport(
    target=TARGET,
    compared=(a_backup(),),
    alone=(),
    read=(ReadBack(snapshot=a_backup().snapshots[0], size=1 << 30, whole=False, same=False),),
    problems=("tank/a@one holds other data at zfs:vault/b",),
)


def test_a_difference_is_told_for_people() -> None:
    lines = verify._text([done(VERIFIED)]).splitlines()
    assert lines[0] == "Instance shop at zfs:vault/b: DIFFERENT"
    assert lines[1] == "  compared   1 backup, 0 more that are only there"
    assert lines[2].endswith("the first 1.0 GiB, DIFFERENT") and lines[2].startswith("  read       ")
    assert lines[3] == "  DIFFERENT  tank/a@one holds other data at zfs:vault/b"


def test_marks_that_are_stale_are_listed_for_people() -> None:
    assert release._lines(done([STALE]), yes=False).splitlines() == [
        "shop: would let go of (--yes does it)",
        "  hold  tank/a@one  zbackup-ship:db1:shop:old  it is gone",
    ]


def everything_in_json() -> dict[str, Any]:
    plan = SnapshotPlan(name="n", members=(("a", "/a"),), lock=LockChoice("none", "r"), warnings=())
    report = SnapshotReport(backup=a_backup(), lock=LockChoice("none", "r"), warnings=("w",))
    finding = Finding(severity="ok", subject="s", text="t")
    return {
        "snapshot": snapshot._report_shape(done(report)),
        "snapshot --dry-run": snapshot._plan_shape(done(plan)),
        "list": listing._shape(done(LISTING)),
        "window": window._shape(done(WINDOW)),
        "prune": prune._report_shape(done(PRUNED)),
        "prune --dry-run": prune._plan_shape(done(PRUNED.plan)),
        "status": status._shape(done(a_status())),
        "check": check._shape(done(CheckReport(instance="shop", findings=(finding,)))),
        "restore": restore_report.report_shape(ASKED, REPORT),
        "restore --dry-run": restore_report.plan_shape(ASKED, PLAN),
        "clone list": [shapes.clone(STATUS), shapes.clone(DEV)],
        "clone create": clone_create.report_shape([DEV]),
        "clone create --dry-run": clone_create.plan_shape(
            CreatePlan(names=("shop-dev1",), backup=a_backup(), restore=None, masks=("/mask.sql",)),
            ASKED.moment,
        ),
        "verify": verify._shape(done(VERIFIED)),
        "release": release._shape(done([STALE]), yes=False),
        **in_json(),
        **switched.in_json(),
    }


@pytest.mark.parametrize("command", everything_in_json())
def test_json_is_json_and_every_key_is_documented(command: str) -> None:
    shape = json.loads(json.dumps(everything_in_json()[command]))
    documented = set(re.findall(r"`(\w+)`", JSON_PAGE))
    assert _keys(shape) - documented == set()


def test_no_key_is_documented_that_does_not_exist() -> None:
    in_tables = {k for line in JSON_PAGE.splitlines() if line.startswith("| `")
                 for k in re.findall(r"`(\w+)`", line.split("|")[1])}  # fmt: skip
    existing = set().union(*(_keys(shape) for shape in everything_in_json().values()))
    assert in_tables - existing == {"instance", "destroyed", "dsn", "environment"} - existing


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
