"""Counts and judgements of `status`: of this instance alone, within what was promised, while nobody works."""

import shlex
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.fast.right import portrait
from tests.fast.test_drill import POOL
from tests.fast.test_reconcile import unfinished
from tests.fast.world import CLONES, T0, World
from tests.unit.samples import backup
from zbackup.cli.listing import Listing
from zbackup.cli.listing import render as render_list
from zbackup.cli.window import render as render_window
from zbackup.jobs.archive.state import ArchiveState
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.lifecycle import destroy, start, stop, working_on
from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, create
from zbackup.jobs.drills.verdicts import write_down
from zbackup.jobs.journal import JobState
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.jobs.watch import root_helper
from zbackup.jobs.watch import status as room
from zbackup.jobs.watch.check import check
from zbackup.jobs.watch.root_helper import obey, obey_drill
from zbackup.jobs.watch.status import InstanceStatus, inspect, lost_of, written_a_day, written_by_dataset
from zbackup.jobs.watch.window import window
from zbackup.model.clock_reading import Reading
from zbackup.model.cron import Cron
from zbackup.model.drill import DrillVerdict
from zbackup.model.errors import DatabaseError, Refused, ZbackupError
from zbackup.model.log_entry import LogFilter
from zbackup.model.operator_notes import OperatorNotes, Pause
from zbackup.model.retention import Retention, Span
from zbackup.model.space import Space
from zbackup.plan.due import CronSlots
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.plan.health.health import FUTURE
from zbackup.plan.recovery.window import Gap, RecoveryWindow
from zbackup.zfs.facts import ZfsFacts

HOUR = timedelta(hours=1)


@pytest.fixture
def ctx(world: World, monkeypatch: pytest.MonkeyPatch) -> Context:
    """One backup, and a pool with room."""
    monkeypatch.setattr(ZfsFacts, "settings", lambda *_: ())
    room_there = Space(data=1, snapshots=1, clones=0, available=1 << 40, pool=POOL)
    monkeypatch.setattr(room, "space", lambda *_: room_there)
    monkeypatch.setattr(room, "server_process", world.server_process)
    made = world.context(retention=Retention(window=Span(10, "hour")))
    snapshot(made)
    return made


def look(ctx: Context, *jobs: JobState, expected: Expected | None = None, **more: Any) -> InstanceStatus:
    return inspect(ctx, expected or Expected(), jobs, daemon_runs=True, **more)


def said(found: InstanceStatus) -> dict[str, str]:
    return {f.subject: f.text for f in found.findings}


def test_a_clone_that_is_to_run_with_the_host_and_does_not(world: World, ctx: Context) -> None:
    """Unless somebody stopped it, or works on it."""
    boot = replace(ctx, cloning=replace(ctx.cloning, start="boot"))
    for name in ("dev", "stopped"):
        list(create(boot, CreateOptions(name=name)))
    list(create(ctx, CreateOptions(name="plain")))
    stop([ctx], "stopped")
    world.stop_clone("plain")
    assert look(ctx).findings == ()
    world.stop_clone("dev")
    [finding] = look(ctx).findings
    assert (finding.severity, finding.subject) == ("warning", "clones")
    assert finding.text.startswith("the clone dev does not run") and finding.fix == "zbackup clone start dev"
    with working_on(ctx, "dev", "zbackup clone start"):
        assert look(ctx).findings == ()
    start([ctx], "dev")
    assert look(ctx).findings == ()


def test_it_is_of_this_instance_alone(world: World, ctx: Context) -> None:
    list(create(ctx, CreateOptions(name="dev")))
    unfinished(ctx, "theirs", kind="dev", state="ready", instance="wiki")
    unfinished(ctx, "stopped", kind="dev", state="ready")
    mine, theirs = (
        JobState(instance=name, job="snapshot", failures=3, message="no") for name in ("shop", "wiki")
    )
    before = portrait(world)
    found = look(ctx, mine, theirs)
    assert portrait(world) == before
    assert (found.clones, found.servers, found.jobs) == (2, ("dev",), (mine,))
    assert (found.backups, found.newest) == (1, ctx.catalog().backups[0])


def test_what_is_promised_is_missed_and_what_is_older_or_was_switched_is_not(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.state.elapsed += 20 * HOUR
    looked = world.now

    def gap(cause: Any, hours: float) -> Gap:
        end = looked - hours * HOUR
        return Gap(after=end - HOUR, to=end, cause=cause, older="a", newer="b", why=f"{cause} {hours}")

    silent = (gap("silent", 17), gap("silent", 2))
    gaps = (gap("purged", 19), gap("switch", 18), gap("purged", 5), gap("switch", 3), *silent)
    reach = RecoveryWindow(ranges=(), gaps=gaps, saw_live_log=True)
    monkeypatch.setattr(room, "inspect_window", lambda *_: (reach, ""))
    found = look(ctx)
    assert (found.gaps, found.switched, found.silent) == (("purged 5",), ("switch 3",), ("silent 2",))
    assert len(found.gap_keys) == 1 and found.gap_keys[0].startswith("purged after")


def test_what_ends_when_the_promise_begins_is_not_missed(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = world.now + 20 * HOUR
    still = SimpleNamespace(now=lambda: now, reading=lambda: Reading("boot", 0.0, True))
    ctx = replace(ctx, clock=cast(Any, still))
    for late, missed in ((timedelta(), 0), (timedelta(microseconds=1), 1)):
        end = now - 10 * HOUR + late
        gaps = tuple(
            Gap(after=end - HOUR, to=end, cause=cause, older="a", newer="b", why="why")
            for cause in ("purged", "switch")
        )
        reach = RecoveryWindow(ranges=(), gaps=gaps, saw_live_log=True)
        monkeypatch.setattr(room, "inspect_window", lambda *_, reach=reach: (reach, ""))
        found = look(ctx)
        assert (len(found.gaps), len(found.switched)) == (missed, missed)
    newest = ctx.catalog().backups[-1]
    for ahead, named in ((FUTURE, False), (FUTURE + timedelta(microseconds=1), True)):
        still.now = lambda ahead=ahead: newest.record.taken - ahead
        assert any(newest.name in text for text in said(look(ctx)).values()) == named


def test_a_drill_that_failed_is_told_with_its_reason(ctx: Context) -> None:
    newest = ctx.catalog().backups[-1]
    failed = DrillVerdict(
        backup=newest.record.backup, name=newest.name, at=ctx.clock.now(), why="it does not open"
    )
    hourly = Expected(drills=(("", 3600.0),))
    assert not any("it does not open" in text for text in said(look(ctx, expected=hourly)).values())
    write_down(ctx, "", newest, failed)
    assert any("it does not open" in text for text in said(look(ctx, expected=hourly)).values())


def test_by_a_cron_expression_that_rests_nothing_is_late_until_slots_were_missed(
    world: World, ctx: Context
) -> None:
    after = ctx.clock.now() + 20 * HOUR
    slots = CronSlots(Cron.parse(f"*/5 {after.hour} * * *"), ZoneInfo("UTC"))
    expected = Expected(
        snapshot_every=300, snapshot_slots=slots, drills=(("", 300.0),), drill_slots=(("", slots),)
    )
    world.state.elapsed += 19 * HOUR
    assert {"snapshots", "drill"}.isdisjoint(said(look(ctx, expected=expected)))
    world.state.elapsed += 30 * HOUR
    late = said(look(ctx, expected=expected))
    assert "wanted one at" in late["snapshots"] and "none has passed yet" in late["drill"]


def test_a_half_taken_backup_is_a_finding_only_when_nobody_is_taking_it(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot(ctx)
    newest = ctx.catalog().backups[-1]
    for part in newest.snapshots:
        for fact in ("as_of", "complete_to"):
            world.pools.snapshot_called(str(part)).properties.pop(f"zbackup:{fact}", None)
    counted: list[int] = []
    really = room.health.judge

    def judge(facts: Any, expected: Expected) -> Any:
        counted.append(facts.unfinished)
        return really(facts, expected)

    monkeypatch.setattr(room.health, "judge", judge)
    with ctx.instance_lock("zbackup snapshot"):
        assert "zbackup snapshot" in look(ctx).working
    assert look(ctx).working == ""
    assert counted == [0, 1]
    lock_owner = iter(["", "zbackup snapshot (pid 7)"])
    monkeypatch.setattr(room, "lock_owner", lambda _: next(lock_owner))
    assert look(ctx).working == "zbackup snapshot (pid 7)", "it began while the backups were listed"


def test_while_it_is_paused_no_snapshot_is_late(world: World, ctx: Context) -> None:
    world.state.elapsed += 30 * HOUR
    hourly = Expected(snapshot_every=3600.0)
    assert "every 1 hour" in said(look(ctx, expected=hourly))["snapshots"]
    pause = OperatorNotes(paused={"shop": Pause(until=world.now + HOUR)})
    assert set(said(look(ctx, expected=hourly, notes=pause))) == {"paused"}


def test_what_is_from_the_future_is_named(world: World, ctx: Context) -> None:
    world.writing = False
    newest = ctx.catalog().backups[-1]
    for minutes, seen in ((-1, False), (-10, True)):
        world.state.elapsed = newest.record.taken - T0 + timedelta(minutes=minutes)
        assert any(newest.name in text for text in said(look(ctx)).values()) == seen


def test_a_server_without_a_log_is_told_and_an_empty_instance_too(world: World, ctx: Context) -> None:
    assert not any("binlog" in text for text in said(look(ctx)).values())
    world.server.blockers = ("the binlog is off: set log_bin",)
    snapshot(ctx)
    why = "no moment after the newest backup can be restored: the binlog is off: set log_bin"
    assert why in [f.text for f in look(ctx).findings]
    empty = look(replace(ctx, instance="new"))
    assert empty.newest is None and empty.backups == 0 and empty.health != "ok"


def test_an_archive_that_is_ahead_of_the_clock_is_not_behind(ctx: Context) -> None:
    now = ctx.clock.now()
    state = ArchiveState(destination="vault", every=60, tried=now, archived=now)
    for archived, ahead in ((now, False), (now + HOUR, True), (None, False)):
        assert room._archive_facts(replace(state, archived=archived), now).ahead == ahead


def test_how_long_an_archive_has_failed_is_counted_by_a_clock_that_may_be_put_back(ctx: Context) -> None:
    now = ctx.clock.now()
    state = ArchiveState(destination="vault", every=60, tried=now, error="no route")
    for failing, for_so_long in ((now - HOUR, HOUR), (now + HOUR, timedelta()), (None, timedelta())):
        assert room._archive_facts(replace(state, failing=failing), now).failing == for_so_long


def test_what_is_lost_is_counted_from_the_first_backup_and_without_switches(
    world: World, ctx: Context
) -> None:
    catalog, now = ctx.catalog(), world.now + 9 * HOUR
    gap = Gap(after=now - 5 * HOUR, to=now - 3 * HOUR, cause="switch", older="a", newer="b", why="")
    first = catalog.backups[0].record.since or catalog.backups[0].record.as_of
    assert first
    nothing = RecoveryWindow(ranges=(), gaps=(), saw_live_log=True)
    assert lost_of(catalog, nothing, now - 99 * HOUR, now) == now - first
    assert lost_of(catalog, replace(nothing, gaps=(gap,)), now - 99 * HOUR, now) == now - first - 2 * HOUR
    purged = replace(gap, cause="purged")
    assert lost_of(catalog, replace(nothing, gaps=(purged,)), now - 99 * HOUR, now) == now - first
    early = [replace(b, record=replace(b.record, since=first - HOUR)) for b in catalog.backups]
    assert (
        lost_of(replace(catalog, backups=tuple(early)), nothing, now - 99 * HOUR, now) == now - first + HOUR
    )
    unfinished = replace(catalog, backups=(*catalog.backups, backup(9, None, None)))
    assert lost_of(unfinished, nothing, now - 99 * HOUR, now) == now - first
    alone = [
        replace(b, record=replace(b.record, server={"blockers": "it keeps no log"})) for b in catalog.backups
    ]
    assert lost_of(replace(catalog, backups=tuple(alone)), nothing, now - 99 * HOUR, now) == timedelta()


def test_how_much_is_written_a_day_is_told_of_a_week_and_no_less_than_an_hour() -> None:
    def taken(hours: float, written: int) -> Any:
        made = backup(int(hours * 60) + 9999, 0, 0)
        at = made.record.taken + hours * HOUR
        parts = tuple(replace(s, written=written) for s in made.snapshots[:1])
        return replace(made, record=replace(made.record, taken=at), snapshots=parts)

    now = backup(1, 0, 0).record.taken + 24 * HOUR
    assert written_a_day([], now) is written_a_day([taken(0, 5)], now) is None
    assert written_a_day([taken(0, 5), taken(0.99, 7)], now) is None
    assert written_a_day([taken(0, 5), taken(1, 7)], now) == 7 * 24
    assert written_a_day([taken(-200, 5), taken(0, 9), taken(12, 7), taken(48, 99)], now) == 14
    assert written_by_dataset([taken(0, 5), taken(0.99, 7)], now) == {}
    whole = backup(1, 0, 0)
    names = [s.dataset for s in whole.snapshots]
    parts = tuple(replace(s, written=5 + n) for n, s in enumerate(whole.snapshots))
    later = replace(taken(12, 0), snapshots=parts)
    assert len(names) > 1
    assert written_by_dataset([taken(0, 9), later, later], now) == {
        name: 2 * 2 * (5 + n) for n, name in enumerate(names)
    }


def test_the_helper_does_what_it_is_asked_and_nothing_else(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What asks it is not root."""
    line = '{"verb": "%s", "instance": "%s", "clone": "dev"}'
    for verb, instance, why in (
        ("destroy", "shop", "no such verb"),
        ("end-lease", "wiki", "no such instance"),
    ):
        with pytest.raises(Refused, match=why):
            obey(line % (verb, instance), {"shop": ctx})
    answers: list[Any] = [None, ("it is busy", False), ("destroyed", True)]
    monkeypatch.setattr(root_helper, "VERBS", {"end-lease": lambda *_: answers.pop(0)})
    told = [obey(line % ("end-lease", "shop"), {"shop": ctx}) for _ in range(3)]
    assert told == [
        {"said": "", "done": False},
        {"said": "it is busy", "done": False},
        {"said": "destroyed", "done": True},
    ]


def test_of_a_drill_that_ended_badly_the_helper_says_failed_only_where_it_was_proven(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have passed, and its server does not end."""
    newest = ctx.catalog().backups[-1]
    bad = DrillVerdict(
        backup=newest.record.backup, name=newest.name, at=ctx.clock.now(), why="it does not open"
    )

    def ask(*verdicts: DrillVerdict) -> Any:
        def make(*_: object) -> None:
            for each in verdicts:
                write_down(ctx, "", newest, each)
            raise DatabaseError("its server does not end")

        monkeypatch.setattr(root_helper, "make", make)
        line = '{"verb": "drill", "instance": "shop", "clone": ""}'
        return obey_drill(line, {"shop": ctx}, {("shop", ""): 9.0}, lambda: "")["result"]

    assert [ask(), ask(replace(bad, why="")), ask(bad), ask()] == ["untried", "untried", "failed", "untried"]


def test_a_clone_that_was_promoted_by_hand_is_named_with_what_brings_the_backups_back(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """zfs_autobackup#313: production's backups moved into the clone; no command destroys them there."""
    monkeypatch.setattr("zbackup.jobs.watch.check.examine", lambda *_: [])
    world.state.elapsed += timedelta(minutes=1)
    snapshot(ctx)
    first, second = ctx.catalog().backups
    name = RestoreOptions(name="r1", stored_only=True)
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), name)
    well = portrait(world)
    for number in (0, 1):
        world.pools.promote(f"{CLONES}/r1/{number}")
    heal = "zfs promote tank/db && zfs promote tank/db/log"
    what = f"the backups of tank/db, tank/db/log moved to {CLONES}/r1/0, {CLONES}/r1/1, which was promoted by"
    before = portrait(world)
    for findings in (check(ctx, Expected()).findings, look(ctx).findings):
        (found,) = (f for f in findings if f.key == "promoted")
        assert found.severity == "critical" and found.text.startswith(what) and found.fix == heal
    for ask in (
        lambda: destroy([ctx], "r1"),
        lambda: LOCAL.backup(ctx, first.name),
        lambda: restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="r2")),
        lambda: list(LOCAL.search(ctx, LogFilter())),
    ):
        with pytest.raises(ZbackupError, match=f"{what}.*back( first)?: {heal}$"):
            ask()
    listed = render_list("shop", Listing(ctx.catalog(), None), ctx.zone)
    assert what[1:] in listed and heal in listed and "take a backup" not in listed
    assert heal in "\n".join(render_window(ctx, window(ctx)))
    assert portrait(world) == before
    for name in shlex.split(heal.replace("&&", ""))[2::3]:
        world.pools.promote(name)
    assert portrait(world) == well and [b.name for b in ctx.catalog().backups] == [first.name, second.name]
    destroy([ctx], "r1")
