"""A recovery window as geometry: bounded, inside of the picture, and nothing that is there goes unseen."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.web.host import NOW, ago, backups, shop
from zbackup.model.overview import Drill, OverviewGap, OverviewRange
from zbackup.plan.timeline.axis import TimelineView, ticks, view_of
from zbackup.plan.timeline.moment_answer import best_destination, can_be_restored, estimate
from zbackup.plan.timeline.picture import NARROWEST, bars, draw, marks, zoom
from zbackup.plan.timeline.upcoming_prunes import leaving

BERLIN = ZoneInfo("Europe/Berlin")
moments = st.floats(-(10.0**9), 10.0**9).map(
    lambda s: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=s)
)
views = st.builds(
    lambda start, minutes, width: TimelineView(start, start + timedelta(minutes=minutes), width),
    moments,
    st.floats(1, 60 * 24 * 366 * 5),
    st.sampled_from([360, 960]),
)
spans = st.lists(st.tuples(moments, st.floats(0, 10**8)), max_size=40).map(
    lambda rows: [(after, after + timedelta(seconds=length)) for after, length in rows]
)


@given(views, spans)
def test_bars_are_bounded_apart_and_hide_nothing(
    view: TimelineView, given_spans: list[tuple[datetime, datetime]]
) -> None:
    found = bars(given_spans, view)
    assert len(found) <= view.width / NARROWEST
    assert sum(bar.count for bar in found) == sum(view.touches(*span) for span in given_spans)
    for bar in found:
        assert bar.x >= 0
        assert bar.x + bar.width <= view.width + 0.02
        assert bar.width >= NARROWEST - 0.02
    for one, following in pairwise(found):
        assert one.x + one.width < following.x
    for after, to in given_spans:
        if view.touches(after, to):
            x = view.column(max(after, view.start))
            assert any(bar.x - NARROWEST <= x <= bar.x + bar.width + NARROWEST for bar in found)


@given(views, st.lists(moments, max_size=200))
def test_marks_are_bounded_and_each_is_seen(view: TimelineView, taken: list[datetime]) -> None:
    found = marks(taken, view)
    assert len(found) <= view.width // 2 + 1
    assert list(found) == sorted(set(found))
    for moment in taken:
        if view.start <= moment <= view.end:
            assert any(abs(x - view.column(moment)) <= 2 for x in found)


@given(views, st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo"]))
def test_ticks_are_few_in_order_and_inside(view: TimelineView, zone: str) -> None:
    found = ticks(view, ZoneInfo(zone), 8)
    assert len(found) <= 9
    assert [t.x for t in found] == sorted(t.x for t in found)
    assert all(0 <= t.x <= view.width for t in found)
    assert all(t.label for t in found)


@pytest.mark.parametrize(
    "length",
    [timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=9), timedelta(days=366)],
)
def test_ticks_stand_at_round_times(length: timedelta) -> None:
    found = ticks(TimelineView(NOW - length, NOW, 960), BERLIN)
    assert 2 <= len(found) <= 8
    if length == timedelta(hours=1):
        assert [t.label for t in found][:2] == ["03:00", "03:10"]


@given(views, st.floats(0, 1))
def test_a_column_leads_back_to_its_moment(view: TimelineView, part: float) -> None:
    moment = view.start + view.span * part
    assert abs(view.moment(view.column(moment)) - moment) <= view.span / view.width


@given(moments, moments)
def test_a_view_is_never_empty_and_never_backwards(one: datetime, other: datetime) -> None:
    view = view_of(one, other, 960)
    assert view.end - view.start >= timedelta(minutes=1)
    closer = zoom(view, 0.25)
    assert view.start <= closer[0] < closer[1] <= view.end


def test_a_gap_of_a_second_in_ten_days_is_seen() -> None:
    gap = OverviewGap(
        after=ago(days=2), to=ago(days=2) + timedelta(seconds=1), cause="purged", older="a", newer="b", why=""
    )
    picture = draw(replace(shop(), gaps=(gap,)), TimelineView(ago(days=10), NOW, 960), BERLIN)
    drawn = dict(picture.lanes[0].bars)["gap"]
    assert [bar.width for bar in drawn] == [NARROWEST]


def test_there_is_a_lane_for_each_tier_and_destination() -> None:
    picture = draw(shop(), TimelineView(ago(days=11), NOW, 960), BERLIN)
    assert [lane.name for lane in picture.lanes] == [
        "Can be restored", "hourly", "daily", "At offsite", "At cloud"
    ]  # fmt: skip
    exposed = [dict(lane.bars)["exposed"] for lane in picture.lanes[3:]]
    assert all(bar[-1].to == NOW for bar in exposed)
    assert exposed[1][0].width > 30 * exposed[0][0].width


def test_many_backups_make_no_larger_picture() -> None:
    view = TimelineView(ago(days=366), NOW, 960)
    few, many = (
        draw(replace(shop(), backups=backups(count, timedelta(days=366) / count)), view, BERLIN)
        for count in (1000, 20_000)
    )
    assert [len(lane.marks) for lane in many.lanes] <= [960 // 2 + 1] * len(many.lanes)
    assert many.lanes[1].total == 20 * few.lanes[1].total


@pytest.mark.parametrize(
    ("at", "verdict"),
    [
        (ago(hours=17), "yes"),
        (ago(hours=30), "no"),
        (ago(hours=31), "yes"),
        (ago(hours=28, minutes=20), "no"),
        (ago(days=30), "no"),
        (NOW, "yes"),
        (NOW + timedelta(seconds=1), "future"),
    ],
)
def test_whether_a_moment_can_be_restored(at: datetime, verdict: str) -> None:
    answer = can_be_restored(shop(), at)
    assert answer.verdict == verdict
    assert bool(answer.gap) == (at in (ago(hours=30), ago(hours=28, minutes=20)))


def test_in_a_gap_the_nearest_moments_are_its_ends() -> None:
    answer = can_be_restored(shop(), ago(hours=30))
    assert (answer.before, answer.after) == (ago(hours=31), ago(hours=28, minutes=20))


@given(moments)
def test_yes_is_said_of_ranges_alone(at: datetime) -> None:
    inside = any(r.after < at <= r.to for r in shop().ranges)
    assert (can_be_restored(shop(), at).verdict == "yes") == inside


def test_behind_a_log_that_was_not_looked_at_nobody_knows() -> None:
    end = ago(hours=1)
    seen = replace(
        shop(), ranges=(OverviewRange(after=ago(days=1), to=end, live=False),), gaps=(), note="not mounted"
    )
    assert can_be_restored(seen, ago(minutes=5)).verdict == "unknown"
    assert can_be_restored(seen, ago(days=2)).verdict == "no"


def test_what_would_be_lost_is_what_the_best_destination_lacks() -> None:
    found = best_destination(shop())
    assert found is not None
    assert found.name == "offsite"
    assert best_destination(replace(shop(), destinations=shop().destinations[1:])) is None


def test_an_estimate_is_never_less_than_the_drill_took() -> None:
    drills = shop().drills
    found = estimate(drills, 5400)
    assert found is not None
    assert found[0] == 48.0 * 3
    assert (estimate(drills, 1) or (0,))[0] == 48.0
    assert estimate(drills[1:], 5400) is None
    assert estimate(drills, None) is None
    none = Drill(destination="", backup="b", at=NOW, to=None, transactions=0, tables=0, seconds=5.0, why="")
    assert estimate((none,), 10**9) == (5.0, none)


@given(
    st.lists(st.tuples(moments, st.floats(0, 10**9)), max_size=60), st.sampled_from(["UTC", "Europe/Berlin"])
)
def test_nothing_that_leaves_leaves_earlier_than_is_told(
    lives: list[tuple[datetime, float]], zone: str
) -> None:
    there = [
        replace(each, taken=taken, until=taken + timedelta(seconds=length), keep=("daily",))
        for each, (taken, length) in zip(backups(len(lives), timedelta(hours=1)), lives, strict=True)
    ]
    found = leaving(there, NOW, ZoneInfo(zone))
    assert sum(each.count for each in found) == len(there)
    assert sum(each.used for each in found) == sum(b.used for b in there)
    assert [each.when for each in found] == sorted(each.when for each in found)
    for backup in there:
        mine = [
            e for e in found if backup.until and e.when <= backup.until and e.first <= backup.taken <= e.last
        ]
        assert mine
