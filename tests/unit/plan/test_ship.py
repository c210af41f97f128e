"""The shipping planner: wherever a run was cut, the next goes on, and nothing is called done that is not."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plan.worlds import There, World
from zbackup.model.shipped import OtherKey
from zbackup.model.shipping import Inventory, ReceivedSnapshot, SourceDataset, TargetDataset
from zbackup.plan.ship.ship import (
    Abort,
    Commit,
    Divergence,
    KeyLocked,
    NeedsInitial,
    Send,
    ShipPlan,
    Steps,
    UpToDate,
    plan_ship,
)


def shipped(world: World) -> World:
    world.do(world.plan())
    return world


def sends(plan: object) -> list[Send]:
    assert isinstance(plan, Steps), plan
    return [s for s in plan.steps if isinstance(s, Send)]


def test_the_first_stream_is_full_and_the_commit_is_last() -> None:
    world = World()
    backup = world.take()
    plan = world.plan()
    assert [(s.snapshot.dataset, s.origin) for s in sends(plan)] == [("tank/a", None), ("tank/a/log", None)]
    assert isinstance(plan, Steps) and plan.steps[-1] == Commit(backup, tuple(s.part for s in sends(plan)))


def test_a_first_copy_has_to_be_allowed() -> None:
    world = World()
    world.take()
    assert world.plan(initial=False) == NeedsInitial(("tank/a", "tank/a/log"))
    world.do(world.plan(), cut=0, partly=True)
    assert sends(world.plan(initial=False))[0].token, "what was allowed and begun is finished"


def test_what_is_new_since_the_newest_common_snapshot_is_sent() -> None:
    world = World()
    world.take()
    shipped(world)
    world.take()
    newest = world.take()
    plan = world.plan()
    assert [s.origin and s.origin.name for s in sends(plan)] == ["tank/a@s11", "tank/a/log@s11"]
    assert shipped(world).plan() == UpToDate(newest)


def test_a_bookmark_is_as_good_as_its_snapshot() -> None:
    world = World()
    world.take()
    shipped(world)
    world.take()
    world.destroy(0)
    assert [s.origin and s.origin.name for s in sends(world.plan())] == ["tank/a#s11", "tank/a/log#s11"]


def test_a_dataset_that_was_added_gets_its_own_full_stream() -> None:
    world = World()
    world.take()
    shipped(world)
    world.names.append("tank/new")
    newest = world.take()
    assert [bool(s.origin) for s in sends(world.plan(initial=False))] == [True, True, False]
    assert shipped(world).plan() == UpToDate(newest)


def test_a_renamed_dataset_goes_on_where_it_is() -> None:
    world = World()
    world.take()
    shipped(world)
    old, world.names = world.names, ["other/a", "other/a/log"]
    new = dict(zip(old, world.names, strict=True))
    world.backups = [
        replace(b, snapshots=tuple(replace(s, dataset=new[s.dataset]) for s in b.snapshots))
        for b in world.backups
    ]
    world.bookmarks = []
    world.take()
    assert [(s.part.dataset, bool(s.origin)) for s in sends(world.plan())] == [(name, True) for name in old]


def test_what_was_begun_is_finished_though_there_is_something_newer() -> None:
    world = World()
    world.take()
    shipped(world)
    begun = world.take()
    world.do(world.plan(), cut=0, partly=True)
    newest = world.take()
    plan = world.plan()
    assert [s.snapshot.name for s in sends(plan)] == [begun.name] * 2 + [newest.name] * 2
    assert [bool(s.token) for s in sends(plan)] == [True, False, False, False]


def test_a_stale_token_is_given_up_and_only_that() -> None:
    world = World()
    world.take()
    shipped(world)
    world.take()
    world.do(world.plan(), cut=0, partly=True)
    world.destroy(1)
    newest = world.take()
    plan = world.plan()
    assert isinstance(plan, Steps)
    assert [s.target for s in plan.steps if isinstance(s, Abort)] == ["tank/a"]
    assert shipped(world).plan() == UpToDate(newest)


def test_a_snapshot_taken_over_there_is_a_divergence() -> None:
    world = World()
    world.take()
    shipped(world)
    world.there["tank/a/log"].copies.append(ReceivedSnapshot(name="mine", guid=7))
    found = world.plan()
    assert isinstance(found, Divergence), (
        "also with nothing new to send: the next stream could not be received"
    )
    assert (found.dataset, found.there[-1]) == ("tank/a/log", "@mine (guid 7)")
    assert found.here == ("tank/a/log@s11 (guid 1002)", "tank/a/log#s11 (guid 1002)")


def test_a_place_with_other_peoples_backups_has_diverged() -> None:
    world = World()
    world.take()
    world.there["tank/b"] = There([ReceivedSnapshot(name="theirs", guid=5)])
    found = world.plan()
    assert isinstance(found, Divergence) and "no snapshot is of these datasets" in found.why
    world.there = {"tank/a": There()}
    found = world.plan()
    assert isinstance(found, Divergence) and "in its place" in found.why


def test_a_dataset_made_anew_under_the_old_name_has_diverged() -> None:
    world = World()
    world.take()
    shipped(world)
    world.backups, world.bookmarks = [], []
    world.take()
    found = world.plan()
    assert isinstance(found, Divergence) and "nor a bookmark" in found.why


def test_raw_streams_cannot_go_on_from_plain_ones() -> None:
    world = World()
    world.take()
    shipped(world)
    newest = world.take()
    sources = [replace(d, encrypted=True) for d in world.sources()]
    found = plan_ship([newest], sources, world.inventory(), {}, initial=True)
    assert isinstance(found, Divergence) and "unencrypted" in found.why
    lines = tuple(replace(line, encrypted=True) for line in world.inventory().datasets)
    plan = plan_ship([newest], sources, replace(world.inventory(), datasets=lines), {}, initial=True)
    assert [s.part.raw for s in sends(plan)] == [True, True]


def test_nothing_to_ship_yet() -> None:
    assert World().plan() == UpToDate(None)


def test_a_backup_with_a_part_unmarked_is_not_committed() -> None:
    world = World()
    world.take()
    shipped(world)
    inventory = world.inventory()
    assert len(inventory.committed) == 1
    first, second = inventory.datasets
    unmarked = TargetDataset(name=second.name, copies=(replace(second.copies[0], marked=False),))
    assert replace(inventory, datasets=(first, unmarked)).committed == frozenset()
    assert replace(inventory, datasets=(first,)).committed == frozenset()


def test_a_forged_copy_with_the_guid_of_another_hides_nothing() -> None:
    world = World()
    world.take()
    shipped(world)
    inventory = world.inventory()
    forged = replace(inventory.datasets[0].copies[0], backup="another")
    line = TargetDataset(name="zzz", copies=(forged,))
    assert replace(inventory, datasets=(*inventory.datasets, line)).committed == inventory.committed


EVENTS = st.one_of(
    st.just(("take",)),
    st.just(("add",)),
    st.tuples(st.just("destroy"), st.integers(0, 5)),
    st.tuples(st.just("ship"), st.none() | st.integers(0, 8), st.booleans()),
)


@given(st.lists(EVENTS, max_size=25))
def test_cut_anywhere_it_converges_and_is_never_wrong(events: list[tuple[object, ...]]) -> None:
    """Nobody but zbackup touches either side; the World refuses what ZFS would refuse."""
    world = World()
    for event in events:
        match event:
            case ("take",):
                world.take()
            case ("add",) if len(world.names) < 4:
                world.names.append(f"tank/more{len(world.names)}")
            case ("destroy", int(number)) if number < len(world.backups):
                world.destroy(number)
            case ("ship", cut, bool(partly)):
                world.do(world.plan(), cut if isinstance(cut, int) else None, partly=partly)
        assert not isinstance(world.plan(), Divergence), "nobody changed anything by hand"
        assert_true_to_itself(world)
    newest = world.take()
    world.do(world.plan())
    assert newest.record.backup in world.inventory().committed
    assert world.plan() == UpToDate(newest)


def assert_true_to_itself(world: World) -> None:
    """What counts as committed is whole, and `up to date` is said only of what is there."""
    there = {copy.guid for line in world.inventory().datasets for copy in line.copies}
    for backup in world.backups:
        if backup.record.backup in world.inventory().committed:
            assert all(s.guid in there for s in backup.snapshots)
    plan = world.plan()
    if isinstance(plan, UpToDate) and plan.newest:
        assert plan.newest.record.backup in world.inventory().committed


def encrypted(
    world: World, ours: dict[str, str], theirs: dict[str, str], *, salts: tuple[str, str] = ("7", "7")
) -> tuple[list[SourceDataset], Inventory]:
    """Both sides, with encryption roots by dataset here and over there, where all lies in vault/shop/."""
    sources = [
        replace(d, encrypted=True, encryption_root=ours[d.name], salt=salts[0]) for d in world.sources()
    ]
    there = (
        replace(
            t, encrypted=True, dataset=f"vault/shop/{t.name}", encryption_root=theirs[t.name], salt=salts[1]
        )
        for t in world.inventory().datasets
    )
    return sources, Inventory(address="there", datasets=tuple(there))


def planned(world: World, sources: list[SourceDataset], inventory: Inventory) -> ShipPlan:
    return plan_ship(world.backups, sources, inventory, {}, initial=True)


ONE_ROOT = {"tank/a": "tank/a", "tank/a/log": "tank/a"}
OWN = {"tank/a": "vault/shop/tank/a", "tank/a/log": "vault/shop/tank/a/log"}


def test_a_copy_below_another_encryption_root_gets_nothing() -> None:
    world = World()
    world.take()
    shipped(world)
    world.take()
    assert len(sends(planned(world, *encrypted(world, ONE_ROOT, OWN)))) == 2
    for root, salts, overwritten in (("vault", ("7", "8"), False), ("vault", ("7", "7"), True)):
        theirs = OWN | {"tank/a/log": root}
        copy = "vault/shop/tank/a/log"
        assert planned(world, *encrypted(world, ONE_ROOT, theirs, salts=salts)) == OtherKey(
            dataset="tank/a/log", copy=copy, root=root, overwritten=overwritten
        )
    raw = encrypted(world, ONE_ROOT, OWN | {"tank/a": "vault"}, salts=("0", "0"))
    found = planned(world, *raw)
    assert isinstance(found, OtherKey) and not found.overwritten, "of a raw key no salt tells"


def test_copies_share_a_key_only_as_their_sources_do() -> None:
    world = World()
    world.take()
    shipped(world)
    world.take()
    shared = dict.fromkeys(OWN, OWN["tank/a"])
    assert len(sends(planned(world, *encrypted(world, ONE_ROOT, shared)))) == 2
    apart = {name: name for name in ONE_ROOT}
    assert isinstance(planned(world, *encrypted(world, apart, shared)), OtherKey)
    other = dict.fromkeys(OWN, "vault")
    assert isinstance(planned(world, *encrypted(world, ONE_ROOT, other)), OtherKey)


def test_what_is_not_encrypted_needs_the_key_that_it_is_received_below() -> None:
    world = World()
    world.take()
    locked = replace(world.inventory(), locked="vault")
    assert planned(world, world.sources(), locked) == KeyLocked("tank/a", "vault")
    raw = [replace(d, encrypted=True, encryption_root=d.name) for d in world.sources()]
    assert len(sends(planned(world, raw, locked))) == 2
    shipped(world)
    world.take()
    there = replace(world.inventory(), locked="vault")
    assert len(sends(planned(world, world.sources(), there))) == 2, "copies that are not encrypted"
    inherited = tuple(replace(t, encrypted=True, encryption_root="vault") for t in there.datasets)
    assert planned(world, world.sources(), replace(there, datasets=inherited)) == KeyLocked("tank/a", "vault")
    newest = shipped(world).backups[-1]
    nothing = replace(world.inventory(), locked="vault")
    assert planned(world, world.sources(), nothing) == UpToDate(newest)
