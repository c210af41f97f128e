"""Clones of an instance that nobody works on, and that nobody finished or started again. Looks only."""

from collections.abc import Sequence

from zbackup.catalog.local import read_clones
from zbackup.jobs.clones.clone_datasets import server_process
from zbackup.jobs.clones.lifecycle import lock_file
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.plan.clones.clone_name import recovery_of
from zbackup.plan.health.unfinished_clones import Leftover, is_unfinished, runs_with_host
from zbackup.proc.lock import lock_owner


def leftovers(ctx: Context) -> tuple[Leftover, ...]:
    """The leftovers wherever the instance's clones may be, but for what cannot be read."""
    found = []
    for at in ctx.everywhere():
        suspects = [c for c in _unfinished(at) if not lock_owner(lock_file(ctx, recovery_of(c.name)))]
        # Its maker may have finished it, and released the lock, since it was looked at.
        still = {c.id for c in _unfinished(at)} if suspects else set()
        found += [
            Leftover(clone=c, running=server_process(at, c.name) is not None)
            for c in suspects
            if c.id in still
        ]
    return tuple(found)


def down(ctx: Context) -> tuple[str, ...]:
    """The dev clones that are to run with the host and do not, unless somebody stopped them."""
    suspects = [name for name in _not_running(ctx) if not lock_owner(lock_file(ctx, name))]
    # As above: who worked on it may be done since.
    still = set(_not_running(ctx)) if suspects else set()
    return tuple(name for name in suspects if name in still)


def _not_running(ctx: Context) -> Sequence[str]:
    there = (clone for clone, _ in read_clones(ctx.zfs, ctx.clones).found if clone.instance == ctx.instance)
    return [c.name for c in there if runs_with_host(c) and not server_process(ctx, c.name)]


def _unfinished(ctx: Context) -> Sequence[Clone]:
    known = read_clones(ctx.zfs, ctx.clones)
    there = [clone for clone, _ in known.found if clone.instance == ctx.instance]
    names = {clone.name for clone in there} | known.unreadable_names
    return [c for c in there if is_unfinished(c) and not (c.kind == "copy" and recovery_of(c.name) in names)]
