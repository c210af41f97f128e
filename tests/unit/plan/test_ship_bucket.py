"""Planning for a place where a full stream can be stored beside the others: a bucket."""

from dataclasses import replace

from tests.unit.plan.worlds import World
from zbackup.model.backup import Backup
from zbackup.model.shipping import Inventory, Partial, ReceivedSnapshot, TargetDataset
from zbackup.plan.ship.ship import (
    Abort,
    Commit,
    Divergence,
    NeedsInitial,
    Send,
    ShipPlan,
    Steps,
    UpToDate,
    plan_ship,
)

NAME, OTHER = "tank/a", "tank/b"


def copy(backup: Backup, *, marked: bool = True) -> ReceivedSnapshot:
    (snapshot,) = backup.snapshots
    parts = (snapshot.guid,)
    return ReceivedSnapshot(
        name=snapshot.name, guid=snapshot.guid, backup=backup.record.backup, parts=parts, marked=marked
    )


def line(
    *there: Backup, bases: tuple[int, ...] = (), partial: int | None = None, needed: bool = False
) -> TargetDataset:
    return TargetDataset(
        name=NAME,
        copies=tuple(copy(b) for b in there),
        bases=bases,
        partial=Partial(token="", guid=partial, needed=needed) if partial else None,
        restartable=True,
    )


def plan(
    world: World,
    wanted: list[Backup],
    found: TargetDataset,
    begun: dict[str, int] | None = None,
    *,
    initial: bool = False,
) -> ShipPlan:
    inventory = Inventory(address="s3://bucket", datasets=(found,))
    return plan_ship(wanted, world.sources(), inventory, begun or {}, initial=initial)


def sent(found: ShipPlan) -> list[tuple[int, int | None]]:
    assert isinstance(found, Steps), found
    return [(s.part.guid, s.part.base) for s in found.steps if isinstance(s, Send)]


def guid(backup: Backup) -> int:
    return backup.snapshots[0].guid


def test_without_a_base_a_new_chain_is_begun() -> None:
    world = World(names=[NAME])
    first, second = world.take(), world.take()
    assert sent(plan(world, [second], line(first))) == [(guid(second), None)]
    assert sent(plan(world, [second], line(first, bases=(guid(first),)))) == [(guid(second), guid(first))]


def test_several_backups_make_one_chain() -> None:
    world = World(names=[NAME])
    first, second, third = world.take(), world.take(), world.take()
    found = plan(world, [second, third], line(first))
    assert sent(found) == [(guid(second), None), (guid(third), guid(second))]
    assert isinstance(found, Steps) and [type(s) for s in found.steps] == [Send, Commit, Send, Commit]


def test_what_is_older_than_the_newest_copy_is_past() -> None:
    world = World(names=[NAME])
    first, second = world.take(), world.take()
    assert plan(world, [first, second], line(second)) == UpToDate(second)


def test_what_was_taken_away_there_is_not_committed_again() -> None:
    """Its stream is still there, for others need it."""
    world = World(names=[NAME])
    first, second = world.take(), world.take()
    found = line(second)
    found = replace(found, copies=(*found.copies, copy(first, marked=False)))
    assert plan(world, [first, second], found) == UpToDate(second)


def test_what_arrived_and_was_not_committed_is() -> None:
    world = World(names=[NAME])
    first, second = world.take(), world.take()
    found = line(first, bases=(guid(first),))
    found = replace(found, copies=(*found.copies, copy(second, marked=False)))
    planned = plan(world, [first, second], found)
    assert isinstance(planned, Steps) and [type(s) for s in planned.steps] == [Commit]


def test_a_stream_that_was_cut_is_sent_again_from_its_start() -> None:
    world = World(names=[NAME])
    backup = world.take()
    found = plan(world, [backup], line(partial=guid(backup)), {NAME: guid(backup)})
    assert sent(found) == [(guid(backup), None)]
    assert isinstance(found, Steps) and not any(isinstance(s, Abort) for s in found.steps)


def test_one_of_a_snapshot_that_is_gone_is_given_up() -> None:
    world = World(names=[NAME])
    backup = world.take()
    found = plan(world, [backup], line(partial=4711))
    assert isinstance(found, Steps) and isinstance(found.steps[0], Abort)


def test_an_unencrypted_line_does_not_go_on_raw() -> None:
    world = World(names=[NAME])
    first, second = world.take(), world.take()
    sources = tuple(replace(s, encrypted=True) for s in world.sources())
    there = Inventory(address="s3://bucket", datasets=(line(first, bases=(guid(first),)),))
    assert sent(plan_ship([second], sources, there, {}, initial=False)) == [(guid(second), None)]


def test_another_servers_copies_are_a_divergence() -> None:
    world, other = World(names=[NAME]), World(names=[NAME], guid=9000)
    backup = world.take()
    assert isinstance(plan(world, [backup], line(other.take())), Divergence)


def test_where_no_stream_makes_a_copy_any_more_a_full_one_is_allowed_beside_them() -> None:
    """Somebody, or a rule of the bucket's, took away what the others begin with."""
    world = World(names=[NAME])
    world.take()
    backup = world.take()
    assert plan(world, [backup], line()) == NeedsInitial((NAME,))
    assert sent(plan(world, [backup], line(), initial=True)) == [(guid(backup), None)]


def test_what_lost_its_page_alone_is_sent_again_or_one_is_allowed_beside_it() -> None:
    """Its segments are there: the same stream makes its page anew, and nothing is given up."""
    world = World(names=[NAME])
    first, second = world.take(), world.take()
    gone = line(partial=4711, needed=True)
    assert plan(world, [second], gone) == NeedsInitial((NAME,))
    allowed = plan(world, [second], gone, initial=True)
    assert isinstance(allowed, Steps) and [type(s) for s in allowed.steps] == [Send, Commit]
    here, begun = line(partial=guid(first), needed=True), {NAME: guid(first)}
    assert sent(plan(world, [first, second], here, begun)) == [
        (guid(first), None),
        (guid(second), guid(first)),
    ]
    assert plan(world, [second], here, begun) == NeedsInitial((NAME,)), "it is of another snapshot"


def test_nor_goes_one_unasked_where_another_dataset_has_its_copies() -> None:
    world = World(names=[NAME, OTHER])
    first, second = world.take(), world.take()
    one, two = ({s.dataset: s for s in b.snapshots} for b in (first, second))
    kept = ReceivedSnapshot(name=one[OTHER].name, guid=one[OTHER].guid)
    there = TargetDataset(name=OTHER, copies=(kept,), bases=(kept.guid,), restartable=True)

    def planned(*targets: TargetDataset, initial: bool = False) -> ShipPlan:
        inventory = Inventory(address="s3://bucket", datasets=(there, *targets))
        return plan_ship([second], world.sources(), inventory, {}, initial=initial)

    both = [(two[NAME].guid, None), (two[OTHER].guid, kept.guid)]
    assert planned(line()) == NeedsInitial((NAME,))
    assert sent(planned(line(), initial=True)) == both
    # A dataset that is new in the instance goes along, and so does a stream that was begun.
    assert sent(planned()) == both
    assert sent(planned(line(partial=two[NAME].guid))) == both
