"""A temporary clone of an unfinished clone, to apply one more transaction and look at the result.

<clones>/<name>@zbackup-second        its origin
<clones>/<name>/second                its home
<clones>/<name>/second/0..            clones of the parts

It is inside the first clone and has its mark, so both are removed together if zbackup is killed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.clones.clone_datasets import PART, SECOND, SECOND_ORIGIN, SNAPSHOT
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.errors import ZbackupError
from zbackup.model.recovery import RecoveryFiles
from zbackup.model.relocation import Relocation

LIMIT_S = 600.0


@contextmanager
def made(ctx: Context, clone: Clone, files: RecoveryFiles) -> Iterator[RecoveryFiles]:
    """Yield the files of a second clone of the first clone's current state; remove it afterwards."""
    container = f"{ctx.clones}/{clone.name}"
    home, own = f"{container}/{SECOND}", {**CLONE_PROPERTIES, PART: clone.id}
    count = len(files.record.members)
    try:
        ctx.zfs.snapshot(
            [f"{container}/{n}@{SECOND_ORIGIN}" for n in range(count)], {SNAPSHOT: clone.id}, timeout=LIMIT_S
        )
        ctx.zfs.create(home, own)
        ctx.zfs.mount(home)
        taken = {s.dataset: s for s in ctx.zfs.snapshots_below(container) if s.name == SECOND_ORIGIN}
        parts = {f"{home}/{n}": taken[f"{container}/{n}"] for n in range(count)}
        ctx.zfs.clone_each(parts, own)
        for part in parts:
            ctx.zfs.mount(part)
        yield _files(ctx, clone, files)
    finally:
        _remove(ctx, clone)


def _files(ctx: Context, clone: Clone, files: RecoveryFiles) -> RecoveryFiles:
    home = files.home / SECOND
    moves = tuple((original, str(home / str(n))) for n, (original, _) in enumerate(files.where.moves))
    second = replace(
        files, where=Relocation(moves), home=home, run=clone_datasets.second_run(ctx, clone.name)
    )
    # Its server need not see the first one's files, nor those of a log.
    return replace(second, hide=(*files.hide, *(now for _, now in files.where.moves)), beside=())


def _remove(ctx: Context, clone: Clone) -> None:
    """Remove it, or note that it will go with the clone."""
    try:
        clone_datasets.destroy_second(ctx, clone)
    except ZbackupError as failure:
        ctx.progress.note(
            f"{ctx.clones}/{clone.name}/{SECOND} cannot be removed now, and goes with the clone: {failure}"
        )
