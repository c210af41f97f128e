"""Give a dev clone its data again, under the same name, port and password."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import require_nobody_listens
from zbackup.jobs.clones.clone_datasets import ORIGIN
from zbackup.jobs.clones.lifecycle import CloneStatus, find, find_again, status_of, working_on
from zbackup.jobs.clones.provision import hand_over
from zbackup.jobs.clones.replace_datasets import clone_fresh, exchange, has_beginning, reset_datasets
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.snapshot import source
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, Refused
from zbackup.model.event_log import log
from zbackup.plan.clones.choose_backup import choose_backup

PARENT_WAIT_S = 60.0


def reset(contexts: Sequence[Context], name: str, *, latest: bool) -> CloneStatus:
    """Back to what it was made of, or with `latest` to the newest there is of that kind.

    A reset that was cut short is finished by the next. Raise NotFound, or Refused before anything is changed.
    """
    ctx, _, _ = find(contexts, name)
    with ExitStack() as locks:
        locks.enter_context(working_on(ctx, name, "zbackup clone reset"))
        clone, dataset = find_again(ctx, name)
        if clone.parent:
            locks.enter_context(working_on(ctx, clone.parent, "zbackup clone reset", wait=PARENT_WAIT_S))
        parts = len(clone_datasets.record_of(ctx, clone).members)
        _require_possible(ctx, clone, latest=latest, parts=parts)
        clone_datasets.require_unused(ctx, clone, [d.name for d in ctx.zfs.filesystems(dataset.name)[1:]])
        if clone_datasets.server_process(ctx, name) is None:
            require_nobody_listens(clone.port)
        if clone.replayed and not latest:
            clone = _reset_to_beginning(ctx, clone, parts)
        else:
            clone = _replace(ctx, clone, latest=latest, parts=parts)
    log.info("clone.reset", clone=name, backup=clone.backup)
    return status_of(ctx, clone, dataset.name)


def _reset_to_beginning(ctx: Context, clone: Clone, parts: int) -> Clone:
    """Make it again as it was when it was handed over: recovered, masked, with its own accounts."""
    ctx.recovery.check_program(clone_datasets.record_of(ctx, clone))
    ctx.progress.phase("stopping the server")
    clone_datasets.kill_server(ctx, clone.name)
    ctx.progress.phase("cloning", ORIGIN)
    clone = reset_datasets(ctx, replace(clone, stopped=False), parts)
    files = clone_datasets.open_again(ctx, clone)
    files = clone_datasets.in_sight_of(ctx, files, ctx.members(), [clone])
    return hand_over(ctx, clone, files, recovered=True)


def _replace(ctx: Context, clone: Clone, *, latest: bool, parts: int) -> Clone:
    """Replace its datasets with clones of a backup, or of the parent's snapshot."""
    backup = _source(ctx, clone, latest=latest)
    ctx.recovery.check_program(backup.record)
    ctx.progress.phase("stopping the server")
    clone_datasets.kill_server(ctx, clone.name)
    if clone.state == "resetting" and clone.replayed:
        reset_datasets(ctx, clone, parts)
    ctx.progress.phase("cloning", backup.name)
    clone = replace(
        clone,
        backup=backup.name,
        target=backup.record.as_of.isoformat() if backup.record.as_of else "",
        reached=backup.record.gtid or backup.record.position,
        masked=clone.masked and bool(clone.parent),
        replayed=False,
        stopped=False,
    )
    clone = exchange(ctx, clone, "resetting", lambda: clone_fresh(ctx, clone, backup))
    files = clone_datasets.with_record(ctx, clone, backup.record)
    files = clone_datasets.in_sight_of(ctx, files, ctx.members(), [clone])
    return hand_over(ctx, clone, files, recovered=bool(clone.parent))


def _require_possible(ctx: Context, clone: Clone, *, latest: bool, parts: int) -> None:
    if clone.kind != "dev" or clone.state in ("building", "promoting", "destroying"):
        raise Refused(
            f"{clone.name} cannot be reset: it is no finished dev clone ("
            f"{command_line('zbackup', 'clone', 'show', clone.name)})"
        )
    if clone.replayed and not latest and not has_beginning(ctx, clone, parts):
        raise Refused(
            f"{clone.name} was made of a moment by a replay, and what it was then is not kept: destroy it "
            f"and create it again with --at, or reset it to the newest backup (--to latest)"
        )
    if own := [s for s in ctx.zfs.snapshots_below(f"{ctx.clones}/{clone.name}") if s.name != ORIGIN]:
        raise Refused(f"{clone.name} has snapshots that a reset would lose, such as {own[0]}")


def _source(ctx: Context, clone: Clone, *, latest: bool) -> Backup:
    """Found by name, and known to ZFS as what a part was cloned from: names may be reused."""
    if clone.parent:
        return source(ctx, clone.parent, "" if latest else clone.backup)[1]
    backups = ctx.catalog().backups
    if latest:
        found = choose_backup(backups, "")
    else:
        origins = set(ctx.zfs.origins(f"{ctx.clones}/{clone.name}").values())
        known = [b for b in backups if b.complete and b.name == clone.backup]
        found = next((b for b in known if any(str(s) in origins for s in b.snapshots)), None)
    if found is None:
        raise NotFound(f"the backup that {clone.name} was made of is not whole any more: --to latest")
    return found
