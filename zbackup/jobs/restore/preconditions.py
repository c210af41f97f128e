"""Check what has to be so before a restore makes anything: options, names, ports, and what can be opened."""

from zbackup.catalog.local import read_clones
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import everywhere, foreign, require_free_port
from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import Taken, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.snapshot import Dataset
from zbackup.model.target import RestoreTarget
from zbackup.plan.clones.clone_name import log_name, require_wanted
from zbackup.plan.recovery.as_it_is import no_moments
from zbackup.plan.recovery.recovery import RecoveryPlan


def require_possible(ctx: Context, target: RestoreTarget, options: RestoreOptions) -> None:
    """Raise UsageError when what is asked for is not to be had with this engine, or not together."""
    if not isinstance(target, ClusterTime) and not options.replica_set:
        return
    if ctx.engine_name != "mongodb":
        raise UsageError(
            f"{ctx.instance} is {ctx.engine_name}: only MongoDB has cluster times and replica sets"
        )
    if options.replica_set and not options.port:
        raise UsageError("--as-replica-set needs --port: a member of a set is known by host and port")
    if options.replica_set and options.read_only:
        raise UsageError("--as-replica-set and --read-only exclude each other: a member writes its own oplog")


def require_usable(ctx: Context, choice: RecoveryPlan) -> None:
    """Raise Refused when what is chosen cannot be opened, or no log leads on from it."""
    base = choice.base
    if base.record.blockers:
        ctx.recovery.check_openable(base.record)
        if not choice.as_it_is:
            raise no_moments(base)
    ctx.recovery.check_program(base.record)


def require_free(ctx: Context, name: str, options: RestoreOptions) -> None:
    """The name and the port are free, or the name is that of our own leftover, which is removed."""
    for leftover in require_unused(ctx, name, options):
        # Its maker holds the lock we hold now, or is dead.
        ctx.progress.note(f"removing what a killed run left of {leftover[0].name}")
        clone_datasets.destroy(ctx, *leftover)


def require_unused(ctx: Context, name: str, options: RestoreOptions) -> list[tuple[Clone, Dataset]]:
    """Raise Taken when the name or the port is not free; returns what runs that were cut short left of it."""
    if options.name and options.finish is None:  # a drill's ends otherwise, and has its own name
        require_wanted(options.name, ctx.cloning.reserved)
    if options.port:
        require_free_port(options.port, everywhere(ctx))
    leftovers = []
    there = read_clones(ctx.zfs, ctx.clones)
    elsewhere = ctx.everywhere()[1:]
    for wanted in (name, log_name(name)):
        there.require_readable(wanted)
        found = next((pair for pair in there.found if pair[0].name == wanted), None)
        own = f"{ctx.clones}/{wanted}"
        if found and found[0].state == "building":
            leftovers.append(found)
        elif found:
            raise _taken(own, wanted)
        elif ctx.zfs.exists(own):
            raise foreign(own)  # a volume, too, which is not among the file systems that were listed
        for each in elsewhere:
            if each.zfs.exists(dataset := f"{each.clones}/{wanted}"):
                raise _taken(dataset, wanted)
    return leftovers


def _taken(dataset: str, name: str) -> Taken:
    return Taken(
        f"{dataset} exists: choose another --name, or {command_line('zbackup', 'clone', 'destroy', name)}"
    )
