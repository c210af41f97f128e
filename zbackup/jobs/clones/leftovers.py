"""Clones of an instance that nobody finished or works on, and servers without a clone. Looks only."""

from collections.abc import Sequence
from contextlib import suppress

from zbackup.catalog.local import read_clones
from zbackup.jobs.clones.claim import names_taken
from zbackup.jobs.clones.clone_datasets import server_process
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.recovery import PROCESS
from zbackup.plan.clones.clone_name import recovery_of
from zbackup.plan.health.leftovers import Leftover, LostServer, is_unfinished
from zbackup.proc import secure_files
from zbackup.proc.detached import Process
from zbackup.proc.lock import holder


def leftovers(ctx: Context) -> tuple[Leftover, ...]:
    """Those below every dataset that the instance's clones may be below, but for what cannot be read."""
    found = []
    for at in ctx.everywhere():
        suspects = [
            c for c in _unfinished(at) if not holder(ctx.shared / f"clone-{recovery_of(c.name)}.lock")
        ]
        # Its maker may have finished it, and released the lock, since it was looked at.
        still = {c.id for c in _unfinished(at)} if suspects else set()
        found += [
            Leftover(clone=c, running=server_process(at, c.name) is not None)
            for c in suspects
            if c.id in still
        ]
    return tuple(found)


def lost_servers(ctx: Context) -> tuple[LostServer, ...]:
    """Servers that were started on clones of any instance of which nothing is there by that name any more.

    As far as their notes can be read: root's can by root alone.
    """
    found = _noted(ctx)
    taken = names_taken(ctx) if found else set()
    return tuple(
        LostServer(clone=name, pid=process.pid)
        for name, process in sorted(found.items())
        if name not in taken
        and not holder(ctx.shared / f"clone-{recovery_of(name)}.lock")
        # Whoever destroys a clone ends its server first.
        and process.alive
    )


def _noted(ctx: Context) -> dict[str, Process]:
    """The living processes that are noted in the run directory, by the names of their clones."""
    found = {}
    with suppress(OSError):
        for note in secure_files.names(ctx.run_dir):
            name, dot, kind = note.rpartition(".")
            if dot and f"{dot}{kind}" == PROCESS and (process := server_process(ctx, name)):
                found[name] = process
    return found


def _unfinished(ctx: Context) -> Sequence[Clone]:
    known = read_clones(ctx.zfs, ctx.clones)
    there = [clone for clone, _ in known.found if clone.instance == ctx.instance]
    names = {clone.name for clone in there} | known.unreadable_names
    return [c for c in there if is_unfinished(c) and not (c.kind == "copy" and recovery_of(c.name) in names)]
