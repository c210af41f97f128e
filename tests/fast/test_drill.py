"""A drill: what it recovers, what it proves and writes down, and that it leaves nothing."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.fast.breaking import every_break
from tests.fast.right import portrait, require_nothing_left, require_well
from tests.fast.server import FakeRecovery
from tests.fast.test_reconcile import unfinished
from tests.fast.world import VAULT, World
from zbackup.cli.tables import proven
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.clone_datasets import find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.drills.drill import drill, drill_here, plan_at, plan_here, prove_once
from zbackup.jobs.drills.guard import DrillGuard
from zbackup.jobs.drills.verdicts import of_backups, read
from zbackup.jobs.ship.ship import ship
from zbackup.model.drill import DRILLS, VERDICT, DrillVerdict
from zbackup.model.errors import CommandFailed, Postponed, Refused, Taken, VerificationFailed
from zbackup.model.log import Transaction
from zbackup.model.recovery import CheckedTables, Recovered, RecoveryFiles
from zbackup.model.space import Pool
from zbackup.zfs.facts import ZfsFacts

THERE = "vault/zbackup"
NAME = "shop-drill"
POOL = Pool(name="tank", size=100 << 30, free=50 << 30, fragmentation=0, health="ONLINE", readonly=False)


def host(world: World, monkeypatch: pytest.MonkeyPatch) -> Context:
    """Production with three backups, all shipped, and nobody who commits behind them."""
    made = world.context(destinations=(world.destination(),), elsewhere=(THERE,))
    world.pools.create(THERE, {"mountpoint": "/srv/clones", "canmount": "off", "zbackup:clones": "1"})
    for _ in range(3):
        snapshot(made)
        ship(made, made.destinations[0])
        world.state.elapsed += timedelta(minutes=1)
    monkeypatch.setattr(ZfsFacts, "pool", lambda *_: POOL)
    world.writing = False
    return made


ctx = pytest.fixture(host, name="ctx")


def without_verdicts(world: World) -> list[str]:
    """All there is but what drills write down, and the text that a clone was to be made."""
    return [line for line in portrait(world) if VERDICT not in line and DRILLS not in line]


def rows_of(monkeypatch: pytest.MonkeyPatch, world: World) -> list[tuple[int, ...]]:
    """What each drill's server has when its tables are checked."""
    seen: list[tuple[int, ...]] = []
    really = FakeRecovery.check_tables

    def check(recovery: FakeRecovery, files: RecoveryFiles, progress: Any) -> Any:
        seen.append(recovery._rows(files.where))
        return really(recovery, files, progress)

    monkeypatch.setattr(FakeRecovery, "check_tables", check)
    return seen


def test_tables_that_were_not_checked_are_in_the_verdict(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drill passes: the server wants them upgraded, and says nothing of damage."""
    assert "NOT CHECKED" not in proven(drill_here(ctx).verdict, ctx.zone)
    found = CheckedTables(tables=1, unchecked=("shop.u", "shop.v"))
    monkeypatch.setattr(FakeRecovery, "check_tables", lambda *_: found)
    passed = drill_here(ctx)
    written = read(ctx, "")[-1]
    assert written == passed.verdict and written.passed and written.unchecked == 2
    assert "1 table checked, 2 NOT CHECKED" in proven(written, ctx.zone)


def test_one_between_two_backups_proves_the_newest_that_has_not_passed(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the one before; and when all have passed, the newest again."""
    first, second, third = ctx.catalog().backups
    seen = rows_of(monkeypatch, world)
    bases = []
    for _ in range(3):
        plan = plan_here(ctx, between=True)
        report = drill_here(ctx, between=True)
        assert (report.verdict.name, report.verdict.to) == (plan.base.name, plan.moment)
        assert seen[-1] == tuple(n for n, at in world.server.times.items() if at < plan.moment)
        assert report.verdict.passed and report.verdict.transactions == len(seen[-1]) - len(
            world.content_of(plan.base)
        )
        bases.append(plan.base.name)
    assert bases == [second.name, first.name, second.name]
    verdicts = of_backups(ctx, ctx.catalog().backups)
    assert set(verdicts) == {first.record.backup, second.record.backup}
    assert [v.name for v in read(ctx, "")] == bases and len(seen) == 3
    assert [b.name for b in ctx.catalog().backups] == [b.name for b in (first, second, third)]
    require_nothing_left(world)
    require_well(world, ctx)


def test_one_of_all_the_log_goes_up_to_its_end(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict says when its last transaction was, which its server tells."""
    _, second, third = ctx.catalog().backups
    seen = rows_of(monkeypatch, world)
    plan = plan_here(ctx, between=False)
    assert plan.base == second and plan.whole
    verdict = drill_here(ctx).verdict
    assert seen == [world.content_of(third)]
    assert (verdict.name, verdict.tables, verdict.to) == (second.name, 1, plan.moment)
    really = FakeRecovery.recover
    at = world.server.times[5]

    def told(recovery: FakeRecovery, *given: Any, **options: Any) -> Recovered:
        last = Transaction(start="binlog.000001:4", end="binlog.000001:5", committed=at)
        return replace(really(recovery, *given, **options), last_applied=last)

    monkeypatch.setattr(FakeRecovery, "recover", told)
    assert drill_here(ctx).verdict.to == at
    between = plan_here(ctx, between=True)
    assert drill_here(ctx, between=True).verdict.to == between.moment
    require_nothing_left(world)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("here", [False, True], ids=["fetched", "where they lie"])
def test_one_of_copies_leaves_nothing_and_writes_nothing_there(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch, *, here: bool, between: bool
) -> None:
    if not here:
        monkeypatch.setattr(type(ctx.destinations[0].adapter), "here", "")
    [vault] = ctx.destinations
    seen = rows_of(monkeypatch, world)
    before = [line for line in without_verdicts(world) if VAULT in line]
    plan = plan_at(ctx, vault, between=between)
    made: set[str] = set()

    def watched(argv: tuple[str, ...], _: bool, act: Callable[[], Any]) -> Any:
        if argv[1] == "create" and argv[-1].endswith(f"/{NAME}"):
            made.add(argv[-1].partition("/")[0])
        return act()

    world.passing = watched
    report = drill(ctx, vault, between=between)
    assert made == {"vault" if here else "tank"}, "its clone is where the copies are"
    assert report.verdict.name == plan.base.name and plan.whole is not between
    assert seen == [
        tuple(n for n, at in world.server.times.items() if at < plan.moment)
        if between
        else world.content_of(ctx.catalog().backups[-1])
    ]
    assert [v.passed for v in read(ctx, "vault")] == [True] and read(ctx, "") == ()
    assert [line for line in without_verdicts(world) if VAULT in line] == before
    assert find_clone(ctx, f"{NAME}.copy") is find_clone(ctx.at(THERE), f"{NAME}.copy") is None
    require_nothing_left(world)
    if between:
        assert plan_at(ctx, vault, between=True).base != plan.base, "which has passed"


@pytest.mark.parametrize(
    ("damaged", "said"),
    [(("a.b",), "a table is damaged: a.b"), (("a.b", "c", "d"), "a table is damaged: a.b (and 2 more)")],
)
def test_a_damaged_table_is_a_failure_that_is_written_down(
    world: World, ctx: Context, damaged: tuple[str, ...], said: str
) -> None:
    """And what failed has not passed: the next one is of the same backup."""
    world.damaged_tables = damaged
    for destination in ("", "vault"):
        with pytest.raises(VerificationFailed) as failure:
            if destination:
                drill(ctx, ctx.destinations[0], between=True)
            else:
                drill_here(ctx, between=True)
        assert str(failure.value) == said
        (verdict,) = read(ctx, destination)
        again = (
            plan_at(ctx, ctx.destinations[0], between=True) if destination else plan_here(ctx, between=True)
        )
        assert again.base.name == verdict.name
    assert verdict == DrillVerdict(
        backup=verdict.backup, name=verdict.name, at=verdict.at, seconds=verdict.seconds, why=said
    )
    require_nothing_left(world)


@pytest.mark.parametrize("between", [False, True])
def test_what_was_fetched_for_one_that_failed_waits_for_who_asked_and_not_for_a_schedule(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch, *, between: bool
) -> None:
    monkeypatch.setattr(type(ctx.destinations[0].adapter), "here", "")
    world.cut = 2
    with pytest.raises(CommandFailed):
        drill(ctx, ctx.destinations[0], between=between)
    assert (find_clone(ctx, f"{NAME}.copy") is None) == between
    assert not world.state.servers and find_clone(ctx, NAME) is None
    drill(ctx, ctx.destinations[0], between=between)
    assert world.resumed == (not between)
    require_nothing_left(world)


def test_what_fills_the_pool_is_not_fetched(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is cloned where it lies needs no room."""
    monkeypatch.setattr(ZfsFacts, "pool", lambda *_: replace(POOL, free=1 << 20))
    drill(ctx, ctx.destinations[0])
    monkeypatch.setattr(type(ctx.destinations[0].adapter), "here", "")
    kept = portrait(world)
    with pytest.raises(Refused, match="fetching from vault for a drill needs"):
        drill(ctx, ctx.destinations[0])
    assert len(portrait(world)) == len(kept)


def test_who_was_in_the_way_or_has_pruned_it_is_no_verdict(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But it fails where the backup is there and cannot be read."""
    second = ctx.catalog().backups[1]
    really = FakeRecovery.recover

    def fails(recovery: FakeRecovery, *_: Any, **__: Any) -> Recovered:
        raise failure

    monkeypatch.setattr(FakeRecovery, "recover", fails)
    failure: Exception = Postponed("a restore begins")
    with pytest.raises(Postponed):
        drill_here(ctx)
    assert read(ctx, "") == ()
    failure = VerificationFailed("it does not open")
    with pytest.raises(VerificationFailed):
        drill_here(ctx)
    assert [v.why for v in read(ctx, "")] == ["it does not open"]

    def pruned(recovery: FakeRecovery, *given: Any, **options: Any) -> Recovered:
        for part in second.snapshots:
            world.pools.snapshot_called(str(part)).properties.pop("zbackup:backup", None)
        raise failure

    monkeypatch.setattr(FakeRecovery, "recover", pruned)
    with pytest.raises(VerificationFailed):
        drill_here(ctx)
    assert len(read(ctx, "")) == 1
    monkeypatch.setattr(FakeRecovery, "recover", really)


def test_what_must_not_go_on_is_ended_by_its_guard(world: World, ctx: Context) -> None:
    guard = DrillGuard()
    guard._why = Postponed("a restore begins")
    for job in (
        lambda: drill_here(ctx, guard=guard),
        lambda: drill(ctx, ctx.destinations[0], guard=guard),
    ):
        with pytest.raises(Postponed, match="a restore begins"):
            job()
    assert read(ctx, "") == read(ctx, "vault") == ()
    require_nothing_left(world)


def test_what_a_killed_one_left_goes_and_what_is_not_a_drills_stays(world: World, ctx: Context) -> None:
    kept = world.keep()
    for each in every_break(world, lambda: drill_here(ctx), ("killed before",)):
        if each.known:
            continue
        require_well(world, ctx)
        assert drill_here(ctx).verdict.passed, each
        require_nothing_left(world)
    world.put_back(kept)
    unfinished(ctx, NAME, state="ready")
    with pytest.raises(Taken, match=f"{NAME} exists"):
        drill_here(ctx)
    assert find_clone(ctx, NAME)


def test_one_that_passed_is_proof_enough(ctx: Context) -> None:
    made = prove_once(ctx, wait=0)
    assert made.passed and prove_once(ctx, wait=0) == made
    assert len(read(ctx, "")) == 1
