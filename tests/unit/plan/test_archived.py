"""Archived log that continues a backup, up to where, and which of it no backup needs any more."""

from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.plan.archive_world import EACH, SERVER, World
from tests.unit.samples import at
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId
from zbackup.model.backup import Backup
from zbackup.plan.recovery.archived import Chain, carriers, chains_from, parting
from zbackup.plan.recovery.recovery import farthest_log, plan_recovery
from zbackup.plan.recovery.window import recovery_window
from zbackup.plan.retention.archived_log import superseded
from zbackup.plan.retention.received_backups import first_to_reach

NONE = timedelta()

happening = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 5)),
        st.tuples(st.just("rotate")),
        st.tuples(st.just("archive")),
        st.tuples(st.just("archive")),
        st.tuples(st.just("take")),
        st.tuples(st.just("crash"), st.integers(0, 4)),
        st.tuples(st.just("reset")),
        st.tuples(st.just("purge"), st.integers(1, 3)),
    ),
    max_size=40,
)


def lived(story: list[tuple[object, ...]]) -> World:
    world = World()
    for what, *how in story:
        getattr(world, str(what))(*how)
    return world


def proven(world: World, taken: Backup, chain: Chain) -> bool:
    """What a look at the bytes comes to."""
    first = chain.files[0]
    stored = world.stored[first.file.key]
    born, held = world.inside[taken.record.backup][first.file.number]
    return (stored.born, stored.held[: len(held)]) == (born, held)


def was_once(world: World, taken: Backup, chain: Chain) -> bool:
    """Tell whether the server's log ever was what the backup holds and the chain behind it."""
    own = {n: file for n, file in world.inside[taken.record.backup].items() if n < chain.files[0].file.number}
    added = {f.file.number: world.stored[f.file.key] for f in chain.files}
    last = chain.files[-1].file.number
    for state in world.states:
        same = all(state.get(n, own[n]) == own[n] for n in own)
        inside = all(
            n in state
            and state[n][0] == s.born
            and (state[n][1] == s.held if n < last else state[n][1][: len(s.held)] == s.held)
            for n, s in added.items()
            if n in state or n >= min(state)
        )
        if same and inside:
            return True
    return False


@settings(max_examples=examples(300))
@given(happening)
def test_a_chain_that_begins_as_the_backup_does_is_what_the_server_wrote(
    story: list[tuple[object, ...]],
) -> None:
    world = lived(story)
    for taken in world.backups:
        for chain in chains_from(taken.record, world.inventory.files):
            if proven(world, taken, chain):
                assert was_once(world, taken, chain), (taken.record.log_to, chain)


@settings(max_examples=examples(300))
@given(happening)
def test_all_that_was_archived_without_a_break_continues_the_newest_backup(
    story: list[tuple[object, ...]],
) -> None:
    world = lived([*story, ("archive",), ("take",), ("write", 2), ("rotate",), ("archive",), ("write", 1)])
    world.archive()
    taken = world.backups[-1]
    chain = chains_from(taken.record, world.inventory.files)[0]
    assert proven(world, taken, chain)
    assert chain.end == f"binlog.{world.number:06}:{world.files[world.number].size}"
    assert chain.why == "" and chain.complete_to == at(world.time - 10)


@settings(max_examples=examples(300))
@given(happening, st.sets(st.integers(0, 20)), happening)
def test_nothing_goes_that_a_backup_needs_which_stays_or_is_yet_to_come(
    story: list[tuple[object, ...]], pruned: set[int], further: list[tuple[object, ...]]
) -> None:
    world = lived(story)
    kept = [b for n, b in enumerate(world.backups) if n not in pruned]
    files = world.inventory.files
    going = superseded(files, kept, at(world.time), NONE)
    rest = tuple(f for f in files if f not in going)
    for each in kept:
        before, after = (chains_from(each.record, some) for some in (files, rest))
        assert [c.files for c in after] == [c.files for c in before]
    known = {b.record.backup for b in world.backups}
    for what, *how in [*further, ("take",)]:
        getattr(world, str(what))(*how)
    gone = {f.file for f in going}
    for later in (b for b in world.backups if b.record.backup not in known):
        for chain in chains_from(later.record, world.inventory.files):
            assert not gone & {f.file for f in chain.files if proven(world, later, chain)}


def test_what_only_an_older_backup_needed_goes_with_it() -> None:
    world = lived([("archive",), ("take",), ("write", 1), ("rotate",), ("write", 1), ("archive",), ("take",)])
    first, second = world.backups
    files, now = world.inventory.files, at(world.time)
    assert superseded(files, [first, second], now, NONE) == ()
    (gone,) = superseded(files, [second], now, NONE)
    assert gone.file.number == 1
    assert superseded(files, [second], now, timedelta(days=1)) == (), "what replaces it arrived just now"
    assert superseded(files, [], now, NONE) == ()


def test_an_older_backup_is_carried_by_the_newest_that_continues_it() -> None:
    world = lived([("take",), ("write", 1), ("archive",), ("take",), ("write", 3), ("archive",)])
    older, newer = world.backups
    (carrier,) = carriers(world.backups, world.inventory)
    assert carrier.backup is newer
    backups = [*world.backups, carrier.holder]
    assert farthest_log(older, backups) is backups[-1] or farthest_log(older, backups) == carrier.holder
    window = recovery_window(backups, None, at(world.time)).overall
    assert window is not None and window.end == at(world.time - 10)
    assert carrier.holder.record.log_to == f"binlog.000001:{world.files[1].size}"


def test_both_sides_of_what_the_server_purged_are_carried() -> None:
    """What no backup holds between two, the archive has."""
    world = lived([("write", 1), ("take",), ("rotate",), ("archive",), ("rotate",), ("archive",)])
    world.purge(1)
    world.take()
    world.archive()
    assert [c.backup for c in carriers(world.backups, world.inventory)] == world.backups[::-1]
    assert recovery_window(world.backups, None, at(world.time)).gaps
    holders = [c.holder for c in carriers(world.backups, world.inventory)]
    assert not recovery_window([*world.backups, *holders], None, at(world.time)).gaps


def test_a_hole_is_said_and_nothing_counts_behind_it() -> None:
    world = lived([("archive",), ("take",), ("write", 1), ("rotate",), ("archive",)])
    world.rotate()
    world.rotate()
    world.purge(1)
    world.archive()
    (chain,) = chains_from(world.backups[0].record, world.inventory.files)
    assert chain.files[-1].file.number == 2
    assert chain.why == "nothing was archived from binlog.000002:100 to binlog.000004"


def test_behind_a_reset_the_old_log_ends() -> None:
    world = lived([("archive",), ("take",), ("write", 2), ("archive",), ("reset",), ("write", 9)])
    world.archive()
    world.rotate()
    world.archive()
    (carrier,) = carriers(world.backups, world.inventory)
    older, newest = carrier.chains
    assert (newest.files[0].file.epoch, older.files[0].file.epoch) == (1, 0)
    assert not proven(world, world.backups[0], newest) and proven(world, world.backups[0], older)
    assert carrier.holder.record.complete_to == older.complete_to, (
        "the log after the reset is none of its own"
    )
    assert older.end == f"binlog.000001:{100 + 2 * EACH}"
    assert "reset, rolled back, or cut off by a crash): binlog.000001 begins another one" in older.why


@settings(max_examples=examples(300))
@given(happening)
def test_of_a_log_that_was_archived_after_the_backup_the_first_chain_is_the_backup_s_own(
    story: list[tuple[object, ...]],
) -> None:
    world = World()
    for what, *how in story:
        getattr(world, what)(*how)  # type: ignore[call-overload]
        if what == "take":
            world.archive()
    for each in carriers(world.backups, world.inventory):
        assert proven(world, each.backup, each.chains[0]), each


def test_a_moment_after_a_reset_is_reached_from_the_first_backup_behind_it() -> None:
    steps = [("write", 1), ("take",), ("archive",), ("write", 2), ("archive",), ("reset",), ("write", 1)]
    world = lived([*steps, ("take",), ("write", 7), ("archive",)])
    before, behind = world.backups
    backups = [*world.backups, *(c.holder for c in carriers(world.backups, world.inventory))]
    ends = {c.backup: c.holder.record.complete_to for c in carriers(world.backups, world.inventory)}

    def base_for(moment: datetime) -> Backup | None:
        plan = first_to_reach(
            [backups],
            lambda b: b.reaches(moment),
            lambda some: plan_recovery(moment, at(world.time), some, ZoneInfo("UTC")),
        )
        return plan.base if plan else None

    old, new = ends[before], ends[behind]
    assert old and base_for(old) is before
    assert new and base_for(new) is behind
    assert base_for(old + timedelta(seconds=1)) is None, "the reset took what was between"


def test_nothing_is_carried_across_what_was_not_whole() -> None:
    world = lived([("archive",), ("take",), ("write", 1), ("archive",)])
    (whole,) = world.backups
    broken = world.take()
    broken = Backup(
        record=replace(broken.record, server={**broken.record.server, "blockers": "the binlog is off"}),
        snapshots=broken.snapshots,
    )
    assert carriers([whole], world.inventory)
    assert carriers([whole, broken], world.inventory) == ()


def test_a_chain_is_complete_to_what_its_last_file_says_that_says_anything() -> None:
    steps = [("write", 1), ("archive",), ("rotate",), ("archive",), ("rotate",), ("archive",)]
    world = lived([("take",), *steps])
    one, other, last = world.inventory.files

    def complete(*times: int | None) -> int | None:
        said = (None if t is None else at(t) for t in times)
        files = (replace(f, complete_to=to) for f, to in zip((one, other, last), said, strict=True))
        (chain,) = chains_from(world.backups[0].record, tuple(files))
        return None if chain.complete_to is None else int((chain.complete_to - at(0)).total_seconds())

    assert complete(86_400, 30, 20) == 20, "a clock had leapt"
    assert complete(30, 20, None) == 20
    read = int((last.last.read - at(0)).total_seconds())
    assert complete(86_400, None, None) <= read
    assert complete(None, None, None) is None


def test_another_servers_files_and_shorter_ones_continue_nothing() -> None:
    world = lived([("archive",), ("write", 1), ("take",)])
    (taken,) = world.backups
    assert chains_from(taken.record, world.inventory.files) == (), "it ends before the backup does"
    world.archive()
    files = world.inventory.files
    assert chains_from(taken.record, files)
    other = tuple(_of_another_server(f) for f in files)
    assert chains_from(taken.record, other) == ()
    assert carriers([taken], ArchiveInventory(address="x", files=other)) == ()


def _of_another_server(archived: ArchivedFile) -> ArchivedFile:
    return replace(archived, file=replace(archived.file, server="another"))


def _file(epoch: int, number: int, size: int, *, closed: bool = True) -> ArchivedFile:
    file = LogFileId(
        server=SERVER, epoch=epoch, number=number, follows=None, head="0" * 32, name=f"binlog.{number:06}"
    )
    when = at(100.0 * number)
    last = Chunk(
        begin=0, end=size, sha256="0" * 64, tail="0" * 32, read=when, complete_to=when, closed=closed
    )
    return ArchivedFile(file=file, last=last, complete_to=when)


def test_two_ways_part_where_the_other_holds_what_the_one_that_counts_does_not() -> None:
    true = [_file(0, n, 1000, closed=n < 5) for n in range(1, 6)]
    short = [_file(7, 1, 150, closed=False)]
    found = parting(short, true, lambda *_: True)
    assert found and (found.name, found.epoch, found.other, found.common) == ("binlog.000001", 7, 0, None)
    assert parting(true, short, lambda *_: True) is None, "it is but a part"
    assert parting([_file(1, n, 1000) for n in range(1, 7)], true, lambda *_: True) is None
    other = [*(_file(1, n, 1000) for n in (1, 2)), _file(1, 3, 700), _file(1, 4, 10)]
    found = parting(other, true, lambda *_: True)
    assert found and (found.name, found.common) == ("binlog.000003", at(200))
    found = parting(true, [_file(1, 2, 500)], lambda *_: False)
    assert found and (found.name, found.common) == ("binlog.000002", at(100))


def test_a_chain_is_cut_where_it_is_damaged() -> None:
    chain = Chain(files=tuple(_file(0, n, 1000) for n in range(1, 4)), complete_to=at(300))
    cut = chain.cut(1, 400)
    assert cut and cut.end == "binlog.000002:400" and cut.complete_to == at(100)
    cut = chain.cut(1, 0)
    assert cut and cut.end == "binlog.000001:1000" and cut.complete_to == at(100)
    assert chain.cut(0, 0) is None
