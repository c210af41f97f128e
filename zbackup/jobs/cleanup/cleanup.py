"""Put right what a run of zbackup that was killed left behind, or say what somebody has to look at."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime

from zbackup.catalog.local import Catalog, clones, read_clones
from zbackup.jobs.backup.complete_record import finish_all
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import forget_if_never_made, never_made
from zbackup.jobs.clones.fetched_datasets import fetched_guids
from zbackup.jobs.clones.lifecycle import start, working_on
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused, Taken, UsageError, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.shipping import holder_of
from zbackup.model.snapshot import Dataset
from zbackup.plan.clones.clone_name import copy_name, drill_names, own_names, recovery_of, require_good
from zbackup.plan.health.unfinished_clones import runs_with_host
from zbackup.proc.helper_socket import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """`healed` was put right, `reported` needs somebody; `last` is when the newest backup was taken."""

    last: datetime | None
    healed: tuple[str, ...]
    reported: tuple[str, ...]


def reconcile(ctx: Context) -> Reconciled:
    """A stopped applier, unfinished backups and clones, clones to run with the host. Done again: nothing.

    Raise Taken when somebody works on the instance, or the failure that keeps it from being looked at.
    """
    healed, reported = [], []
    with ctx.instance_lock("zbackup daemon (reconciling)"):
        ctx.engine.heal()
        catalog = ctx.catalog()
        before = {b.record.backup for b in catalog.backups if b.finished}
        backups = finish_all(ctx, catalog.all_datasets, catalog.backups)
        healed += [f"finished {b.name}" for b in backups if b.finished and b.record.backup not in before]
        reported += [*_incomplete(catalog), *_forgotten_holds(ctx, catalog)]
    reported += _unreadable(ctx)
    _forget_never_made(ctx)
    for said, done in (*_remove_unfinished(ctx, _any), *_bring_back(ctx)):
        (healed if done else reported).append(said)
    for text in healed:
        log.warning("leftover.healed", what=text)
    for text in reported:
        log.warning("leftover.reported", what=text)
    return Reconciled(last=newest(backups), healed=tuple(healed), reported=tuple(reported))


def newest(backups: Sequence[Backup]) -> datetime | None:
    """When the newest backup was taken that a restore can start from. By its place in the pool's
    history, not by its clock: that may have been wrong."""
    usable = [b for b in backups if b.complete and b.finished and b.record.purpose == "base"]
    return max(usable, key=lambda b: b.createtxg).record.taken if usable else None


def _incomplete(catalog: Catalog) -> list[str]:
    return [
        f"{b.name} misses a dataset's snapshot and restores nothing"
        for b in catalog.backups
        if not b.complete
    ] + [f"{name} cannot be read: {problem}" for name, problem in catalog.unreadable]


def _unreadable(ctx: Context) -> list[str]:
    return [
        f"{dataset} cannot be read: {problem}"
        for at in ctx.everywhere()
        for dataset, problem in read_clones(at.zfs, at.clones).unreadable
    ]


def remove_own_leftovers(ctx: Context) -> tuple[str, ...]:
    """Remove leftovers of drills and of zbackup's other recoveries that were in use. Return those that are
    still in use, and by whom. The daemon calls this regularly."""
    names = own_names(ctx.instance)
    said = _remove_unfinished(ctx, lambda clone: clone.kind == "log" or recovery_of(clone.name) in names)
    return tuple(text for text, done in said if not done)


def _any(_: Clone) -> bool:
    return True


def _remove_unfinished(ctx: Context, wanted: Callable[[Clone], bool]) -> Iterator[tuple[str, bool]]:
    for at in ctx.everywhere():
        # What they are made of goes after them.
        for clone, dataset in sorted(clones(at.zfs, at.clones), key=lambda pair: pair[0].kind == "copy"):
            try:
                mine = clone.instance == ctx.instance and wanted(clone) and _is_leftover(at, clone, dataset)
            except Refused as strange:
                yield str(strange), False
                continue
            if mine and (ended := _have_removed(at, clone)):
                yield ended


def _forget_never_made(ctx: Context) -> None:
    """Forget what is written down of clones that nobody has begun to make."""
    for at in ctx.everywhere():
        for name in never_made(at):
            with suppress(Taken, UsageError):
                require_good(recovery_of(name))
                with working_on(at, recovery_of(name), "zbackup daemon (reconciling)", wait=0):
                    forget_if_never_made(at, name)


def _is_leftover(ctx: Context, clone: Clone, dataset: Dataset) -> bool:
    """Never finished; or clones of copies that nobody runs on."""
    if clone.kind != "copy":
        return clone.state == "building"
    # What was fetched for hours is not thrown away: the same restore goes on from it, but for a drill's, of
    # which the next wants another backup.
    drills = {copy_name(name) for name in drill_names(clone.instance)}
    fetched = bool(fetched_guids(ctx, dataset.name)) and clone.name not in drills
    return not fetched and not clone_datasets.may_be_there(ctx, recovery_of(clone.name))


def _bring_back(ctx: Context) -> Iterator[tuple[str, bool]]:
    """Dev clones that are to run with the host and do not, unless somebody stopped them."""
    for clone, _ in clones(ctx.zfs, ctx.clones):
        wanted = clone.instance == ctx.instance and runs_with_host(clone)
        if not wanted or clone_datasets.server_process(ctx, clone.name):
            continue
        try:
            start([ctx], clone.name)
            yield f"started the clone {clone.name}", True
        except ZbackupError as failure:
            yield f"the clone {clone.name} could not be started: {failure}", False


def _forgotten_holds(ctx: Context, catalog: Catalog) -> list[str]:
    """Holds of shipping that no ship will ever release, and that keep snapshots for ever.

    Those of a destination that is configured its next ship releases.
    """
    tags = {destination.tag for destination in ctx.destinations}
    held = [s for b in catalog.backups for s in b.snapshots if s.holds]
    found = ctx.zfs.holds(held)
    return [
        f"{snapshot} is held by {tag}, a destination that is not configured any more: "
        + command_line("zbackup", "release", ctx.instance, "--stale")
        for snapshot in held
        for tag in found.get(snapshot.guid, ())
        if tag not in tags and (who := holder_of(tag)) and who.instance == ctx.instance
    ]


def _have_removed(ctx: Context, clone: Clone) -> tuple[str, bool] | None:
    """Have it removed, by the helper where we are not root ourselves."""
    if ctx.helper is None:
        return remove_unfinished(ctx, clone.name)
    try:
        question = {"verb": "remove-unfinished", "instance": ctx.instance, "clone": clone.name}
        answer = ask(ctx.helper, question)
    except ZbackupError as failure:
        return f"the unfinished clone {clone.name} could not be removed: {failure}", False
    return (str(answer["said"]), answer["done"] is True) if answer.get("said") else None


def remove_unfinished(ctx: Context, name: str) -> tuple[str, bool] | None:
    """Remove an unfinished clone, unless its maker lives, which holds the lock of its name.

    Return what came of it and whether it is well now; None when there is no such clone, or its maker lives.
    Raise UsageError for what can be no clone's name.
    """
    maker = recovery_of(name)
    require_good(maker)
    with ExitStack() as stack:
        try:
            stack.enter_context(working_on(ctx, maker, "zbackup daemon (reconciling)", wait=0))
        except Taken:
            return None
        try:
            found = clone_datasets.find_clone(ctx, name)
            if found is None or found[0].instance != ctx.instance or not _is_leftover(ctx, *found):
                return None
            clone_datasets.destroy(ctx, *found)
            return f"removed the unfinished clone {name}", True
        except ZbackupError as failure:
            return f"the unfinished clone {ctx.clones}/{name} could not be removed: {failure}", False
