"""Retention: what stays and what goes, by properties of every history and policy."""

from datetime import UTC, timedelta
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.plan.deciding import BERLIN, MAY, gone, kept, plan
from tests.unit.plan.histories import (
    History,
    condemned,
    histories,
    histories_with_replay_stops,
    policies,
    reaches,
    sound_histories,
)
from zbackup.model.retention import CONDEMNED, Retention
from zbackup.plan.calendar import back
from zbackup.plan.retention.retention import plan_retention


@given(histories(), policies)
@settings(max_examples=examples(60))
def test_everything_is_either_kept_with_a_reason_or_goes(history: History, rules: Retention) -> None:
    found = plan(history.backups, rules, history.now)
    assert sorted([*kept(found), *gone(found)]) == sorted(b.record.backup for b in history.backups)
    assert all(k.reasons and all(k.reasons) for k in found.keep)
    assert [b.createtxg for b in found.destroy] == sorted(b.createtxg for b in found.destroy)


@given(sound_histories() | histories_with_replay_stops(), policies, st.data())
@settings(max_examples=examples(100))
def test_every_moment_of_the_window_that_was_in_reach_still_is(
    history: History, rules: Retention, data: st.DataObject
) -> None:
    found = plan(history.backups, rules, history.now)
    stay = [k.backup for k in found.keep]
    edges = [e for b in history.backups for e in (b.record.as_of, b.record.complete_to) if e]
    start = back(history.now, rules.window, BERLIN)
    moments = [e + timedelta(microseconds=d) for e in (*edges, start) for d in (-1, 0, 1)]
    moments.append(data.draw(st.datetimes(timezones=st.just(UTC), min_value=MAY.replace(tzinfo=None))))
    for moment in moments:
        if start < moment <= history.now and reaches(history.backups, moment):
            assert reaches(stay, moment, history.backups), moment


@given(st.booleans(), st.data(), policies, st.randoms())
@settings(max_examples=examples(60))
def test_wherever_it_is_cut_short_the_next_run_ends_at_the_same(
    clocks_are_right: bool, data: st.DataObject, rules: Retention, random: Random
) -> None:
    """After a wrong clock it may keep more at first: with some gone, other times are no longer in doubt."""
    history = data.draw(histories(clocks_are_right=clocks_are_right))
    whole = plan(history.backups, rules, history.now)
    destroyed = set(random.sample(gone(whole), random.randint(0, len(whole.destroy))))
    left = [
        condemned(b) if random.random() < 0.1 and b.record.backup in gone(whole) and b.complete else b
        for b in history.backups
        if b.record.backup not in destroyed
    ]
    random.shuffle(left)
    again = plan(left, rules, history.now)
    if any("in doubt until" in why for reasons in kept(again).values() for why in reasons):
        return  # what is left looks as if the clock had leapt: for a week other ones are kept
    assert set(kept(whole)) <= set(kept(again))
    if clocks_are_right:
        assert list(kept(again)) == list(kept(whole))
        assert set(gone(again)) == set(gone(whole)) - destroyed


@given(histories(), policies)
@settings(max_examples=examples(50))
def test_a_second_run_finds_nothing_to_do(history: History, rules: Retention) -> None:
    first = plan(history.backups, rules, history.now)
    again = plan([k.backup for k in first.keep], rules, history.now)
    assert gone(again) == []
    assert list(kept(again)) == list(kept(first))


@given(histories(), policies, st.randoms())
@settings(max_examples=examples(50))
def test_the_order_in_which_backups_are_listed_does_not_matter(
    history: History, rules: Retention, random: Random
) -> None:
    shuffled = random.sample(history.backups, len(history.backups))
    assert plan(shuffled, rules, history.now) == plan(history.backups, rules, history.now)


@given(histories(), policies)
@settings(max_examples=examples(60))
def test_what_is_not_its_own_or_not_whole_is_never_touched(history: History, rules: Retention) -> None:
    marked = {
        b.record.backup
        for b in history.backups
        if any(key == CONDEMNED for s in b.snapshots for key, _ in s.properties)
    }
    for backup in plan(history.backups, rules, history.now).destroy:
        assert {s.dataset for s in backup.snapshots} <= {d for d, _ in backup.record.members}
        assert (backup.complete and backup.finished) or backup.record.backup in marked


@given(histories(), policies)
@settings(max_examples=examples(50))
def test_pinned_ones_and_the_newest_stay_and_never_fewer_than_the_minimum(
    history: History, rules: Retention
) -> None:
    pinned = {b.record.backup: ["held by somebody"] for b in history.backups[::3]}
    found = plan_retention(history.backups, rules, history.now, BERLIN, pinned)
    assert not set(pinned) & set(gone(found))
    usable = [b for b in history.backups if b.complete and b.finished and b.record.purpose == "base"]
    usable = [b for b in usable if not b.snapshots[0].dataset.startswith("other/")]
    left = [b for b in usable if b.record.backup in kept(found)]
    assert len(left) >= min(len(usable), rules.minimum)
    if usable:
        assert usable[-1] in left


@given(histories())
def test_an_empty_policy_destroys_nothing(history: History) -> None:
    found = plan(history.backups, Retention(), history.now)
    assert found.destroy == ()
    assert set(kept(found).values()) <= {("there is no retention policy",)}


@given(sound_histories(), policies, st.timedeltas(timedelta(days=-900), timedelta(days=-1)))
@settings(max_examples=examples(50))
def test_a_clock_that_goes_back_destroys_nothing_that_is_newer(
    history: History, rules: Retention, jump: timedelta
) -> None:
    now = history.now + jump
    for backup in plan(history.backups, rules, now).destroy:
        assert backup.record.taken <= now


# tiers


@given(histories_with_replay_stops(), policies)
@settings(max_examples=examples(60))
def test_what_cannot_be_replayed_is_known_while_a_base_is_before_it(
    history: History, rules: Retention
) -> None:
    """Nor does a run after a run reach less: nothing is forgotten that the first one knew."""
    stay = history.backups
    for _ in range(3):
        stay = [k.backup for k in plan(stay, rules, history.now).keep]
    edges = [e for b in history.backups for e in (b.record.as_of, b.record.complete_to) if e]
    start = back(history.now, rules.window, BERLIN)
    for moment in edges:
        if start < moment <= history.now and reaches(history.backups, moment):
            assert reaches(stay, moment, history.backups), moment
