"""Make dev clones: production's data, writable, with a server that cannot harm production."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from zbackup.catalog.local import Catalog, FoundClones
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import (
    announce,
    everywhere,
    foreign,
    list_everywhere,
    names_taken,
    readable,
    require_free_port,
    require_free_ports,
    require_readable,
)
from zbackup.jobs.clones.lifecycle import CloneStatus, find_again, status_of, working_on
from zbackup.jobs.clones.provision import hand_over
from zbackup.jobs.clones.temporary import removed_on_failure
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.snapshot import chosen_snapshot, keep_beginning, snapshots, source
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.options import Finish, RestoreOptions
from zbackup.jobs.restore.restore import plan_restore, restore
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import ConfigError, NotFound, Refused, Taken, UsageError
from zbackup.model.event_log import log
from zbackup.model.moment import end_after
from zbackup.model.proof import ProofSubject
from zbackup.model.snapshot import Dataset
from zbackup.model.target import RestoreTarget
from zbackup.plan.clones.choose_backup import choose_backup
from zbackup.plan.clones.clone_name import log_name, next_name, numbered, require_wanted
from zbackup.proc import detached

PARENT_WAIT_S = 600.0
"""Children of one parent are made one after the other."""

USER = "zbackup_clone"
"""The developers' account of every dev clone whose accounts are not production's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """`name` "" means the next free one. Of what: `target` (by a recovery, which is checked for what it
    `proves`), else the backup `snapshot` ("" for the newest), or that of the clone `parent`. `port` 0 is any
    of the pool. `lease` is in seconds, None for none. `keep` keeps a clone that could not be finished, for a
    look. `as_replica`: it follows production.
    """

    name: str = ""
    target: RestoreTarget | None = None
    proves: ProofSubject | None = None
    snapshot: str = ""
    parent: str = ""
    port: int = 0
    lease: float | None = None
    keep_accounts: bool = False
    own_root: bool = False
    keep: bool = False
    as_replica: bool = False
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePlan:
    """The plan of what would be made: `names` (from now; another may be faster), of `backup`, or of
    `restore`'s plan."""

    names: tuple[str, ...]
    backup: Backup
    restore: RestorePlan | None
    masks: tuple[str, ...]


def plan_create(ctx: Context, options: CreateOptions) -> CreatePlan:
    """Look and decide, and change nothing."""
    _require_possible(ctx, options)
    names = _wanted(ctx, options)
    listings = list_everywhere(ctx)
    require_readable(listings, *names)
    others = readable(listings)
    for clone, dataset in others:
        if clone.name in names and clone.state != "building":
            raise _taken(dataset.name, clone.name)
    for name in set(names) - {clone.name for clone, _ in others}:
        _require_nobodys(ctx, name)
    _require_ports(ctx, options, others)
    masks = tuple(str(step) for step in ctx.cloning.mask)
    if options.target:
        plan = plan_restore(ctx, options.target, RestoreOptions(name=names[0], proves=options.proves))
        return CreatePlan(names=names, backup=plan.base, restore=plan, masks=masks)
    backup = plan_source(ctx, options)
    ctx.recovery.check_program(backup.record)
    return CreatePlan(names=names, backup=backup, restore=None, masks=masks)


def create(ctx: Context, options: CreateOptions) -> Iterator[CloneStatus]:
    """Make them, one after the other; each is yielded when it is ready.

    When one fails nothing of it is left (unless `keep`), and those before it stay. Raise what a restore
    raises, or MaskingFailed.
    """
    _require_possible(ctx, options)
    if options.count > 1 or options.target:
        # One of a snapshot is told before anything is made, when it gets its port.
        _require_ports(ctx, options, everywhere(ctx))
    for name in numbered(options.name, options.count):
        with _own_name(ctx, name) as (own, clones):
            created = _create(ctx, own, options, clones)
        log.info("clone.created", clone=own, backup=created.clone.backup, port=created.clone.port)
        yield created


def _require_possible(ctx: Context, options: CreateOptions) -> None:
    """Raise UsageError for what is not to be had together, ConfigError for what has to be configured."""
    if options.name:
        for name in numbered(options.name, options.count):
            require_wanted(name, ctx.cloning.reserved)
    if options.count > 1 and options.port:
        raise UsageError("--count and --port exclude each other: each clone has a port of its own")
    if options.own_root and options.keep_accounts:
        raise UsageError(
            "--own-root and --keep-accounts exclude each other: production's accounts may do what they may"
        )
    if not options.as_replica:
        return
    if options.target or options.parent or ctx.cloning.mask:
        raise UsageError("a replica is of a snapshot of production: no --at, no --from-clone, no masking")
    if ctx.cloning.replica is None:
        where = f"instance.{ctx.instance}.clones.replica"
        raise ConfigError([f"{where}: missing; the account with which a replica reaches production"])


def _require_ports(ctx: Context, options: CreateOptions, others: list[tuple[Clone, Dataset]]) -> None:
    """Raise Taken when there are too few. What a killed run left under a name that is wanted will be gone."""
    names = numbered(options.name, options.count)
    others = [pair for pair in others if not (pair[0].name in names and pair[0].state == "building")]
    if options.port:
        require_free_port(options.port, others)
    else:
        require_free_ports(ctx, options.count, others)


def _create(ctx: Context, name: str, options: CreateOptions, clones: FoundClones | None) -> CloneStatus:
    if options.target:
        finish = Finish(
            begin=lambda clone: _begin(ctx, replace(clone, replayed=True), options),
            hand_over=lambda files, clone: hand_over(ctx, clone, files, recovered=True),
        )
        wanted = RestoreOptions(name=name, keep=options.keep, finish=finish, proves=options.proves)
        done = restore(ctx, options.target, wanted, locked=True)
        keep_beginning(ctx, done.clone)
        return _made(ctx, done.clone)
    ctx.progress.phase("inspecting", "which backup")
    if options.parent:
        with working_on(ctx, options.parent, "zbackup clone create", wait=PARENT_WAIT_S):
            parent, backup = source(ctx, options.parent, options.snapshot)
            return _make(ctx, name, backup, options, ctx.members(), parent)
    catalog = ctx.catalog(clones)
    return _make(ctx, name, _chosen(catalog, options), options, catalog.all_datasets)


def _make(
    ctx: Context,
    name: str,
    backup: Backup,
    options: CreateOptions,
    production: Sequence[Dataset],
    parent: Clone | None = None,
) -> CloneStatus:
    ctx.recovery.check_program(backup.record)
    if options.as_replica and backup.record.blockers and not backup.record.log_to:
        why = "; ".join(backup.record.blockers)
        raise Refused(f"no replica can go on from {backup.name}, which holds no log to follow: {why}")
    draft = Clone(
        id=clone_datasets.new_id(),
        name=name,
        instance=ctx.instance,
        engine=backup.record.engine,
        kind="dev",
        state="building",
        created=ctx.clock.now(),
        backup=backup.name,
        target=backup.record.as_of.isoformat() if backup.record.as_of else "",
        reached=backup.record.gtid or backup.record.position,
        parent=parent.name if parent else "",
        masked=bool(parent and parent.masked),
    )
    ctx.progress.phase("cloning", backup.name)
    with removed_on_failure(ctx, draft, keep=options.keep):
        clone = _begin(ctx, draft, options)
        files = clone_datasets.fill(ctx, clone, backup)
        files = clone_datasets.in_sight_of(ctx, files, production, [clone])
        clone = hand_over(ctx, clone, files, recovered=parent is not None)
    return _made(ctx, clone)


def _begin(ctx: Context, clone: Clone, options: CreateOptions) -> Clone:
    """The clone as it is wanted, with its own dataset and port."""
    rules = ctx.cloning
    if (rules.limits.memory or rules.limits.cpu) and not detached.limits_apply():
        ctx.progress.note(
            "memory_max and cpu_quota limit nothing: they are systemd's, which does not run here"
        )
    end = end_after(ctx.clock.now(), options.lease) if options.lease is not None else None
    wanted = replace(
        clone,
        kind="dev",
        port=options.port,
        memory=rules.memory,
        nice=rules.limits.nice,
        memory_max=rules.limits.memory,
        cpu_quota=rules.limits.cpu,
        login="" if options.keep_accounts else USER,
        own_root=not options.keep_accounts and (options.own_root or rules.own_root),
        until=end.isoformat() if end else "",
        on_boot=rules.start == "boot",
        follows=options.as_replica,
    )
    sizes = {"quota": rules.quota, "reservation": rules.reservation}
    properties = {name: str(size) for name, size in sizes.items() if size}
    return announce(ctx, wanted, any_port=not options.port, properties=properties)


def _made(ctx: Context, clone: Clone) -> CloneStatus:
    return status_of(ctx, clone, f"{ctx.clones}/{clone.name}")


def plan_source(ctx: Context, options: CreateOptions) -> Backup:
    """What a clone would be made of. Raise NotFound."""
    if not options.parent:
        return _chosen(ctx.catalog(), options)
    parent, _ = find_again(ctx, options.parent)
    record = clone_datasets.record_of(ctx, parent)
    known = snapshots(ctx, parent, record)
    if not known and not options.snapshot:
        # One would be taken; its record is that of production's backup in either case.
        return Backup(record=record, snapshots=())
    return chosen_snapshot(parent, known, options.snapshot)


def _chosen(catalog: Catalog, options: CreateOptions) -> Backup:
    backup = choose_backup(catalog.backups, options.snapshot)
    if backup is None and options.snapshot:
        raise NotFound(f"there is no whole backup {options.snapshot}; see zbackup list")
    if backup is None:
        raise NotFound("there is no backup to clone; take one: zbackup snapshot")
    return backup


# names


def _wanted(ctx: Context, options: CreateOptions) -> tuple[str, ...]:
    taken = names_taken(ctx)
    names: list[str] = []
    for name in numbered(options.name, options.count):
        names.append(name or _next_free(ctx, taken | set(names)))
    return tuple(names)


def _next_free(ctx: Context, taken: set[str]) -> str:
    """The next name that is nobody's: what is no clone is passed over, as when clones are made."""
    passed: set[str] = set()
    while ctx.zfs.exists(f"{ctx.clones}/{(name := next_name(ctx.instance, taken | passed))}"):
        passed.add(name)
    return name


def _require_nobodys(ctx: Context, name: str) -> None:
    """Raise Taken when what has the name is no clone: also a volume, which is not among the file systems."""
    if ctx.zfs.exists(wanted := f"{ctx.clones}/{name}"):
        raise foreign(wanted)


@contextmanager
def _own_name(ctx: Context, name: str) -> Iterator[tuple[str, FoundClones | None]]:
    """Nobody else works on a clone of this name, and there is none; "" for the next free one.

    What a killed run left of it is removed. With it come the clones below the instance's clones dataset: see
    _clear().
    """
    passed: set[str] = set()
    with ExitStack() as locks:
        while True:
            wanted = name or next_name(ctx.instance, passed | names_taken(ctx))
            try:
                locks.enter_context(working_on(ctx, wanted, "zbackup clone create", wait=5 if name else 0))
                clones = _clear(ctx, wanted)
                break
            except Taken:
                locks.close()
                if name:
                    raise
                passed.add(wanted)
        yield wanted, clones


def _clear(ctx: Context, name: str) -> FoundClones | None:
    """Make sure that the name is free; a leftover of ours is removed: its maker held the lock we hold now.

    Returns what is below the instance's clones dataset; None where something was removed: that may take long,
    and somebody may have begun a switch meanwhile.
    """
    listings, removed = list_everywhere(ctx), False
    require_readable(listings, name)
    for clone, dataset in readable(listings):
        if clone.name not in (name, log_name(name)):
            continue
        if clone.state != "building" or clone.instance != ctx.instance:
            raise _taken(dataset.name, clone.name)
        ctx.progress.note(f"removing what a killed run left of {clone.name}")
        clone_datasets.destroy(ctx, clone, dataset)
        removed = True
    _require_nobodys(ctx, name)
    return None if removed else listings[0]


def _taken(dataset: str, name: str) -> Taken:
    return Taken(
        f"{dataset} exists: choose another --name, or {command_line('zbackup', 'clone', 'destroy', name)}"
    )
