"""A clone's datasets: made, found again, and destroyed, exactly those.

<clones>/<name>       the clone's own: its description (the registry), server log, relay log, scratch
<clones>/<name>/0..   clones of the backup's snapshots, one for each member
"""

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from zbackup.catalog.local import read_clones
from zbackup.jobs.clones.claim import CLONE_PROPERTIES, announce
from zbackup.jobs.clones.fetched_datasets import abort_partials, fetched_guids
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.clone import INTENT, PROPERTY, Clone
from zbackup.model.errors import NotFound, Refused
from zbackup.model.event_log import log
from zbackup.model.record import PREFIX, Record, from_properties, to_properties
from zbackup.model.recovery import RecoveryFiles, process_note
from zbackup.model.relocation import Relocation
from zbackup.model.snapshot import Dataset, Snapshot
from zbackup.plan.health.promoted import give_back, what_happened
from zbackup.proc import secure_files
from zbackup.proc.detached import Process

PART = "zbackup:clone_part"
SNAPSHOT = "zbackup:clone_snapshot"
FRESH = "fresh-"
ORIGIN = "zbackup-origin"
"""The snapshot of a clone of a moment as it was handed over: what it is reset to."""
SECOND, SECOND_ORIGIN = "second", "zbackup-second"
"""The dataset of the second clone within a clone (see second_clone), and the snapshot it is cloned from."""
RECORD = "record.json"
STOP_LIMIT_S = 120.0


def new_id() -> str:
    return str(uuid.uuid4())


def build(ctx: Context, clone: Clone, backup: Backup) -> RecoveryFiles:
    """Make the clone's datasets and mount them. What exists after a failure is found by `destroy`."""
    return fill(ctx, announce(ctx, clone), backup)


def fill(ctx: Context, clone: Clone, backup: Backup) -> RecoveryFiles:
    """Clone the backup's snapshots below the clone's own dataset, and mount them."""
    container = f"{ctx.clones}/{clone.name}"
    _write_record(ctx, clone, backup.record)
    parts = {f"{container}/{number}": snapshot for number, snapshot in enumerate(backup.snapshots)}
    ctx.zfs.clone_each(parts, {**CLONE_PROPERTIES, PART: clone.id})
    for part in parts:
        ctx.zfs.mount(part)
    log.info("clone.built", clone=clone.name, backup=backup.name)
    return _files(ctx, clone, backup.record)


def open_again(ctx: Context, clone: Clone) -> RecoveryFiles:
    """A clone's files, mounted if they are not (after a reboot)."""
    record = record_of(ctx, clone)
    for number in range(len(record.members)):
        ctx.zfs.mount(f"{ctx.clones}/{clone.name}/{number}")
    return _files(ctx, clone, record)


def record_of(ctx: Context, clone: Clone) -> Record:
    """The record of the backup it was made from. Raise NotFound when that is lost."""
    ctx.zfs.mount(f"{ctx.clones}/{clone.name}")
    try:
        record = from_properties(json.loads(secure_files.read_text(ctx.mountpoint / clone.name / RECORD)))
    except (FileNotFoundError, ValueError, RecursionError):
        record = None
    if record is None:
        raise NotFound(f"the clone {clone.name} has lost the record of what it was made from")
    return replace(record, name=clone.backup)


def with_record(ctx: Context, clone: Clone, record: Record) -> RecoveryFiles:
    """The clone's files, which are of another backup now."""
    _write_record(ctx, clone, record)
    return _files(ctx, clone, record)


def _write_record(ctx: Context, clone: Clone, record: Record) -> None:
    """Write it in one step: half a record would make the clone useless."""
    secure_files.replace(ctx.mountpoint / clone.name / RECORD, json.dumps(to_properties(record)))


def _files(ctx: Context, clone: Clone, record: Record) -> RecoveryFiles:
    """Where a clone's files are; whoever starts a server on them calls in_sight_of."""
    home = ctx.mountpoint / clone.name
    moves = tuple((original, str(home / str(n))) for n, (_, original) in enumerate(record.members))
    return RecoveryFiles(
        record=record, where=Relocation(moves), home=home, run=ctx.run_dir / clone.name, hide=()
    )


def in_sight_of(
    ctx: Context, files: RecoveryFiles, members: Sequence[Dataset], visible: Sequence[Clone]
) -> RecoveryFiles:
    """The files, for a server that sees these clones, and neither the original nor any other clone."""
    homes = tuple(ctx.mountpoint / clone.name for clone in visible)
    return replace(files, hide=_hidden_from(ctx, members, visible), beside=homes)


def _hidden_from(ctx: Context, members: Sequence[Dataset], visible: Sequence[Clone]) -> tuple[str, ...]:
    """Mountpoints that the server must not see: nothing is asked for what is not mounted."""
    own = tuple(f"{ctx.clones}/{clone.name}" for clone in visible)
    found = [d.mountpoint for d in members if d.mountpoint]
    for root in (ctx.clones, *ctx.elsewhere):
        mounted = ctx.zfs.mounted_below(root).items()
        found += [at for name, at in mounted if not any(name == o or name.startswith(o + "/") for o in own)]
    return tuple(found)


def describe(ctx: Context, clone: Clone) -> None:
    """Write the clone's description again."""
    ctx.zfs.set_properties(f"{ctx.clones}/{clone.name}", {PROPERTY: clone.to_property()})


def mark_ready(ctx: Context, clone: Clone) -> Clone:
    """Write down that it is handed over."""
    ready = replace(clone, state="ready")
    describe(ctx, ready)
    return ready


def find_clone(ctx: Context, name: str) -> tuple[Clone, Dataset] | None:
    """The clone of that name below this instance's clones dataset. Raise Refused when it cannot be read."""
    there = read_clones(ctx.zfs, ctx.clones)
    there.require_readable(name)
    return next(((c, d) for c, d in there.found if c.name == name), None)


def may_be_there(ctx: Context, name: str) -> bool:
    """Whether there is a clone of that name, or one that cannot be read: what it needs has to stay."""
    there = read_clones(ctx.zfs, ctx.clones)
    return bool(there.problem(name)) or any(clone.name == name for clone, _ in there.found)


def server_process(ctx: Context, name: str) -> Process | None:
    """The clone's running server; None when it does not run."""
    try:
        process = Process.parse(secure_files.read_own(process_note(ctx.run_dir / name)))
    except (FileNotFoundError, ValueError):
        return None
    return process if process.alive else None


def stop_server(ctx: Context, name: str) -> None:
    """Stop the clone's server in good order if it runs. Raise Refused when that takes root."""
    _end(ctx, name, lambda process: process.stop(STOP_LIMIT_S))


def kill_server(ctx: Context, name: str) -> None:
    """End it at once: nobody needs its files any more. Raise Refused when that takes root."""
    _end(ctx, name, lambda process: process.kill(STOP_LIMIT_S))


def _end(ctx: Context, name: str, how: Callable[[Process], object]) -> None:
    process = server_process(ctx, name)
    if process is None:
        return
    try:
        how(process)
    except PermissionError as another_user:
        raise Refused(
            f"user id {os.geteuid()} cannot end the server of the clone {name}, process {process.pid}: "
            f"only root can"
        ) from another_user


def destroy(ctx: Context, clone: Clone, container: Dataset) -> None:
    """Stop the server and destroy the clone's datasets, each proven to be its own, one by one.

    Raise Refused, before anything is done, when somebody else put a dataset or a snapshot there, and
    DatasetBusy when somebody uses one.
    """
    datasets = ctx.zfs.filesystems(container.name)
    snapshots = _require_own(ctx, clone, datasets)
    require_unused(ctx, clone, [*(d.name for d in datasets), *map(str, snapshots)])
    if clone.kind == "dev" and clone.state != "building":
        # It is shown until its last dataset is gone, and never started again.
        describe(ctx, replace(clone, state="destroying"))
    for name in (second_run(ctx, clone.name).name, clone.name):
        kill_server(ctx, name)
    if clone.kind == "copy":
        abort_partials(ctx, datasets[1:])
        # What had arrived in part, with nothing before it, goes with that.
        left = {d.guid for d in ctx.zfs.filesystems(container.name)}
        datasets = [d for d in datasets if d.guid in left]
    # Half reset, or with archived log added, a part is a clone of another's snapshot.
    dependent = {c for s in snapshots for c in s.clones}
    for dataset in [d for d in datasets if d.name in dependent]:
        for snapshot in (s for s in snapshots if s.dataset == dataset.name):
            ctx.zfs.destroy_snapshot(snapshot)
        ctx.zfs.destroy_filesystem(dataset)
    for snapshot in (s for s in snapshots if s.dataset not in dependent):
        ctx.zfs.destroy_snapshot(snapshot)
    rest = [d for d in datasets if d.name not in dependent]
    for dataset in sorted(rest, key=lambda d: d.name, reverse=True):
        ctx.zfs.destroy_filesystem(dataset)
    if INTENT + clone.name in ctx.zfs.user_properties(ctx.clones).get(ctx.clones, {}):
        ctx.zfs.clear_property(ctx.clones, INTENT + clone.name)
    for run in (second_run(ctx, clone.name), ctx.run_dir / clone.name):
        _remove_run(run)
    # Root's, and harmless: the daemon leaves it.
    with contextlib.suppress(PermissionError):
        # ZFS leaves the mountpoint behind when it could not tell that it had made it.
        secure_files.remove_empty(ctx.mountpoint / clone.name)
    log.info("clone.destroyed", clone=clone.name)


def _remove_run(run: Path) -> None:
    """Remove the run directory and the process note of a server that has ended."""
    secure_files.remove_tree(run)
    # Root's, and harmless: the daemon leaves it.
    with contextlib.suppress(PermissionError):
        secure_files.unlink(process_note(run))


def second_run(ctx: Context, name: str) -> Path:
    """Return the run directory of a clone's second clone. No clone of a user can have this name."""
    return ctx.run_dir / f"{name}.{SECOND}"


def destroy_second(ctx: Context, clone: Clone) -> None:
    """Destroy what exists of a clone's second clone. Raise Refused if it does not belong to the clone."""
    run, home = second_run(ctx, clone.name), f"{ctx.clones}/{clone.name}/{SECOND}"
    kill_server(ctx, run.name)
    datasets = ctx.zfs.filesystems(f"{ctx.clones}/{clone.name}")
    second = [d for d in datasets if d.name == home or d.name.startswith(f"{home}/")]
    require_parts(ctx, clone, second)
    for dataset in sorted(second, key=lambda d: d.name, reverse=True):
        ctx.zfs.destroy_filesystem(dataset)
    for snapshot in ctx.zfs.snapshots_below(f"{ctx.clones}/{clone.name}"):
        if snapshot.name == SECOND_ORIGIN and dict(snapshot.properties).get(SNAPSHOT) == clone.id:
            ctx.zfs.destroy_snapshot(snapshot)
    _remove_run(run)


def _require_own(ctx: Context, clone: Clone, datasets: Sequence[Dataset]) -> list[Snapshot]:
    """The snapshots in it, which are its own too."""
    snapshots = ctx.zfs.snapshots_below(datasets[0].name)
    fetched = fetched_guids(ctx, datasets[0].name) if clone.kind == "copy" else set()
    own = [s for s in snapshots if dict(s.properties).get(SNAPSHOT) == clone.id or str(s.guid) in fetched]
    if children := sorted({_owner(ctx, c) for s in own for c in s.clones} - {clone.name}):
        raise Refused(f"the clone {clone.name} has children: destroy {', '.join(children)} first")
    if backups := [s for s in snapshots if s not in own and PREFIX + "backup" in dict(s.properties)]:
        raise _holds_backups(ctx, clone, backups)
    foreign = _foreign(ctx, clone, datasets[1:])
    foreign += ctx.zfs.volumes(datasets[0].name)
    foreign += [str(s) for s in snapshots if s not in own]
    if foreign:
        raise Refused(
            f"the clone {clone.name} holds what zbackup did not make: {', '.join(foreign)}. "
            f"Destroy or move that first"
        )
    return own


def _holds_backups(ctx: Context, clone: Clone, backups: Sequence[Snapshot]) -> Refused:
    """Return the error for a clone with backups. It never says how to destroy backups."""
    moved = [(c, str(s)) for s in backups for c in s.clones if not c.startswith(f"{ctx.clones}/")]
    if moved:
        return Refused(f"{what_happened(moved)}. Move them back first: {give_back(moved)}")
    return Refused(
        f"the clone {clone.name} was in production's place and has backups from that time "
        f"({len(backups)} snapshots, such as {backups[0]}). Destroy it after zbackup prune has removed them"
    )


def require_unused(ctx: Context, clone: Clone, names: Sequence[str]) -> None:
    """Raise DatasetBusy, with the names, if other processes than the clone's server use these datasets."""
    server = server_process(ctx, clone.name)
    ctx.zfs.require_unused(names, apart_from=server.pid if server else None)


def require_parts(ctx: Context, clone: Clone, datasets: Sequence[Dataset]) -> None:
    """Raise Refused unless all of these are the clone's own."""
    if foreign := _foreign(ctx, clone, datasets):
        raise Refused(f"{foreign[0]} is in the clone {clone.name}, and zbackup did not make it")


def _foreign(ctx: Context, clone: Clone, datasets: Sequence[Dataset]) -> list[str]:
    """The datasets below its own that are not the clone's."""
    if not datasets:
        return []
    container = f"{ctx.clones}/{clone.name}"
    properties = ctx.zfs.user_properties(container)
    foreign = [d.name for d in datasets if properties.get(d.name, {}).get(PART) != clone.id]
    unmarked = [name for name in foreign if PART not in properties.get(name, {})]
    if unmarked and clone.state in ("building", "resetting"):
        origins = ctx.zfs.origins(container)
        foreign = [name for name in foreign if name not in unmarked or not _is_part(clone, origins, name)]
    return foreign


def _owner(ctx: Context, dataset: str) -> str:
    """The clone that a dataset belongs to."""
    return dataset.removeprefix(f"{ctx.clones}/").partition("/")[0]


def _is_part(clone: Clone, origins: Mapping[str, str], name: str) -> bool:
    """Whether a dataset that lost its mark in a power cut is what the clone was being made of.

    ZFS makes a clone in one transaction group and sets its properties in the next. Nobody but us makes, below
    a clone of ours that is just being made, a numbered clone of the very snapshot that it is made from; or,
    where it is being fetched, a numbered dataset.
    """
    if not name.rpartition("/")[2].removeprefix(FRESH).isdecimal():
        return False
    return clone.kind == "copy" or origins[name].rpartition("@")[2] in (clone.backup, ORIGIN, SECOND_ORIGIN)
