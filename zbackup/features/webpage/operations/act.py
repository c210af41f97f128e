"""Do what an order says: each is the whole step that root's own command takes, with its look, lock and proof.

None of them touches production: a switch, a prune and a copy back are nobody's order.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from zbackup.catalog.local import read_clones
from zbackup.features.webpage.operations.order import ON_CLONES, CloneOrder, require_lease
from zbackup.jobs.clones import lifecycle
from zbackup.jobs.clones.lifecycle import CloneStatus, WayIn
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones import lease as clone_lease
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.jobs.dev_clones.reset import reset
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import RestoreReport, restore
from zbackup.model.clone import Clone
from zbackup.model.errors import Refused
from zbackup.model.log import Transaction
from zbackup.model.moment import Moment, local_text, utc_text
from zbackup.plan.clones.clone_name import default_name, require_wanted
from zbackup.plan.clones.lease import end_of

KINDS = ("dev", "restore")
MOST_RESTORED = 8
"""Restored servers that a page makes: they have neither lease nor quota, and no port that could run out."""
_SWITCHED = ("switching", "switched", "undoing")


def require_possible(order: CloneOrder, contexts: Sequence[Context]) -> Context:
    """Return the context of the instance that is meant. Raise Refused for what no page may touch, and
    NotFound."""
    ctx = next((each for each in contexts if each.instance == order.instance), None)
    if ctx is None:
        raise Refused("no such instance in the configuration")
    if order.verb in ON_CLONES:
        _require_own(order, contexts)
    if order.clone and order.verb in ("create", "restore"):
        require_wanted(order.clone, ctx.cloning.reserved)
    if order.verb == "restore":
        _require_few(contexts)
    require_lease(order.lease, ctx.cloning.lease)
    return ctx


def _require_few(contexts: Sequence[Context]) -> None:
    found = {
        dataset.name
        for ctx in contexts
        for clone, dataset in read_clones(ctx.zfs, ctx.clones).found
        if clone.kind == "restore"
    }
    if len(found) >= MOST_RESTORED:
        raise Refused(
            f"{len(found)} restored servers are there, and no page makes more: destroy one, or use "
            "zbackup restore"
        )


def _require_own(order: CloneOrder, contexts: Sequence[Context]) -> None:
    _, clone, _ = lifecycle.find(contexts, order.clone)
    if clone.instance != order.instance:
        raise Refused(f"{clone.name} is a clone of {clone.instance}")
    if clone.kind not in KINDS:
        raise Refused(f"{clone.name} is neither a dev clone nor a restored server")
    if clone.state in _SWITCHED:
        raise Refused(f"{clone.name} belongs to a zbackup switch: use the command line")


def expected_name(order: CloneOrder) -> str:
    """Return the name that the clone will have, as far as it is known before."""
    if order.verb == "restore" and not order.clone and isinstance(order.at, datetime):
        return default_name(order.instance, order.at)
    return order.clone


def act(order: CloneOrder, contexts: Sequence[Context]) -> tuple[str, str]:
    """Do it; the clone's name, and the result in words. Raise what the command of that name raises, and
    Refused as require_possible does."""
    ctx = require_possible(order, contexts)
    match order.verb:
        case "create":
            return _create(ctx, order)
        case "restore":
            report = restore(ctx, _moment(ctx, order), RestoreOptions(name=order.clone))
            for remark in _remarks(ctx, report):
                ctx.progress.note(remark)
            return report.clone.name, f"{report.clone.name} runs: {report.connect}"
        case "reset":
            status = reset(contexts, order.clone, latest=order.at == "latest")
            return order.clone, f"{order.clone} is as {status.clone.backup} again"
        case "extend":
            seconds = require_lease(order.lease, ctx.cloning.lease)
            status = clone_lease.extend(contexts, order.clone, seconds)
            return order.clone, _lease(ctx, status.clone)
        case "destroy":
            lifecycle.destroy(contexts, order.clone)
            return order.clone, f"{order.clone} is destroyed"
    raise Refused("no such order")


def way_in(order: CloneOrder, contexts: Sequence[Context]) -> WayIn:
    """Return how programs reach the clone. Raise as lifecycle.way_in, and Refused as require_possible do."""
    require_possible(order, contexts)
    return lifecycle.way_in(contexts, order.clone)


def _create(ctx: Context, order: CloneOrder) -> tuple[str, str]:
    options = CreateOptions(
        name=order.clone,
        target=_moment(ctx, order) if order.at else None,
        lease=require_lease(order.lease, ctx.cloning.lease),
    )
    status: CloneStatus
    (status,) = create(ctx, options)
    said = f"{status.clone.name} runs: {status.connect}; {_lease(ctx, status.clone)}"
    return status.clone.name, said


def _remarks(ctx: Context, report: RestoreReport) -> Iterator[str]:
    """Yield what zbackup restore says beside the result: where the replay stops, and what to mind."""
    if not report.plan.as_it_is:
        last, first = report.recovered.last_applied, report.recovered.first_skipped
        yield f"last transaction in it: {_said(ctx, last) or 'none behind the backup'}"
        yield f"first one left out: {_said(ctx, first) or 'none, the log ends before'}"
    replay = report.replay
    if replay and replay.effective_target < report.plan.target.at:
        end = local_text(replay.effective_target, ctx.zone)
        yield f"the log knows whole seconds only, so the replay stops at {end}"
    yield from (f"warning: {text}" for text in report.plan.warnings)


def _said(ctx: Context, subject: Transaction | None) -> str:
    if subject is None:
        return ""
    return " ".join(filter(None, (local_text(subject.committed, ctx.zone), subject.gtid, subject.start)))


def _lease(ctx: Context, clone: Clone) -> str:
    end = end_of(clone)
    return (
        f"its lease ends {local_text(end.replace(microsecond=0), ctx.zone)}"
        if end
        else "its lease has no end"
    )


def _moment(ctx: Context, order: CloneOrder) -> Moment:
    if not isinstance(order.at, datetime):
        raise Refused("not an order")
    return Moment(order.at, utc_text(order.at), ctx.zone)
