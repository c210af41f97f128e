"""Tell what keeps a backup from being destroyed: holds, clones made from it, and whoever reads it now."""

from collections.abc import Mapping, Sequence

from zbackup.catalog.local import read_clones
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.errors import DatasetBusy, ZbackupError
from zbackup.model.snapshot import Snapshot
from zbackup.plan.clones.clone_name import recovery_of
from zbackup.plan.health.unfinished_clones import is_unfinished
from zbackup.proc.lock import lock_owner
from zbackup.proc.open_files import processes_in, told


def pins(ctx: Context, backups: Sequence[Backup]) -> dict[str, list[str]]:
    """Map Record.backup to what keeps the backup beside the policy: holds, and clones made from it."""
    holds = ctx.zfs.holds([s for b in backups for s in b.snapshots])
    found: dict[str, list[str]] = {}
    for backup in backups:
        tags = dict.fromkeys(tag for s in backup.snapshots for tag in holds.get(s.guid, ()))
        clones = dict.fromkeys(clone for s in backup.snapshots for clone in s.clones)
        why = [f"held by {tag}" for tag in tags]
        why += [f"origin of clone {name}" for name in dict.fromkeys(_clone_name(ctx, c) for c in clones)]
        if why:
            found[backup.record.backup] = why
    return found


def _clone_name(ctx: Context, dataset: str) -> str:
    """A clone of zbackup's by its name, which its datasets lie below; any other by its dataset."""
    below = dataset.removeprefix(f"{ctx.clones}/")
    return below.partition("/")[0] if below != dataset else dataset


def in_use(ctx: Context, backup: Backup, snapshot: Snapshot, busy: DatasetBusy) -> str:
    """Who uses a snapshot that ZFS would not destroy just now, in one line; changes nothing.

    A restore leaves no trace in ZFS while it reads its log in the snapshot: it has it mounted, and open.
    """
    try:
        catalog = ctx.catalog()
        by_now = pins(ctx, [b for b in catalog.backups if b.record.backup == backup.record.backup])
        mounted = {d.name: d.mountpoint for d in catalog.all_datasets}.get(snapshot.dataset)
        readers = processes_in(f"{mounted}/.zfs/snapshot/{snapshot.name}") if mounted else []
        said = _who(by_now.get(backup.record.backup, []), readers, _makers(ctx))
    except (ZbackupError, OSError):
        said = ""  # what keeps it is not worth another failure
    return f"{snapshot} {said}: left for the next prune" if said else str(busy)


def _makers(ctx: Context) -> dict[str, str]:
    """Map the clones of the instance that are being worked on to whoever does."""
    found = {}
    for at in ctx.everywhere():
        for clone, _ in read_clones(at.zfs, at.clones).found:
            name = recovery_of(clone.name)
            who = lock_owner(ctx.shared / f"clone-{name}.lock")
            if who and clone.instance == ctx.instance and is_unfinished(clone):
                found[name] = who
    return found


def _who(by_now: Sequence[str], readers: list[tuple[int, str]], makers: Mapping[str, str]) -> str:
    """Who needs the snapshot. Without the right to see root's processes, and so no readers, name the
    work that is under way."""
    if by_now:
        return f"is needed by now, {'; '.join(by_now)}"
    pids = [f"(pid {pid})" for pid, _ in readers]
    at_work = {name: who for name, who in makers.items() if not pids or who.endswith(tuple(pids))}
    working = " and ".join(f"{who}, which works on the clone {name}" for name, who in at_work.items())
    if readers:
        return f"is being read by {working or told(readers)}"
    return f"is in use, maybe by {working}" if working else ""
