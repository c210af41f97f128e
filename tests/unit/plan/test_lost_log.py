"""What is lost of a server's log between two backups, by what was recorded of them."""

from dataclasses import replace

from hypothesis import given

from tests.unit.plan.histories import History, at_hour, made, sound_histories
from zbackup.model.backup import Backup
from zbackup.model.log import position_of
from zbackup.plan.recovery.before_transaction import covering, with_known_log
from zbackup.plan.recovery.coverage import continues
from zbackup.plan.recovery.lost_log import lost_behind, newest


def backup(number: int, log: str, first: int, last: int) -> Backup:
    return made(number, at_hour(number), log=(log, first, last))


def test_log_that_no_other_backup_leads_up_to_is_lost() -> None:
    old, ends, touching, behind = (
        backup(1, "log", 1, 3),
        backup(2, "log", 2, 5),
        backup(3, "log", 5, 9),
        backup(3, "log", 6, 9),
    )
    assert lost_behind(touching, [old, ends]) is None
    assert lost_behind(touching, [old]) is old
    assert lost_behind(behind, [old, ends, behind]) is ends
    assert lost_behind(old, [ends, behind]) is None, "what is newer is not in front of it"
    assert lost_behind(behind, [old, ends], at_hour(2)) is None, "all that is wanted is in that"
    assert lost_behind(behind, [old, ends], at_hour(2.5)) is ends
    assert lost_behind(old, []) is None


def test_a_log_that_was_taken_for_another_one_is_that_of_the_same_server() -> None:
    own, other, reset = backup(2, "old", 1, 3), backup(3, "new", 5, 6), backup(3, "new", 1, 6)
    assert lost_behind(other, [backup(1, "oldest", 1, 9), own]) is own
    assert lost_behind(reset, [own]) is None, "its numbers begin again"
    elsewhere = replace(own, record=replace(own.record, server_uuid="another"))
    assert lost_behind(other, [elsewhere]) is None
    same_log = backup(1, "new", 1, 4)
    assert lost_behind(other, [same_log, own]) is same_log


def test_behind_the_newest_all_may_be_lost_that_was_not_looked_at() -> None:
    old, last = backup(1, "log", 1, 3), backup(2, "log", 2, 5)
    assert newest([old, last]) is newest([last, old], at_hour(3)) is last
    assert newest([]) is newest([old, last], at_hour(2)) is None


@given(history=sound_histories())
def test_nothing_is_lost_in_front_of_what_continues_another(history: History) -> None:
    """And of one log, where nothing continues, some is."""
    holders = with_known_log(history.backups)
    for log in {b.record.log_id for b in holders}:
        held = covering([b for b in holders if b.record.log_id == log])
        for newer in held:
            older = [b for b in held if b.createtxg < newer.createtxg]
            assert bool(lost_behind(newer, held)) == bool(
                older
                and not any(continues(newer, b) for b in older)
                and max(position_of(b.record.log_to) for b in older) < position_of(newer.record.log_from)
            )
