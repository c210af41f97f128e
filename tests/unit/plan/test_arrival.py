"""Backups that somebody adds to a destination make no other go, and change no recovery that worked without
them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.jobs.test_prune_at import Now, Place
from tests.unit.plan.histories import History, histories, made, policies, sound_histories
from tests.unit.samples import NOON
from zbackup.config.retention import tier
from zbackup.destinations.copies import by_server
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.prune_at import _decide
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import ZbackupError
from zbackup.model.retention import Retention, Span
from zbackup.plan.recovery.recovery import RecoveryPlan, plan_recovery
from zbackup.plan.retention.received_backups import AHEAD, consistent, first_to_reach
from zbackup.plan.retention.retention import plan_retention

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
UTC_ZONE = ZoneInfo("UTC")
FAR = timedelta(days=120)
REAL = 1000
"""Real backups have smaller numbers (createtxg)."""


purposes = st.sampled_from(["base", "base", "log"])
files, counters = st.integers(0, 60), st.integers(0, REAL)
readings = st.none() | st.builds(
    Reading, st.sampled_from(["here", "there"]), st.floats(0, 1e9), st.booleans()
)
above = st.sampled_from(["", "", "other/"])


@st.composite
def forged(draw: st.DrawFn, real: Sequence[Backup], now: datetime) -> list[Backup]:
    """Whatever somebody may add who can only add: it arrives later, and says what he likes."""
    times = st.datetimes((now - FAR).replace(tzinfo=None), (now + FAR).replace(tzinfo=None)).map(
        lambda at: at.replace(tzinfo=now.tzinfo)
    )
    edges = [e for b in real for e in (b.record.taken, b.record.as_of, b.record.complete_to) if e]
    moments = times | st.sampled_from([now, now - timedelta(days=8), *edges])
    logs = st.sampled_from(["", "own", *{b.record.log_id for b in real}])
    found = []
    for number in range(REAL, REAL + draw(st.integers(1, 5))):
        backup = made(number, draw(moments), log=(draw(logs), draw(files), draw(files)))
        record = replace(
            backup.record,
            as_of=draw(moments),
            complete_to=draw(moments),
            purpose=draw(purposes),
            server_uuid=draw(st.sampled_from([backup.record.server_uuid, "another"])),
            clock=draw(readings),
        )
        snapshots = [replace(s, dataset=draw(above) + s.dataset) for s in backup.snapshots]
        if draw(st.booleans()):  # its first part lay there for long
            snapshots[0] = replace(snapshots[0], createtxg=draw(counters), dataset="own")
        found.append(Backup(record=record, snapshots=tuple(snapshots)))
    return found


def gone(backups: Sequence[Backup], rules: Retention, now: datetime, grace: timedelta) -> set[str]:
    ctx = SimpleNamespace(instance="shop", zone=UTC_ZONE, clock=Now(now, Reading("here", 1e5, True)))
    destination = ShipDestination(adapter=cast(Any, Place(backups)), tag="tag", retention=rules, grace=grace)
    plans = _decide(cast(Context, ctx), destination, backups, {})
    return {b.record.backup for plan in plans for b in plan.destroy}


@given(histories() | sound_histories(), policies, st.data())
@settings(max_examples=examples(50))
def test_nothing_that_is_added_makes_another_go_while_real_ones_arrive(
    history: History, rules: Retention, data: st.DataObject
) -> None:
    """Of any rules, `last` and `minimum` among them, and whatever clocks say."""
    real = [b for b in history.backups if b.complete]
    assume(real and real[-1].record.taken > history.now - DAY)
    before = gone(real, rules, history.now, DAY)
    added = data.draw(forged(real, history.now))
    after = gone([*added, *real], rules, history.now, DAY)
    assert {b.record.backup for b in real} & after <= before


@given(sound_histories(), policies, st.data())
@settings(max_examples=examples(50))
def test_what_contradicts_what_was_there_never_makes_another_go(
    history: History, rules: Retention, data: st.DataObject
) -> None:
    """Also when no real one has arrived for years."""
    real, now = history.backups, history.now + timedelta(days=400)
    assume(real and consistent(real, now) == real)
    last = {name: max(getattr(b.record, name) for b in real) for name in ("taken", "as_of", "complete_to")}
    added = [
        b
        for b in data.draw(forged(real, history.now))
        if any(getattr(b.record, name) < at for name, at in last.items()) or b.record.taken > now + AHEAD
    ]
    after = gone([*real, *added], rules, now, DAY)
    assert {b.record.backup for b in real} & after <= gone(real, rules, now, DAY)


@given(sound_histories(), st.data())
@settings(max_examples=examples(50))
def test_a_recovery_that_worked_without_is_the_same(history: History, data: st.DataObject) -> None:
    real, now = history.backups, history.now
    added = data.draw(forged(real, now))
    target = data.draw(st.sampled_from([b.record.complete_to for b in real if b.record.complete_to] or [now]))
    before = recovered(real, target, now)
    if before is not None:
        assert recovered([*real, *added], target, now) == before


def recovered(backups: Sequence[Backup], target: datetime, now: datetime) -> RecoveryPlan | None:
    def plan(some: Sequence[Backup]) -> RecoveryPlan:
        return plan_recovery(target, max(now, target), some, UTC_ZONE)

    arrived = sorted(backups, key=lambda b: b.createtxg)
    return first_to_reach(by_server(arrived), lambda b: b.reaches(target), plan)


@given(sound_histories(), st.data())
@settings(max_examples=examples(100))
def test_in_an_honest_history_the_first_that_reaches_gives_what_all_give(
    history: History, data: st.DataObject
) -> None:
    """Nothing is lost by it: what can be recovered with all can be with those that were there first."""
    target = data.draw(
        st.sampled_from([b.record.complete_to for b in history.backups if b.record.complete_to] or [NOON])
    )
    try:
        found = plan_recovery(target, max(history.now, target), history.backups, UTC_ZONE)
    except ZbackupError:
        return
    if found.log is not None:
        assert recovered(history.backups, target, history.now)


def shop(count: int, step: timedelta = HOUR) -> list[Backup]:
    """Backups of one log that is purged a day behind."""
    return [made(n, NOON + n * step, log=("log", max(1, n - 24), n)) for n in range(1, count + 1)]


WEEK = Retention(tiers=(tier("every 1 day for 30 days"),), minimum=1, window=Span(7, "day"))


def liar(real: Sequence[Backup], now: datetime) -> Backup:
    """As of eight days ago, and holds the log up to now."""
    forged = made(REAL, now, as_of=now - 8 * DAY, log=("log", 1, 999_999))
    return replace(forged, record=replace(forged.record, complete_to=now))


@pytest.mark.parametrize("silent", [timedelta(), timedelta(days=2)])
def test_one_that_claims_to_hold_all_makes_nothing_go(silent: timedelta) -> None:
    real = shop(240)
    now = real[-1].record.taken + timedelta(minutes=5) + silent
    before = gone(real, WEEK, now, DAY)
    misled = plan_retention([*real, liar(real, now)], WEEK, now, UTC_ZONE, {}).destroy
    assert {b.record.backup for b in misled} - before, "as it was"
    assert gone([*real, liar(real, now)], WEEK, now, DAY) <= before
    base = recovered([*real, liar(real, now)], now - 7 * DAY, now)
    assert base and base.base in real


def test_a_server_whose_data_rests_does_not_contradict_another_that_is_at_work() -> None:
    """Both send to one destination, as instances of one name."""
    busy = [made(2 * n, NOON + n * HOUR, log=("busy", 1, n)) for n in range(1, 11)]
    idle = [made(2 * n + 1, NOON + n * HOUR, as_of=NOON - 30 * DAY, log=("idle", 1, 1)) for n in range(1, 11)]
    idle = [
        replace(b, snapshots=tuple(replace(s, dataset=f"other/{s.dataset}") for s in b.snapshots))
        for b in idle
    ]
    both, now = sorted([*busy, *idle], key=lambda b: b.createtxg), NOON + 11 * HOUR
    assert consistent(both, now) == both
    joined = replace(busy[0], snapshots=(*busy[0].snapshots[:-1], idle[0].snapshots[-1]))
    assert consistent([joined, *both[1:]], now) != both, "whoever joins them has them held against each other"


def test_by_count_nothing_goes_for_a_day() -> None:
    real = shop(10)
    now = real[-1].record.taken + timedelta(minutes=5)
    rules = Retention(tiers=(), last=3, minimum=1, window=Span(1, "minute"))
    flood = [made(REAL + n, now - timedelta(seconds=30 - n), log=("log", 1, 20 + n)) for n in range(20)]
    assert gone(real, rules, now, timedelta()) == {f"backup-{n}" for n in range(1, 8)}
    assert not gone([*real, *flood], rules, now, DAY) & {b.record.backup for b in real}
    assert "backup-9" in gone([*real, *flood], rules, now, timedelta()), "as it was"


def test_what_is_spared_says_why() -> None:
    real = shop(3)
    now = real[-1].record.taken + timedelta(minutes=5)
    rules = Retention(tiers=(), last=1, minimum=1, window=Span(1, "minute"))
    ctx = SimpleNamespace(instance="shop", zone=UTC_ZONE, clock=Now(now, Reading("here", 1e5, True)))
    destination = ShipDestination(adapter=cast(Any, Place(real)), tag="tag", retention=rules, grace=DAY)
    (found,) = _decide(cast(Context, ctx), destination, real, {})
    (first, *_, last) = found.keep
    assert tuple(map(str, first.reasons)) == (
        "what would replace it arrived with zbackup-2 or later, less than 1 day, 0:00:00 (h:m:s) ago",
    )
    assert "one of the last 1" in map(str, last.reasons)


def test_one_whose_log_ends_before_what_was_there_contradicts_it() -> None:
    """Its times are right, and its log is the same with less in it."""
    real = shop(3)
    now = NOON + 6 * HOUR
    less = made(4, NOON + 4 * HOUR, log=("log", 1, 2))
    more, unknown = made(5, NOON + 5 * HOUR, log=("log", 1, 3)), made(6, NOON + 6 * HOUR, log=("", 0, 0))
    assert consistent([*real, less, more, unknown], now) == [*real, more, unknown]
    assert consistent([unknown, *real, less], now) == [unknown], "the first that is there is taken first"
    other = made(4, NOON + 4 * HOUR, log=("another log", 1, 1))
    assert consistent([*real, other], now) == [*real, other]


def test_one_that_says_nothing_of_a_time_contradicts_none() -> None:
    first, second, third = shop(3)
    unfinished = replace(second, record=replace(second.record, as_of=None, complete_to=None))
    assert consistent([first, unfinished, third], NOON + DAY) == [first, unfinished, third]


def test_both_kinds_of_claims_together_make_none_go() -> None:
    """Two that contradict what was there, and, after a recent one, another recent one."""
    rules = Retention(tiers=(), last=2, minimum=1, window=Span(1, "minute"))
    real = [made(n, NOON + n * DAY, log=("log", 1, n)) for n in range(1, 5)]
    false = [made(n, NOON + n * HOUR, log=("log", 1, 4)) for n in (5, 6)]
    now = NOON + 30 * DAY
    new = [made(n, now - (9 - n) * HOUR, log=("log", 1, n)) for n in (7, 8)]
    assert consistent([*real, *false, *new], now) == [*real, *new]
    assert gone([*real, *false, *new], rules, now, timedelta()) >= {"backup-4", "backup-6"}, "as it was"
    assert gone([*real, *false, *new], rules, now, DAY) == {"backup-1", "backup-2", "backup-3", "backup-5"}
