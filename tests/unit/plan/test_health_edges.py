"""From when on something is wrong, to the last unit, and what is said of one and of several."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.unit.plan import test_doctor, test_received
from tests.unit.plan.histories import blocked, made
from tests.unit.plan.test_doctor import GOOD, TUNING, data, first
from tests.unit.plan.test_health import FIVE, GIB, NOW, POOL, WELL, said
from zbackup.model.log import LogDamage
from zbackup.model.space import DatasetSettings
from zbackup.plan.due import DIFFERENT
from zbackup.plan.health import doctor, received
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.plan.health.archive_health import ArchiveFacts, of_archives
from zbackup.plan.health.drill_health import DrillFacts, described_drill
from zbackup.plan.health.health import InstanceFacts, JobFacts, damaged_log, judge, log_times, no_log_behind

MICRO, MINUTE, HOUR = timedelta(microseconds=1), timedelta(minutes=1), timedelta(hours=1)


def how_bad(facts: InstanceFacts, expected: Expected = FIVE) -> list[str]:
    return [f.severity for f in judge(facts, expected)]


@pytest.mark.parametrize(
    ("age", "severity"),
    [
        (12 * MINUTE, []), (12 * MINUTE + MICRO, ["warning"]),
        (17 * MINUTE, ["warning"]), (17 * MINUTE + MICRO, ["critical"]),
    ],
)  # fmt: skip
def test_a_snapshot_is_late_after_two_intervals_and_two_minutes(age: timedelta, severity: list[str]) -> None:
    """One every five minutes."""
    assert how_bad(replace(WELL, newest=NOW - age)) == severity


def test_no_backup_at_all_is_serious_where_one_was_wanted() -> None:
    none = replace(WELL, newest=None)
    for expected, severity in (
        (Expected(snapshot_every=300), "critical"),
        (Expected(max_age=300), "critical"),
        (Expected(), "warning"),
    ):
        assert how_bad(none, expected) == [severity]


@pytest.mark.parametrize(
    ("free", "a_day", "severity"),
    [
        (20 * GIB, None, []), (20 * GIB - 1, None, ["warning"]),
        (10 * GIB, None, ["warning"]), (10 * GIB - 1, None, ["critical"]),
        (60 * GIB, 20 * GIB, []), (60 * GIB - 1, 20 * GIB, ["warning"]), (60 * GIB, 0.0, []),
    ],
)  # fmt: skip
def test_room_is_low_below_a_fifth_a_tenth_and_three_days(
    free: int, a_day: float | None, severity: list[str]
) -> None:
    assert (
        how_bad(replace(WELL, pool=replace(POOL, free=free), written={"tank/db": a_day or 0.0})) == severity
    )


def test_what_is_left_is_told_and_known_by_what_stays() -> None:
    for unfinished, broken, text, key in (
        (2, 0, "unfinished backups: 2", "unfinished"),
        (0, 3, "backups that miss a dataset: 3", "incomplete 3"),
        (1, 3, "unfinished backups: 1, backups that miss a dataset: 3", "incomplete 3"),
    ):
        (found,) = judge(replace(WELL, unfinished=unfinished, broken=broken), FIVE)
        assert (found.text, found.key) == (text, key)
    one = replace(WELL, unreadable=(("tank/db@z1", "damaged"),))
    assert said(one) == ["warning backups: tank/db@z1 and so its backup cannot be read: damaged"]


def test_what_is_said_of_the_log() -> None:
    unread = damaged_log(LogDamage("binlog.000001 was not read", unread=True), running=True)
    assert (unread.severity, unread.text) == ("advice", "of the server's own log binlog.000001 was not read")
    (found,) = log_times(["a is before b"])
    assert (found.text, found.key) == (
        "times in the log contradict its order: a is before b",
        "a is before b",
    )
    assert no_log_behind(blocked(made(1, NOW), "it is off")).text == (
        "no moment after zbackup-1 can be restored: when it was taken, it is off"
    )


def test_a_drill_is_late_after_one_and_a_half_intervals_and_two_minutes() -> None:
    late = timedelta(days=10, hours=12, minutes=2)
    drill = DrillFacts(destination="", passed=late, every=timedelta(days=7))
    assert how_bad(replace(WELL, drills=(drill,))) == []
    assert how_bad(replace(WELL, drills=(replace(drill, passed=late + MICRO),))) == ["warning"]
    assert described_drill(drill) == "the last of this host's backups passed 11 days ago"
    (found,) = judge(replace(WELL, drills=(replace(drill, passed=late + MICRO),)), FIVE)
    assert found.key == "late"
    (found,) = judge(replace(WELL, drills=(replace(drill, failed="a table is damaged"),)), FIVE)
    assert (found.fix, found.key) == ("zbackup verify --drill", "failed")
    job = JobFacts(job="ship", failures=1, message="no")
    assert [f.key for f in judge(replace(WELL, jobs=(job, replace(job, error=DIFFERENT))), FIVE)] == [
        "",
        "different",
    ]
    never = replace(drill, passed=None, destination="vault")
    assert described_drill(never) == "the last at vault has not passed yet"


@pytest.mark.parametrize(
    ("exposed", "severity"),
    [
        (80, None), (80.000001, "warning"), (630, "warning"), (630.000001, "critical"),
    ],
)  # fmt: skip
def test_an_archive_is_behind_after_five_rounds_and_seriously_after_sixty(
    exposed: float, severity: str | None
) -> None:
    """One in ten seconds, and half a minute is nothing."""
    facts = ArchiveFacts(destination="vault", exposed=timedelta(seconds=exposed), every=timedelta(seconds=10))
    found = of_archives([facts], daemon_runs=True)
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_what_is_said_of_an_archive() -> None:
    facts = ArchiveFacts(destination="vault", exposed=HOUR, every=MINUTE, error="no route")
    (found,) = of_archives([facts], daemon_runs=False)
    assert (found.text, found.fix, found.key) == (
        "the last 1 hour of the log are not archived at vault: no route", "zbackup archive status", "vault"
    )  # fmt: skip
    (found,) = of_archives([replace(facts, error="")], daemon_runs=False)
    assert found.text.endswith("at vault") and found.fix == "systemctl start zbackup"
    (found,) = of_archives([replace(facts, error="")], daemon_runs=True)
    assert found.fix == "zbackup archive status"
    (found,) = of_archives([replace(facts, exposed=None)], daemon_runs=True)
    assert found.key == "vault never" and found.severity == "warning"
    assert found.text == "the log has not been archived at vault since this host was started: no route"
    (found,) = of_archives([replace(facts, exposed=None, ahead=True, error="")], daemon_runs=True)
    assert found.text == (
        "the clock was set back since the log was archived at vault, so that nobody can tell how long ago "
        "that was"
    )


# a host that receives


def arrived(**changes: object) -> list[tuple[str, str]]:
    found = received.judge(replace(test_received.WELL, **changes))  # type: ignore[arg-type]
    return [(f.severity, f.text) for f in found]


def test_what_arrived_may_be_as_old_as_was_promised() -> None:
    lot = test_received.LOT
    assert arrived(lots=(replace(lot, age=lot.most),)) == []
    assert len(arrived(lots=(replace(lot, age=timedelta(hours=26) + MICRO),))) == 1


def test_what_is_said_of_one_is_not_said_of_several() -> None:
    assert arrived(remains=1) == [("warning", "of 1 backup a prune that was cut short left a part")]
    assert arrived(log_problems=(("shop", "it has 5 bytes"),)) == [("warning", "of shop: it has 5 bytes")]


def test_what_is_left_of_a_quota_is_told_where_the_pool_has_more() -> None:
    assert arrived(free_share=0.2) == []
    assert [s for s, _ in arrived(free_share=0.1)] == ["warning"]
    assert [s for s, _ in arrived(free_share=0.0999)] == ["critical"]
    pool = replace(test_received.WELL.pool, free=test_received.TIB, health="DEGRADED")
    assert [t for _, t in arrived(pool=pool, free_share=0.125)] == ["tank is DEGRADED", "tank has 12% free"]
    assert len(arrived(pool=pool, free_share=0.1249)) == 3
    (state, _) = received.judge(replace(test_received.WELL, pool=pool, free_share=0.125))
    assert state.why == "a disk is missing or broken: backups on this pool share its fate"


# settings


def test_settings_are_good_up_to_the_bound() -> None:
    need = sum(doctor.metadata(s) for s in test_doctor.WELL.settings)
    assert doctor.examine(replace(test_doctor.WELL, arc_limit=need)) == ()
    assert first(replace(test_doctor.WELL, arc_limit=need - 1)).subject == "ARC"
    assert doctor.examine(replace(test_doctor.WELL, held_ms=5000)) == ()
    assert first(replace(test_doctor.WELL, held_ms=5001)).subject == "lock"
    assert doctor.examine(replace(test_doctor.WELL, held_ms=5001, ceiling_s=0)) == ()
    assert doctor.examine(replace(test_doctor.WELL, held_ms=None)) == ()
    assert doctor.examine(replace(test_doctor.WELL, clock_synchronised=None)) == ()
    twice = replace(test_doctor.WELL, every=86_400.0, tuning=replace(TUNING, log_retention_s=2 * 86_400.0))
    assert first(twice).severity == "warning"
    assert doctor.examine(replace(twice, tuning=replace(TUNING, log_retention_s=None))) == ()


def test_the_dataset_of_the_data_is_the_one_that_is_looked_at() -> None:
    other, mine = test_doctor.WELL.settings[1], test_doctor.WELL.settings[0]
    assert doctor.examine(replace(test_doctor.WELL, settings=(other, mine))) == ()
    unmounted = replace(test_doctor.WELL.datasets[0], name="tank/off", mountpoint=None)
    assert doctor.examine(replace(test_doctor.WELL, datasets=(unmounted, *test_doctor.WELL.datasets))) == ()
    unknown = replace(test_doctor.WELL, tuning=replace(TUNING, page_size=None, double_write=True))
    assert doctor.examine(unknown) == ()
    plain = DatasetSettings(name="tank/db", values=GOOD | {"sync": "disabled"})
    found = doctor.examine(replace(test_doctor.WELL, settings=(plain,), tuning=None))
    assert [f.fix for f in found] == ["zfs set sync=standard tank/db"]
    assert doctor.metadata(DatasetSettings(name="x", values={"logicalused": str(GIB)})) == doctor.metadata(
        DatasetSettings(name="x", values={"logicalused": str(GIB), "recordsize": "131072"})
    )
    assert "pages have 16 KiB" in first(data(recordsize="131072")).text


@pytest.mark.parametrize(
    ("seconds", "said_as"),
    [(119, "119 seconds"), (120, "2 minutes"), (7199, "120 minutes"), (7200, "2 hours"), (172_800, "2 days")],
)
def test_how_long_the_log_is_kept_is_said_in_units(seconds: float, said_as: str) -> None:
    short = replace(test_doctor.WELL, every=10 * 86_400.0, tuning=replace(TUNING, log_retention_s=seconds))
    assert first(short).text.startswith(f"the server may purge its log after {said_as}, and")
    alone = replace(short, every=None)
    if seconds < 86_400:
        assert first(alone).text == f"the server may purge its log after {said_as}"


@pytest.mark.parametrize(("limit", "said_as"), [(1023, "1023 B"), (1024, "1 KiB"), (1024**2, "1 MiB")])
def test_how_much_memory_there_is_is_said_in_units(limit: int, said_as: str) -> None:
    assert first(replace(test_doctor.WELL, arc_limit=limit)).text.endswith(f"the ARC may have {said_as}")
