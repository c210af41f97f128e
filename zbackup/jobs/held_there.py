"""Keep a prune at a destination from destroying what a restore is about to fetch or to clone there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zbackup.destinations.base import Holdable, Session
from zbackup.jobs.context import Context, ShipTarget
from zbackup.model.backup import Backup
from zbackup.model.errors import CommandFailed, ConnectionFailed, DatasetNotFound, NotFound
from zbackup.model.shipping import restore_tag
from zbackup.model.snapshot import Snapshot


@contextmanager
def held_there(
    ctx: Context, target: ShipTarget, session: Session, name: str, backups: Sequence[Backup]
) -> Iterator[None]:
    """Hold them there for the restore `name` while the body runs, where there are holds and we may.

    Killed meanwhile, the holds stay, and the same restore takes them over. Raise NotFound when one of them
    was destroyed since it was chosen.
    """
    if not isinstance(session, Holdable):
        yield
        return
    tag, held = restore_tag(target.tag, name), list[Snapshot]()
    try:
        _hold(ctx, target, session, tag, dict.fromkeys(s for b in backups for s in b.snapshots), held)
        yield
    finally:
        _release(ctx, target, session, tag, held)


def _hold(
    ctx: Context,
    target: ShipTarget,
    session: Holdable,
    tag: str,
    copies: dict[Snapshot, None],
    held: list[Snapshot],
) -> None:
    """`held` are those that were."""
    try:
        for copy in copies:
            session.hold(tag, copy)
            held.append(copy)
    except ConnectionFailed:
        raise
    except DatasetNotFound as gone:
        raise NotFound(
            f"{copy} was destroyed at {target.destination.place} meanwhile: the same command chooses again"
        ) from gone
    except CommandFailed as refused:
        ctx.progress.note(
            f"it cannot be held at {target.destination.place} ({refused}): a prune there before this is over "
            "may destroy it"
        )


def _release(ctx: Context, target: ShipTarget, session: Holdable, tag: str, held: Sequence[Snapshot]) -> None:
    """Never hides the body's own failure."""
    try:
        for copy in held:
            session.release(tag, copy)
    except CommandFailed as failure:
        ctx.progress.note(
            f"what was held at {target.destination.place} still is ({failure}); the same command lets it go "
            f"when it is over, and so does zfs release '{tag}' SNAPSHOT over there"
        )
