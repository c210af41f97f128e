"""Occasions to tell people of health: once of each problem, again of what comes back, and of the end as it
is."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.finding import Finding, Severity
from zbackup.model.operator_notes import Problem
from zbackup.plan.health.notifications import FORGET, ChannelKnowledge, left, occasion, serious, told

NOW = datetime(2024, 5, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def finding(severity: Severity, subject: str, text: str = "is wrong") -> Finding:
    return Finding(severity=severity, subject=subject, text=text)


POOL, CLOCK = finding("critical", "pool"), finding("warning", "clock")
KNOWN = replace(POOL, severity="advice", acknowledged="critical")


def steps(
    *looks: list[Finding], every: timedelta = timedelta(minutes=5), severity: Severity = "warning"
) -> list[str | None]:
    """Why somebody is told at each of these looks."""
    known: ChannelKnowledge | None = None
    said: list[str | None] = []
    for number, found in enumerate(looks):
        now = NOW + number * every
        why = occasion(known, found, severity, now, DAY)
        known = told(found, severity, now, known, why)
        said.append(why)
    return said


def test_a_problem_is_told_once_and_so_is_its_end() -> None:
    assert steps([], [POOL], [POOL], [replace(POOL, text="other words")], [], []) == [
        None, "problem", None, None, "recovery", None,
    ]  # fmt: skip


def test_another_problem_and_one_that_gets_worse_are_news_and_one_that_goes_is_not() -> None:
    worse = replace(CLOCK, severity="critical")
    assert steps([CLOCK], [CLOCK, POOL], [CLOCK], [worse], []) == [
        "problem", "problem", None, "problem", "recovery",
    ]  # fmt: skip


def test_one_that_comes_and_goes_beside_another_is_told_once() -> None:
    """Within half an hour: what comes back later is news."""
    looks = ([POOL], [POOL, CLOCK], [POOL], [POOL, CLOCK], [])
    assert steps(*looks) == ["problem", "problem", None, None, "recovery"]
    assert steps(*looks, every=timedelta(minutes=15)) == ["problem", "problem", None, None, "recovery"]
    assert steps(*looks, every=timedelta(minutes=31)) == ["problem", "problem", None, "problem", "recovery"]


def test_another_of_the_same_subject_is_news() -> None:
    near, far = (replace(POOL, subject="ship", key=name) for name in ("near", "far"))
    assert steps([near], [near, far], [far], []) == ["problem", "problem", None, "recovery"]


def test_what_is_acknowledged_is_no_recovery() -> None:
    assert steps([POOL], [KNOWN], [KNOWN], []) == ["problem", "acknowledged", None, "recovery"]
    assert steps([POOL], [KNOWN], [POOL]) == ["problem", "acknowledged", "problem"]
    assert steps([POOL, CLOCK], [KNOWN, CLOCK], []) == ["problem", None, "recovery"]
    assert steps([KNOWN], [KNOWN], []) == [None, None, None]


def test_who_hears_of_critical_ones_alone_is_not_told_that_all_is_ok() -> None:
    steps_ = steps([POOL, CLOCK], [CLOCK], [], [CLOCK], [POOL], severity="critical")
    assert steps_ == ["problem", "better", None, None, "problem"]
    assert steps([POOL], [KNOWN, CLOCK], [CLOCK], severity="critical") == [
        "problem",
        "acknowledged",
        "better",
    ]


def test_what_stays_is_told_again_after_a_while() -> None:
    assert steps(*[[POOL]] * 5, every=DAY / 2) == ["problem", None, "reminder", None, "reminder"]


FINDINGS = st.lists(
    st.sampled_from([POOL, KNOWN, CLOCK, finding("critical", "clock"), finding("warning", "x")])
)


@given(st.lists(FINDINGS, max_size=12))
def test_nobody_hears_of_an_end_without_a_beginning(looks: list[list[Finding]]) -> None:
    said = steps(*looks)
    heard = [each for each in said if each]
    assert heard[:1] in ([], ["problem"])
    assert all(b != "recovery" or a != "recovery" for a, b in itertools.pairwise(heard))
    assert all(not look for look, each in zip(looks, said, strict=True) if each == "recovery")
    calling = [[f for f in look if not f.acknowledged] for look in looks]
    if heard:
        # What comes after an end and is acknowledged before anybody hears of it is nothing to tell.
        assert looks[-1] or heard[-1] == "recovery"
        assert (heard[-1] in ("problem", "reminder")) == bool(calling[-1])
    else:
        assert not any(calling)


def test_only_what_is_bad_enough_counts() -> None:
    advice = finding("advice", "atime")
    assert serious((advice, CLOCK, POOL), "warning") == (POOL, CLOCK)
    assert serious((advice, CLOCK, POOL), "critical") == (POOL,)


def test_what_was_absent_for_half_an_hour_is_news() -> None:
    looks = ([POOL], [POOL, CLOCK], [POOL], [POOL, CLOCK])
    assert steps(*looks, every=FORGET)[-1] == "problem"
    assert steps(*looks, every=FORGET - timedelta(microseconds=1))[-1] is None


def test_of_what_is_left_the_worst_comes_first_and_what_calls_nobody_last() -> None:
    advice = finding("advice", "atime")
    noted = replace(CLOCK, severity="advice", acknowledged="warning")
    assert left([advice, noted, CLOCK, KNOWN, POOL]) == (POOL, CLOCK, KNOWN, noted)


def test_a_problem_that_got_better_and_worse_again_is_told_by_the_worst_it_was() -> None:
    worse = replace(CLOCK, severity="critical")
    assert steps([worse], [CLOCK], [worse], [CLOCK]) == ["problem", None, None, None]
    assert steps([CLOCK, worse], [CLOCK], [worse]) == ["problem", None, None]


def test_only_what_is_acknowledged_and_bad_enough_for_it_is_told_to_a_channel_as_that() -> None:
    noted = replace(CLOCK, severity="advice", acknowledged="warning")
    assert steps([POOL], [noted], severity="critical") == ["problem", "better"]
    assert steps([POOL], [replace(noted, acknowledged="critical")], severity="critical") == [
        "problem", "acknowledged",
    ]  # fmt: skip


def test_a_channel_that_was_told_remembers_when() -> None:
    before = ChannelKnowledge({}, NOW)
    assert told([POOL], "warning", NOW + DAY, before, None) == ChannelKnowledge(
        {Problem("critical", "pool"): NOW + DAY}, NOW
    )
    assert told([POOL], "warning", NOW, None, "problem") == ChannelKnowledge(
        {Problem("critical", "pool"): NOW}, NOW
    )
    again = told([POOL], "warning", NOW + DAY, before, "reminder")
    assert again and again.at == NOW + DAY
    assert told([], "warning", NOW + DAY, before, None) is before
