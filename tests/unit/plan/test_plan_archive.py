"""The appends of a round of archiving, told by one file of the server's log or two."""

from dataclasses import replace

import pytest

from tests.unit.samples import at
from zbackup.model.archive import MOST_EPOCH, ArchivedFile, Chunk, LogFileId
from zbackup.model.errors import Refused
from zbackup.model.written_log import WrittenFile
from zbackup.plan.archive import ArchivePlan, is_behind, plan_archive

ENDED = at(9)


def here(number: int, size: int = 500, **changes: object) -> WrittenFile:
    return replace(
        WrittenFile(
            name=f"binlog.{number:06}",
            number=number,
            head=f"{number:032}",
            size=size,
            closed=False,
            read=ENDED,
            complete_to=ENDED,
        ),
        **changes,  # type: ignore[arg-type]
    )


def there(
    number: int, size: int = 300, *, epoch: int = 3, closed: bool = False, follows: int | None = None
) -> ArchivedFile:
    file = LogFileId(
        server="s",
        epoch=epoch,
        number=number,
        follows=follows,
        head=f"{number:032}",
        name=f"binlog.{number:06}",
    )
    last = Chunk(
        begin=0, end=size, sha256="0" * 64, tail="0" * 32, read=ENDED, complete_to=None, closed=closed
    )
    return ArchivedFile(file=file, last=last)


def steps(plan: ArchivePlan) -> list[tuple[int, int | None, int, int, int, bool, bool]]:
    """Of each append epoch, what that follows, number, begin, end, whether it is complete, whether closed."""
    return [
        (a.file.epoch, a.file.follows, a.file.number, a.begin, a.end, a.complete_to == ENDED, a.closed)
        for a in plan.appends
    ]


def test_where_nothing_is_archived_all_is_and_nothing_where_nothing_is() -> None:
    assert plan_archive("s", [], []) == plan_archive("s", [there(1)], []) == ArchivePlan()
    found = plan_archive("s", [], [here(1, closed=True), here(2)])
    assert steps(found) == [(0, None, 1, 0, 500, True, True), (0, 0, 2, 0, 500, True, False)]
    assert found.new_epoch == found.gap == "" and is_behind(found)


def test_what_goes_on_as_it_was_is_appended_in_its_epoch() -> None:
    archived = [there(9, epoch=1), there(1, closed=True), there(2)]
    on = [here(1, 300, closed=True, same=True), here(2, same=True), here(3)]
    found = plan_archive("s", archived, on)
    assert steps(found) == [(3, None, 2, 300, 500, True, False), (3, 3, 3, 0, 500, True, False)]
    assert found.new_epoch == found.gap == ""
    before = plan_archive("s", [there(2)], [here(1, closed=True), here(2, same=True)])
    assert [s[:3] for s in steps(before)] == [(3, None, 2)], "what was not archived in its time is too late"


def test_what_was_not_written_is_not_appended_but_that_a_file_is_closed() -> None:
    assert steps(plan_archive("s", [there(2)], [here(2, 300, same=True)])) == []
    found = plan_archive("s", [there(2)], [here(2, 300, same=True, closed=True)])
    assert steps(found) == [(3, None, 2, 300, 300, True, True)] and not is_behind(found)
    found = plan_archive("s", [there(2, closed=True)], [here(2, same=True, closed=True), here(3, 0)])
    assert steps(found) == [], "what is closed stays as it is, and of an empty file there is nothing"


def test_what_a_server_has_lost_in_between_is_a_gap() -> None:
    found = plan_archive("s", [there(2)], [here(3), here(4)])
    assert found.gap == "of the log nothing is left from binlog.000002:300 to binlog.000003"
    assert [s[:3] for s in steps(found)] == [(3, None, 3), (3, 3, 4)] and found.new_epoch == ""


def test_a_log_that_went_another_way_begins_an_epoch_behind_what_is_still_the_same() -> None:
    archived = [there(1, closed=True), there(2, closed=True), there(3)]
    on = [here(1, same=True, closed=True), here(2, same=True, closed=True), here(3, same=False)]
    found = plan_archive("s", archived, on)
    assert steps(found) == [(4, 3, 3, 0, 500, True, False)]
    assert found.new_epoch == "the server's log is not what was archived up to binlog.000003:300"
    # Where the one that is the same was not archived to its end, nobody saw what the next continues.
    archived[1] = there(2)
    assert [s[:3] for s in steps(plan_archive("s", archived, on))] == [(4, None, 3)]


@pytest.mark.parametrize(("says", "follows"), [(None, None), (1, 1)])
def test_a_log_that_has_nothing_of_what_was_archived_follows_what_it_says_itself(
    says: int | None, follows: int | None
) -> None:
    found = plan_archive("s", [there(2)], [here(1, same=False, follows=says), here(2, same=False, follows=7)])
    assert [s[:3] for s in steps(found)] == [(4, follows, 1), (4, 4, 2)]


def test_the_epoch_that_is_taken_over_begins_with_everything() -> None:
    found = plan_archive("s", [there(2)], [here(2, same=True)], begin=(8, "it is another host's"))
    assert steps(found) == [(8, None, 2, 0, 500, True, False)]
    assert found.new_epoch == "it is another host's"


def test_appends_are_no_larger_than_they_may_be_and_end_where_a_file_says() -> None:
    found = plan_archive("s", [there(2)], [here(2, 701, same=True, closed=True)], most=200)
    assert [s[3:] for s in steps(found)] == [
        (300, 500, False, False), (500, 700, False, False), (700, 701, True, True)
    ]  # fmt: skip
    found = plan_archive("s", [there(2)], [here(2, 700, same=True)], most=200)
    assert [s[3:] for s in steps(found)] == [(300, 500, False, False), (500, 700, True, False)]
    found = plan_archive("s", [there(2)], [here(2, 700, same=True, cuts=(100, 300, 450, 700))], most=200)
    assert [s[3:] for s in steps(found)] == [(300, 450, False, False), (450, 700, True, False)]


def test_no_epoch_is_behind_the_last() -> None:
    found = plan_archive("s", [there(2, epoch=MOST_EPOCH - 1)], [here(2, same=False)])
    assert [s[0] for s in steps(found)] == [MOST_EPOCH]
    with pytest.raises(Refused, match=f"has an epoch {MOST_EPOCH} of s, behind which there is no other"):
        plan_archive("s", [there(2, epoch=MOST_EPOCH)], [here(2, same=False)])
    with pytest.raises(Refused, match="'bin/log' cannot be archived: its name may have letters"):
        plan_archive("s", [], [here(2, name="bin/log")])
