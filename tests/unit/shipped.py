"""Results of shipping, for tests of what is said of them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.plan.worlds import World
from zbackup.cli import ship
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.ship import Sent, ShipPreview, ShipReport
from zbackup.model.errors import ZbackupError
from zbackup.model.shipping import ReceivedSnapshot
from zbackup.plan.ship.ship import Send, Steps

DESTINATION = ShipDestination(
    adapter=ZfsDestination(
        name="offsite",
        address="zfs:vault/b",
        root="vault/b",
        instance="shop",
        target=None,
        control=Path("/x"),
    ),
    tag="tag",
)
CONTEXT = cast(Context, SimpleNamespace(instance="shop"))


def looked(world: World, *, initial: bool = True) -> ShipPreview:
    plan = world.plan(initial=initial)
    sends = [s for s in plan.steps if isinstance(s, Send)] if isinstance(plan, Steps) else []
    return ShipPreview(destination=DESTINATION, plan=plan, sizes=tuple(1 << 20 for _ in sends))


def shape(result: ShipReport | ShipPreview | ZbackupError) -> dict[str, Any]:
    return ship._shape(ship._ShipTurn(CONTEXT, DESTINATION, result))


def diverged() -> World:
    world = World()
    world.take()
    world.do(world.plan())
    world.there["tank/a"].copies.append(ReceivedSnapshot(name="mine", guid=7))
    return world


def reported() -> ShipReport:
    world = World()
    backup = world.take()
    plan = world.plan()
    assert isinstance(plan, Steps)
    sent = tuple(Sent(s, 1 << 21, 2.0) for s in plan.steps if isinstance(s, Send))
    return ShipReport(destination=DESTINATION, sent=sent, committed=(backup,), newest=backup)


def in_json() -> dict[str, Any]:
    """Every shape there is, by its command."""
    world = World()
    fresh = looked(world)
    world.take()
    return {
        "ship": shape(reported()),
        "ship --dry-run": shape(looked(world)),
        "ship --dry-run, nothing": shape(fresh),
        "ship --dry-run, first": shape(looked(world, initial=False)),
        "ship --dry-run, diverged": shape(looked(diverged())),
    }
