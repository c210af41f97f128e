"""The look of `zbackup init` at ZFS: what an instance still lacks, where datasets are mounted, and what a
host that receives has already."""

import pwd
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fast.breaking import every_break
from tests.fast.test_drill import POOL
from tests.fast.world import DATA, LOG, VAULT, World
from zbackup.features.init.jobs import accounts, receiving
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.drills.drill import drill_here
from zbackup.jobs.drills.verdicts import write_down
from zbackup.model.drill import DrillVerdict
from zbackup.model.errors import NotFound, Refused
from zbackup.zfs.facts import ZfsFacts


@pytest.fixture
def ctx(world: World, monkeypatch: pytest.MonkeyPatch) -> Context:
    """An instance that was just configured."""
    monkeypatch.setattr(ZfsFacts, "pool", lambda *_: POOL)
    return world.context(destinations=(world.destination(),))


def lacks(ctx: Context) -> Any:
    """Whether the first backup is missing, and a drill that passed; None where nothing is."""
    return accounts.unfinished([ctx]).get("shop")


def verdict(ctx: Context, why: str = "") -> DrillVerdict:
    backup = ctx.catalog().backups[-1]
    return DrillVerdict(backup=backup.record.backup, name=backup.name, at=ctx.clock.now(), why=why)


def test_an_instance_is_finished_by_a_backup_and_a_drill_that_passed(world: World, ctx: Context) -> None:
    assert lacks(ctx) == (True, True)
    snapshot(ctx)
    assert lacks(ctx) == (False, True)
    world.state.elapsed += timedelta(minutes=1)
    snapshot(ctx)
    world.writing = False
    drill_here(ctx)
    assert lacks(ctx) is None


def test_a_drill_that_failed_or_was_of_copies_is_none_of_what_is_here(world: World, ctx: Context) -> None:
    snapshot(ctx)
    write_down(ctx, "vault", None, verdict(ctx))
    assert lacks(ctx) == (False, True)
    write_down(ctx, "", None, verdict(ctx, "it did not start"))
    assert lacks(ctx) == (False, True)
    write_down(ctx, "", None, verdict(ctx))
    assert lacks(ctx) is None
    for each in ctx.catalog().backups:
        for part in each.snapshots:
            world.pools.destroy_snapshot(f"{part.dataset}@{part.name}")
    assert lacks(ctx) == (True, False)


def test_a_backup_that_was_begun_is_none(world: World, ctx: Context) -> None:
    """Wherever it was killed, unless all that was left to do is to say so."""
    seen = set()
    for _ in every_break(world, lambda: snapshot(ctx), ("killed after",)):
        found = ctx.catalog().backups
        usable = [b for b in found if b.complete and b.finished]
        seen.add((bool(found), bool(usable)))
        assert lacks(ctx) == (not usable, True)
    assert (True, False) in seen


def test_a_part_of_a_backup_is_none(world: World, ctx: Context) -> None:
    taken = snapshot(ctx).backup
    world.pools.destroy_snapshot(f"tank/db/log@{taken.name}")
    assert lacks(ctx) == (True, True)


def test_an_instance_that_cannot_be_looked_at_hides_no_other(world: World, ctx: Context) -> None:
    gone = world.context(instance="gone", datasets=("nowhere/db",), clones="nowhere/clones")
    assert accounts.unfinished([gone, ctx]) == {"shop": (True, True)}


def test_datasets_are_found_where_they_are_mounted(world: World, ctx: Context) -> None:
    """Of a directory that lies on none, and of a dataset that is not mounted, nothing is said."""
    found = accounts.mountpoints(ctx.zfs, ["tank/db", "", "tank/db/log"])
    assert found == {"tank/db": DATA, "tank/db/log": LOG}


# receiving


@pytest.fixture
def users(monkeypatch: pytest.MonkeyPatch) -> None:
    """zrecv is there, toor is root by another name, and nobody else."""

    def known(name: str) -> Any:
        return SimpleNamespace(pw_uid={"zrecv": 900, "toor": 0}[name], pw_dir="/nowhere")

    monkeypatch.setattr(pwd, "getpwnam", known)


@pytest.mark.usefixtures("users")
def test_a_host_that_receives_is_told_what_it_has(world: World, ctx: Context) -> None:
    there, known, quota = receiving.inspect(ctx.zfs, VAULT, "zrecv")
    assert VAULT in there and "vault" in there and known and quota == 0
    world.pools.set(VAULT, {"quota": str(1 << 30)})
    assert receiving.inspect(ctx.zfs, VAULT, "zrecv")[1:] == (True, 1 << 30)
    there, known, quota = receiving.inspect(ctx.zfs, f"{VAULT}/db9", "nobody-yet")
    assert f"{VAULT}/db9" not in there and (known, quota) == (False, 0)


@pytest.mark.usefixtures("users")
def test_nothing_is_received_by_root_or_without_a_pool(ctx: Context) -> None:
    with pytest.raises(Refused, match="user id 0"):
        receiving.inspect(ctx.zfs, VAULT, "toor")
    with pytest.raises(NotFound, match="no pool nowhere"):
        receiving.inspect(ctx.zfs, "nowhere/b", "zrecv")
