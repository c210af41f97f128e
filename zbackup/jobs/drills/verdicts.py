"""Verdicts: what drills proved, written on this host: on the backup, and where the instance's clones are.

Nothing is written at a destination. The key that ships there may only add, a bucket may be immutable, and
whoever may write there could write a verdict too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from zbackup.jobs.clones.claim import ensure_root
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.drill import (
    DRILLS,
    VERDICT,
    DrillVerdict,
    by_backup,
    from_list,
    from_text,
    last_passed,
    remember,
    to_list,
    to_text,
)
from zbackup.model.errors import DatasetNotFound, NotFound
from zbackup.plan.due import CLOCK_TOLERANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Drilled:
    """The drills at a destination ("" for those of the backups that are here): the last verdict and the last
    that passed. `every` is how often one was promised, None if nobody did."""

    destination: str
    last: DrillVerdict | None
    passed: DrillVerdict | None
    every: timedelta | None

    def age(self, now: datetime) -> timedelta | None:
        """How long ago one passed; None also where nobody can tell, because the clock was put back
        since."""
        if self.passed is None or self.passed.at > now + CLOCK_TOLERANCE:
            return None
        return max(now - self.passed.at, timedelta())


def write_down(ctx: Context, destination: str, base: Backup | None, verdict: DrillVerdict) -> None:
    """Add the verdict to the last ones, and put it on the backup `base` if it is one of this host.

    Raise CommandFailed when ZFS refuses it.
    """
    at = _where(ctx)
    ensure_root(at)
    verdicts = remember(from_list(_written(at).get(_key(ctx, destination), "")), verdict)
    ctx.zfs.set_properties(at.clones, {_key(ctx, destination): to_list(verdicts)})
    if base is not None:
        try:
            ctx.zfs.mark_snapshot(base.snapshots[0], VERDICT, to_text(verdict))
        except (DatasetNotFound, NotFound):
            return  # it was pruned meanwhile


def read(ctx: Context, destination: str) -> tuple[DrillVerdict, ...]:
    """The last verdicts, oldest first."""
    return from_list(_written(_where(ctx)).get(_key(ctx, destination), ""))


def drilled(ctx: Context, promised: Sequence[tuple[str, float]]) -> tuple[Drilled, ...]:
    """The state of drills of this host's backups and of each destination, where one was promised
    (destination, seconds) or was ever made."""
    written, every = _written(_where(ctx)), {name: timedelta(seconds=s) for name, s in promised}
    found = []
    for name in ("", *(destination.name for destination in ctx.destinations)):
        verdicts = from_list(written.get(_key(ctx, name), ""))
        if verdicts or name in every:
            found.append(
                Drilled(
                    destination=name,
                    last=verdicts[-1] if verdicts else None,
                    passed=last_passed(verdicts),
                    every=every.get(name),
                )
            )
    return tuple(found)


def of_backups(ctx: Context, backups: Sequence[Backup], destination: str = "") -> dict[str, DrillVerdict]:
    """The last verdict of each of these backups that was drilled, by its identity.

    Of a copy what this host wrote down itself, not what is written on the copy.
    """
    if destination:
        found = by_backup(read(ctx, destination))
        return {b.record.backup: found[b.record.backup] for b in backups if b.record.backup in found}
    written = {b.record.backup: dict(b.snapshots[0].properties).get(VERDICT) for b in backups if b.snapshots}
    verdicts = {backup: from_text(text) for backup, text in written.items() if text}
    return {backup: v for backup, v in verdicts.items() if v and v.backup == backup}


def _where(ctx: Context) -> Context:
    """With the dataset that verdicts are on: on a host that has copies, and not the instance's pool, the one
    beside those."""
    if not ctx.elsewhere or ctx.zfs.exists(_pool(ctx.clones)):
        return ctx
    return next((ctx.at(clones) for clones in ctx.elsewhere if ctx.zfs.exists(_pool(clones))), ctx)


def _pool(dataset: str) -> str:
    return dataset.partition("/")[0]


def _written(ctx: Context) -> dict[str, str]:
    try:
        return ctx.zfs.own_settings(ctx.clones)
    except DatasetNotFound:
        return {}


def _key(ctx: Context, destination: str) -> str:
    return f"{DRILLS}{ctx.instance}:{destination}" if destination else f"{DRILLS}{ctx.instance}"
