"""Until when a backup certainly stays: true of every history, however it goes on."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.plan.deciding import BERLIN, MAY, kept, plan, policy
from tests.unit.plan.histories import History, gaps, histories, made, policies
from tests.unit.plan.test_calendar import moments, steps, zones
from zbackup.model.backup import Backup
from zbackup.model.record import KEEP_UNTIL
from zbackup.model.retention import FOREVER, Reason, Retention, Span
from zbackup.plan.calendar import back, begins, ends, forward
from zbackup.plan.retention import rules as rules_module
from zbackup.plan.retention.retention import plan_retention
from zbackup.plan.retention.rules import stays_until

DAY = timedelta(days=1)


def until_date(backup: Backup, end: datetime) -> Backup:
    """The same, with a date before which it is to stay."""
    server = {**backup.record.server, KEEP_UNTIL: end.isoformat()}
    return replace(backup, record=replace(backup.record, server=server))


@st.composite
def goings_on(draw: st.DrawFn, history: History) -> tuple[list[Backup], list[datetime]]:
    """Backups that are taken later, at whatever times they claim, and the moments of prunes."""
    later = []
    at = history.now
    for number in range(draw(st.integers(0, 6))):
        at += draw(gaps)
        claimed = draw(st.sampled_from([at, at, at, at - timedelta(days=3), at + timedelta(days=400)]))
        later.append(made(1000 + number, claimed))
    prunes = [history.now + sum(draw(st.lists(gaps, max_size=3)), timedelta()) for _ in range(4)]
    return later, sorted(prunes)


@given(histories(), policies, zones, st.data())
@settings(max_examples=examples(300))
def test_no_prune_destroys_it_before_whatever_is_taken_meanwhile(
    history: History, rules: Retention, zone: ZoneInfo, data: st.DataObject
) -> None:
    dated = [
        until_date(b, b.record.taken + data.draw(gaps)) if data.draw(st.integers(0, 5)) == 0 else b
        for b in history.backups
    ]
    later, prunes = data.draw(goings_on(History(dated, history.now)))
    promised = stays_until(dated, rules, history.now, zone)
    there = dated
    for now in (history.now, *prunes, *_justs(promised, prunes, data)):
        come = [b for b in later if b.createtxg < 1000 + data.draw(st.integers(0, 7))]
        known = {b.record.backup for b in there}
        there = [*there, *(b for b in come if b.record.backup not in known)]
        plan = plan_retention(there, rules, now, zone, {})
        for backup in plan.destroy:
            until = promised.get(backup.record.backup)
            assert until is None or now >= until, (backup.name, until, now)
        there = [k.backup for k in plan.keep]


def _justs(promised: dict[str, datetime], prunes: list[datetime], data: st.DataObject) -> list[datetime]:
    """Moments just before a promise ends, from the last prune on."""
    last = max(prunes, default=MAY)
    ends_ = sorted({u - timedelta(microseconds=1) for u in promised.values() if last < u < FOREVER})
    return [each for each in ends_ if data.draw(st.booleans())][:5]


@given(histories(clocks_are_right=True), policies)
@settings(max_examples=examples(60))
def test_what_goes_now_is_promised_nothing(history: History, rules: Retention) -> None:
    plan = plan_retention(history.backups, rules, history.now, BERLIN, {})
    promised = stays_until(history.backups, rules, history.now, BERLIN)
    assert not {b.record.backup for b in plan.destroy} & set(promised)
    assert all(until > history.now for until in promised.values())


def test_it_goes_when_its_tier_is_over_and_no_earlier() -> None:
    """Hourly for two days and daily for seven; and then what comes after takes the place of the others."""
    taken = [MAY + timedelta(hours=n) for n in range(30)]
    backups = [made(n + 1, at) for n, at in enumerate(taken)]
    rules = policy("hourly for 2 days", "daily for 7 days", window=Span(1, "hour"))
    now = taken[-1] + timedelta(minutes=5)
    found = stays_until(backups, rules, now, BERLIN)
    # 00:00 UTC is 02:00 in Berlin: the first of 1 May is the first there is, that of 2 May is at 22:00 UTC.
    assert found["backup-1"] == datetime(2024, 5, 8, 22, tzinfo=UTC)
    assert found["backup-2"] == taken[2] + 2 * DAY
    assert found["backup-23"] == datetime(2024, 5, 9, 22, tzinfo=UTC)
    newer = [made(100 + n, now + timedelta(hours=n)) for n in range(400)]
    for number, until in ((1, found["backup-1"]), (2, found["backup-2"])):
        name = f"backup-{number}"
        there = [*backups, *(b for b in newer if b.record.taken <= until)]
        before = plan_retention(there, rules, until - timedelta(seconds=1), BERLIN, {})
        assert name in kept(before)
        assert name not in kept(plan_retention(there, rules, until, BERLIN, {}))


def test_no_end_is_promised_where_there_is_none_and_nothing_of_what_is_not_whole() -> None:
    one, two = made(1, MAY), made(2, MAY + timedelta(minutes=1))
    assert stays_until([one, two], Retention(), MAY + DAY, BERLIN)["backup-2"] == FOREVER
    found = stays_until([one, two], policy("yearly forever", last=3), MAY + DAY, BERLIN)
    assert found == {"backup-1": FOREVER}
    lacking = replace(one, snapshots=one.snapshots[:0])
    assert stays_until([lacking], policy("yearly forever"), MAY + DAY, BERLIN) == {}
    # It may be finished yet, and is then the oldest of its period.
    unfinished = replace(one, record=replace(one.record, as_of=None, complete_to=None))
    assert stays_until([unfinished, two], policy("yearly forever"), MAY + DAY, BERLIN) == {}


@pytest.mark.parametrize("step", [Span(1, "hour"), Span(1, "day"), Span(1, "month"), Span(1, "year")])
def test_a_period_ends_where_the_next_begins(step: Span) -> None:
    local = datetime(2024, 5, 17, 13, 30, tzinfo=BERLIN)
    end = ends(step, local, BERLIN)
    assert begins(step, end.astimezone(BERLIN)) == end
    assert begins(step, (end - timedelta(microseconds=1)).astimezone(BERLIN)) == begins(step, local)


@given(steps, moments, zones)
def test_nothing_of_a_period_is_before_its_end(step: Span, moment: datetime, zone: ZoneInfo) -> None:
    local = moment.astimezone(zone)
    end = ends(step, local, zone)
    assert begins(step, (end - timedelta(microseconds=1)).astimezone(zone)) <= begins(step, local)


@given(
    st.builds(Span, st.integers(1, 30), st.sampled_from(["minute", "hour", "day", "week", "month", "year"])),
    moments,
    zones,
    st.timedeltas(timedelta(microseconds=1), timedelta(days=3)),
)
def test_before_that_one_comes_to_before_the_moment(
    span: Span, moment: datetime, zone: ZoneInfo, before: timedelta
) -> None:
    # A moment as ends() gives it: where clocks are changed around it, it is told as much earlier.
    around = [(moment + timedelta(days=d)).astimezone(zone).utcoffset() or timedelta() for d in (-1, 0, 1)]
    spread = max(around) - min(around)
    assert back(forward(moment - spread, span, zone) - before, span, zone) < moment


def test_a_date_counts_for_what_is_whole_its_own_and_a_base_and_until_it_has_come() -> None:
    rules, now = policy("yearly for 1 year", last=1), MAY + timedelta(hours=1)
    first, end = made(1, MAY), now + DAY
    dated = until_date(made(2, MAY), end)
    assert stays_until([first, dated], rules, now, BERLIN)["backup-2"] == end
    assert "backup-2" not in stays_until([first, dated], rules, end, BERLIN)
    most = replace(rules, keep_at_most=2 * timedelta(hours=1))
    assert stays_until([first, dated], most, now, BERLIN)["backup-2"] == MAY + 2 * timedelta(hours=1)
    assert stays_until([first, dated], replace(rules, keep_at_most=9 * DAY), now, BERLIN)["backup-2"] == end
    elsewhere = replace(dated, snapshots=tuple(replace(s, dataset="other") for s in dated.snapshots))
    unfinished = replace(dated, record=replace(dated.record, as_of=None))
    for none in (until_date(made(2, MAY, purpose="log"), end), elsewhere, unfinished):
        assert list(stays_until([first, none], rules, now, BERLIN)) == ["backup-1"]
    # The later of its two ends counts, and of a log-only snapshot none takes the place of a backup.
    assert stays_until([until_date(first, end)], rules, now, BERLIN)["backup-1"] > MAY + 360 * DAY
    far = until_date(first, MAY + 4000 * DAY)
    assert stays_until([far], rules, now, BERLIN)["backup-1"] == MAY + 4000 * DAY
    assert "backup-3" in stays_until([made(1, MAY, purpose="log"), made(3, MAY)], rules, now, BERLIN)
    assert stays_until([first], policy("yearly for 9999 years"), now, BERLIN)["backup-1"] == FOREVER


def test_a_rule_that_is_added_keeps_exactly_what_it_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_of_each_quarter(scene: rules_module.Scene) -> Iterator[rules_module.Claim]:
        quarters = {(b.record.taken.year, (b.record.taken.month - 1) // 3): b for b in scene.bases}
        yield from ((b, Reason("quarterly", until=FOREVER)) for b in list(quarters.values())[:-1])

    backups = [made(n, MAY + 20 * n * DAY) for n in range(1, 30)]
    now, few = backups[-1].record.taken + timedelta(hours=1), policy(last=1)
    monkeypatch.setattr(rules_module, "RULES", (*rules_module.RULES, last_of_each_quarter))
    promised = stays_until(backups, few, now, BERLIN)
    stay = {k.backup.record.backup for k in plan(backups, few, now).keep}
    assert len(promised) == 6 and set(promised) < stay == {*promised, "backup-29"}
