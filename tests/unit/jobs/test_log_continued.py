"""The log that a backup is proven to go on with: also after a switch and the way back."""

from dataclasses import replace

from tests.unit.plan.histories import at_hour, blocked
from tests.unit.plan.histories import made as made_at
from zbackup.jobs.backup.complete_record import _ends_of_logs, _since
from zbackup.model.backup import Backup


def made(number: int, log: str, *, aside: bool = False, server: str = "") -> Backup:
    backup = made_at(number, at_hour(number), log=(log, 1, number))
    snapshots = backup.snapshots
    if aside:
        snapshots = tuple(replace(s, dataset=f"{s.dataset}-before") for s in snapshots)
    record = replace(backup.record, server_uuid=server or backup.record.server_uuid)
    return Backup(record=record, snapshots=snapshots)


def ends(backup: Backup, others: list[Backup]) -> list[str]:
    return [b.name for b in _ends_of_logs(backup, others)]


def test_in_an_ordinary_life_it_is_the_newest_older_one() -> None:
    others = [made(1, "a"), made(2, "a"), made(4, "a")]
    assert ends(made(3, ""), others) == ["zbackup-2"]


def test_after_a_switch_nothing_is_continued() -> None:
    """The clone has a copy of the log up to its moment, and what went on from there is aside."""
    others = [made(1, "a"), made(2, "a", aside=True)]
    assert ends(made(3, ""), others) == []


def test_after_the_way_back_it_is_the_newest_of_the_same_server() -> None:
    others = [made(1, "a"), made(2, "a"), made(3, "b", aside=True)]
    assert ends(made(4, ""), others) == ["zbackup-2"]


def test_after_a_reset_the_log_before_is_asked_too_but_of_the_same_server_only() -> None:
    others = [made(1, "a"), made(2, "b", server="another"), made(3, "c")]
    assert ends(made(4, ""), others) == ["zbackup-3", "zbackup-1"]


def test_a_log_that_was_not_whole_for_a_while_is_not_continued() -> None:
    others = [made(1, "a"), blocked(made(2, "b"))]
    assert ends(made(3, ""), others) == []
    assert ends(blocked(made(3, "")), [made(1, "a")]) == []
    assert ends(made(4, ""), [*others, made(3, "c")]) == ["zbackup-3"]


def test_since_when_there_are_backups_is_handed_on_from_older_ones() -> None:
    early, later = at_hour(-5), at_hour(-3)
    others = [made(1, "a"), made(2, "a"), made(4, "a")]
    assert _since(made(3, ""), []) is None
    assert _since(made(3, ""), others) == others[0].record.as_of, "of one that does not say, its own data"
    says = [
        replace(b, record=replace(b.record, since=at))
        for b, at in zip(others, (later, None, early), strict=True)
    ]
    assert _since(made(3, ""), says) == later
    unfinished = replace(says[0], record=replace(says[0].record, as_of=None, since=early))
    assert _since(made(3, ""), [unfinished, says[1]]) == says[1].record.as_of
