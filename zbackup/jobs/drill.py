"""Prove that backups, here or at a destination, lead to a server that runs: recover, and destroy it again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import structlog

from zbackup.jobs.clone import destroy
from zbackup.jobs.clone_claim import announce
from zbackup.jobs.context import Context, ShipTarget
from zbackup.jobs.latest import LATEST
from zbackup.jobs.restore import RestoreReport, restore
from zbackup.jobs.restore_from import latest_moment, restore_from
from zbackup.jobs.restore_options import Finish, RestoreOptions
from zbackup.model.moment import Moment
from zbackup.plan.clone_name import drill_name
from zbackup.plan.recovery import drill_target

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """What was recovered, which is gone again, and how long that took, with all that was fetched for it."""

    restored: RestoreReport
    took: timedelta


def drill(ctx: Context, target: ShipTarget) -> DrillReport:
    """Fetch what is needed for the last moment that the destination's backups reach, and recover it.

    Nobody can reach the server meanwhile. The clone is never finished: what a killed drill leaves of it, the
    next one removes. Raise whatever restore_from() raises.
    """
    # It tries what is there; whose it is and what cannot be read, others say.
    moment = latest_moment(ctx, target, RestoreOptions(accept_older=True))
    return _tried(
        ctx,
        target.name,
        lambda options: restore_from(ctx, target, moment, replace(options, accept_older=True)),
    )


def drill_here(ctx: Context) -> DrillReport:
    """The same with the backups of this host, as far as they reach without the server's own log.

    Raise whatever restore() raises.
    """
    last, base = drill_target(ctx.catalog().backups)
    moment = Moment(last, LATEST, ctx.zone, is_now=True)
    return _tried(
        ctx, "", lambda options: restore(ctx, moment, replace(options, base=base, stored_only=True))
    )


def _tried(ctx: Context, where: str, recover: Callable[[RestoreOptions], RestoreReport]) -> DrillReport:
    began = ctx.clock.now()
    name = drill_name(ctx.instance)
    finish = Finish(begin=partial(announce, ctx), hand_over=lambda files, clone: clone)
    report = recover(RestoreOptions(name=name, finish=finish))
    destroy((ctx,), name)
    took = ctx.clock.now() - began
    log.info("drill.passed", destination=where, backup=report.plan.base.name, seconds=took.total_seconds())
    return DrillReport(restored=report, took=took)
