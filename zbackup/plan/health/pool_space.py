"""Find that a pool is broken, or has too little room left. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from zbackup.model.errors import PoolReadOnly
from zbackup.model.finding import Finding, Severity
from zbackup.model.space import DatasetSettings, Pool

FREE_LOW, FREE_SERIOUS = 0.20, 0.10
DAYS_LOW = 3.0


def of_space(
    pool: Pool, written_a_day: float | None, settings: Sequence[DatasetSettings] = ()
) -> list[Finding]:
    """List the findings about a pool's room and state, and about datasets on it that have less, by a quota or
    because the rest is reserved."""
    return [*_state(pool), *_room(pool, written_a_day), *_less(pool, written_a_day, settings)]


def _state(pool: Pool) -> Iterator[Finding]:
    if pool.readonly:
        yield Finding(
            severity="critical",
            subject="pool",
            text=f"{pool.name} is imported read-only",
            why="no backup can be taken, received or pruned there, and no clone be made",
            fix="zpool export {0} && zpool import {0}".format(shlex.quote(pool.name)),
            exit_status=PoolReadOnly.exit_status,
            key=f"{pool.name} read-only",
        )
    if pool.health != "ONLINE":
        yield Finding(
            severity="critical",
            subject="pool",
            text=f"{pool.name} is {pool.health}",
            why="a disk is missing or broken: backups on this pool share its fate",
            fix=f"zpool status -x {pool.name}",
            key=f"{pool.name} {pool.health}",
        )


def _room(pool: Pool, written_a_day: float | None) -> Iterator[Finding]:
    if pool.free_share < FREE_LOW:
        yield Finding(
            severity="critical" if pool.free_share < FREE_SERIOUS else "warning",
            subject="space",
            text=f"{pool.name} has {pool.free_share:.0%} free",
            why="a full pool stops the database, and ZFS writes ever more slowly on the way there",
            fix=f"zfs list -o space -r {pool.name}",
            key="free",
        )
    if written_a_day and pool.free / written_a_day < DAYS_LOW:
        yield Finding(
            severity="warning",
            subject="space",
            text=f"what is free on {pool.name} lasts {pool.free / written_a_day:.1f} days at the rate of "
            f"the last snapshots, if none is destroyed",
            why="a full pool stops the database",
            fix="zbackup prune --dry-run",
            key="days",
        )


def _less(pool: Pool, written_a_day: float | None, settings: Sequence[DatasetSettings]) -> Iterator[Finding]:
    known = [each for each in settings if each.values.get("available", "").isdigit()]
    if not known:
        return
    share, name = min((_share(each, pool), each.name) for each in known)
    left, tightest = min((each.number("available"), each.name) for each in known)
    why = "its snapshots count, too, and when its room is used up, the database stops"
    fix = f"zfs list -o space,quota,refquota -r {shlex.quote(name)}"
    # Some less than the pool's share is what ZFS keeps for itself, and is said of the pool already.
    if share < min(FREE_LOW, pool.free_share / 2):
        severity: Severity = "critical" if share < FREE_SERIOUS else "warning"
        text = f"{name} has {share:.0%} of its room left"
        yield Finding(severity=severity, subject="space", text=text, why=why, fix=fix, key="quota")
    if written_a_day and left < pool.free and left / written_a_day < DAYS_LOW <= pool.free / written_a_day:
        yield Finding(
            severity="warning",
            subject="space",
            text=f"what {tightest} may still take lasts {left / written_a_day:.1f} days at the rate of "
            "the last snapshots, if none is destroyed",
            why=why,
            fix=fix,
            key="days",
        )


def _share(settings: DatasetSettings, pool: Pool) -> float:
    """Tell what is left of a dataset's room, 0 to 1; a quota may be more than the pool has."""
    left = settings.number("available")
    room = settings.number("usedbydataset") + settings.number("usedbysnapshots") + left
    return left / (max(min(settings.number("quota"), pool.size), room) or 1)
