"""The report of a host that receives backups on what lies there."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.fast.right import portrait
from tests.fast.test_drill import POOL
from tests.fast.world import VAULT, World
from zbackup.destinations.copies import Copies
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.journal import JobState
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.watch import received
from zbackup.jobs.watch.received import Received, ReceivedCare, inspect, kept_at
from zbackup.model.errors import CommandFailed
from zbackup.model.retention import Retention, Span
from zbackup.model.shipping import COMMITTED
from zbackup.zfs.facts import ZfsFacts

HOUR = timedelta(hours=1)


@pytest.fixture
def ctx(world: World, monkeypatch: pytest.MonkeyPatch) -> Context:
    """Two backups, both shipped to the other pool."""
    monkeypatch.setattr(ZfsFacts, "pool", lambda *_: POOL)
    made = world.context(destinations=(world.destination(),))
    for _ in range(2):
        snapshot(made)
        ship(made, made.destinations[0])
        world.state.elapsed += HOUR
    world.writing = False
    return made


def look(ctx: Context, *kept: ReceivedCare, root: str = VAULT, **more: object) -> Received:
    return inspect(ctx.zfs, ctx.clock, root, kept, **more)  # type: ignore[arg-type]


def care(instance: str = "shop", **more: object) -> ReceivedCare:
    empty = {"due": (), "jobs": (), "scheduled": False, "max_lag": None}
    return ReceivedCare(instance=instance, destination="vault", **(empty | more))  # type: ignore[arg-type]


def test_the_backups_of_each_instance_with_their_age(world: World, ctx: Context) -> None:
    before = portrait(world)
    found = look(ctx)
    assert portrait(world) == before
    (shop,) = found.lots
    assert (shop.instance, shop.home) == ("shop", f"{VAULT}/shop")
    newest = ctx.catalog().backups[-1]
    assert [b.name for b in shop.backups] == [b.name for b in ctx.catalog().backups]
    assert shop.age == found.looked - newest.record.taken > HOUR
    copies = (
        s for s in world.pools.all_snapshots() if s.of.name.startswith(shop.home) and s.name == newest.name
    )
    assert shop.arrived in {s.properties[COMMITTED] for s in copies}
    assert found.findings == () and found.health == "ok"


def test_what_was_promised_and_never_came_is_told(ctx: Context) -> None:
    wiki, shop = look(ctx, care("wiki")).lots
    assert (wiki.instance, wiki.home, wiki.backups) == ("wiki", f"{VAULT}/wiki", ())
    assert (wiki.arrived, wiki.age) == ("", None) and shop.instance == "shop"
    assert any("wiki" in f.text for f in look(ctx, care("wiki")).findings)


def test_an_instance_is_called_as_its_backups_say_wherever_somebody_put_them(ctx: Context) -> None:
    (shop,) = look(ctx).lots
    (moved,) = received._lots(f"{VAULT}/old", Copies(shop.backups, ()), ctx.clock.now())
    assert (moved.instance, moved.home) == ("shop", f"{VAULT}/old")


def test_one_that_is_of_tomorrow_is_not_newer_than_now(world: World, ctx: Context) -> None:
    world.state.elapsed -= 24 * HOUR
    (shop,) = look(ctx).lots
    assert shop.age == timedelta()


def test_how_old_they_may_be_says_who_looks_or_the_configuration(ctx: Context) -> None:
    def judged(*kept: ReceivedCare, most: timedelta | None = None) -> list[str]:
        return [f.severity for f in look(ctx, *kept, most=most).findings]

    assert judged(care(max_lag=HOUR / 2)) == ["critical"]
    assert judged(care(max_lag=9 * HOUR)) == judged(care()) == []
    assert judged(care(max_lag=9 * HOUR), most=HOUR / 2) == ["critical"]
    assert judged(care(max_lag=HOUR / 2), most=9 * HOUR) == []


def test_where_its_quota_leaves_no_room_it_says_so(world: World, ctx: Context) -> None:
    world.pools.set(VAULT, {"available": "4096"})
    (finding,) = look(ctx).findings
    assert finding.severity in ("warning", "critical") and VAULT in finding.text
    world.pools.set(VAULT, {"available": "0", "used": "0"})
    assert look(ctx).available == 0


def test_what_is_under_way_is_named(world: World, ctx: Context) -> None:
    assert look(ctx).arriving == ()
    snapshot(ctx)
    world.cut = 2
    with pytest.raises(CommandFailed):
        ship(ctx, ctx.destinations[0])
    (cut,) = [each.name for each in world.pools.datasets.values() if each.partial]
    assert look(ctx).arriving == (cut,)


def test_the_care_at_a_destination_is_its_own_jobs_and_what_its_rules_want_no_more(
    world: World, ctx: Context
) -> None:
    jobs = [
        JobState(instance=instance, job=job)
        for instance in ("shop", "wiki")
        for job in ("prune", "prune:vault", "verify:vault", "verify:offsite", "snapshot")
    ]
    (vault,) = ctx.destinations
    rules = Retention(last=1, minimum=1, window=Span(1, "minute"))
    found = kept_at(ctx, replace(vault, retention=rules, max_lag=HOUR), jobs, scheduled=True)
    assert [(j.instance, j.job) for j in found.jobs] == [("shop", "prune:vault"), ("shop", "verify:vault")]
    assert (found.instance, found.destination, found.scheduled, found.max_lag) == (
        "shop",
        "vault",
        True,
        HOUR,
    )
    assert [b.name for b in found.due] == [ctx.catalog().backups[0].name]
