"""Snapshots that hold the log behind a base, told one by one."""

from dataclasses import replace

from tests.unit.plan.histories import at_hour, blocked, made
from tests.unit.plan.test_window import STOP
from zbackup.model.backup import Backup, finished
from zbackup.model.record import LOG_ENDED
from zbackup.plan.recovery.coverage import Coverage, continues, first_behind, first_break


def held(number: int, first: int = 1, ends: float | None = None, **changes: object) -> Backup:
    """Of one log, from that file on; complete to that hour."""
    backup = made(number, at_hour(number), log=("log", first, number))
    changes = {"complete_to": at_hour(number if ends is None else ends), **changes}
    return replace(backup, record=replace(backup.record, **changes))  # type: ignore[arg-type]


def reached(base: Backup, *backups: Backup) -> tuple[str, float] | None:
    found = Coverage(finished(backups)).reached(base)
    return found and (found.holder.name, (found.end - at_hour(0)).total_seconds() / 3600)


def test_the_farthest_of_those_that_continue_it_is_taken_and_of_two_the_later() -> None:
    one, two, three = held(1), held(2), held(3, ends=2)
    assert reached(one, one, two, three) == ("zbackup-3", 2)
    assert reached(one, one, two, held(3, ends=1.5)) == ("zbackup-2", 2)
    assert reached(held(1, ends=5), held(1, ends=5), held(2)) == ("zbackup-1", 5)


def test_what_was_there_before_a_base_leads_it_nowhere_even_if_it_claims_to() -> None:
    before, base, behind = held(1, ends=9), held(2, ends=5), held(3, ends=6)
    assert reached(base, before, base, behind) == ("zbackup-3", 6)
    assert reached(base, before, base) == ("zbackup-2", 5)


def test_one_that_seems_to_hold_more_of_an_old_log_than_one_before_it_is_not_believed() -> None:
    odd = [held(1), held(2, first=5), *(held(n) for n in (3, 4, 5))]
    assert reached(odd[0], *odd) == ("zbackup-1", 1)


def test_a_snapshot_continues_itself_and_what_ends_where_it_begins() -> None:
    one, two = held(1), held(2)
    assert continues(one, one)
    assert continues(replace(two, record=replace(two.record, log_from=one.record.log_to)), one)
    assert not continues(replace(two, record=replace(two.record, log_from="binlog.000001:101")), one)
    assert reached(one, held(3, first=3)) is None


def test_a_log_is_broken_where_the_same_server_says_so() -> None:
    base = held(1)
    for broken, breaks in (
        (blocked(held(2)), True),
        (blocked(held(2, log_id="")), True),
        (blocked(held(2, server_uuid="another")), True),
        (blocked(held(2, server_uuid="another", log_id="other")), False),
        (blocked(held(2, server_uuid="another", log_id="", log_from="")), False),
    ):
        third = held(3)
        assert first_break(base, third, [base, broken, third]) is (broken if breaks else None)
        assert Coverage(finished([base, broken, third])).first_break(base) is (broken if breaks else None)
        assert (reached(base, base, broken, third) == ("zbackup-3", 3)) is not breaks
        assert first_break(broken, None, [base, broken]) is None, "what it lacks itself is in front of it"
        assert Coverage(finished([base, broken])).first_break(broken) is None


def test_the_end_of_a_log_breaks_what_is_behind_it_alone() -> None:
    one, ended, three = held(1), held(2, purpose="log", server={LOG_ENDED: "the binlog is off"}), held(3)
    every = [one, ended, three]
    assert first_break(one, ended, every) is None
    assert first_break(one, three, every) is ended and first_break(one, None, every) is ended
    assert first_break(ended, None, every) is None
    assert reached(one, *every) == ("zbackup-2", 2)
    assert reached(three, *every) == ("zbackup-3", 3)


def test_a_server_of_which_no_log_is_known_has_none_that_breaks() -> None:
    unknown = held(1, log_id="", log_from="", log_to="")
    off = blocked(held(2, log_id="", log_from="", log_to=""))
    assert Coverage(finished([unknown, off])).first_break(unknown) is None


def test_what_cannot_be_replayed_stops_those_whose_data_is_of_before_it() -> None:
    at_its_begin, behind = held(2, log_to="binlog.000002:700"), held(2, log_to="binlog.000002:701")
    assert first_behind(at_its_begin, [STOP]) is STOP
    assert first_behind(behind, [STOP]) is None
    three = held(3)
    three = replace(three, record=three.record.with_unreplayable([STOP]))
    found = Coverage(finished([at_its_begin, three]))
    assert found.stopped_by(at_its_begin) == (STOP, three) and found.first_stop(at_its_begin) == STOP
    # A log that was cut back since: what an older one saw of it, or a backup itself, says nothing of its own.
    back = held(4, log_to="binlog.000002:600")
    itself = replace(back, record=back.record.with_unreplayable([STOP]))
    for later in (back, itself):
        assert Coverage(finished([three, later])).stopped_by(later) is None
