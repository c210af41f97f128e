"""Shipping from one pool to another: what arrives, how, and what is never done."""

import pytest

from tests.lab.pool import run
from tests.platform.shipping import Yard
from zbackup.jobs.ship.ship import preview, ready, ship
from zbackup.jobs.watch.window import inspect_destination
from zbackup.model.errors import Diverged, NotFound, Refused
from zbackup.model.shipping import COMMITTED
from zbackup.plan.ship.ship import NeedsInitial, Steps, UpToDate


def ship_now(yard: Yard, **changes: object) -> list[str]:
    """Names of what was committed by one run."""
    ctx = yard.context(**changes)
    return [b.name for b in ship(ctx, ctx.destinations[0]).committed]


def test_a_full_copy_then_increments_and_then_nothing(yard: Yard) -> None:
    first = yard.backup()
    ctx = yard.context()
    report = ship(ctx, ctx.destinations[0])
    assert ([b.name for b in report.committed], report.newest and report.newest.name) == ([first], first)
    assert all(s.step.origin is None and s.size > 300_000 for s in report.sent)
    second, third = yard.backup(), yard.backup()
    report = ship(ctx, ctx.destinations[0])
    assert [b.name for b in report.committed] == [third], "only the newest, for there are no rules"
    assert all(s.step.origin and s.step.origin.name.endswith(f"@{first}") for s in report.sent)
    assert yard.committed() == [first, third]
    assert yard.same(first) and yard.same(third)
    assert ship(ctx, ctx.destinations[0]).sent == ()
    assert preview(ctx, ctx.destinations[0]).plan == UpToDate(report.newest)
    del second


def test_nothing_is_left_pinned_but_a_bookmark_of_the_newest(yard: Yard) -> None:
    for _ in range(2):
        yard.backup()
        ship_now(yard)
    outer, inner = sorted(yard.marks())
    assert outer.startswith("#zbackup-ship:vault:") and inner.startswith("/bin log#zbackup-ship:vault:")


def test_it_goes_on_from_the_bookmark_when_the_snapshot_is_gone(yard: Yard) -> None:
    first = yard.backup()
    ship_now(yard)
    second = yard.backup()
    for member in yard.members:
        run("zfs", "destroy", f"{member.name}@{first}")
    ctx = yard.context()
    report = ship(ctx, ctx.destinations[0])
    assert all(s.step.origin and "#" in s.step.origin.name for s in report.sent)
    assert yard.committed() == [first, second] and yard.same(second)


def test_the_first_copy_has_to_be_allowed(yard: Yard) -> None:
    yard.backup()
    ctx = yard.context(initial=False)
    with pytest.raises(Refused, match="zbackup ship shop vault --initial"):
        ship(ctx, ctx.destinations[0])
    assert isinstance(preview(ctx, ctx.destinations[0]).plan, NeedsInitial)
    assert (yard.copies(), yard.marks()) == ([], [])
    assert ship(ctx, ctx.destinations[0], initial=True).committed


def test_copies_can_neither_be_mounted_by_chance_nor_run_nor_written(yard: Yard) -> None:
    yard.backup()
    ship_now(yard)
    for member in yard.members:
        copy = f"{yard.home}/{member.name}"
        wanted = "readonly,canmount,setuid,exec,devices,mountpoint,mounted"
        values = run("zfs", "get", "-Ho", "value", wanted, copy).split()
        assert values == ["on", "noauto", "off", "off", "off", "none", "no"]


def test_a_dry_run_changes_nothing(yard: Yard) -> None:
    yard.backup()
    ctx = yard.context()
    found = preview(ctx, ctx.destinations[0])
    assert isinstance(found.plan, Steps) and min(found.sizes) > 300_000
    assert (yard.copies(), yard.marks()) == ([], [])


def test_a_snapshot_taken_over_there_is_not_rolled_back(yard: Yard) -> None:
    first = yard.backup()
    ship_now(yard)
    run("zfs", "snapshot", f"{yard.home}/{yard.inner.name}@mine")
    second = yard.backup()
    ctx = yard.context()
    with pytest.raises(Diverged, match=r"(?s)bin log.*taken there.*@mine \(guid") as told:
        ship(ctx, ctx.destinations[0])
    assert second in str(told.value) and "--initial" in str(told.value)
    assert yard.committed() == [first]
    run("zfs", "destroy", f"{yard.home}/{yard.inner.name}@mine")
    assert ship_now(yard) == [second]


def test_a_backup_counts_only_when_all_parts_are_marked(yard: Yard) -> None:
    first = yard.backup()
    ship_now(yard)
    assert yard.committed() == [first]
    run("zfs", "inherit", COMMITTED, f"{yard.home}/{yard.inner.name}@{first}")
    assert yard.committed() == []
    assert ship_now(yard) == [first], "everything is there but the mark"


def test_the_root_must_be_there(yard: Yard) -> None:
    yard.backup()
    run("zfs", "destroy", yard.root)
    ctx = yard.context()
    for look_there in (ship, preview, inspect_destination):
        with pytest.raises(
            NotFound, match=f"there is no dataset {yard.root} at zfs:{yard.root}: import its pool"
        ):
            look_there(ctx, ctx.destinations[0])


def test_nor_is_it_taken_for_empty_while_there_is_nothing_to_ship(yard: Yard) -> None:
    ctx = yard.context()
    assert ready(ctx, ctx.destinations[0]) == "there is no backup to ship yet"
    run("zfs", "destroy", yard.root)
    with pytest.raises(NotFound, match="import its pool"):
        ready(ctx, ctx.destinations[0])
