"""Archived log that continues a backup: one file more or less, and what says less than it should."""

from dataclasses import replace
from datetime import datetime

import pytest

from tests.unit.plan.archive_world import SERVER, World
from tests.unit.plan.test_archived import lived
from tests.unit.plan.test_archived_oplog import SET, archived, place, row, taken
from tests.unit.samples import at, lacking_one
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId
from zbackup.model.backup import Backup
from zbackup.model.log import LogSpan
from zbackup.model.record import ARCHIVED, LOG_ENDED, LOG_HEAD, LOG_SIZE
from zbackup.plan.recovery.archived import (
    Chain,
    begins_for,
    carriers,
    chain_complete,
    chains_from,
    is_other_log,
    parting,
    with_archive,
)

SILENT = f"{0:016x}8{0:015x}"
"""No position: no term is that small."""


def changed(backup: Backup, **changes: object) -> Backup:
    return replace(backup, record=replace(backup.record, **changes))  # type: ignore[arg-type]


def binlog(
    number: int, size: int = 1000, *, epoch: int = 0, head: str = "0", closed: bool = True, to: float = 0
) -> ArchivedFile:
    """A file of a binlog that is complete to 100 times its number, or to `to`, and was read then."""
    file = LogFileId(
        server=SERVER, epoch=epoch, number=number, follows=epoch, head=head * 32, name=f"binlog.{number:06}"
    )
    when = at(to or 100 * number)
    last = Chunk(
        begin=0, end=size, sha256="0" * 64, tail="0" * 32, read=when, complete_to=when, closed=closed
    )
    return ArchivedFile(file=file, last=last, complete_to=when)


def named(file: ArchivedFile, **changes: object) -> ArchivedFile:
    return replace(file, file=replace(file.file, **changes))


def ended(file: ArchivedFile, tail: str) -> ArchivedFile:
    return replace(file, last=replace(file.last, tail=tail))


def one_of(world: World) -> Backup:
    (only,) = world.backups
    return only


# a chain


def test_of_a_binlog_there_is_nothing_in_front_and_nothing_more_to_take() -> None:
    world = lived([("archive",), ("rotate",), ("archive",), ("take",), ("rotate",), ("archive",)])
    (carrier,) = carriers(world.backups, world.inventory)
    assert [f.file.number for f in carrier.chains[0].files] == [2, 3]
    assert carrier.chains[0].before == () and carrier.chains[0].begin == ""
    assert carrier.since(one_of(world).record) == carrier


def test_a_file_that_begins_where_an_older_backup_ends_is_the_first_for_it() -> None:
    files = tuple(row([0, 10, 20, 30]))
    (carrier,) = carriers([taken(25)], ArchiveInventory(address="there", files=files))
    assert [f.file.number for f in carrier.since(taken(20).record).chains[0].files] == [3]
    assert [f.file.number for f in carrier.since(taken(19).record).chains[0].files] == [2, 3]
    later = row([12, 20, 30])
    (carrier,) = carriers([taken(25)], ArchiveInventory(address="there", files=tuple(later)))
    assert [f.file.number for f in carrier.since(taken(5).record).chains[0].files] == [1, 2]


def test_what_was_given_up_for_a_newer_epoch_is_told_with_all_that_continues_it() -> None:
    old = [binlog(n) for n in (1, 2, 3)]
    new = [named(binlog(2, epoch=1, head="1"), follows=0), binlog(3, epoch=1, head="1")]
    base = changed(one_of(lived([("take",)])), log_to="binlog.000001:100").record
    (chain,) = chains_from(base, [*old, *new])
    assert chain.files == (old[0], *new) and chain.forks == ((old[1], old[2]),)


def test_what_does_not_begin_where_a_file_ends_is_not_behind_it() -> None:
    first, second = row([0, 10, 20])
    torn = named(second, name=place(11).name)
    (chain,) = chains_from(taken(15).record, [first, torn])
    assert chain.files == (torn,) and chain.before == ()


def test_one_holds_another_where_it_has_its_last_entry_of_the_same_term() -> None:
    def chain(*files: ArchivedFile) -> Chain:
        return Chain(files=files, complete_to=None)

    short, long = chain(*row([0, 10])), chain(*row([0, 10, 20]))
    assert long.contains(short) and short.contains(short) and not short.contains(long)
    assert not chain(*row([0, 20], term=2)).contains(short)
    assert not chain(*row([0, 20], term=0)).contains(short)
    silent = ended(row([0, 20])[0], SILENT)
    assert not chain(silent).contains(short) and not long.contains(chain(silent))
    assert chain(*row([0, 10]), silent).contains(short)


def test_the_first_to_be_tried_is_the_one_that_no_other_holds() -> None:
    old, new = row([0, 10, 30]), row([5, 30], epoch=1)
    epochs = [c.files[-1].file.epoch for c in chains_from(taken(6).record, [*old, *new])]
    assert epochs == [1, 0], "both hold the same: the newest counts"


def test_an_oplog_that_ends_before_the_backup_does_leads_nowhere_also_if_only_its_log_is_known() -> None:
    first, back = row([0, 10, 20])
    back = ended(back, place(3).tail)
    unknown = changed(taken(5), position="")
    assert chains_from(unknown.record, [first]) != ()
    assert chains_from(unknown.record, [first, back]) == ()
    assert chains_from(taken(5).record, [first, ended(back, SILENT)]) == (), "who knows where it ends"


def test_what_is_another_servers_is_no_reason_why_a_chain_ends() -> None:
    mine = row([0, 10])
    other = [named(f, server="zz", epoch=7) for f in row([10, 20])]
    (chain,) = chains_from(taken(5).record, [*mine, *other])
    assert chain.why == "" and len(chain.files) == 1


@pytest.mark.parametrize(
    ("newer", "why"),
    [
        (archived(place(12), place(20), 2), "nothing was archived from 1010,1@1 to 1012,1@1"),
        (
            archived(place(12), place(20), 1, epoch=1, follows=None),
            "what follows 1000-1-1.oplog is missing: the next file archived is 1012-1-1.oplog, "
            "which was not seen to continue it",
        ),
    ],
)
def test_why_a_chain_of_an_oplog_ends(newer: ArchivedFile, why: str) -> None:
    (first,) = row([0, 10])
    first = replace(first, last=replace(first.last, closed=True))
    (chain,) = chains_from(taken(5).record, [first, newer])
    assert chain.why == why


def test_why_a_chain_of_a_binlog_ends() -> None:
    base = changed(one_of(lived([("take",)])), log_to="binlog.000001:100")
    (chain,) = chains_from(base.record, [binlog(1), named(binlog(3), follows=None)])
    assert chain.why.startswith(
        "what follows binlog.000001 is missing: the next file archived is binlog.000003,"
    )
    (chain,) = chains_from(base.record, [binlog(1, closed=False), binlog(2, epoch=1, closed=False)])
    assert chain.why == (
        "the server's log went another way behind binlog.000001:1000 (reset, rolled back, or cut off by a "
        "crash): binlog.000002 begins another one"
    )


# the file in which a backup's log ends


def test_a_file_must_have_the_servers_name_and_number_and_reach_there() -> None:
    base = changed(one_of(lived([("take",)])), log_to="binlog.000002:700").record
    good = binlog(2, 700)
    assert begins_for(base, [good]) == [good]
    assert begins_for(base, [binlog(2, 699), binlog(1), named(good, number=3), named(good, server="x")]) == []
    assert begins_for(base, [named(good, name="other.000002")]) == []
    (mine,) = row([0, 10])
    assert begins_for(taken(5).record, [mine]) == [mine]
    assert begins_for(taken(5).record, [named(mine, server="x")]) == []
    assert begins_for(taken(5).record, [ended(mine, SILENT)]) == [], "nobody knows where it ends"
    assert mine.file.server != SET


def test_two_of_a_name_are_of_two_logs_where_their_heads_differ() -> None:
    assert is_other_log(binlog(1), binlog(1, epoch=1, head="1"))
    assert not is_other_log(binlog(1), binlog(1, epoch=1))
    mine, other = row([0, 10])[0], named(row([0, 10])[0], head="1" * 32)
    assert not is_other_log(mine, other), "an oplog's files say where they begin"


@pytest.mark.parametrize(("later", "first"), [(0, 0), (1, 1)])
def test_of_two_logs_the_one_that_was_the_servers_then_is_the_backups(later: int, first: int) -> None:
    """The older was read when the backup was taken, or only before."""
    base = changed(one_of(lived([("take",)])), log_to="binlog.000001:700", taken=at(100 + later))
    epochs = [
        c.files[0].file.epoch for c in chains_from(base.record, [binlog(1), binlog(1, epoch=1, head="1")])
    ]
    assert epochs[0] == first
    same = [c.files[0].file.epoch for c in chains_from(base.record, [binlog(1), binlog(1, epoch=1)])]
    assert same == [1, 0], "of one log the newest epoch counts"


# what carries


def test_only_backups_that_are_whole_are_carried() -> None:
    world = lived([("take",), ("write", 1), ("archive",)])
    whole, files = one_of(world), world.inventory
    assert [c.backup for c in carriers([whole], files)] == [whole]
    assert carriers([lacking_one(whole)], files) == ()
    assert carriers([changed(whole, as_of=None, complete_to=None)], files) == ()
    assert carriers([changed(whole, log_from="")], files) == ()
    assert carriers([changed(whole, server={"blockers": "the binlog is off"})], files) == ()


def test_nothing_is_carried_across_the_end_of_a_log_but_anothers_changes_nothing() -> None:
    world = lived([("take",), ("write", 1), ("archive",), ("take",)])
    whole, later = world.backups
    ended_log = changed(later, server={LOG_ENDED: "the binlog is off"})
    assert carriers([whole, ended_log], world.inventory) == ()
    elsewhere = changed(ended_log, server_uuid="another", log_id="other")
    assert [c.backup for c in carriers([whole, elsewhere], world.inventory)] == [whole]
    before = changed(whole, server={"blockers": "the binlog is off"})
    assert [c.backup for c in carriers([before, later], world.inventory)] == [later]


def test_a_holder_is_complete_to_the_later_of_what_the_two_say() -> None:
    base = one_of(lived([("take",)])).record
    span = LogSpan("binlog.000001:4", "binlog.000001:9")

    def times(
        complete: datetime | None, own: datetime | None, as_of: datetime | None
    ) -> tuple[object, object]:
        found = with_archive(replace(base, complete_to=own, as_of=as_of), span, complete)
        assert found.backup == f"{base.backup}+archive" and found.server[ARCHIVED] == "1"
        return found.complete_to, found.as_of

    assert times(at(9), at(5), at(4)) == (at(9), at(9))
    assert times(at(3), at(5), at(6)) == (at(5), at(6))
    assert times(None, at(5), at(4)) == (at(5), at(5))
    assert times(at(9), None, None) == (at(9), at(9))
    assert times(None, None, None) == (None, None)


# where two ways part


def said(one: ArchivedFile, longer: ArchivedFile) -> bool:
    return True


def test_the_other_way_is_a_part_only_where_every_whole_file_is_as_large() -> None:
    counts = [binlog(n) for n in (1, 2, 3)]
    assert parting(counts, [binlog(1), binlog(2), binlog(3)], said) is None
    assert parting(counts, [binlog(1), binlog(2, 999)], said) is None, "the last may be shorter"
    found = parting(counts, [binlog(1), binlog(2, 999, epoch=1), binlog(3, epoch=1)], said)
    assert found and (found.name, found.epoch, found.other, found.common) == ("binlog.000002", 0, 1, at(100))
    found = parting(counts, [binlog(2), binlog(3, 1001, epoch=1)], said)
    assert found and (found.name, found.common) == ("binlog.000003", at(200))
    found = parting(counts, [binlog(3), binlog(4, epoch=1)], said)
    assert found and (found.name, found.epoch, found.other, found.common) == ("binlog.000004", 0, 1, at(300))


def test_what_both_have_is_complete_to_the_earlier_of_what_they_say() -> None:
    counts = [binlog(1), binlog(2), binlog(3)]
    for to, common in ((150, 150), (250, 200)):
        found = parting(counts, [binlog(2, to=to), binlog(3, 2000)], said)
        assert found and found.common == at(common)
    silent = replace(binlog(2), complete_to=None)
    found = parting(counts, [silent, binlog(3, 2000)], said)
    assert found and found.common == at(100)
    found = parting([silent, binlog(3)], [silent, binlog(3, 2000)], said)
    assert found and found.common is None
    found = parting([silent, binlog(3)], [binlog(2), binlog(3, 2000)], said)
    assert found and found.common is None


def test_what_was_read_later_bounds_what_was_said_before() -> None:
    files = [replace(binlog(1), complete_to=at(9)), *(replace(binlog(n), complete_to=None) for n in (2, 3))]
    assert chain_complete(files, lambda f: f.complete_to) == at(9)
    early = replace(files[1], last=replace(files[1].last, read=at(7)))
    for rest in ([early, files[2]], [files[2], early], [early]):
        assert chain_complete([files[0], *rest], lambda f: f.complete_to) == at(7)
    assert chain_complete([], lambda f: f.complete_to) is None


def test_a_file_of_the_same_name_that_was_begun_later_is_told_by_its_head() -> None:
    world = lived([("take",), ("archive",)])
    backup = one_of(world)
    (own,) = world.inventory.files
    other = named(own, head="f" * 32)
    known = changed(backup, server={LOG_HEAD: own.file.head})
    assert begins_for(known.record, [own, other]) == [own]
    assert begins_for(backup.record, [own, other]) == [own, other], "older records leave it to the bytes"


@pytest.mark.parametrize(("size", "silent"), [(999, False), (1000, True), (1040, True)])
def test_what_follows_a_file_without_more_than_the_backup_has_may_have_been_rolled_back(
    size: int, silent: bool
) -> None:
    backup = one_of(lived([("take",)]))
    end = changed(backup, log_to="binlog.000001:1000", server={LOG_SIZE: str(size)})
    files = (binlog(1, 1000), binlog(2, 500, closed=False))
    (carrier,) = carriers([end], ArchiveInventory(address="there", files=files))
    found = carrier.holder.record.silences
    assert [s.position for s in found] == ["binlog.000001:1000"] * silent
    if found:
        assert (found[0].after, found[0].to) == (end.record.complete_to, at(102))
    (alone,) = carriers([end], ArchiveInventory(address="there", files=files[:1]))
    assert alone.holder.record.silences == ()
    forged = changed(end, server={LOG_SIZE: "9" * 5000})
    (unknown,) = carriers([forged], ArchiveInventory(address="there", files=files))
    assert unknown.holder.record.silences == (), "whoever receives backups can change their records"
