"""Keep a prune at a destination from destroying what a restore is about to fetch or to clone there."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from zbackup.catalog.local import read_clones
from zbackup.destinations.base import Holdable, Session
from zbackup.destinations.copies import Copies
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.errors import (
    CommandFailed,
    ConnectionFailed,
    DatasetNotFound,
    NotFound,
    PoolSuspended,
    Taken,
    UsageError,
    ZbackupError,
)
from zbackup.model.event_log import log
from zbackup.model.shipping import restore_of, restore_tag
from zbackup.model.snapshot import Snapshot
from zbackup.plan.clones.clone_name import copy_name, require_good


@contextmanager
def remote_holds(
    ctx: Context,
    destination: ShipDestination,
    session: Session,
    name: str,
    there: Copies,
    backups: Sequence[Backup],
) -> Iterator[None]:
    """Hold them there for the restore `name` while the body runs, where there are holds and we may.

    Killed meanwhile, the holds stay, and the same restore takes them over; what else it held, and what other
    restores of this host have left among all that is `there`, is released before. Raise NotFound when one of
    them was destroyed since it was chosen.
    """
    if not isinstance(session, Holdable):
        yield
        return
    tag, held = restore_tag(destination.tag, _pool(ctx), name), list[Snapshot]()
    wanted = dict.fromkeys(s for b in backups for s in b.snapshots)
    try:
        release_forgotten(ctx, destination, session, there, name, tuple(wanted))
        _hold(ctx, destination, session, tag, wanted, held)
        yield
    finally:
        _release_all(ctx, destination, session, tag, held)


def holds_at_destination(session: Session, copies: Copies) -> Mapping[int, tuple[str, ...]]:
    """Guid -> tags of the holds, as far as that can be asked. Raise ConnectionFailed."""
    held = [s for b in (*copies.remains, *copies.backups) for s in b.snapshots if s.holds]
    if not held or not isinstance(session, Holdable):
        return {}
    try:
        return session.holds(held)
    except ConnectionFailed:
        raise
    except CommandFailed:  # a gate knows of no holds; or one of the copies has just gone
        return {}


def release_forgotten(
    ctx: Context,
    destination: ShipDestination,
    session: Session,
    there: Copies,
    own: str = "",
    wanted: Sequence[Snapshot] = (),
) -> bool:
    """Release what restores of this host hold there and will never use: their makers are dead, and nothing
    is here to continue. Of the restore `own`, which the caller is, it is all but the `wanted`.

    Returns whether anything was. What cannot be released is told, and nothing raised but ConnectionFailed.
    """
    if not isinstance(session, Holdable):
        return False
    copies = {s.guid: s for b in (*there.remains, *there.backups) for s in b.snapshots}
    needed = {s.guid for s in wanted}
    held = holds_at_destination(session, there)
    pools = _pools(ctx) if held else ()
    found = False
    for guid, tags in held.items():
        copy = copies[guid]
        for tag in tags:
            name = restore_of(destination.tag, pools, tag)
            if not name or (name == own and guid in needed):
                continue
            with suppress(Taken, UsageError), _maker_dead(ctx, name, own):
                found |= not _goes_on(ctx, name, own) and _release_one(ctx, destination, session, tag, copy)
    return found


def _pool(ctx: Context) -> int:
    """Read the pool's guid, which tells restores on it from those of another host with the same name."""
    (guid,) = ctx.zfs.values(ctx.clones.partition("/")[0], "guid")
    return int(guid)


def _pools(ctx: Context) -> tuple[int, ...]:
    """The guids of the pools that are here, and answer."""
    found = []
    for each in ctx.everywhere():
        with suppress(DatasetNotFound, PoolSuspended):
            found.append(_pool(each))
    return tuple(found)


@contextmanager
def _maker_dead(ctx: Context, name: str, own: str) -> Iterator[None]:
    """Nobody works on the restore meanwhile, but the caller. Raise Taken, or UsageError for no name."""
    if name == own:
        yield
        return
    require_good(name)  # it was read over there, and becomes the name of a file
    with working_on(ctx, name, "zbackup (releasing holds)", wait=0):
        yield


def _release_one(
    ctx: Context, destination: ShipDestination, session: Holdable, tag: str, copy: Snapshot
) -> bool:
    try:
        session.release(tag, copy)
    except ConnectionFailed:
        raise
    except CommandFailed as failure:
        _note_kept(ctx, destination, tag, failure)
        return False
    log.info("hold.forgotten", snapshot=str(copy), tag=tag, destination=destination.name)
    return True


def _goes_on(ctx: Context, name: str, own: str) -> bool:
    """Whether something of it is here that has not all arrived: the same command would continue
    that."""
    if name == own:
        return False
    found = (read_clones(each.zfs, each.clones) for each in ctx.everywhere())
    return any(
        there.problem(copy_name(name))  # nobody knows whether it needs them
        or any(c.name == copy_name(name) and c.state == "building" for c, _ in there.found)
        for there in found
    )


def _hold(
    ctx: Context,
    destination: ShipDestination,
    session: Holdable,
    tag: str,
    copies: dict[Snapshot, None],
    held: list[Snapshot],
) -> None:
    """`held` are those that were."""
    address = destination.adapter.address
    for copy in copies:
        try:
            session.hold(tag, copy)
        except ConnectionFailed:
            raise
        except DatasetNotFound as gone:
            raise NotFound(
                f"{copy} was destroyed at {address} meanwhile: run the same command again"
            ) from gone
        except CommandFailed as refused:
            # A command that failed, by its time limit for one, may have held it all the same.
            with suppress(CommandFailed):
                session.release(tag, copy)
            ctx.progress.note(
                f"it cannot be held at {address} ({refused}): a prune there before this is over may destroy "
                "it"
            )
            return
        held.append(copy)


def _release_all(
    ctx: Context, destination: ShipDestination, session: Holdable, tag: str, held: Sequence[Snapshot]
) -> None:
    """Never hides the body's own failure. One that cannot be released keeps no other held."""
    failed: CommandFailed | None = None
    for copy in held:
        try:
            session.release(tag, copy)
        except ConnectionFailed as cut:
            failed = cut
            break
        except CommandFailed as failure:
            failed = failure
    if failed:
        _note_kept(ctx, destination, tag, failed)


def _note_kept(ctx: Context, destination: ShipDestination, tag: str, failure: ZbackupError) -> None:
    ctx.progress.note(
        f"what was held at {destination.adapter.address} still is ({failure}); the next restore from there "
        f"or "
        f"{command_line('zbackup', 'prune', '--at', destination.name)} of this host releases it, and so does "
        f"{command_line('zfs', 'release', tag, 'SNAPSHOT')} over there"
    )
