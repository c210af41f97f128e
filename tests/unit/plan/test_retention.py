"""Retention: what stays and what goes, in the cases people will ask about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.plan.deciding import BERLIN, MAY, gone, kept, plan, policy
from tests.unit.plan.histories import (
    blocked,
    condemned,
    made,
    reaches,
)
from tests.unit.samples import lacking_one
from zbackup.model.backup import Backup
from zbackup.model.retention import Span
from zbackup.plan.recovery.recovery import plan_recovery


def hourly(count: int, start: datetime = MAY) -> list[Backup]:
    return [made(n + 1, start + timedelta(hours=n)) for n in range(count)]


# every history, every policy


def test_the_first_backup_of_each_period_stays_for_as_long_as_the_rule_says() -> None:
    found = plan(hourly(72), policy("daily for 2 days"), MAY + timedelta(hours=71, minutes=30))
    daily = {name: why[0] for name, why in kept(found).items() if why[0].startswith("daily")}
    # Midnight in Berlin is 22:00 in UTC. By now it is the 4th.
    assert daily == {
        "backup-23": "daily 2024-05-02",
        "backup-47": "daily 2024-05-03",
        "backup-71": "daily 2024-05-04",
    }
    assert list(kept(found)) == [*daily, "backup-72"]


def test_reasons_say_which_period() -> None:
    at = datetime(2024, 5, 1, 8, 2, tzinfo=UTC)
    rules = policy(
        "every 5 minutes for 1 hour", "hourly for 1 hour", "daily for 1 day", "weekly for 1 week",
        "monthly for 1 month", "quarterly forever", "yearly forever", last=3,
    )  # fmt: skip
    assert kept(plan([made(1, at)], rules, at + timedelta(minutes=1)))["backup-1"][:8] == (
        "every 5 minutes 2024-05-01 10:00",
        "hourly 2024-05-01 10:00",
        "daily 2024-05-01",
        "weekly 2024-04-29",
        "monthly 2024-05",
        "every 3 months 2024-04",
        "yearly 2024",
        "one of the last 3",
    )


def test_the_hour_that_happens_twice_is_two_hours() -> None:
    before = datetime(2024, 10, 26, 23, 30, tzinfo=UTC)
    backups = [made(n + 1, before + timedelta(minutes=15 * n)) for n in range(20)]
    labels = [
        r
        for reasons in kept(plan(backups, policy("hourly for 1 day"), before + timedelta(hours=6))).values()
        for r in reasons
        if r.startswith("hourly")
    ]
    assert labels == [
        "hourly 2024-10-27 01:00",
        "hourly 2024-10-27 02:00",
        "hourly 2024-10-27 02:00 CET",
        "hourly 2024-10-27 03:00",
        "hourly 2024-10-27 04:00",
        "hourly 2024-10-27 05:00",
    ]


def test_the_hour_that_is_missing_is_none() -> None:
    before = datetime(2024, 3, 31, 0, 0, tzinfo=UTC)
    backups = [made(n + 1, before + timedelta(minutes=30 * n)) for n in range(5)]
    found = plan(backups, policy("hourly for 1 day"), before + timedelta(hours=3))
    assert [r for k in found.keep for r in map(str, k.reasons) if r.startswith("hourly")] == [
        "hourly 2024-03-31 01:00",
        "hourly 2024-03-31 03:00",
        "hourly 2024-03-31 04:00",
    ]


# what else keeps


def test_a_log_that_only_a_snapshot_in_the_middle_holds_keeps_it() -> None:
    """By the last one the server had purged the file that the first one ends in."""
    backups = [
        made(1, MAY, log=("log", 1, 3)),
        made(2, MAY + timedelta(hours=1), log=("log", 2, 5)),
        made(3, MAY + timedelta(hours=2), log=("log", 3, 7)),
        made(4, MAY + timedelta(hours=3), log=("log", 6, 9)),
        made(5, MAY + timedelta(hours=4), log=("log", 6, 11)),
    ]
    rules = policy("yearly forever", window=Span(1, "day"))
    found = kept(plan(backups, rules, MAY + timedelta(hours=5)))
    assert list(found) == ["backup-1", "backup-3", "backup-5"]
    assert "log for the window up to 2024-05-01 04:00:00 CEST" in found["backup-3"]
    assert "base for the 1-day window" in found["backup-3"]


def test_without_purges_the_newest_holds_the_whole_log() -> None:
    backups = [made(n, MAY + timedelta(hours=n), log=("log", 1, n)) for n in range(1, 6)]
    found = kept(plan(backups, policy("yearly forever", window=Span(1, "day")), MAY + timedelta(hours=6)))
    assert list(found) == ["backup-1", "backup-5"]
    assert "oldest base of the 1-day window" in found["backup-1"]


def test_a_log_snapshot_goes_as_soon_as_a_later_one_holds_its_log() -> None:
    backups = [
        made(1, MAY, log=("log", 1, 1)),
        made(2, MAY + timedelta(hours=1), log=("log", 1, 2), purpose="log"),
    ]
    rules = policy(last=9, window=Span(1, "day"))
    now = MAY + timedelta(hours=3)
    assert list(kept(plan(backups, rules, now))) == ["backup-1", "backup-2"]
    later = [*backups, made(3, MAY + timedelta(hours=2), log=("log", 1, 3))]
    assert gone(plan(later, rules, now)) == ["backup-2"]


def test_what_does_not_say_which_log_it_holds_stays_while_the_window_may_need_it() -> None:
    backups = [made(n, MAY + timedelta(hours=n), log=("", 0, 0)) for n in range(1, 6)]
    rules = policy("yearly forever", window=Span(2, "hour"))
    found = kept(plan(backups, rules, MAY + timedelta(hours=5, minutes=30)))
    assert list(found) == ["backup-1", "backup-3", "backup-4", "backup-5"]
    assert "may be needed for the window: what log it holds is not recorded" in found["backup-3"]


def test_pins_are_reasons() -> None:
    found = plan(hourly(3), policy(last=1), MAY + timedelta(hours=3), backup_1=["held by me"])
    assert kept(found)["backup-1"] == ("held by me",)
    assert gone(found) == ["backup-2"]


def test_remains_go_only_when_a_prune_had_condemned_them() -> None:
    backups = hourly(4)
    left = [lacking_one(backups[0]), condemned(backups[1]), *backups[2:]]
    found = plan(left, policy(last=1), MAY + timedelta(hours=4))
    assert gone(found) == ["backup-2", "backup-3"]
    assert kept(found)["backup-1"][0].startswith(
        "incomplete, and not by a prune: the snapshot of tank/my db/"
    )


def test_what_somebody_wants_kept_stays_until_then() -> None:
    asked = {"label": "before-deploy", "keep_until": (MAY + timedelta(days=2)).isoformat()}
    first = made(1, MAY)
    labelled = replace(first, record=replace(first.record, server=first.record.server | asked))
    broken = made(2, MAY + timedelta(minutes=1))
    broken = replace(broken, record=replace(broken.record, server={"keep_until": "for ever"}))
    later = [made(n, MAY + timedelta(hours=n)) for n in range(3, 9)]
    rules = policy(last=1, minimum=1, window=Span(1, "minute"))
    found = plan([labelled, broken, *later], rules, MAY + timedelta(days=1))
    assert kept(found)["backup-1"] == ("kept until 2024-05-03 02:00:00 CEST, label before-deploy",)
    assert "backup-2" in gone(found)
    assert "backup-1" in gone(plan([labelled, *later], rules, MAY + timedelta(days=2)))


def test_a_senders_keep_date_holds_a_destination_for_so_long_only() -> None:
    for taken, days, stays in ((MAY, 40, True), (MAY, 367, False), (MAY + timedelta(days=900), 40, False)):
        asked = {"keep_until": "2199-01-01T00:00:00+00:00"}
        first = made(1, taken)
        kept_long = replace(first, record=replace(first.record, server=first.record.server | asked))
        now = MAY + timedelta(days=days)
        end = policy(last=1, minimum=1, window=Span(1, "minute"))
        later = [made(n, now - timedelta(hours=9 - n)) for n in range(2, 9)]
        # What others say of a clock that is wrong is another rule's matter.
        found = plan([kept_long, *later], replace(end, keep_at_most=timedelta(days=366)), now)
        why = [reason for reason in kept(found).get("backup-1", ()) if reason.startswith("kept until")]
        assert bool(why) == stays
        assert kept(plan([kept_long, *later], end, now))["backup-1"]  # at home it counts as it is


def test_what_is_kept_by_its_date_alone_is_not_counted_as_the_minimum() -> None:
    asked = {"keep_until": (MAY + timedelta(days=30)).isoformat()}
    dated = [made(n, MAY + timedelta(hours=n)) for n in (1, 2, 3)]
    dated = [replace(b, record=replace(b.record, server=b.record.server | asked)) for b in dated]
    others = [made(n, MAY + timedelta(hours=n)) for n in range(4, 9)]
    found = plan(
        [*dated, *others], policy(last=1, minimum=3, window=Span(1, "minute")), MAY + timedelta(days=1)
    )
    assert set(kept(found)) == {f"backup-{n}" for n in (1, 2, 3, 6, 7, 8)}


# clocks


def test_the_future_stays() -> None:
    backups = [*hourly(5), made(6, MAY + timedelta(days=400)), made(7, MAY + timedelta(hours=6))]
    found = plan(backups, policy(last=1), MAY + timedelta(hours=7))
    said = "taken in the future (2025-06-05 02:00:00 CEST): the clock was or is wrong"
    assert said in kept(found)["backup-6"]
    assert "backup-1" in gone(found)


def test_a_time_that_contradicts_the_order_of_creation_is_in_doubt_until_all_readings_are_too_old() -> None:
    wrong = replace(made(4, MAY - timedelta(days=900)))
    backups = [*hourly(3), wrong, made(5, MAY + timedelta(hours=5))]
    rules = policy("daily for 3 days")
    assert gone(plan(backups, rules, MAY + timedelta(hours=6))) == []
    later = [*backups, *(made(6 + n, MAY + timedelta(days=1 + n)) for n in range(9))]
    by_then = gone(plan(later, rules, MAY + timedelta(days=9, hours=1)))
    assert by_then[:5] == [f"backup-{n}" for n in range(1, 6)]


@pytest.mark.parametrize("taken_since", [0, 1, 30])
def test_a_clock_that_leaps_ahead_destroys_nothing_until_it_is_believed(taken_since: int) -> None:
    rules = policy("hourly for 2 days", last=1)
    ahead = MAY + timedelta(days=3650)
    backups = [*hourly(40), *(made(41 + n, ahead + timedelta(minutes=5 * n)) for n in range(taken_since))]
    now = ahead + timedelta(minutes=5 * taken_since)
    assert not {f"backup-{n}" for n in range(1, 41)} & set(gone(plan(backups, rules, now)))
    if taken_since:
        more = [*backups, *(made(100 + n, ahead + timedelta(hours=1 + n)) for n in range(190))]
        believed = plan(more, rules, ahead + timedelta(hours=191))
        assert {f"backup-{n}" for n in range(1, 41)} <= set(gone(believed))


def test_a_clock_that_leaps_ahead_after_few_backups_destroys_nothing() -> None:
    daily = [made(n, MAY + timedelta(days=n)) for n in range(1, 6)]
    for there in (daily, daily[:1], [*daily, made(6, MAY + timedelta(days=3650))]):
        assert gone(plan(there, policy("daily for 30 days"), MAY + timedelta(days=3650, hours=1))) == []


def test_what_a_server_set_up_anew_from_older_data_has_not_is_still_recovered_from_the_old_log() -> None:
    """It was at 11 o'clock that it was set back to what it had been at 9."""
    hours = {1: (8, 8), 2: (10, 10), 3: (11, 11), 4: (11.1, 9), 5: (12, 12), 6: (13, 13)}
    backups = [
        made(
            n,
            MAY + timedelta(hours=taken),
            as_of=MAY + timedelta(hours=as_of),
            log=("old", 1, n) if n < 4 else ("new", 1, n),
        )
        for n, (taken, as_of) in hours.items()
    ]
    now, moment = MAY + timedelta(hours=14), MAY + timedelta(hours=10, minutes=30)
    found = plan(backups, policy("yearly forever", window=Span(1, "day")), now)
    for there in (backups, [k.backup for k in found.keep]):
        assert plan_recovery(moment, now, there, BERLIN).base.record.backup == "backup-2"
    assert gone(found) == ["backup-5"]
    later = plan(backups, policy("yearly forever", window=Span(1, "hour")), now + timedelta(hours=9))
    assert gone(later) == ["backup-2", "backup-5"]


def test_a_year_at_a_cadence_of_an_hour_with_a_prune_now_and_then() -> None:
    """At one of five minutes it is among the slow tests."""
    assert a_year(60, "every 60 minutes for 6 hours") == [7, 49, 31, 9, 13, 2]


def a_year(minutes: int, shortest: str) -> list[int]:
    """How many each rule keeps at the end of a year with a backup every so many minutes.

    Both changes of the clock are in it, the leap day, and a server that keeps its log for three hours.
    """
    rules = policy(
        shortest, "hourly for 2 days", "daily for 30 days", "weekly for 8 weeks",
        "monthly for 12 months", "yearly for 5 years", last=3, minimum=2, window=Span(1, "day"),
    )  # fmt: skip
    start = datetime(2024, 1, 1, tzinfo=UTC)
    there: list[Backup] = []
    now = start
    prune = 251 * 5 // minutes
    for number in range(1, 366 * 1440 // minutes):
        now = start + timedelta(minutes=minutes * number)
        there.append(made(number, now, log=("log", max(1, number - 180 // minutes), number)))
        if number % prune == 0:
            there = [k.backup for k in plan(there, rules, now + timedelta(seconds=30)).keep]
            assert len(there) < 160
        if number % (prune * 15) == 0:
            asked = [now - timedelta(days=1) + timedelta(minutes=m) for m in range(1, 1440, 359)]
            assert all(reaches(there, m) for m in asked)
    found = plan(there, rules, now)
    by_rule = [r.partition(" 2")[0] for k in found.keep for r in map(str, k.reasons)]
    names = (shortest.partition(" for")[0], "hourly", "daily", "weekly", "monthly", "yearly")
    return [by_rule.count(name) for name in names]


def test_a_snapshot_for_its_log_takes_no_base_s_place_in_a_tier() -> None:
    log = made(1, MAY, purpose="log", log=("log", 1, 1))
    bases = [made(n, MAY + timedelta(minutes=n), log=("log", 1, n)) for n in (2, 3, 70)]
    found = kept(plan([log, *bases], policy("hourly for 2 days"), MAY + timedelta(hours=2)))
    assert any("hourly" in why for why in found["backup-2"])
    assert not any("hourly" in why for why in found.get("backup-1", ()))


def test_of_bases_that_lead_as_far_the_one_that_stays_anyway_serves_the_window() -> None:
    day = [made(n, MAY + timedelta(hours=hour), log=("log", 1, n)) for n, hour in enumerate((10, 11, 20), 1)]
    rules = policy("daily for 7 days", window=Span(5, "hour"))
    found = plan(day, rules, MAY + timedelta(hours=20, minutes=30))
    assert gone(found) == ["backup-2"]
    assert any("the 5-hour window" in why for why in kept(found)["backup-1"])


def test_what_lies_elsewhere_or_is_unfinished_is_left_alone_and_says_why() -> None:
    one, two, newest = hourly(3)
    moved = replace(one, snapshots=tuple(replace(s, dataset="other/x") for s in one.snapshots))
    unfinished = replace(two, record=replace(two.record, as_of=None, complete_to=None))
    found = kept(plan([moved, unfinished, newest], policy(last=1), MAY + timedelta(days=9)))
    assert found["backup-1"] == ("other/x is not the dataset it was taken of",)
    assert found["backup-2"] == ("not finished yet: the next zbackup snapshot does that",)


def test_a_base_without_a_log_takes_no_place_of_one_that_leads_to_the_window() -> None:
    """It is newer and holds as much, and no moment is reached from it."""
    base, alone, newest = (made(n, MAY + timedelta(hours=n), log=("log", 1, n)) for n in (1, 2, 20))
    why = "InnoDB's redo log is disabled: ALTER INSTANCE ENABLE INNODB REDO_LOG"
    rules = policy(last=1, window=Span(5, "hour"))
    found = plan([base, blocked(alone, why), newest], rules, MAY + timedelta(hours=21))
    assert gone(found) == ["backup-2"]


def test_two_tiers_of_one_name_are_one_reason() -> None:
    backups = hourly(30)
    found = plan(backups, policy("daily for 2 days", "daily for 9 days"), backups[-1].record.taken)
    assert all(len(why) == len(set(why)) for why in kept(found).values())
