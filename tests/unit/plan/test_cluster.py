"""To which cluster time all members of a cluster are restored."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.errors import NotRecoverable, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.moment import Moment, parse_moment
from zbackup.plan.cluster import (
    MemberFacts,
    common,
    covers,
    newest,
    newest_or_none,
    of_moment,
    require_covered,
)
from zbackup.plan.recovery.window import Range, RecoveryWindow

BEGIN = 1_700_000_000
ZONE = ZoneInfo("Europe/Berlin")


def at(second: float) -> datetime:
    return datetime.fromtimestamp(BEGIN, UTC) + timedelta(seconds=second)


def member(*ranges: tuple[float, float], end: tuple[int, int] | None = None) -> MemberFacts:
    found = tuple(Range(after=at(after), to=at(to), live=False) for after, to in ranges)
    proven = ClusterTime(BEGIN + end[0], end[1]) if end else None
    return MemberFacts(window=RecoveryWindow(ranges=found, gaps=(), saw_live_log=True), end=proven)


@st.composite
def members(draw: st.DrawFn) -> dict[str, MemberFacts]:
    found = {}
    for number in range(draw(st.integers(1, 4))):
        ends = sorted(draw(st.sets(st.integers(0, 60), max_size=6)))
        ranges = tuple((float(a), float(b)) for a, b in zip(ends[::2], ends[1::2], strict=False))
        last = ranges[-1][1] if ranges else 0
        proven = draw(st.none() | st.tuples(st.integers(0, int(last)), st.integers(0, 9)))
        found[f"shard{number}"] = member(*ranges, end=proven)
    return found


def inside(facts: MemberFacts, moment: datetime) -> bool:
    return any(r.after < moment <= r.to for r in facts.window.ranges)


@given(members(), st.integers(0, 120))
def test_what_is_common_is_in_every_window_and_nothing_else_is(
    found: dict[str, MemberFacts], half_seconds: int
) -> None:
    moment = at(half_seconds / 2)
    shared = any(span.after < moment <= span.to for span in common(found))
    assert shared == all(inside(facts, moment) for facts in found.values())


@given(members())
def test_the_newest_is_held_by_all_and_is_one_members_end(found: dict[str, MemberFacts]) -> None:
    chosen = newest_or_none(found, ZONE)
    if chosen is None:
        with pytest.raises(NotRecoverable):
            newest(found, ZONE)
        return
    ends = [facts.end for facts in found.values()]
    assert chosen in ends and all(end and chosen <= end for end in ends)
    assert all(covers(facts, chosen) for facts in found.values())


@given(members(), st.integers(1, 60))
def test_a_whole_second_is_held_where_it_is_in_the_window(found: dict[str, MemberFacts], second: int) -> None:
    wanted = ClusterTime(BEGIN + second, 0)
    if all(inside(facts, at(second)) for facts in found.values()):
        require_covered(wanted, found, ZONE)
    for name, facts in found.items():
        if not covers(facts, wanted):
            with pytest.raises(NotRecoverable, match=name):
                require_covered(wanted, found, ZONE)


def test_a_refusal_says_which_members_window_ends_where() -> None:
    found = {"config": member((0, 50)), "shard0": member((10, 40)), "shard1": member((20, 60))}
    with pytest.raises(NotRecoverable) as refused:
        require_covered(ClusterTime(BEGIN + 45, 0), found, ZONE)
    said = str(refused.value)
    assert "is not in the window of shard0. config: after 2023-11-14 23:13:20 CET, up to" in said
    assert said.endswith(
        "All of them hold what is after 2023-11-14 23:13:40 CET up to 2023-11-14 23:14:00 CET"
    )


def test_without_a_common_moment_it_says_what_to_do() -> None:
    found = {"config": member((0, 10)), "shard0": member((20, 30))}
    with pytest.raises(NotRecoverable, match="no moment that all of them hold: take a backup of each"):
        require_covered(ClusterTime(BEGIN + 5, 0), found, ZONE)
    with pytest.raises(NotRecoverable, match="how far the log of config, shard0 leads is not known"):
        newest(found, ZONE)


def test_within_a_second_the_log_has_to_reach_its_end_or_be_proven() -> None:
    wanted = ClusterTime(BEGIN + 10, 7)
    assert not covers(member((0, 10)), wanted)
    assert covers(member((0, 11)), wanted)
    assert covers(member((0, 10), end=(10, 7)), wanted)
    assert not covers(member((0, 10), end=(10, 6)), wanted)
    assert not covers(member((10, 20), end=(20, 1)), wanted), "the base may hold what was at that second"


@pytest.mark.parametrize(
    ("text", "second"), [("2024-05-01 10:02:03Z", 1714557723), ("2024-05-01 10:02Z", 1714557720)]
)
def test_a_moment_is_the_cluster_time_before_all_of_its_second(text: str, second: int) -> None:
    assert of_moment(parse_moment(text, ZONE, at(0))) == ClusterTime(second, 0)


def test_a_part_of_a_second_is_refused_and_what_counts_from_now_is_rounded() -> None:
    with pytest.raises(UsageError, match="whole seconds only"):
        of_moment(parse_moment("2024-05-01 10:02:03.5Z", ZONE, at(0)))
    ago = Moment(at(0.25), "-15m", ZONE)
    assert of_moment(ago) == ClusterTime(BEGIN, 0)


def test_a_whole_second_needs_no_more_than_itself_and_one_within_needs_its_end() -> None:
    facts = member((0, 10))
    assert covers(facts, ClusterTime(BEGIN + 10, 0)) and not covers(facts, ClusterTime(BEGIN + 10, 1))
    assert covers(facts, ClusterTime(BEGIN + 9, 1))
    assert newest({"a": member((0, 10), end=(7, 3)), "b": member((0, 10), end=(8, 1))}, ZONE) == ClusterTime(
        BEGIN + 7, 3
    )


def test_a_member_whose_log_s_end_nobody_knows_is_named() -> None:
    with pytest.raises(NotRecoverable, match="how far the log of a, c leads is not known"):
        newest({"a": member((0, 9)), "b": member((0, 9), end=(7, 3)), "c": member((0, 9))}, ZONE)


def test_windows_that_only_touch_have_nothing_in_common() -> None:
    assert common({"a": member((0, 10)), "b": member((10, 20))}) == ()
