"""An instance that is well, and what is said when it is not."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from zbackup.model.finding import worst
from zbackup.model.log import LogDamage
from zbackup.model.shipped import OTHER_KEY, OtherKey, other_key, other_key_to_text
from zbackup.model.space import DatasetSettings, Pool
from zbackup.plan.health.advice_on_arrangements import Arrangements, Expected, advice_on_arrangements
from zbackup.plan.health.drill_health import DrillFacts
from zbackup.plan.health.health import InstanceFacts, JobFacts, Lag, damaged_log, judge
from zbackup.plan.health.pool_space import of_space

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
GIB = 1024**3
POOL = Pool(name="tank", size=100 * GIB, free=50 * GIB, fragmentation=3, health="ONLINE")
WELL = InstanceFacts(
    now=NOW,
    newest=NOW - timedelta(minutes=4),
    unfinished=0,
    broken=0,
    future=(),
    jobs=(JobFacts(job="snapshot", failures=0, message=""),),
    daemon_runs=True,
    pool=POOL,
    written={"tank/db": GIB},
)
FIVE = Expected(snapshot_every=300, daemon=True)


RATE = "at the rate of the last snapshots, if none is destroyed"


def said(facts: InstanceFacts, expected: Expected = FIVE) -> list[str]:
    return [f"{f.severity} {f.subject}: {f.text}" for f in judge(facts, expected)]


def test_all_is_well() -> None:
    assert said(WELL) == []


@pytest.mark.parametrize(
    ("minutes", "severity"), [(11, []), (13, ["warning"]), (16.9, ["warning"]), (18, ["critical"])]
)
def test_snapshots_that_are_late(minutes: float, severity: list[str]) -> None:
    found = judge(replace(WELL, newest=NOW - timedelta(minutes=minutes)), FIVE)
    assert [f.severity for f in found] == severity


def test_how_late_is_said_in_words() -> None:
    text = said(replace(WELL, newest=NOW - timedelta(hours=5)))[0]
    assert text == "critical snapshots: the newest is 5 hours old, and there should be one every 5 minutes"


def test_without_a_schedule_nothing_is_late_and_no_daemon_is_missed() -> None:
    old = replace(WELL, newest=NOW - timedelta(days=90), daemon_runs=False)
    assert said(old, Expected()) == []


@pytest.mark.parametrize(
    ("overwritten", "why"), [(True, "neither key opens it"), (False, "nothing more is sent")]
)
def test_a_copy_whose_key_was_changed_is_critical(overwritten: bool, why: str) -> None:
    """As it is written down where the copy was looked at last."""
    key = OtherKey(dataset="tank/db", copy="vault/shop/tank/db", root="vault", overwritten=overwritten)
    lag = Lag(destination="offsite", behind=timedelta(0), most=None, other_key=key)
    (found,) = judge(replace(WELL, lags=(lag,)), FIVE)
    assert (found.severity, found.subject, found.exit_status) == ("critical", "ship", 9)
    assert found.text.startswith("the encryption root of vault/shop/tank/db at offsite was changed to vault")
    assert why in found.why
    properties = {f"{OTHER_KEY}offsite": other_key_to_text(key)}
    assert other_key(properties, "offsite") == key and other_key(properties, "other") is None
    for broken in ("", "[]", '{"copy": 7}', "x" * 9000):
        assert other_key({f"{OTHER_KEY}offsite": broken}, "offsite") is None


def test_the_newest_may_be_as_old_as_somebody_said() -> None:
    old = replace(WELL, newest=NOW - timedelta(days=3))
    assert said(old, Expected(max_age=259_200)) == []
    assert said(old, Expected(max_age=3600)) == [
        "critical snapshots: the newest is 3 days old, and may be 1 hour old"
    ]
    assert worst(judge(replace(WELL, newest=None), Expected(max_age=3600))) == "critical"


@pytest.mark.parametrize(
    ("left", "fixes"),
    [
        (Arrangements(), []),
        (Arrangements(noticed=False, scheduled=False), ["[instance.a.schedule] snapshot"]),
        (Arrangements(off_site=False), ["[[instance.a.ship]] to"]),
        (Arrangements(policy=False, pruned=False), ["[instance.a.retention] keep"]),
        (Arrangements(pruned=False), ["[instance.a.schedule] prune"]),
        (Arrangements(pruned=False, scheduled=False), []),
    ],
)
def test_what_is_left_to_chance_is_advised(left: Arrangements, fixes: list[str]) -> None:
    found = tuple(advice_on_arrangements(left, "a"))
    assert [f.fix.partition(" =")[0] for f in found] == fixes and worst(found) == "ok"


def test_nothing_to_restore_from() -> None:
    assert said(replace(WELL, newest=None)) == ["critical snapshots: there is no backup to restore from"]
    assert worst(judge(replace(WELL, newest=None), Expected())) == "warning"


def test_a_schedule_without_a_daemon() -> None:
    assert said(replace(WELL, daemon_runs=False)) == [
        "critical daemon: it has a schedule, but no zbackup daemon runs"
    ]


@pytest.mark.parametrize(("failures", "severity"), [(1, "warning"), (2, "warning"), (3, "critical")])
def test_jobs_that_fail(failures: int, severity: str) -> None:
    job = JobFacts(job="prune", failures=failures, message="cannot reach the server")
    times = "time" if failures == 1 else "times"
    expected = f"{severity} prune: failed {failures} {times} in a row, last: cannot reach the server"
    assert said(replace(WELL, jobs=(job,))) == [expected]


def test_what_differs_at_a_destination_is_no_passing_trouble() -> None:
    job = JobFacts(job="verify:vault", failures=1, message="other data", error="VerificationFailed")
    expected = ["critical verify:vault: failed 1 time in a row, last: other data"]
    assert said(replace(WELL, jobs=(job,))) == expected


def test_a_destination_that_is_further_behind_than_promised() -> None:
    hour = timedelta(hours=1)
    behind = [(None, None), (3 * hour, None), (hour, hour), (3 * hour, hour), (None, hour)]
    lags = tuple(Lag(destination=f"d{n}", behind=b, most=m) for n, (b, m) in enumerate(behind))
    assert said(replace(WELL, lags=lags)) == [
        "critical ship: d3 is 3 hours behind, and 1 hour was promised",
        "critical ship: d4 has no backup yet, and 1 hour was promised",
    ]


def test_where_nothing_is_yet_so_much_would_be_lost_as_there_is_to_be_sent() -> None:
    """Right after the first start there is nothing, or a backup of a moment ago."""
    hour = timedelta(hours=1)
    waiting = (timedelta(), timedelta(minutes=59), timedelta(minutes=61))
    lags = tuple(Lag(destination=f"d{n}", behind=None, most=hour, waiting=w) for n, w in enumerate(waiting))
    assert said(replace(WELL, lags=lags)) == ["critical ship: d2 has no backup yet, and 1 hour was promised"]


def test_a_gap_in_the_window() -> None:
    found = said(replace(WELL, gaps=("binlog.000002 was purged",)))
    assert found == ["critical window: there is a gap in the promised window: binlog.000002 was purged"]


def test_a_window_that_is_shorter_than_promised() -> None:
    short = replace(WELL, lost=timedelta(hours=5))
    assert said(short) == ["critical window: the window is 5 hours shorter than promised"]
    assert len(said(replace(short, gaps=("binlog.000002 was purged",)))) == 1
    assert len(said(replace(short, newest=None))) == 1


def test_a_clock_in_doubt_calls_nobody() -> None:
    found = judge(replace(WELL, doubt="the clock went on by 5:00:00 ..."), FIVE)
    assert [(f.severity, f.subject) for f in found] == [("advice", "clock")] and worst(found) == "ok"


def test_leftovers_and_a_wrong_clock() -> None:
    bad = (("tank/db@z1", "property zbackup:taken is damaged"), ("tank/db@z2", "newer"))
    found = said(replace(WELL, unfinished=1, broken=2, future=("zbackup-1",), unreadable=bad))
    assert found == [
        "warning clock: snapshots were taken in the future: zbackup-1",
        "warning snapshots: unfinished backups: 1, backups that miss a dataset: 2",
        "warning backups: tank/db@z1 and so its backup cannot be read: property zbackup:taken is damaged "
        "(and 1 more)",
    ]


@pytest.mark.parametrize(
    ("pool", "a_day", "expected"),
    [
        ({"free": 19 * GIB}, None, ["warning space: tank has 19% free"]),
        ({"free": 9 * GIB}, None, ["critical space: tank has 9% free"]),
        ({"health": "DEGRADED"}, None, ["critical pool: tank is DEGRADED"]),
        ({"readonly": True}, None, ["critical pool: tank is imported read-only"]),
        ({}, 20 * GIB, [f"warning space: what is free on tank lasts 2.5 days {RATE}"]),
    ],
)
def test_room(pool: dict[str, object], a_day: float | None, expected: list[str]) -> None:
    assert said(replace(WELL, pool=replace(POOL, **pool), written={"tank/db": a_day or 0.0})) == expected  # type: ignore[arg-type]


def dataset(name: str = "tank/db", **gib: float) -> DatasetSettings:
    return DatasetSettings(name=name, values={key: str(int(size * GIB)) for key, size in gib.items()})


LESS = "tank/db has {} of its room left".format


@pytest.mark.parametrize(
    ("room", "free", "a_day", "expected"),
    [
        (
            {"usedbydataset": 9, "usedbysnapshots": 8, "used": 17, "available": 3, "quota": 20},
            50,
            0,
            ["warning", LESS("15%")],
        ),
        ({"usedbydataset": 10, "usedbysnapshots": 9.5, "available": 0.5}, 50, 0, ["critical", LESS("2%")]),
        ({"usedbydataset": 1, "used": 96, "available": 4, "quota": 100}, 50, 0, ["critical", LESS("4%")]),
        ({"usedbydataset": 10, "available": 50}, 50, 0, []),
        ({"usedbydataset": 10, "available": 50, "quota": 9000}, 50, 0, []),
        ({"usedbydataset": 88, "available": 9}, 12, 0, ["warning", "tank has 12% free"]),
        ({"available": 30}, 50, 15, ["warning", f"what tank/db may still take lasts 2.0 days {RATE}"]),
        ({"usedbydataset": 1}, 50, 0, []),
    ],
)
def test_room_that_is_less_than_the_pools(
    room: dict[str, float], free: int, a_day: int, expected: list[str]
) -> None:
    """By a quota on the dataset, or by what is reserved for others: snapshots fill it, too."""
    log = dataset("tank/log", usedbydataset=0.1, available=40)
    facts = replace(WELL, pool=replace(POOL, free=free * GIB), written={"tank/db": a_day * GIB})
    found = judge(replace(facts, settings=(log, dataset(**room))), FIVE)
    assert [word for f in found for word in (f.severity, f.text)] == expected
    assert {f.subject for f in found} <= {"space"}


def space(*settings: DatasetSettings, free: float = 50, **written: float) -> list[tuple[str, str, str]]:
    """What is found of datasets on a pool of 100 GiB; `written` are GiB a day, below tank."""
    rates = {f"tank/{name}": rate * GIB for name, rate in written.items()}
    found = of_space(replace(POOL, free=int(free * GIB)), rates, settings)
    return [(f.severity, f.text, f.fix) for f in found if f.text.partition(" ")[0] != "tank"]


def test_a_refreservation_needs_as_much_again_for_a_snapshot() -> None:
    room = {"usedbydataset": 90, "used": 130, "refreservation": 60, "usedbyrefreservation": 40}
    assert space(dataset(**room, available=60)) == []
    ((severity, text, fix), *_) = space(dataset(**room, available=59))
    assert (severity, fix) == ("critical", "zfs set refreservation=none tank/db")
    assert (
        "the refreservation of tank/db" in text and "needs 20.0 GiB" in text and "19.0 GiB are free" in text
    )


def test_snapshots_take_nothing_of_a_refquota() -> None:
    """ZFS gives as available what is the least: by a refquota, what the data may still grow."""
    much = dataset(usedbydataset=30, usedbysnapshots=300, used=330, referenced=30, available=20, refquota=50)
    assert space(much, db=9) == []
    little = replace(much, values={**much.values, "referenced": str(45 * GIB), "available": str(5 * GIB)})
    (found,) = of_space(POOL, {"tank/db": 9.0 * GIB}, (little,))
    assert (found.severity, found.text) == ("warning", LESS("10%")) and "refquota" in found.why
    assert "snapshots" not in found.why and "no prune makes room" in found.why
    over = replace(much, values={**much.values, "referenced": str(51 * GIB), "available": "0"})
    assert space(over)[0][:2] == ("critical", LESS("0%"))


def test_where_a_refquota_is_not_what_bounds_it_snapshots_count() -> None:
    both = {"usedbydataset": 30, "usedbysnapshots": 60, "used": 90, "referenced": 30}
    assert space(dataset(**both, available=9, quota=99, refquota=60))[0][:2] == ("critical", LESS("9%"))
    # The refquota bounds it by now, and the quota will soon.
    assert space(dataset(**both, available=10, quota=104, refquota=40))[0][:2] == ("warning", LESS("13%"))
    assert space(dataset(**both, available=3, refquota=60))[0][:2] == ("critical", LESS("3%"))


@pytest.mark.parametrize("free", [50, 20.5, 15, 11])
def test_a_quota_that_is_nearly_used_up_is_told_however_full_the_pool_is(free: float) -> None:
    own = dataset(usedbydataset=89, used=89, available=11, quota=100)
    assert [found[:2] for found in space(own, free=free)] == [("warning", LESS("11%"))]
    above = dataset("tank/shop", used=89, available=11, quota=100)
    below = replace(dataset("tank/shop/db", usedbydataset=5, available=11), above=(above, dataset("tank")))
    fix = "zfs list -o space,quota,refquota -r tank/shop"
    assert space(below, free=free) == [("warning", "tank/shop has 11% of its room left", fix)]
    none = dataset(usedbydataset=80, available=free - 3)
    assert space(none, free=free) == [], "that is what ZFS keeps for itself, and the pool's finding"


def test_how_long_room_lasts_is_asked_of_what_is_written_there() -> None:
    """A small dataset with a quota of its own lasts no shorter for what is written beside it."""
    data = dataset("tank/db", usedbydataset=40, available=45)
    small = dataset("tank/db/tmp it", usedbydataset=0.1, used=0.1, available=0.9, quota=1)
    assert space(data, small, db=10) == []
    tight = replace(small, values={**small.values, "used": str(GIB // 2), "available": str(GIB // 2)})
    (found,) = space(data, tight, db=10, **{"db/tmp it": 0.25})
    assert found[1] == f"what tank/db/tmp it may still take lasts 2.0 days {RATE}"
    assert found[2] == "zfs list -o space,quota,refquota -r 'tank/db/tmp it'"
    above = dataset("tank/shop", used=50, available=40, quota=90)
    pair = [replace(dataset(f"tank/shop/{n}", available=40), above=(above,)) for n in ("db", "log")]
    ((_, text, fix),) = space(*pair, **{"shop/db": 10, "shop/log": 6})
    assert text == f"what tank/shop may still take lasts 2.5 days {RATE}" and fix.endswith("-r tank/shop")


def test_a_gap_that_a_switch_made_is_a_note_and_a_real_one_is_not() -> None:
    switched = replace(WELL, switched=("the server was stopped for the switch to good",))
    (note,) = judge(switched, FIVE)
    assert (note.severity, worst((note,))) == ("advice", "ok")
    assert note.text == "there is a gap that a switch made: the server was stopped for the switch to good"
    assert worst(judge(replace(switched, gaps=("purged",)), FIVE)) == "critical"


def test_what_the_log_does_not_show_is_warned_of() -> None:
    (found,) = judge(replace(WELL, silent=("the log does not show it",)), FIVE)
    assert (found.severity, found.fix) == ("warning", "zbackup window")
    assert found.text == "there is a gap in the promised window: the log does not show it"


def test_a_server_without_a_log_is_warned_of() -> None:
    assert said(replace(WELL, alone=("it runs alone",))) == [
        "warning window: no moment after the newest backup can be restored: it runs alone"
    ]


def test_a_torn_end_of_the_log_is_serious_while_the_server_writes_behind_it() -> None:
    torn, broken = LogDamage("binlog.000001 ends there", torn=True), LogDamage("binlog.000001 is damaged")
    found = [damaged_log(each, running=running) for each in (torn, broken) for running in (False, True)]
    assert [f.severity for f in found] == ["warning", "critical", "critical", "critical"]
    assert [f.exit_status for f in found] == [0, 11, 11, 11]


def test_drills_that_failed_or_did_not_come() -> None:
    week, day = timedelta(days=7), timedelta(days=1)
    good = DrillFacts(destination="", passed=day, every=week, waiting=90 * day)
    assert said(replace(WELL, drills=(good, replace(good, passed=10 * day)))) == []
    late = replace(good, destination="cloud", passed=11 * day)
    assert said(replace(WELL, drills=(late,))) == [
        "warning drill:cloud: drills at cloud are to be every 7 days, and the last passed 11 days ago"
    ]
    never = replace(good, passed=None)
    assert said(replace(WELL, drills=(never,))) == [
        "warning drill: drills of this host's backups are to be every 7 days, and none has passed yet"
    ]
    assert said(replace(WELL, drills=(replace(never, waiting=day),))) == [], "there was no time for one yet"
    assert said(replace(WELL, drills=(replace(late, every=None),))) == [], "nobody promised one"
    failed = replace(good, failed="a table is damaged: shop.orders")
    job = JobFacts(job="drill", failures=1, message="a table is damaged: shop.orders")
    assert said(replace(WELL, drills=(failed,), jobs=(job,))) == [
        "critical drill: the last drill of this host's backups failed: a table is damaged: shop.orders"
    ]
    (finding,) = judge(replace(WELL, drills=(replace(failed, destination="cloud"),)), FIVE)
    assert finding.fix == "zbackup verify --at cloud --read none --drill"
    unreachable = replace(job, message="no connection")
    assert said(replace(WELL, drills=(good,), jobs=(unreachable,))) == [
        "warning drill: failed 1 time in a row, last: no connection"
    ]


def test_what_has_one_subject_has_keys_that_stay_from_look_to_look() -> None:
    two = replace(WELL, gaps=("a", "b"), gap_keys=("purged after 10:00", "reset after 11:00"))
    later = replace(two, now=NOW + timedelta(minutes=5), gaps=("a, from another file", "b"))
    assert [f.key for f in judge(two, FIVE)] == [f.key for f in judge(later, FIVE) if f.subject == "window"]
    hour = timedelta(hours=1)
    lags = tuple(Lag(destination=name, behind=2 * hour, most=hour) for name in ("near", "far"))
    found = judge(replace(WELL, lags=lags, pool=replace(POOL, health="DEGRADED", readonly=True)), FIVE)
    assert [f.key for f in found] == ["near", "far", "tank read-only", "tank DEGRADED"]
