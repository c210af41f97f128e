"""Tell how far each destination is behind, by what the last run that looked there wrote down here.

It is written on the instance's first dataset, so that whoever asks, after whatever restart, asks nobody else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.backup import Backup
from zbackup.model.event_log import log
from zbackup.model.shipped import (
    ALL_GONE,
    OTHER_KEY,
    SHIPPED,
    Arrived,
    OtherKey,
    arrived,
    arrived_of,
    other_key,
    other_key_to_text,
    to_text,
)
from zbackup.model.shipping import Inventory

MOST_OF_NAME = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """`behind` is how much would be lost with this host, at most; None with `newest` when nothing is there.

    `max_lag` is how much that may be. `other_key` is a copy there that cannot be continued, or not even
    be read.
    """

    destination: str
    newest: Arrived | None
    behind: timedelta | None
    max_lag: timedelta | None
    other_key: OtherKey | None = None


def write_down(
    ctx: Context, destination: ShipDestination, backups: Sequence[Backup], inventory: Inventory
) -> Backup | None:
    """The newest of these backups that is committed there, which is returned.

    That both sides have none in common is no reason to forget what arrived once, unless nothing is there.
    And then whoever verifies has to know that something was: it is lost.
    """
    committed = inventory.committed
    newest = next((b for b in reversed(backups) if b.record.backup in committed), None)
    key, dataset = f"{SHIPPED}{destination.name}", ctx.datasets[0]
    before = ctx.zfs.own_settings(dataset).get(key)
    if newest:
        text = to_text(arrived_of(newest))
        if text != before:
            ctx.zfs.set_properties(dataset, {key: text})
    elif before and not committed and before != ALL_GONE:
        log.error("ship.nothing_left", destination=destination.name, instance=ctx.instance, newest=before)
        ctx.zfs.set_properties(dataset, {key: ALL_GONE})
    return newest


def write_down_keys(ctx: Context, destination: ShipDestination, changed: Sequence[OtherKey]) -> None:
    """Write down a copy whose key was changed over there, or that there is none any more."""
    key, dataset = f"{OTHER_KEY}{destination.name}", ctx.datasets[0]
    before = ctx.zfs.own_settings(dataset).get(key)
    text = other_key_to_text(_bounded(changed[0])) if changed else None
    if text and text != before:
        log.error("ship.other_key", destination=destination.name, copy=changed[0].copy, root=changed[0].root)
        ctx.zfs.set_properties(dataset, {key: text})
    elif before and not text:
        ctx.zfs.clear_property(dataset, key)


def _bounded(found: OtherKey) -> OtherKey:
    """With names as long as ZFS has them, whatever the other side says."""
    return replace(found, copy=found.copy[:MOST_OF_NAME], root=found.root[:MOST_OF_NAME])


def write_down_commit(ctx: Context, destination: ShipDestination, backup: Backup) -> None:
    """Write down that this backup was just committed there, as the newest: no later failure undoes it."""
    ctx.zfs.set_properties(ctx.datasets[0], {f"{SHIPPED}{destination.name}": to_text(arrived_of(backup))})


def ever_arrived(ctx: Context, destination: ShipDestination) -> bool:
    """Whether anything is known to have arrived there. Raise CommandFailed when ZFS cannot be asked."""
    return f"{SHIPPED}{destination.name}" in ctx.zfs.own_settings(ctx.datasets[0])


def shipped(ctx: Context, now: datetime) -> tuple[Shipped, ...]:
    """The newest backup at each configured destination. Raise CommandFailed when ZFS cannot be asked."""
    if not ctx.destinations:
        return ()
    known = ctx.zfs.own_settings(ctx.datasets[0])
    return tuple(_of(destination, known, now) for destination in ctx.destinations)


def _of(destination: ShipDestination, known: Mapping[str, str], now: datetime) -> Shipped:
    newest = arrived(known).get(destination.name)
    # A backup from the future is not ahead: a clock was wrong.
    behind = max(now - newest.taken, timedelta()) if newest else None
    return Shipped(
        destination=destination.name,
        newest=newest,
        behind=behind,
        max_lag=destination.max_lag,
        other_key=other_key(known, destination.name),
    )
