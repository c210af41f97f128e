"""The context that every job is given: an instance's datasets, its backups, and where its clones may be."""

from dataclasses import replace
from zoneinfo import ZoneInfo

import pytest

from tests.fast.breaking import every_break
from tests.fast.server import DATA, LOG
from tests.fast.world import CLONES, World
from zbackup.features.switch.switch import switch
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import live_files
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.errors import PoolSuspended, Refused
from zbackup.model.moment import Moment
from zbackup.model.relocation import Relocation

THERE, GONE = "vault/zbackup", "lost/zbackup"


def test_each_dataset_for_clones_is_looked_at_once_from_wherever(world: World) -> None:
    ctx = world.context(elsewhere=(THERE, "vault/more"))
    for start in ctx.everywhere():
        found = [each.clones for each in start.everywhere()]
        assert found[0] == start.clones and sorted(found) == sorted((CLONES, THERE, "vault/more"))


def test_a_pool_that_lost_its_disks_keeps_nobody_from_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx = world.context(elsewhere=(THERE, GONE))
    exists = type(ctx.zfs).exists

    def lost(self: object, name: str) -> bool:
        if name == GONE:
            raise PoolSuspended(("zfs", "list", name), 1, "pool I/O is currently suspended")
        return exists(ctx.zfs, name)

    monkeypatch.setattr(type(ctx.zfs), "exists", lost)
    assert [each.clones for each in ctx.everywhere()] == [CLONES, THERE]
    (note,) = world.notes
    assert note.startswith(f"clones below {GONE} are left out: ")


def test_while_a_switch_is_half_done_nobody_says_which_backups_are_whose(world: World) -> None:
    ctx = world.context()
    snapshot(ctx)
    then = Moment(world.now, "then", ZoneInfo("UTC"))
    world.commit()
    restore(ctx, then, RestoreOptions(name="r1"))
    for each in every_break(world, lambda: switch(ctx, "r1"), ("killed before",)):
        if each.broke[1] == "rename":
            break
    with pytest.raises(Refused, match="a switch of shop to r1 is under way"):
        ctx.catalog()
    assert replace(ctx, instance="wiki").catalog().datasets


def test_what_is_not_mounted_has_no_files(world: World) -> None:
    world.pools.create("tank/db/idle", {"canmount": "noauto"})
    members = world.context().members()
    assert [d.name for d in members] == ["tank/db", "tank/db/idle", "tank/db/log"]
    assert live_files(members) == Relocation(((DATA, DATA), (LOG, LOG)))
