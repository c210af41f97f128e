"""A result of each command, for tests of what is said of them."""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from tests.unit.plan.histories import made
from tests.unit.samples import NOON
from tests.unit.shipped import DESTINATION
from zbackup.catalog.local import Catalog
from zbackup.cli import (
    listing,
    restore_report,
)
from zbackup.cli.command_context import Done
from zbackup.jobs.backup.prune import PrunePlan, PruneReport, Skipped
from zbackup.jobs.clones.lifecycle import CloneStatus
from zbackup.jobs.context import Context
from zbackup.jobs.drills.drill import DrillReport
from zbackup.jobs.drills.verdicts import Drilled
from zbackup.jobs.journal import JobState
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.restore import RestoreReport
from zbackup.jobs.ship.lag import Shipped
from zbackup.jobs.ship.stale_holds import Stale
from zbackup.jobs.ship.verify_at import ReadBack, VerifyReport
from zbackup.jobs.watch.received import Lot, Received
from zbackup.jobs.watch.received import ReceivedCare as KeptThere
from zbackup.jobs.watch.received_log import ArchivedLot
from zbackup.jobs.watch.status import InstanceStatus
from zbackup.jobs.watch.window import WindowReport
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.drill import DrillVerdict
from zbackup.model.finding import Finding
from zbackup.model.log import Transaction
from zbackup.model.moment import parse_moment
from zbackup.model.progress import Phase
from zbackup.model.record import Record
from zbackup.model.recovery import CheckedTables, LeftOut, Recovered, ReplayRange
from zbackup.model.retention import Reason, Retention, Span, Tier
from zbackup.model.shipped import arrived_of
from zbackup.model.snapshot import Snapshot
from zbackup.model.space import Pool, Space
from zbackup.model.target import Time
from zbackup.plan.recovery.window import Gap, Range, RecoveryWindow, Window
from zbackup.plan.retention.retention import KeptBackup, RetentionPlan
from zbackup.plan.retention.tier_space import TierSpace

BERLIN = ZoneInfo("Europe/Berlin")


VERDICT = DrillVerdict(
    backup="b",
    name="zbackup-1",
    at=datetime(2024, 5, 1, 6, tzinfo=UTC),
    to=datetime(2024, 5, 1, 5, 58, 30, tzinfo=UTC),
    transactions=41,
    tables=14,
    seconds=42.0,
)
BAD = dataclasses.replace(
    VERDICT, at=datetime(2024, 5, 1, 7, tzinfo=UTC), why="a table is damaged: shop.orders"
)


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


ASKED = restore_report.Asked("shop", BERLIN, parse_moment("2024-05-01 10:02", BERLIN, at(30)))
REPLAY = ReplayRange(
    last_applied=a_transaction(1, 5000, "u:41"), first_skipped=a_transaction(2, 5100, "u:42"),
    transactions=32, log_bytes=3 * 1024**2, out_of_order=0, effective_target=ASKED.moment.at,
)  # fmt: skip
PLAN = RestorePlan(
    name="shop-x", target=ASKED.target, stop=Time(ASKED.target.at), base=a_backup(), log=None,
    reason="newest before", replay=REPLAY,
)  # fmt: skip
LEFT_OUT = LeftOut(
    transaction=a_transaction(0, 4000, "u:31"), tables=("shop.orders",), later=2,
    first=(a_transaction(1, 4500, "u:36"),),
)  # fmt: skip
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
    phases=(Phase("inspecting", 0.25), Phase("replaying", 61.0)),
    recovered=Recovered(
        last_applied=REPLAY.last_applied, first_skipped=None, position="binlog.000012:5100", gtid="u:1-41",
        base_exact=True,
    ),
)  # fmt: skip
LISTING = listing.Listing(
    Catalog((), (a_backup(), a_backup(purpose="log", as_of=None)), (("t@x", "newer"),)),
    Window(start=at(0, 0.5), end=None),
    (a_backup(),),
)  # fmt: skip


@dataclasses.dataclass
class Place:
    """As much of a context as a report is rendered with."""

    instance: str = "shop"
    zone: ZoneInfo = BERLIN
    retention: Retention = Retention(tiers=(Tier(step=Span(1, "day"), span=None),))  # noqa: RUF009


def done(result: Any) -> Done[Any]:
    return Done(cast(Context, Place()), result)


DEV = dataclasses.replace(
    STATUS,
    clone=dataclasses.replace(
        CLONE, kind="dev", login="zbackup_clone", until=at(31).isoformat(), masked=True, parent="base"
    ),
    password=Path("/clones/shop-x/password"),
)


GIB = 1024**3


def a_status(**changes: Any) -> InstanceStatus:
    pool = Pool(name="tank", size=100 * GIB, free=15 * GIB, fragmentation=1, health="ONLINE")
    low = Finding(severity="warning", subject="space", text="tank has 15% free", why="W.", fix="zfs list")
    well = InstanceStatus(
        instance="shop",
        looked=at(2),
        newest=a_backup(),
        backups=3,
        clones=1,
        servers=("shop-x",),
        window=Window(start=at(0), end=None),
        gaps=(),
        lost=at(0) - at(0),
        space=Space(data=40 * GIB, snapshots=GIB, clones=0, available=15 * GIB, pool=pool),
        tiers=(TierSpace("hourly", 2, GIB), TierSpace("to be pruned", 1, 2048)),
        jobs=(
            JobState(instance="shop", job="reconcile", last=at(0)),
            JobState(instance="shop", job="snapshot", last=at(0), seconds=1.5, next=at(5), why="on schedule"),
            JobState(
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
        drills=(
            Drilled(destination="", last=VERDICT, passed=VERDICT, every=timedelta(days=7)),
            Drilled(destination="cloud", last=BAD, passed=VERDICT, every=None),
            Drilled(destination="offsite", last=None, passed=None, every=timedelta(days=7)),
        ),
    )
    return dataclasses.replace(well, **changes)


WINDOW = WindowReport(
    now=at(30),
    window=RecoveryWindow(
        ranges=(
            Range(after=at(0), to=at(5), live=False),
            Range(after=at(9), to=at(30), live=True),
        ),
        gaps=(Gap(after=at(5), to=at(9), cause="purged", older="z-1", newer="z-2", why="it is gone"),),
        saw_live_log=True,
    ),
    retention=Place.retention,
    promised=at(1),
    lacking=((at(5), at(9)),),
    kept=(KeptBackup(a_backup(), (Reason("daily", "2024-05-01", tier=Place.retention.tiers[0]),)),),
    note="",
)
PRUNED = PruneReport(
    plan=PrunePlan(
        retention=RetentionPlan(
            (
                KeptBackup(
                    a_backup(),
                    (Reason("daily", "2024-05-01", tier=Place.retention.tiers[0]), Reason("held by me")),
                ),
            ),
            (a_backup(),),
        ),
        freed=3 * 1024**2,
    ),
    destroyed=(a_backup(),),
    skipped=(Skipped(a_backup(), "busy"),),
)


STALE = Stale(kind="hold", name="tank/a@one", tag="zbackup-ship:db1:shop:old", why="it is gone")
VERIFIED = VerifyReport(
    destination=DESTINATION,
    compared=(a_backup(),),
    alone=(),
    read=(ReadBack(snapshot=a_backup().snapshots[0], size=1 << 30, whole=False, same=False),),
    problems=("tank/a@one holds other data at zfs:vault/b",),
)
SOUND = dataclasses.replace(VERIFIED, read=(), problems=())
DRILLED = DrillReport(
    restored=REPORT, took=timedelta(seconds=42), verdict=VERDICT, checked=CheckedTables(tables=14)
)
LISTED = (made(1, NOON), made(2, NOON + timedelta(hours=1)))
PRUNING = JobState(instance="shop", job="prune:here", last=NOON)
RECEIVED = Received(
    root="tank/b",
    looked=NOON + timedelta(hours=2),
    lots=(
        Lot(instance="shop", home="tank/b/shop", backups=LISTED, arrived="x", age=timedelta(hours=1)),
        Lot(instance="docs", home="tank/b/docs", backups=(), arrived="", age=None),
    ),
    arriving=("tank/b/docs/data",),
    held=(("tank/b/shop/my db@zbackup-1", "somebody"),),
    kept=(
        KeptThere(
            instance="shop",
            destination="here",
            due=LISTED[:1],
            jobs=(PRUNING,),
            scheduled=True,
            max_lag=None,
        ),
    ),
    logs=(
        ArchivedLot(
            instance="shop",
            home="tank/b/shop",
            files=3,
            size=2 * GIB,
            stored=GIB,
            newest=NOON + timedelta(hours=2),
            age=timedelta(seconds=5),
        ),
    ),
    used=3 * GIB,
    available=5 * GIB,
    pool=Pool(name="tank", size=100 * GIB, free=50 * GIB, fragmentation=1, health="ONLINE"),
    findings=(
        Finding(severity="critical", subject="backups", text="there is none", fix="zbackup ship docs"),
    ),
)
