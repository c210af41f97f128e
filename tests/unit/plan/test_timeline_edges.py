"""A picture of time at its edges: which ticks, lanes and answers there are, one by one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.web.host import NOW, ago, backups, shop
from zbackup.model.overview import (
    Drill,
    OverviewBackup,
    OverviewDestination,
    OverviewGap,
    OverviewInstance,
    OverviewRange,
)
from zbackup.model.retention import FOREVER
from zbackup.plan.duration_text import exact_length, length
from zbackup.plan.size_text import size
from zbackup.plan.timeline.axis import TimelineView, ticks, view_of
from zbackup.plan.timeline.moment_answer import Answer, best_destination, can_be_restored, estimate
from zbackup.plan.timeline.picture import Lane, bars, draw, marks
from zbackup.plan.timeline.upcoming_prunes import BY_DAY, leaving

BERLIN, UTC_ZONE = ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")
MAY = datetime(2024, 5, 1, tzinfo=UTC)
MICRO = timedelta(microseconds=1)
MINUTES = timedelta(minutes=1)


def labels(start: datetime, span: timedelta, most: int, zone: ZoneInfo = UTC_ZONE) -> list[str]:
    return [tick.label for tick in ticks(TimelineView(start, start + span, 960), zone, most)]


def test_ticks_are_at_round_times_up_to_the_very_end() -> None:
    assert labels(MAY, 4 * MINUTES, 5) == ["00:00:00", "00:01:00", "00:02:00", "00:03:00", "00:04:00"]
    assert labels(MAY, 4 * MINUTES, 4) == ["00:00:00", "00:01:00", "00:02:00", "00:03:00"], "never more"
    assert labels(MAY + 30 * MICRO, 4 * MINUTES, 4)[:2] == ["00:01:00", "00:02:00"]
    hours = timedelta(hours=1)
    assert labels(MAY, 4 * hours, 4) == ["00:00", "01:00", "02:00", "03:00"]
    assert labels(MAY, 24 * hours, 2) == ["00:00", "12:00"]
    assert labels(MAY + hours, 24 * hours, 2) == ["12:00", "00:00"]
    days = timedelta(days=1)
    assert labels(MAY, 4 * days, 4) == ["Thu 00:00", "Fri 00:00", "Sat 00:00", "Sun 00:00"]
    assert labels(MAY, 4 * days, 3) == ["Thu 00:00", "Sat 00:00"]
    assert labels(MAY, 300 * days, 10) == [
        "01 May", "01 Jun", "01 Jul", "01 Aug", "01 Sep", "01 Oct", "01 Nov", "01 Dec", "01 Jan", "01 Feb"
    ]  # fmt: skip
    assert labels(MAY + 5 * days, 300 * days, 10)[0] == "01 Jun"
    assert labels(MAY, 61 * days, 3) == ["01 May", "01 Jun", "01 Jul"]
    assert labels(MAY, 31 * days, 1) == ["01 May"], "the month that begins with it"
    assert labels(MAY - days, 32 * days, 1) == ["01 May"]
    assert labels(MAY, 730 * days, 5) == ["Jul 2024", "Jan 2025", "Jul 2025", "Jan 2026"]
    assert labels(MAY, 5 * 365 * days, 3) == ["Jan 2026", "Jan 2028"]


def test_days_begin_at_midnight_also_where_clocks_are_changed() -> None:
    """On 27 October 2024 a day has 25 hours in Berlin."""
    start = datetime(2024, 10, 25, 22, tzinfo=UTC)
    assert labels(start, timedelta(days=3), 3, BERLIN) == ["Sun 00:00", "Mon 00:00"]


@pytest.mark.parametrize(
    ("span", "shorter", "longer"),
    [
        (timedelta(minutes=8), "00:00:00", "00:00"),
        (timedelta(hours=26), "00:00", "Wed 00:00"),
        (timedelta(days=4), "Wed 00:00", "02 May"),
        (timedelta(days=400), "01 May", "May 2024"),
    ],
)
def test_the_longer_the_view_the_less_is_said_of_each_tick(
    span: timedelta, shorter: str, longer: str
) -> None:
    assert labels(MAY, span, 8)[0] == shorter
    assert labels(MAY, span + MICRO, 8)[0] == longer


def test_a_view_is_around_the_middle_of_what_was_asked_for() -> None:
    for one, other in ((MAY, MAY + 2 * MINUTES), (MAY + 2 * MINUTES, MAY)):
        assert view_of(one, other, 9) == TimelineView(MAY, MAY + 2 * MINUTES, 9)
    assert view_of(MAY, MAY, 9) == TimelineView(MAY - MINUTES / 2, MAY + MINUTES / 2, 9)
    view = TimelineView(MAY, MAY + MINUTES, 60)
    assert not view.touches(MAY - MINUTES, MAY) and view.touches(MAY - MINUTES, MAY + MICRO)
    assert not view.touches(MAY + MINUTES, MAY + 2 * MINUTES)
    assert view.touches(MAY + MINUTES - MICRO, MAY + 2 * MINUTES)


def test_bars_that_touch_are_one_and_narrow_ones_are_as_wide_as_can_be_seen() -> None:
    view = TimelineView(MAY, MAY + 100 * MINUTES, 100)

    def drawn(*spans: tuple[float, float]) -> list[tuple[float, float, int]]:
        found = bars([(MAY + a * MINUTES, MAY + b * MINUTES) for a, b in spans], view)
        return [(bar.x, bar.width, bar.count) for bar in found]

    assert drawn((10, 13), (14, 20)) == [(10, 3, 1), (14, 6, 1)]
    assert drawn((10, 13), (13.5, 20)) == [(10, 10, 2)]
    assert drawn((10, 20), (12, 15)) == [(10, 10, 2)]
    assert drawn((10, 11)) == [(10, 3, 1)] and drawn((99, 100)) == [(97, 3, 1)]
    assert drawn((-9, -1), (101, 109)) == []
    assert marks([MAY - MICRO, MAY, MAY + 100 * MINUTES, MAY + 100 * MINUTES + MICRO], view) == (0, 100)


def lanes(instance: OverviewInstance, view: TimelineView | None = None) -> dict[str, Lane]:
    drawn = draw(instance, view or TimelineView(ago(days=11), NOW, 960), BERLIN)
    return {lane.name: lane for lane in drawn.lanes}


def a_backup(**changes: object) -> OverviewBackup:
    return replace(backups(1, timedelta(hours=1))[0], **changes)  # type: ignore[arg-type]


def test_now_is_drawn_where_it_is_in_the_view() -> None:
    for start, end, now in (
        (ago(days=1), NOW, 960),
        (NOW, ago(days=-1), 0),
        (ago(days=2), ago(days=1), None),
    ):
        assert draw(shop(), TimelineView(start, end, 960), BERLIN).now == now


def test_what_was_promised_is_drawn_where_anything_was() -> None:
    assert len(dict(lanes(shop())["Can be restored"].bars)["promise"]) == 1
    assert dict(lanes(replace(shop(), promised=None))["Can be restored"].bars)["promise"] == ()


def test_backups_have_the_lanes_of_their_tiers_and_of_their_kinds() -> None:
    plain, log = a_backup(tiers=()), a_backup(kind="log")
    found = lanes(replace(shop(), backups=(plain, log, a_backup(kind="unsound"))))
    assert [name for name in found if not name.startswith("At ")] == [
        "Can be restored",
        "Backups",
        "Log only",
    ]
    assert found["Backups"].total == found["Log only"].total == 1
    found = lanes(replace(shop(), backups=(plain, a_backup(tiers=("daily",), keep=()))))
    assert list(found)[1:3] == ["daily", "Other backups"]
    assert found["daily"].marks == () and len(found["daily"].going) == 1
    assert "Log only" not in found
    assert "Other backups" not in lanes(replace(shop(), backups=(a_backup(tiers=("daily",)),)))
    assert len(found["Other backups"].marks) == 1 and found["Other backups"].going == ()


def test_when_they_leave_is_drawn_where_the_view_is_of_what_is_to_come() -> None:
    ahead = TimelineView(NOW - timedelta(days=1), NOW + timedelta(days=99), 960)
    there = tuple(
        a_backup(**{"until": NOW + timedelta(days=9), **changes})
        for changes in (
            {},
            {"until": NOW + timedelta(days=200)},
            {"keep": ()},
            {"until": None},
            {"until": FOREVER},
        )
    )
    lane = lanes(replace(shop(), backups=there), ahead)["May be pruned from"]
    assert (lane.count, lane.total, len(lane.going)) == (1, 2, 1)
    assert "May be pruned from" not in lanes(replace(shop(), backups=there))
    assert "May be pruned from" not in lanes(replace(shop(), backups=there[2:]), ahead)
    edge = TimelineView(NOW - timedelta(days=99), NOW + timedelta(days=1), 960)
    assert "May be pruned from" not in lanes(replace(shop(), backups=there), edge)


def at_vault(**changes: object) -> OverviewDestination:
    given = {"lost": 3600.0, "taken": ago(hours=2), "archived": ago(hours=1), **changes}
    return replace(shop().destinations[0], name="vault", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "archived", "exposed", "taken"),
    [
        ({}, 1, 1, 1),
        ({"lost": 0.0}, 1, 0, 1),
        ({"archived": None}, 0, 1, 1),
        ({"archived": ago(hours=2)}, 0, 1, 1),
        ({"taken": None}, 0, 1, 0),
        ({"lost": None, "taken": None, "archived": None}, 0, 1, 0),
    ],
)
def test_what_arrived_and_what_would_be_lost(
    changes: dict[str, object], archived: int, exposed: int, taken: int
) -> None:
    lane = lanes(replace(shop(), destinations=(at_vault(**changes),)))["At vault"]
    drawn = dict(lane.bars)
    assert (len(drawn["archived"]), len(drawn["exposed"]), lane.total) == (archived, exposed, taken)
    if exposed:
        lost = timedelta(hours=1) if changes.get("lost", 1) else NOW - shop().backups[0].taken
        assert drawn["exposed"][0].after == NOW - lost


def test_where_nothing_would_be_lost_nothing_is_drawn_as_that() -> None:
    ahead = TimelineView(NOW - timedelta(days=1), NOW + timedelta(days=1), 960)
    lane = lanes(replace(shop(), destinations=(at_vault(lost=0.0),)), ahead)["At vault"]
    assert dict(lane.bars)["exposed"] == ()


def test_the_ends_of_a_range_belong_to_it_as_they_do_to_a_restore() -> None:
    span = OverviewRange(after=ago(hours=5), to=ago(hours=3), live=False)
    gap = OverviewGap(after=ago(hours=3), to=ago(hours=2), cause="purged", older="a", newer="b", why="")
    rest = OverviewRange(after=ago(hours=2), to=NOW, live=True)
    own = a_backup(name="own", as_of=ago(hours=5), opens=True)
    shut = a_backup(name="shut", as_of=ago(hours=5), opens=False)
    seen = replace(shop(), ranges=(span, rest), gaps=(gap,), backups=(shut, own), note="")
    assert can_be_restored(seen, ago(hours=3)) == Answer("yes")
    assert can_be_restored(seen, ago(hours=5)) == Answer("no", None, None, ago(hours=5), "own")
    assert can_be_restored(seen, ago(hours=2)) == Answer("no", gap, ago(hours=3), ago(hours=2), "")
    assert can_be_restored(seen, NOW) == Answer("yes")
    assert can_be_restored(seen, NOW + MICRO) == Answer("future", before=NOW)
    alone = replace(seen, ranges=(OverviewRange(after=ago(hours=4), to=ago(hours=4), live=False),), gaps=())
    assert can_be_restored(alone, ago(hours=4)) == Answer("no", None, None, ago(hours=4), "")
    empty = replace(seen, ranges=(), gaps=())
    assert can_be_restored(empty, NOW + MICRO) == Answer("future")
    assert can_be_restored(replace(empty, note="not mounted"), ago(hours=4)).verdict == "no"
    old = replace(seen, ranges=(span,), gaps=())
    assert can_be_restored(old, ago(hours=1)).verdict == "no"
    assert can_be_restored(replace(old, note="not mounted"), ago(hours=1)).verdict == "unknown"


def test_where_nothing_would_be_lost_is_best_of_all() -> None:
    none, some, never = at_vault(lost=0.0), at_vault(lost=1.0), at_vault(lost=None)
    assert best_destination(replace(shop(), destinations=(never, some, none))) is none
    assert best_destination(replace(shop(), destinations=(never,))) is None


def test_only_drills_of_this_host_that_passed_and_were_measured_say_how_long_it_takes() -> None:
    good = Drill(destination="", backup="b", at=NOW, to=None, transactions=10, tables=0, seconds=5.0, why="")
    for other in (replace(good, why="no"), replace(good, seconds=0.0), replace(good, destination="vault")):
        assert estimate((other,), 10) is None
        assert estimate((good, replace(other, at=NOW + MINUTES)), 20) == (10.0, good)
    nothing = replace(good, transactions=0)
    assert estimate((nothing,), 20) == (5.0, nothing)


def test_what_leaves_within_two_weeks_is_told_by_days_and_later_by_months() -> None:
    now = datetime(2024, 5, 1, tzinfo=UTC)

    def counts(*days: float, **changes: object) -> list[int]:
        there = [a_backup(until=now + timedelta(days=each), **changes) for each in days]
        return [each.count for each in leaving(there, now, UTC_ZONE)]

    assert counts(1, 1.5, 2) == [2, 1]
    exactly = BY_DAY / timedelta(days=1)
    assert counts(exactly - 0.5, exactly, exactly + 3, exactly + 30) == [1, 2, 1]
    assert counts(1, keep=()) == []
    forever = a_backup(until=FOREVER)
    assert leaving([forever, a_backup(until=None)], now, UTC_ZONE) == ()


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 KiB"), (1024, "1.0 KiB"), (99 * 1024, "99.0 KiB"),
        (102_298, "99.9 KiB"), (102_349, "100 KiB"), (999 * 1024, "999 KiB"), (1_023_488, "1.0 MiB"),
        (3 << 29, "1.5 GiB"), (5000 << 50, "5000 PiB"),
    ],
)  # fmt: skip
def test_bytes_have_three_digits(count: int, said: str) -> None:
    assert size(count) == said


def test_lengths_of_time() -> None:
    said = {0: "0 s", 59: "59 s", 60: "1 minute", 61: "61 s", 119: "119 s", 120: "2 minutes"}
    said |= {3600: "1 hour", 3601: "60 minutes", 7200: "2 hours", 86_400: "1 day", 172_800: "2 days"}
    assert {n: length(timedelta(seconds=n)) for n in said} == said
    exact = {0.34: "340 ms", 0.9995: "1.0 s", 5.2: "5.2 s", 59.94: "59.9 s", 59.95: "1 min 0 s"}
    exact |= {200.0: "3 min 20 s", 3599.0: "59 min 59 s", 3600.0: "1 h 0 min", 7500.0: "2 h 5 min"}
    assert {n: exact_length(n) for n in exact} == exact
