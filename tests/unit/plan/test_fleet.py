"""Judgement of the instances at an address, and their order: by plain values."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from zbackup.features.fleet.judgement import MOST_PROBLEMS, judged
from zbackup.model.fleet import FleetMember
from zbackup.plan.due import CLOCK_TOLERANCE

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
HOUR, MICRO = timedelta(hours=1), timedelta(microseconds=1)
GOOD = FleetMember(address="a", path="db1", instance="shop", newest="b1", taken=NOW - 2 * HOUR)


def verdict(one: FleetMember, most: timedelta | None = 2 * HOUR) -> tuple[str, float | None, tuple[str, ...]]:
    (found,) = judged([one], NOW, most)
    return found.health, found.exposed, found.problems


def test_as_much_may_be_lost_as_somebody_said() -> None:
    assert verdict(GOOD) == ("ok", 7200.0, ())
    assert verdict(GOOD, None) == ("ok", 7200.0, ())
    late = replace(GOOD, taken=NOW - 2 * HOUR - MICRO)
    assert verdict(late) == ("critical", 7200.000001, ("2 hours would be lost, and 2 hours is the most",))
    assert verdict(replace(late, archived=NOW - HOUR)) == ("ok", 3600.0, ())
    assert verdict(replace(GOOD, problems=("odd",))) == ("warning", 7200.0, ("odd",))


def test_a_time_that_is_still_to_come_proves_nothing() -> None:
    soon = replace(GOOD, archived=NOW + CLOCK_TOLERANCE)
    assert verdict(soon) == ("ok", 0.0, ())
    ahead = replace(GOOD, archived=NOW + CLOCK_TOLERANCE + MICRO)
    said = ("the archived log says that it is of 2024-05-01 12:00 UTC, which is still to come",)
    assert verdict(ahead) == ("warning", 7200.0, said)
    alone = replace(GOOD, taken=NOW + HOUR)
    assert verdict(alone) == (
        "critical",
        None,
        ("the newest backup says that it is of 2024-05-01 13:00 UTC, which is still to come",
         "nobody can tell how old it is"),
    )  # fmt: skip


def test_without_a_backup_archived_log_leads_nowhere() -> None:
    none = replace(GOOD, newest="", taken=None, archived=NOW)
    assert verdict(none) == ("critical", None, ("nothing can be restored",))
    assert verdict(replace(GOOD, taken=None)) == ("critical", None, ("nobody can tell how old it is",))


def test_a_drill_that_failed_is_serious_and_of_many_problems_a_few_are_told() -> None:
    failed = replace(GOOD, drill_failed="a table is damaged")
    assert verdict(failed) == ("critical", 7200.0, ("its last drill failed: a table is damaged",))
    many = replace(GOOD, problems=tuple(f"p{n}" for n in range(9)))
    assert len(verdict(many)[2]) == MOST_PROBLEMS


def test_the_worst_comes_first_and_of_as_bad_ones_what_loses_most() -> None:
    none = replace(GOOD, path="none", newest="", taken=None)
    late, later = (replace(GOOD, path=f"late{n}", taken=NOW - n * HOUR) for n in (3, 4))
    odd, fresh = replace(GOOD, path="odd", problems=("odd",)), replace(GOOD, path="fresh", taken=NOW)
    found = judged([fresh, GOOD, odd, late, later, none], NOW, 2 * HOUR)
    assert [each.path for each in found] == ["none", "late4", "late3", "odd", "db1", "fresh"]
