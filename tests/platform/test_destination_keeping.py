"""What a destination keeps by rules of its own, and what is let go when one is gone. On two real pools."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.lab.pool import Pool, create_pool, run
from tests.platform.shipping import Yard
from zbackup.jobs.prune_at import plan_prune_at, prune_at
from zbackup.jobs.ship import ship
from zbackup.jobs.stale import find_stale, release_stale
from zbackup.model.retention import CONDEMNED, Retention, Span

SHORT = Retention(tiers=(), last=2, minimum=1, window=Span(1, "minute"))


@pytest.fixture(scope="module")
def vault() -> Iterator[Pool]:
    made = create_pool()
    yield made
    made.destroy()


@pytest.fixture
def yard(pool: Pool, vault: Pool) -> Yard:
    return Yard(pool, vault)


def shipped(yard: Yard, count: int) -> list[str]:
    """The names of so many backups, each shipped."""
    ctx = yard.context()
    names = []
    for _ in range(count):
        names.append(yard.backup())
        ship(ctx, ctx.targets[0])
    return names


def test_the_rules_of_the_destination_decide_there(yard: Yard) -> None:
    names = shipped(yard, 4)
    ctx = yard.context(retention=SHORT)
    target = ctx.targets[0]
    assert [b.name for b in plan_prune_at(ctx, target).retention.destroy] == names[:2]
    assert yard.committed() == names
    report = prune_at(ctx, target)
    assert [b.name for b in report.destroyed] == names[:2] and report.skipped == ()
    assert yard.committed() == names[2:]
    assert {c.partition("@")[2] for c in yard.copies()} == set(names[2:])
    later = yard.backup()
    assert [b.name for b in ship(ctx, target).committed] == [later], "the next stream has its base"


def test_without_rules_nothing_goes(yard: Yard) -> None:
    names = shipped(yard, 2)
    ctx = yard.context()
    assert prune_at(ctx, ctx.targets[0]).destroyed == ()
    assert yard.committed() == names


def test_what_is_held_there_is_skipped_and_keeps_nobody_else(yard: Yard) -> None:
    names = shipped(yard, 4)
    run("zfs", "hold", "mine", f"{yard.home}/{yard.inner.name}@{names[0]}")
    ctx = yard.context(retention=SHORT)
    report = prune_at(ctx, ctx.targets[0])
    assert [b.name for b in report.destroyed] == [names[1]]
    assert yard.committed() == [names[0], *names[2:]]
    run("zfs", "release", "mine", f"{yard.home}/{yard.inner.name}@{names[0]}")


def test_what_a_killed_prune_left_goes_with_the_next(yard: Yard) -> None:
    names = shipped(yard, 3)
    run("zfs", "set", f"{CONDEMNED}=2026", f"{yard.home}/{yard.outer.name}@{names[0]}")
    run("zfs", "destroy", f"{yard.home}/{yard.inner.name}@{names[0]}")
    ctx = yard.context(retention=SHORT)
    assert [b.name for b in prune_at(ctx, ctx.targets[0]).destroyed] == [names[0]]
    assert {c.partition("@")[2] for c in yard.copies()} == set(names[1:])


def test_pins_of_a_destination_that_is_gone_are_found_and_let_go(yard: Yard) -> None:
    (name,) = shipped(yard, 1)
    ctx = yard.context()
    snapshot = ctx.catalog().backups[0].snapshots[0]
    ctx.zfs.hold(ctx.targets[0].tag, snapshot)
    run("zfs", "hold", "somebody", str(snapshot))
    assert find_stale(ctx) == [], "it is configured"
    without = replace(ctx, targets=())
    found = release_stale(without)
    assert sorted((s.kind, s.name.partition("#")[0].partition("@")[0]) for s in found) == [
        ("bookmark", yard.outer.name),
        ("bookmark", yard.inner.name),
        ("hold", yard.outer.name),
    ]
    assert find_stale(without) == []
    assert run("zfs", "holds", "-H", str(snapshot)).split("\t")[1] == "somebody"
    run("zfs", "release", "somebody", str(snapshot))
    assert name in {s.name for s in ctx.zfs.snapshots(yard.outer.name)}
