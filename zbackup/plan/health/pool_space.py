"""Find that a pool is broken, or has too little room left. Pure."""

import shlex
from collections.abc import Iterator

from zbackup.model.errors import PoolReadOnly
from zbackup.model.finding import Finding
from zbackup.model.space import Pool

FREE_LOW, FREE_SERIOUS = 0.20, 0.10
DAYS_LOW = 3.0


def of_space(pool: Pool, written_a_day: float | None) -> list[Finding]:
    """List the findings about a pool's room and state."""
    return [*_state(pool), *_room(pool, written_a_day)]


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
