"""Archived oplog continues a backup by the positions at which its files begin and end."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import backup
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId, server_key
from zbackup.model.backup import Backup
from zbackup.model.oplog_position import OplogPosition
from zbackup.plan.recovery.archived import carriers, chains_from
from zbackup.plan.retention.archived_log import needed, superseded

SET = "replica set rs0 65f0c0ffee"
START = datetime(2026, 5, 1, tzinfo=UTC)


def place(number: int, term: int = 1) -> OplogPosition:
    return OplogPosition(1000 + number, 1, term)


def archived(
    begin: OplogPosition,
    end: OplogPosition,
    number: int,
    *,
    epoch: int = 0,
    follows: int | None = 0,
    closed: bool = True,
) -> ArchivedFile:
    read = START + timedelta(seconds=end.seconds - 1000)
    file = LogFileId(
        server=server_key(SET), epoch=epoch, number=number, follows=follows, head="0" * 32, name=begin.name
    )
    chunk = Chunk(
        begin=0, end=100, sha256="0" * 64, tail=end.tail, read=read, complete_to=read, closed=closed
    )
    return ArchivedFile(file=file, last=chunk, complete_to=read)


def row(ends: list[int], term: int = 1, epoch: int = 0, first: int = 1) -> list[ArchivedFile]:
    """Files from end to end, each of which continues the one before."""
    return [
        archived(
            place(one, term),
            place(other, term),
            number,
            epoch=epoch,
            follows=None if number == first else epoch,
            closed=number < first + len(ends) - 2,
        )
        for number, (one, other) in enumerate(pairwise(ends), first)
    ]


def taken(number: int, log_from: int = 0, log_to: int | None = None, term: int = 1) -> Backup:
    """A backup whose oplog ended at that place; it is known to be continued from `log_to` on."""
    made = backup(number, number, number, log_id="one")
    record = replace(
        made.record,
        server_uuid=SET,
        log_from=str(place(log_from)),
        log_to=f"{1000 + (number if log_to is None else log_to)},1@-1",
        position=str(place(number, term)),
        gtid="",
    )
    return Backup(record=record, snapshots=made.snapshots)


def test_a_chain_begins_with_the_file_that_the_backup_ends_in() -> None:
    files = row([0, 10, 20, 30])
    (chain,) = chains_from(taken(15).record, files)
    assert [f.file.number for f in chain.files] == [2, 3] and chain.before == (files[0],)
    assert (chain.begin, chain.end, chain.why) == (str(place(0)), str(place(30)), "")
    assert chain.complete_to == files[-1].complete_to


def test_where_one_ends_and_the_next_begins_the_next_will_do() -> None:
    (chain,) = chains_from(taken(20).record, row([0, 10, 20, 30]))
    assert [f.file.number for f in chain.files] == [3]


def test_archived_log_that_ends_before_the_backup_does_leads_nowhere() -> None:
    files = row([0, 10, 20])
    assert chains_from(taken(21, log_to=5).record, files) == ()
    assert chains_from(taken(25).record, files) == ()
    assert chains_from(taken(20, log_to=5).record, files) != ()


def test_a_file_that_does_not_begin_where_the_one_before_ends_does_not_continue_it() -> None:
    files = row([0, 10, 20])
    torn = [files[0], replace(files[1], file=replace(files[1].file, name=place(11).name))]
    (chain,) = chains_from(taken(5).record, torn)
    assert chain.end == str(place(10))
    assert chain.why == f"nothing was archived from {place(10)} to {place(11)}"


def test_another_set_of_the_same_name_is_none_of_it() -> None:
    other = replace(taken(5).record, server_uuid="replica set rs0 another")
    assert chains_from(other, row([0, 10])) == ()


def test_of_two_epochs_that_which_holds_the_other_is_tried_first() -> None:
    old, new = row([0, 10, 30]), row([5, 20], epoch=1)
    first, second = chains_from(taken(6).record, [*old, *new])
    assert (first.files[-1].file.epoch, second.files[-1].file.epoch) == (0, 1)
    longer = row([5, 20, 40], epoch=1)
    first, _ = chains_from(taken(6).record, [*old, *longer])
    assert first.files[-1].file.epoch == 1
    other_way = row([5, 20], term=2, epoch=1)
    first, _ = chains_from(taken(6).record, [*old, *other_way])
    assert first.files[-1].file.epoch == 1, "neither holds the other: the newest epoch is what counts"


def test_for_an_older_base_more_of_it_is_taken() -> None:
    files = row([0, 10, 20, 30])
    (carrier,) = carriers([taken(5), taken(25)], ArchiveInventory(address="there", files=tuple(files)))
    assert carrier.backup.record.position == str(place(25))
    assert [f.file.number for f in carrier.chains[0].files] == [3]
    older = carrier.since(taken(5).record)
    assert [f.file.number for f in older.chains[0].files] == [1, 2, 3] and older.chains[0].before == ()
    assert carrier.since(carrier.backup.record).chains == carrier.chains


def test_a_holder_holds_no_more_than_both_have() -> None:
    """Its log begins where the backup's own does, or the archive's, whichever is later."""
    files = tuple(row([10, 20, 30]))
    (carrier,) = carriers([taken(25, log_from=0)], ArchiveInventory(address="there", files=files))
    assert carrier.holder.record.log_from == str(place(10))
    (carrier,) = carriers([taken(25, log_from=22)], ArchiveInventory(address="there", files=files))
    assert carrier.holder.record.log_from == str(place(22))
    assert carrier.holder.record.log_to == str(place(30)) and carrier.holder.record.position == ""


def test_a_backup_that_the_oplog_of_a_later_one_does_not_reach_has_its_own_way() -> None:
    files = tuple(row([0, 10, 20, 30]))
    found = carriers([taken(5), taken(25, log_from=20)], ArchiveInventory(address="there", files=files))
    assert [c.backup.record.position for c in found] == [str(place(25)), str(place(5))]


@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=12),
    st.lists(st.integers(0, 110), min_size=1, max_size=6, unique=True),
)
def test_what_a_kept_backup_needs_is_never_removed(steps: list[int], taken_at: list[int]) -> None:
    ends = [sum(steps[:n]) for n in range(len(steps) + 1)]
    files = row(ends)
    kept = [taken(number) for number in sorted(taken_at)]
    going = superseded(files, kept, START + timedelta(days=400), timedelta())
    wanted = needed(files, kept)
    assert not wanted & set(going)
    for each in kept:
        for chain in chains_from(each.record, files):
            assert set(chain.files) <= wanted
            begins = [f.file.begin for f in chain.files]
            assert begins[0] and begins[0].seconds - 1000 <= int(each.record.log_to.split(",")[0]) - 1000
