"""A drill on schedule: who it waits for, who makes it, what ends it, and where its verdict is."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.fast.test_drill import NAME, POOL, THERE, host
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, World
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.context import Context
from zbackup.jobs.drills import guard, scheduled_drill
from zbackup.jobs.drills.guard import DrillGuard, restoring
from zbackup.jobs.drills.scheduled_drill import DrillRules, drill_turn, make
from zbackup.jobs.drills.verdicts import drilled, of_backups, read, write_down
from zbackup.model.backup import Backup
from zbackup.model.drill import DRILLS, DrillVerdict
from zbackup.model.errors import DatabaseError, Postponed
from zbackup.model.progress import Silent
from zbackup.model.schedule import Interval
from zbackup.plan.due import CLOCK_TOLERANCE
from zbackup.zfs.facts import ZfsFacts

ctx = pytest.fixture(host, name="ctx")
RULES = DrillRules(timing=Interval(3600), zone=ZoneInfo("UTC"), limit=60, offset=0)


@contextmanager
def polled_often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(guard, "POLL_S", 0.001)
        yield


def a_verdict(world: World, ctx: Context) -> DrillVerdict:
    newest = ctx.catalog().backups[-1]
    return DrillVerdict(backup=newest.record.backup, name=newest.name, at=world.now)


def test_whoever_restores_is_given_way_and_nobody_else(ctx: Context) -> None:
    """Not what a killed run left, what is finished, or a drill itself."""
    for name in ("r1", "r2.log", NAME):
        unfinished(ctx, name)
    unfinished(ctx, "dev", kind="dev", state="ready")
    assert restoring(ctx) == ""
    for name, said in (("r1", "makes r1"), ("r2", "makes r2"), ("dev", ""), (NAME, "")):
        with working_on(ctx, name, "zbackup restore"):
            assert restoring(ctx).endswith(said) and bool(restoring(ctx)) == bool(said)
            if said:
                with pytest.raises(Postponed, match=said):
                    make(ctx, None, 60, lambda: "")
    assert read(ctx, "") == ()


def test_one_is_made_of_what_it_is_of(ctx: Context) -> None:
    turn = make(ctx, None, 60, lambda: "")
    assert turn.report and [v.at for v in read(ctx, "")] == [turn.at] and read(ctx, "vault") == ()
    turn = make(ctx, ctx.destinations[0], 60, lambda: "")
    assert turn.report and [v.at for v in read(ctx, "vault")] == [turn.at] and len(read(ctx, "")) == 1


def test_there_is_to_be_room_where_its_clone_is(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    full = replace(POOL, free=0)
    monkeypatch.setattr(
        ZfsFacts, "pool", lambda _, name: replace(full if name == "vault" else POOL, name=name)
    )
    make(ctx, None, 60, lambda: "")
    with pytest.raises(Postponed, match="vault has 0 MiB free"):
        make(ctx, ctx.destinations[0], 60, lambda: "")


def test_as_root_it_is_made_here_unless_it_passed_since(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    made: list[tuple[object, float, str]] = []
    monkeypatch.setattr(scheduled_drill, "make", lambda _, of, limit, told: made.append((of, limit, told())))
    [vault] = ctx.destinations
    passed = a_verdict(world, ctx)
    write_down(ctx, "vault", None, passed)
    assert drill_turn(ctx, vault, RULES, lambda: False).at == passed.at and made == []
    drill_turn(ctx, None, RULES, lambda: False)
    drill_turn(ctx, None, RULES, lambda: True)
    assert made == [(None, 60, ""), (None, 60, "the daemon is told to end")]


def test_who_is_not_root_asks_the_helper(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 999)
    asked: list[object] = []

    def ask(socket: Path, question: object, stopping: object) -> dict[str, object]:
        asked.append(question)
        return {"result": "passed"}

    monkeypatch.setattr(scheduled_drill, "ask_patiently", ask)
    helped = replace(ctx, drill_helper=Path("/run/drill"))
    for destination in (None, ctx.destinations[0]):
        assert drill_turn(helped, destination, RULES, lambda: False).report is None
    assert asked == [{"verb": "drill", "instance": "shop", "clone": name} for name in ("", "vault")]


def test_what_ends_one_ends_it_for_good(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it is so no more when that is looked at again; and nothing is ended without a reason."""
    killed: list[str] = []
    twice = threading.Event()

    def kill(_: object, name: str) -> None:
        killed.append(name)
        if len(killed) > 1:
            twice.set()

    monkeypatch.setattr(clone_datasets, "kill_server", kill)
    unfinished(ctx, NAME)

    def watched(gives_way: Callable[[], str], limit_s: float) -> None:
        with polled_often(monkeypatch), DrillGuard(gives_way).watching(ctx):
            twice.wait(limit_s)
            raise DatabaseError("the server is gone")

    with pytest.raises(DatabaseError):
        watched(lambda: "", 0.05)
    assert killed == []
    once = iter(["a restore begins"])
    with pytest.raises(Postponed, match="a restore begins"):
        watched(lambda: next(once, ""), 60)
    assert len(killed) > 1, "another server may have been started"


def test_until_it_is_ended_its_progress_is_told(ctx: Context) -> None:
    told: list[object] = []

    class Heard(Silent):
        def phase(self, name: str, detail: str = "") -> None:
            told.append((name, detail))

        def advance(self, done: int, total: int, unit: str = "B") -> None:
            told.append((done, total, unit))

        def note(self, text: str) -> None:
            told.append(text)

    with DrillGuard().watching(replace(ctx, progress=Heard())) as progress:
        progress.phase("replaying", "all")
        progress.advance(1, 2, "rows")
        progress.note("it is slow")
    assert told == [("replaying", "all"), (1, 2, "rows"), "it is slow"]


def test_who_is_told_to_end_does_and_asks_nobody_first(ctx: Context) -> None:
    nowhere: Any = None
    assert scheduled_drill._StillWanted(nowhere, nowhere, lambda: "told").why_not() == "told"


def test_a_verdict_is_where_the_instances_clones_are_or_the_copies(world: World, ctx: Context) -> None:
    """Where its pool is not on this host, as where copies alone are."""
    verdict = a_verdict(world, ctx)
    elsewhere = replace(ctx, elsewhere=("attic/zbackup", THERE))

    def written(dataset: str) -> set[str]:
        return {name for name in world.pools.datasets[dataset].properties if name.startswith(DRILLS)}

    write_down(elsewhere, "", None, verdict)
    write_down(elsewhere, "vault", None, verdict)
    assert (written(CLONES), written(THERE)) == ({f"{DRILLS}shop", f"{DRILLS}shop:vault"}, set())
    copies_alone = replace(elsewhere, clones="gone/zbackup")
    assert read(copies_alone, "vault") == ()
    write_down(copies_alone, "vault", None, verdict)
    assert written(THERE) == {f"{DRILLS}shop:vault"} and read(copies_alone, "vault") == (verdict,)


def test_what_has_no_snapshots_was_not_drilled(world: World, ctx: Context) -> None:
    newest = ctx.catalog().backups[-1]
    write_down(ctx, "", newest, a_verdict(world, ctx))
    newest = ctx.catalog().backups[-1]
    gone = Backup(record=replace(newest.record, backup="gone"), snapshots=())
    assert set(of_backups(ctx, (newest, gone))) == {newest.record.backup}


def test_a_clock_may_be_put_back_a_little(world: World, ctx: Context) -> None:
    write_down(ctx, "", None, replace(a_verdict(world, ctx), at=world.now + CLOCK_TOLERANCE))
    (found,) = drilled(ctx, ())
    at = found.passed
    assert at and found.age(at.at - CLOCK_TOLERANCE) == timedelta()
    assert found.age(at.at - CLOCK_TOLERANCE - timedelta(microseconds=1)) is None
