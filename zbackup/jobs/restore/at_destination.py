"""Recover from a destination's copies right where they lie, on this host: cloned, and nothing is copied.

<clones>/<name>.copy       its description, below the dataset for clones on the copies' own pool
<clones>/<name>.copy/0..   clones of the copies, each with one snapshot to be recovered or read from
"""

from zbackup.catalog.local import Catalog
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.clones.fetched_datasets import fetched_guids
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.restore.fetch import announced, mounted, of_parts
from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused, Taken, ZbackupError
from zbackup.model.snapshot import Snapshot
from zbackup.plan.clones.clone_name import copy_name
from zbackup.proc.pipeline import Command
from zbackup.zfs.stream_content import opens
from zbackup.zfs.streams import content_argv, failure_of, wrong_key_text

SNAPSHOT_LIMIT_S = 60.0


def at_destination(ctx: Context, destination: ShipDestination) -> Context:
    """The same instance with its clones on the destination's pool. Raise Refused when that is not here."""
    here = destination.adapter.here
    if not here:
        raise Refused(
            f"{destination.name} is {destination.adapter.address}, which is not on this host: give the "
            "command on that host, where its configuration has the same dataset as zfs:pool/path"
        )
    pool = here.partition("/")[0]
    return ctx.at(next(clones for clones in (ctx.clones, *ctx.elsewhere) if clones.partition("/")[0] == pool))


def clone_at_destination(ctx: Context, name: str, base: Backup, source: Backup) -> Catalog:
    """Both backups, of clones of their copies, for the recovery `name`; cloned again if there are any.

    Raise Refused when an encrypted one cannot be opened, Taken when what was fetched has that name.
    """
    backups = (base,) if source is base else (base, source)
    _require_keys(ctx, backups)
    if found := clone_datasets.find_clone(ctx, copy_name(name)):
        if fetched_guids(ctx, found[1].name):
            raise Taken(
                f"{found[1].name} holds what was fetched for another restore: choose another --name, or "
                f"{command_line('zbackup', 'clone', 'destroy', copy_name(name))}"
            )
        clone_datasets.destroy(ctx, *found)
    clone = announced(ctx, name, base, {})
    container = f"{ctx.clones}/{clone.name}"
    copies = [(backup, copy) for backup in backups for copy in backup.snapshots]
    targets = {f"{container}/{number}": copy for number, (_, copy) in enumerate(copies)}
    ctx.zfs.clone_each(targets, {**CLONE_PROPERTIES, "readonly": "on", clone_datasets.PART: clone.id})
    parts = mounted(ctx, container, len(copies))
    for backup in backups:
        names = [f"{container}/{n}@{b.name}" for n, (b, _) in enumerate(copies) if b is backup]
        ctx.zfs.snapshot(names, {clone_datasets.SNAPSHOT: clone.id}, timeout=SNAPSHOT_LIMIT_S)
    made = {s.dataset: s for part in parts for s in ctx.zfs.snapshots(part.name)}
    clone_datasets.mark_ready(ctx, clone)
    return of_parts(
        ctx,
        parts,
        (
            Backup(
                record=backup.record,
                snapshots=tuple(made[f"{container}/{n}"] for n, (b, _) in enumerate(copies) if b is backup),
            )
            for backup in backups
        ),
    )


def clean_up(ctx: Context, name: str) -> None:
    """Remove what was cloned for a recovery that failed, unless something of it was kept for a look."""
    try:
        found = clone_datasets.find_clone(ctx, copy_name(name))
        if found and not fetched_guids(ctx, found[1].name) and clone_datasets.find_clone(ctx, name) is None:
            clone_datasets.destroy(ctx, *found)
    except ZbackupError as failure:
        ctx.progress.note(
            f"{ctx.clones}/{copy_name(name)} is left: {failure}. Remove it: "
            f"{command_line('zbackup', 'clone', 'destroy', copy_name(name))}"
        )


def _require_keys(ctx: Context, backups: tuple[Backup, ...]) -> None:
    for dataset, copy in {s.dataset: s for backup in backups for s in backup.snapshots}.items():
        status, root = ctx.zfs.values(dataset, "keystatus", "encryptionroot")
        if status == "unavailable":
            raise Refused(
                f"{dataset} is encrypted and its key is not loaded. Load it, then run the same command "
                f"again:\n"
                f"{command_line('zfs', 'load-key', root)}"
            )
        if status == "available" and not opens(_plain(copy)):
            raise Refused(wrong_key_text(dataset, root))


def _plain(copy: Snapshot) -> Command:
    argv = content_argv(str(copy), raw=False)
    return Command(argv=argv, failure=lambda status, said: failure_of(argv, status, said))
