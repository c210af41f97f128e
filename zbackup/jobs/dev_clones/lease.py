"""Leases of dev clones: longer, protected, announced, over."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from zbackup.catalog.local import clones
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.lifecycle import (
    CloneStatus,
    find,
    find_again,
    lock_file,
    require_ready,
    status_of,
    working_on,
)
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.errors import CommandFailed, NotFound, Refused, Taken
from zbackup.model.event_log import log
from zbackup.model.moment import end_after
from zbackup.plan.clones.clone_name import require_good
from zbackup.plan.clones.lease import children_first, end_of, judge
from zbackup.proc.helper_socket import ask
from zbackup.proc.hook import run_hook
from zbackup.proc.lock import lock_owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """The report of what was done about leases. `left` could not be destroyed, each with why, and is tried
    again. `failed` are those of them that nobody works on, and that no child keeps."""

    destroyed: tuple[str, ...]
    warned: tuple[str, ...]
    left: tuple[str, ...]
    failed: tuple[str, ...] = ()


def extend(contexts: Sequence[Context], name: str, seconds: float | None) -> CloneStatus:
    """The lease ends this many seconds from now; None for never. Raise UsageError for one too far away,
    NotFound, or Refused for a restore's, or one that is half destroyed."""

    def until(ctx: Context, clone: Clone) -> Clone:
        end = "" if seconds is None else end_after(ctx.clock.now(), seconds).isoformat()
        return replace(clone, until=end, warned=False)

    return _changed(contexts, name, "zbackup clone extend", until)


def protect(contexts: Sequence[Context], name: str, until: datetime | None) -> CloneStatus:
    """Let neither the lease nor `clone destroy` end it before then; None takes protection back."""

    def protected(_: Context, clone: Clone) -> Clone:
        return replace(clone, protected=until.isoformat() if until else "", warned=False)

    return _changed(contexts, name, "zbackup clone protect", protected)


def reap(ctx: Context) -> Reaped:
    """Announce the leases that end soon, and destroy the clones whose lease is over.

    One that is busy, or being worked on, is left and told of, and so is a parent, which goes after its last
    child. A destruction that was begun is finished.
    """
    destroyed: list[str] = []
    warned, left, failed = [], [], []
    there = children_first([clone for clone, _ in clones(ctx.zfs, ctx.clones)])
    for clone in there:
        if clone.instance != ctx.instance or clone.kind != "dev":
            continue
        verdict = judge(clone, ctx.clock.now(), timedelta(seconds=ctx.cloning.warn))
        if clone.state == "destroying" or verdict == "over":
            if why := _end(ctx, clone):
                left.append(f"{clone.name}: {why}")
                if not (_has_children(clone, there, destroyed) or lock_owner(lock_file(ctx, clone.name))):
                    failed.append(left[-1])
            else:
                destroyed.append(clone.name)
        elif verdict == "ends soon" and not clone.warned and _warn(ctx, clone):
            warned.append(clone.name)
    for text in left:
        log.warning("clone.not_reaped", what=text)
    return Reaped(destroyed=tuple(destroyed), warned=tuple(warned), left=tuple(left), failed=tuple(failed))


def _has_children(clone: Clone, there: Sequence[Clone], destroyed: Sequence[str]) -> bool:
    return any(c.parent == clone.name and not c.copied and c.name not in destroyed for c in there)


def end_lease(ctx: Context, name: str) -> tuple[str, bool] | None:
    """What came of destroying this clone, and whether it is gone; None when there is no such clone of
    the instance, or its lease is not over. Raise UsageError for what can be no clone's name."""
    require_good(name)
    found = clone_datasets.find_clone(ctx, name)
    clone = found[0] if found else None
    if clone is None or clone.instance != ctx.instance or clone.kind != "dev" or not _is_over(ctx, clone):
        return None
    why = _end_here(ctx, clone)
    return why or f"destroyed the clone {name}", not why


def _end(ctx: Context, seen: Clone) -> str:
    """Destroy the clone. Return why it could not be; "" when it was. By the helper, where we are not root
    ourselves."""
    if ctx.helper is None:
        return _end_here(ctx, seen)
    try:
        question = {"verb": "end-lease", "instance": ctx.instance, "clone": seen.name}
        answer = ask(ctx.helper, question)
    except Refused as failure:
        return str(failure)
    return "" if answer["done"] is True else str(answer["said"])


def _end_here(ctx: Context, seen: Clone) -> str:
    """Looked at again under its lock: it may be extended."""
    try:
        with working_on(ctx, seen.name, "zbackup daemon (leases)", wait=0):
            found = clone_datasets.find_clone(ctx, seen.name)
            if found is None or not _is_over(ctx, found[0]):
                return ""
            clone_datasets.destroy(ctx, *found)
    except (CommandFailed, Refused, NotFound, Taken) as failure:
        return str(failure)
    log.info("clone.reaped", clone=seen.name, ended=seen.until)
    return ""


def _is_over(ctx: Context, clone: Clone) -> bool:
    return clone.state == "destroying" or judge(clone, ctx.clock.now(), timedelta(0)) == "over"


def _warn(ctx: Context, seen: Clone) -> bool:
    """Once for each end of a lease; whether it was announced. A hook that fails is not asked again."""
    try:
        with working_on(ctx, seen.name, "zbackup daemon (leases)", wait=0):
            found = clone_datasets.find_clone(ctx, seen.name)
            if found is None or found[0] != seen:
                return False
            clone_datasets.describe(ctx, replace(seen, warned=True))
    except Taken:
        return False
    log.warning("clone.lease_ends", clone=seen.name, ends=seen.until)
    if ctx.cloning.on_warning:
        try:
            run_hook(ctx.cloning.on_warning, _facts(seen), ctx.cloning.hook_limit)
        except CommandFailed as failure:
            log.warning("hook.failed", program=ctx.cloning.on_warning[0], reason=str(failure))
    return True


def _changed(
    contexts: Sequence[Context], name: str, what: str, change: Callable[[Context, Clone], Clone]
) -> CloneStatus:
    ctx, _, _ = find(contexts, name)
    with working_on(ctx, name, what):
        clone, dataset = find_again(ctx, name)
        if clone.kind != "dev":
            raise Refused(f"{name} is no dev clone: a restore's clone has no lease, and nobody ends it")
        if clone.state == "destroying":
            # Neither lease nor protection would hold it up.
            require_ready(clone)
        clone = change(ctx, clone)
        clone_datasets.describe(ctx, clone)
    return status_of(ctx, clone, dataset.name)


def _facts(clone: Clone) -> dict[str, str]:
    end = end_of(clone)
    return {
        "ZBACKUP_INSTANCE": clone.instance,
        "ZBACKUP_CLONE": clone.name,
        "ZBACKUP_LEASE_ENDS": end.isoformat() if end else "",
    }
