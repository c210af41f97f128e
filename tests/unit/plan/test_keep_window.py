"""Bases and logs that stay for the promised window, and as what, one by one."""

from dataclasses import replace
from datetime import datetime

from tests.unit.plan.histories import at_hour, blocked, made
from tests.unit.plan.test_window import STOP
from zbackup.model.backup import Backup
from zbackup.plan.retention.retention import keep_for_window

HOUR_OF = at_hour(0)


def hour(moment: datetime) -> str:
    return f"{(moment - HOUR_OF).total_seconds() / 3600:g}"


def changed(backup: Backup, **changes: object) -> Backup:
    return replace(backup, record=replace(backup.record, **changes))  # type: ignore[arg-type]


def of_log(number: int, first: int = 1, last: int | None = None, **changes: object) -> Backup:
    log = ("log", first, number if last is None else last)
    return changed(made(number, at_hour(number), log=log), **changes)


def unknown(number: int, **changes: object) -> Backup:
    return changed(made(number, at_hour(number), log=("", 0, 0)), **changes)


def stopping(backup: Backup, start: str, hours: float) -> Backup:
    stop = replace(STOP, transaction=replace(STOP.transaction, start=start, committed=at_hour(hours)))
    return replace(backup, record=backup.record.with_unreplayable([stop]))


def kept(start: float, holders: list[Backup], *preferred: int) -> list[tuple[int, str]]:
    bases = [b for b in holders if b.record.purpose == "base" and not b.record.blockers]
    found = keep_for_window(
        bases, holders, at_hour(start), lambda b: b.createtxg in preferred, ("2-hour", hour)
    )
    return [(b.createtxg, str(why)) for b, why in found]


def test_of_one_log_the_base_before_the_window_stays_and_the_last_that_holds_it() -> None:
    backups = [of_log(n) for n in (1, 2, 3, 4)]
    assert kept(2, backups) == [(2, "oldest base of the 2-hour window"), (4, "log for the window up to 4")]
    assert kept(1.5, backups, 1)[0] == (1, "oldest base of the 2-hour window")
    assert kept(4, backups) == [] and kept(5, backups) == []


def test_a_base_that_holds_its_own_log_is_kept_once() -> None:
    own = of_log(1, complete_to=at_hour(3))
    assert kept(2, [own]) == [(1, "oldest base of the 2-hour window")]
    assert kept(3, [own]) == []


def test_where_the_log_was_lost_the_next_base_goes_on() -> None:
    backups = [of_log(1), of_log(2), of_log(3, 3), of_log(4, 3)]
    assert kept(1, backups) == [
        (1, "oldest base of the 2-hour window"),
        (2, "log for the window up to 2"),
        (3, "base for the 2-hour window"),
        (4, "log for the window up to 4"),
    ]
    # What begins at the very moment to which the one before leads, and leads no farther, is not needed.
    same = changed(of_log(5, 5), as_of=at_hour(4), complete_to=at_hour(4))
    assert [n for n, _ in kept(1, [*backups, same])] == [1, 2, 3, 4]
    farther = changed(of_log(5, 5), as_of=at_hour(4))
    assert kept(1, [*backups, farther])[4:] == [(5, "base for the 2-hour window")]


def test_of_bases_that_lead_as_far_the_preferred_one_is_taken_and_else_the_newest() -> None:
    backups = [of_log(n) for n in (1, 2, 3, 4)]
    assert kept(3.5, backups)[0][0] == 3
    assert kept(3.5, backups, 1, 2)[0][0] == 2


def test_what_says_only_a_part_of_its_log_leaves_others_of_that_log_alone() -> None:
    odd = of_log(3, log_from="")
    assert kept(1, [of_log(1), of_log(2), odd])[:2] == [
        (3, "may be needed for the window: what log it holds is not recorded"),
        (1, "oldest base of the 2-hour window"),
    ]


def test_of_what_does_not_say_its_log_all_in_the_window_stays_and_one_base_before() -> None:
    why = "may be needed for the window: what log it holds is not recorded"
    backups = [unknown(1), unknown(2), unknown(3, purpose="log"), unknown(4), unknown(5, purpose="log")]
    assert kept(3, backups) == [(4, why), (5, why), (2, why)]
    assert kept(2, backups)[-1] == (2, why), "the very moment at which the window begins is before it"
    assert kept(0.5, [unknown(1)]) == [(1, why)]
    assert kept(6, [unknown(1, purpose="log")]) == []


def test_what_ended_before_the_window_counts_where_the_log_was_not_whole() -> None:
    off = blocked(of_log(2, complete_to=at_hour(2)))
    backups = [of_log(1), off, of_log(4)]
    assert kept(2, backups) == [] and kept(1.5, backups) == []
    assert [n for n, _ in kept(2, [of_log(1), of_log(2), of_log(4)])] == [2, 4]


def test_a_log_leads_to_what_cannot_be_replayed_and_no_farther() -> None:
    says = "says what cannot be replayed behind an older base"
    backups = [of_log(1), stopping(of_log(3), "binlog.000003:50", 2.5), of_log(4)]
    assert kept(1, backups) == [
        (3, says),
        (1, "oldest base of the 2-hour window"),
        (3, "log for the window up to 2.5"),
        (3, "base for the 2-hour window"),
        (4, "log for the window up to 4"),
    ]
    # At the very end of what is reached it changes nothing.
    last = [of_log(1), stopping(of_log(3), "binlog.000003:50", 3)]
    assert kept(1, last) == [
        (3, says),
        (1, "oldest base of the 2-hour window"),
        (3, "log for the window up to 3"),
    ]


def test_what_leads_up_to_it_is_read_from_a_holder_that_has_it_for_the_base() -> None:
    """The one that says it holds less of the log than the base needs."""
    log = of_log(2, 1, 3, purpose="log", complete_to=at_hour(3))
    backups = [of_log(1), log, stopping(of_log(4, 3), "binlog.000003:50", 2.5)]
    assert (2, "log for the window up to 2.5") in kept(1, backups)


def test_what_is_behind_all_that_is_held_stops_nothing_whatever_its_time_says() -> None:
    """Of a clock that went back."""
    chain = [of_log(1), changed(of_log(2), as_of=at_hour(3), complete_to=at_hour(3))]
    for begins in ("binlog.000002:100", "binlog.000003:50"):
        third = stopping(of_log(3, 2, 3, complete_to=at_hour(3.1), as_of=at_hour(3.1)), begins, 2)
        assert (2, "log for the window up to 3") in kept(1, [*chain, third])
