"""Backups that are not sent: what a destination has gone past, and what lies there beside the copies."""

from dataclasses import replace

from tests.unit.plan.test_ship import sends, shipped
from tests.unit.plan.test_ship_bucket import NAME, guid, line, plan, sent
from tests.unit.plan.test_ship_bucket import copy as copied
from tests.unit.plan.worlds import There, World
from zbackup.model.backup import Backup
from zbackup.model.shipping import Inventory, ReceivedSnapshot, TargetDataset
from zbackup.plan.ship.ship import Commit, Divergence, Steps, UpToDate, plan_ship


def three_of_which_the_newest_arrived() -> tuple[World, list[Backup]]:
    world = World()
    backups = [world.take(), world.take(), world.take()]
    return shipped(world), backups


def test_what_is_older_than_the_newest_there_is_not_sent_and_not_said_to_be_there() -> None:
    world, backups = three_of_which_the_newest_arrived()
    found = plan_ship(backups, world.sources(), world.inventory(), {}, initial=True)
    assert found == UpToDate(backups[-1])
    found = plan_ship(backups[:2], world.sources(), world.inventory(), {}, initial=True)
    assert found == UpToDate(None)


def test_what_arrived_and_lacks_only_its_mark_is_committed_although_a_newer_one_is() -> None:
    world = World()
    first = world.take()
    shipped(world)
    second = world.take()
    shipped(world)
    for there in world.there.values():
        there.copies[0] = replace(there.copies[0], marked=False)
    found = plan_ship([first, second], world.sources(), world.inventory(), {}, initial=True)
    assert isinstance(found, Steps) and [type(s) for s in found.steps] == [Commit]


def test_nothing_to_ship_is_no_divergence_and_no_first_copy() -> None:
    line = TargetDataset(name="theirs", copies=(ReceivedSnapshot(name="s", guid=5),))
    for lines in ((), (line,)):
        there = Inventory(address="there", datasets=lines)
        assert plan_ship([], World().sources(), there, {}, initial=False) == UpToDate(None)


def test_a_container_is_no_stranger() -> None:
    world = World()
    world.take()
    world.there["tank"] = There()
    assert len(sends(world.plan())) == 2
    world.there["tank/theirs"] = There(partial=7)
    found = world.plan()
    assert isinstance(found, Divergence) and found.target == "tank/theirs"


def test_a_dataset_that_no_backup_has_yet_is_no_matter() -> None:
    world = World()
    backup = world.take()
    world.names.append("tank/new")
    world.there["tank/new"] = There()
    found = plan_ship([backup], world.sources(), world.inventory(), {}, initial=True)
    assert [s.part.dataset for s in sends(found)] == ["tank/a", "tank/a/log"]


def test_of_two_lines_with_its_snapshots_the_one_of_its_name_goes_on() -> None:
    world = World()
    world.take()
    shipped(world)
    world.take()
    world.there["zzz"] = There(list(world.there["tank/a"].copies))
    assert [s.part.dataset for s in sends(world.plan())] == ["tank/a", "tank/a/log"]


def test_a_divergence_says_where() -> None:
    world = World()
    world.take()
    shipped(world)
    world.there["tank/a"].copies.append(ReceivedSnapshot(name="mine", guid=7))
    found = world.plan()
    assert isinstance(found, Divergence)
    assert found.target == "tank/a" and "taken there, or the source was rolled back" in found.why


# where a full stream can be stored beside the others


def test_only_committed_copies_are_gone_past() -> None:
    world = World(names=[NAME])
    first, second, third = world.take(), world.take(), world.take()
    there = replace(line(first), copies=(copied(first), copied(third, marked=False)))
    assert sent(plan(world, [second, third], there)) == [(guid(second), None)]


def test_the_part_that_is_lacking_of_the_newest_is_sent() -> None:
    world = World()
    backup = world.take()
    parts = tuple(s.guid for s in backup.snapshots)
    marked = ReceivedSnapshot(
        name="s11", guid=parts[0], backup=backup.record.backup, parts=parts, marked=True
    )
    there = TargetDataset(name="tank/a", copies=(marked,), bases=(), restartable=True)
    inventory = Inventory(address="s3://bucket", datasets=(there,))
    found = plan_ship([backup], world.sources(), inventory, {}, initial=False)
    assert sent(found) == [(parts[1], None)]
