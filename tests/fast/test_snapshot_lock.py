"""The lock and the moment at which the snapshot is taken: only what was taken under the lock is a backup."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters import changed
from tests.fast.right import require_well
from tests.fast.server import FakeEngine
from tests.fast.world import World
from zbackup.jobs.backup.snapshot import UNLOCKED_LIMIT_S, snapshot
from zbackup.jobs.context import Context
from zbackup.model.errors import VerificationFailed
from zbackup.model.server import LockChoice, ServerFacts
from zbackup.zfs.datasets import Zfs

STANDS_BY = object()
"""What was prepared before the lock."""


@dataclass
class Taking:
    """zfs.txg.Taking, of a ZFS that says too early that nothing more gets into the snapshot."""

    world: World
    take: Callable[[], None]
    waited: list[str]
    locked: bool | None = None

    def wait_closed(self) -> None:
        self.waited.append("closed")

    def wait_taken(self) -> None:
        self.waited.append("taken")
        if self.locked is None:
            self.locked = self.world.server.locked
            self.take()

    def proven(self, _: int) -> bool:
        return bool(self.locked)


class HastyZfs(Zfs):
    """`waited` is what its callers waited for, and `limits` the seconds that they gave."""

    waited: list[str]
    limits: list[float]
    by: list[object]
    world: World

    @contextmanager
    def taking(  # type: ignore[override]
        self, names: Sequence[str], properties: Mapping[str, str], *, timeout: float, by: object = None
    ) -> Iterator[Any]:
        self.limits.append(timeout)
        self.by.append(by)
        yield Taking(self.world, lambda: self.snapshot(names, properties, timeout=timeout), self.waited)


class Unlocking(FakeEngine):
    """It needs no lock, and takes none."""

    def choose_lock(self, facts: ServerFacts) -> LockChoice:
        return LockChoice("none", "nothing writes")


def hasty(world: World, **changes: Any) -> tuple[Context, HastyZfs]:
    zfs = HastyZfs(world.run, world, prepare=lambda: nullcontext(STANDS_BY))  # type: ignore[arg-type, return-value]
    zfs.waited, zfs.limits, zfs.by, zfs.world = [], [], [], world
    return world.context(zfs=zfs, **changes), zfs


def test_what_may_hold_writes_from_after_the_lock_is_taken_once_more_and_waited_for(world: World) -> None:
    ctx, zfs = hasty(world)
    backup = snapshot(ctx).backup
    assert zfs.waited[0] == "closed" and "closed" not in zfs.waited[1:]
    assert [b.record for b in ctx.catalog().backups] == [backup.record], "the first one is gone"
    assert zfs.limits == [10.0, 10.0], "as long as the lock may still be held"
    assert zfs.by == [STANDS_BY] * 2
    require_well(world, ctx)


def test_what_is_never_proven_is_no_backup(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx, _ = hasty(world)
    monkeypatch.setattr(Taking, "proven", lambda *_: False)
    before = [str(s) for s in world.pools.all_snapshots()]
    with pytest.raises(VerificationFailed, match="may hold what was written after the lock"):
        snapshot(ctx)
    assert [str(s) for s in world.pools.all_snapshots()] == before


def test_without_a_lock_nobody_waits_and_it_may_take_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx, zfs = hasty(world)
    monkeypatch.setattr(Taking, "proven", lambda *_: True)
    snapshot(changed(ctx, engine=Unlocking(world)))
    assert "closed" not in zfs.waited and zfs.limits == [UNLOCKED_LIMIT_S]
    assert zfs.by == [None], "for a lock alone something stands by"
