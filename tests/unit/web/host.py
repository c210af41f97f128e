"""A host for pages to show: a shop with gaps, a wiki with trouble, clones that run out, and a clock."""

from datetime import UTC, datetime, timedelta
from typing import Any

from zbackup.model.errors import Refused
from zbackup.model.fleet import Fleet, FleetMember
from zbackup.model.operation import Operation
from zbackup.model.overview import (
    Drill,
    Job,
    Mark,
    Marks,
    MomentPlan,
    Overview,
    OverviewBackup,
    OverviewClone,
    OverviewDestination,
    OverviewFinding,
    OverviewGap,
    OverviewInstance,
    OverviewRange,
    Room,
)
from zbackup.model.run import JobRun
from zbackup.web.source import CloneWish

NOW = datetime(2026, 11, 22, 2, 58, 10, tzinfo=UTC)
"""02:58 UTC is 03:58 in Berlin."""


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


def backups(count: int, every: timedelta, *, oldest: datetime | None = None) -> tuple[OverviewBackup, ...]:
    """This many, the newest of them less than `every` ago."""
    first = oldest or NOW - every * count + timedelta(minutes=1)
    found = []
    for number in range(count):
        taken = first + every * number
        tiers = tuple(name for name, each in (("hourly", 1), ("daily", 24)) if number % each == 0)
        found.append(
            OverviewBackup(
                name=f"zbackup-{taken:%Y%m%dT%H%M%S}Z",
                taken=taken,
                as_of=taken - timedelta(seconds=1),
                kind="base",
                tiers=tiers,
                keep=tuple(f"{tier} {taken:%Y-%m-%d %H}" for tier in tiers),
                drill="passed" if number == count - 30 else "",
                used=3_500_000 + number,
                until=taken + timedelta(days=31 if "daily" in tiers else 11),
            )
        )
    return tuple(found)


def shop() -> OverviewInstance:
    """Ten days of hourly backups, with a gap of the night before last."""
    gap = (ago(hours=31), ago(hours=28, minutes=20))
    there = [b for b in backups(240, timedelta(hours=1)) if not gap[0] < b.taken < gap[1]]
    first = [there[0], *there[1:]]
    return OverviewInstance(
        name="shop",
        engine="mysql",
        health="warning",
        looked=NOW,
        findings=(
            OverviewFinding(
                severity="warning",
                subject="window",
                text="in the promised window 2 hours cannot be restored: the log was purged",
                why="a restore to a moment in there is refused",
                fix="zbackup window shop",
            ),
            OverviewFinding(
                severity="advice", subject="tuning", text="log_bin_trust_function_creators is on"
            ),
        ),
        newest=there[-1].name,
        newest_taken=there[-1].taken,
        ranges=(
            OverviewRange(after=first[0].taken, to=gap[0], live=False),
            OverviewRange(after=gap[1], to=NOW, live=True),
        ),
        gaps=(
            OverviewGap(
                after=gap[0],
                to=gap[1],
                cause="purged",
                older="zbackup-20261120T195810Z",
                newer="zbackup-20261120T223750Z",
                why="the server purged binlog.000041 to binlog.000043 before a backup held them "
                "(binlog_expire_logs_seconds is 3600)",
            ),
        ),
        promised=ago(days=7),
        promise="7 days",
        lacking=(gap,),
        backups=tuple(first),
        destinations=(
            OverviewDestination(
                name="offsite",
                address="ssh://backup@vault.example.net/tank/backups",
                newest=there[-6].name,
                taken=there[-6].taken,
                as_of=there[-6].as_of,
                archived=None,
                lost=(NOW - there[-6].taken).total_seconds(),
                max_lag=3600.0,
            ),
            OverviewDestination(
                name="cloud",
                address="s3://backups/shop",
                newest="",
                taken=None,
                as_of=None,
                archived=None,
                lost=None,
                max_lag=None,
            ),
        ),
        jobs=(
            Job(job="snapshot", last=ago(minutes=59), seconds=1.2, failures=0, failed=None, message="",
                next=NOW + timedelta(minutes=1), why="every 1h"),
            Job(job="prune", last=ago(hours=5), seconds=8.0, failures=0, failed=None, message="",
                next=NOW + timedelta(hours=19), why="daily"),
            Job(job="ship", last=ago(hours=6), seconds=40.0, failures=5, failed=ago(minutes=12),
                message="vault.example.net: Connection timed out", next=NOW + timedelta(minutes=3),
                why="retry"),
        ),
        drills=(
            Drill(destination="", backup=there[-30].name, at=ago(hours=20), to=ago(hours=29),
                  transactions=1800, tables=64, seconds=48.0, why=""),
            Drill(destination="offsite", backup=there[-60].name, at=ago(days=3), to=None, transactions=None,
                  tables=None, seconds=3.0, why="the table shop.orders is damaged"),
        ),
        room=Room(pool="tank", data=42 << 30, snapshots=9 << 30, clones=1 << 30, free=130 << 30,
                  free_share=0.61, days=88.0),
    )  # fmt: skip


def host(*instances: OverviewInstance) -> Overview:
    """The shop, a wiki that cannot be looked at, and two clones; or these instances."""
    wiki = OverviewInstance(
        name="wiki",
        engine="mariadb",
        health="critical",
        looked=NOW,
        problem="there is no pool tank2 here now",
    )
    clone = OverviewClone(
        name="dev1", instance="shop", kind="dev", state="ready", running=True, created=ago(days=2),
        target=ago(days=2), origin="zbackup-20261120T025810Z", port=23100, used=700 << 20,
        connect="mysql --host=127.0.0.1 --port=23100 --user=dev -p", lease_ends=NOW + timedelta(hours=2),
        protected_until=None, masked=True,
    )  # fmt: skip
    good = OverviewClone(
        name="good", instance="shop", kind="restore", state="ready", running=False, created=ago(days=1),
        target=ago(days=1), origin="zbackup-20261121T025810Z", port=0, used=90 << 20, connect="mysql",
        lease_ends=None, protected_until=None, masked=False,
    )  # fmt: skip
    return Overview(
        host="db1",
        zone="Europe/Berlin",
        looked=NOW,
        daemon_runs=True,
        instances=instances or (shop(), wiki),
        clones=(good, clone),
        settings=(
            ("timezone", "Europe/Berlin"),
            ("instance.shop.engine", "mysql"),
            ("instance.shop.password", "(hidden)"),
        ),
    )


def runs() -> tuple[JobRun, ...]:
    """An hour of jobs, with a destination that did not answer."""
    done = [
        JobRun(instance="shop", job="snapshot", began=ago(minutes=m), seconds=1.2, result="done")
        for m in range(0, 60, 5)
    ]
    failed = JobRun(
        instance="shop", job="ship:offsite", began=ago(minutes=12), seconds=30.0, result="failed",
        message="vault.example.net: Connection timed out",
    )  # fmt: skip
    late = JobRun(instance="wiki", job="drill", began=ago(minutes=40), seconds=0.1, result="postponed")
    return tuple(sorted((*done, failed, late), key=lambda r: r.began, reverse=True))


def fleet() -> Fleet:
    """What two other hosts and a silent one ship here."""

    def member(host: str, instance: str, **facts: Any) -> FleetMember:
        return FleetMember(address="vault/backups", path=host, instance=instance, **facts)

    return Fleet(
        looked=NOW,
        members=(
            member("db7", "docs", exposed=None, health="critical", problems=("nothing can be restored",)),
            member(
                "db2", "shop", engine="mysql", backups=90, newest="zbackup-20261120T025810Z",
                taken=ago(hours=48), exposed=48 * 3600.0, health="critical",
                problems=("2 days would be lost, and 26 h is the most",),
            ),
            member(
                "db1", "shop", engine="mariadb", backups=240, newest="zbackup-20261122T015810Z",
                taken=ago(hours=1), archived=ago(seconds=4), exposed=4.0, drilled=ago(days=2), health="ok",
            ),
        ),
    )  # fmt: skip


class Told:
    """A source that says what it was told to."""

    def __init__(self, seen: Overview | None = None) -> None:
        self.seen = seen or host()
        self.refuses = self.no_plan = self.no_order = ""
        self.wishes: list[CloneWish] = []
        self.went: tuple[Operation, ...] = ()
        self.ships = fleet()
        self.runs = runs()

    def overview(self) -> Overview:
        if self.refuses:
            raise Refused(self.refuses)
        return self.seen

    def moment(self, instance: str, at: datetime) -> MomentPlan:
        if self.no_plan:
            raise Refused(self.no_plan)
        return MomentPlan(
            base="zbackup-20261121T085910Z",
            log="zbackup-20261121T095910Z",
            reason="zbackup-20261121T085910Z is the newest backup before the target, "
            "zbackup-20261121T095910Z the first that reaches it",
            as_it_is=False,
            transactions=5400,
            log_bytes=73 << 20,
            last_applied="2026-11-21 10:01:59.731 CET 4d8d17e9:6483 binlog.000051:4893301",
            first_skipped="2026-11-21 10:02:00.039 CET 4d8d17e9:6484 binlog.000051:4893524 drop shop.orders",
            warnings=(),
        )

    def operations(self) -> tuple[Operation, ...]:
        return self.went

    def history(self) -> tuple[JobRun, ...]:
        return self.runs

    def fleet(self) -> Fleet:
        return self.ships

    def order(self, wish: CloneWish) -> str:
        if self.no_order:
            raise Refused(self.no_order)
        self.wishes.append(wish)
        return wish.id

    def connect(self, wish: CloneWish) -> str:
        self.wishes.append(wish)
        return f"mysql://zbackup_clone:s3cret@127.0.0.1:23100/{wish.clone}"

    def forget(self) -> None:
        pass

    def marks(self, instance: str, since: datetime, until: datetime) -> Marks:
        drop = Mark(at=ago(hours=17, minutes=56), kind="drop", tables=("shop.orders",), name="4d8d17e9:6484",
                    text="DROP TABLE `orders`")  # fmt: skip
        return Marks(marks=(drop,) if since <= drop.at < until else (), more=False, problems=())
