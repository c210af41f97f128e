"""A prune at a destination with all that can go: half-removed backups, backups, archived log, orphans."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.plan.archive_world import World
from tests.unit.samples import at
from zbackup.config.load import parse
from zbackup.daemon.tasks import jobs
from zbackup.destinations.copies import Copies
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.journal import Journal
from zbackup.jobs.ship.prune_at import plan_prune_at, prune_at
from zbackup.model.archive import ArchiveInventory, LogFileId
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import CommandFailed, ConnectionFailed, NotFound, PoolReadOnly, Refused, Stopped
from zbackup.model.progress import Silent
from zbackup.model.retention import EMPTY, Retention, Span
from zbackup.model.schedule import job_at
from zbackup.model.shipping import hold_tag, restore_tag
from zbackup.model.snapshot import Snapshot

LAST = Retention(last=1, minimum=1, window=Span(1, "minute"))
POOL = 77
TAG = hold_tag("this.host", "shop", "offsite")


class Place:
    """A destination; `done` is what was done there, in order. `held` are tags by guid."""

    name, place = "offsite", "zfs:vault/b"

    def __init__(self, world: World) -> None:
        self.world, self.done, self.looks = world, list[str](), 0
        self.backups, self.remains = list(world.backups), list[Backup]()
        self.unproven, self.unreadable = "", tuple[tuple[str, str], ...]()
        self.held: dict[int, set[str]] = {}
        self.refused: Exception | None = None
        self.unlogged: Exception | None = None

    @contextmanager
    def connect(self) -> Iterator["Place"]:
        yield self

    def copies(self) -> Copies:
        shown = [self._shown(b) for b in self.backups]
        remains = [self._shown(b) for b in self.remains]
        return Copies(tuple(shown), self.unreadable, tuple(remains), self.unproven)

    def _shown(self, backup: Backup) -> Backup:
        snapshots = (replace(s, holds=len(self.held.get(s.guid, ()))) for s in backup.snapshots)
        return replace(backup, snapshots=tuple(snapshots))

    def remove(self, backup: Backup, _: str) -> None:
        if self.refused:
            raise self.refused
        self.done.append(backup.record.backup)

    def orphans(self) -> tuple[str, ...]:
        return ("an orphan",)

    def collect_garbage(self) -> tuple[str, ...]:
        self.done.append("an orphan")
        return ("an orphan",)

    def holds(self, copies: Sequence[Snapshot]) -> Mapping[int, tuple[str, ...]]:
        return {c.guid: tuple(sorted(self.held[c.guid])) for c in copies if c.guid in self.held}

    def hold(self, *_: object) -> None:
        raise AssertionError("nobody restores from here")

    def release(self, tag: str, copy: Snapshot) -> None:
        self.held[copy.guid].discard(tag)

    def archived(self) -> ArchiveInventory:
        self.looks += 1
        return self.world.inventory

    def remove_log(self, file: LogFileId) -> None:
        if self.unlogged:
            raise self.unlogged
        self.done.append(file.name)

    claim_log = append_log = read_log = proven_to = hold


@pytest.fixture
def place() -> Place:
    """Four backups; the log of which the last is alone needed is of one file out of five."""
    world = World()
    for _ in range(4):
        world.take()
        world.write(1)
        world.rotate()
        world.archive()
    world.take()
    found = Place(world)
    found.remains = [replace(world.backups[0], record=replace(world.backups[0].record, backup="half gone"))]
    return found


class Receiver:
    def __init__(self, place: Place, run: Path) -> None:
        zfs = SimpleNamespace(values=lambda *_: (str(POOL),))
        clock = SimpleNamespace(
            now=lambda: at(place.world.time + 3600), reading=lambda: Reading("b", 1e7, synchronised=True)
        )
        made = SimpleNamespace(
            shared=run, instance="shop", clock=clock, zone=ZoneInfo("UTC"), progress=Silent(), zfs=zfs
        )
        made.clones, made.everywhere = "tank/zbackup", lambda: (made,)
        self.ctx, self.adapter = cast(Context, made), cast(Any, place)

    def destination(self, rules: Retention) -> ShipDestination:
        return ShipDestination(adapter=self.adapter, tag=TAG, retention=rules)

    def plan(self, rules: Retention = LAST) -> Any:
        return plan_prune_at(self.ctx, self.destination(rules))

    def prune(self, rules: Retention = LAST, stop: Callable[[], bool] = lambda: False) -> Any:
        return prune_at(self.ctx, self.destination(rules), stop)


@pytest.fixture
def receiver(place: Place, tmp_path: Path) -> Receiver:
    return Receiver(place, tmp_path)


def test_what_was_planned_is_done_in_order(place: Place, receiver: Receiver) -> None:
    plan = receiver.plan()
    assert place.done == []
    report = receiver.prune()
    going = [b.record.backup for b in plan.retention.destroy]
    assert going == [b.record.backup for b in place.backups[:-1]]
    logs = [f.file.name for f in plan.archived]
    assert logs and place.done == ["half gone", *going, *logs, "an orphan"]
    assert (report.plan.archived, report.plan.orphans) == (plan.archived, plan.orphans)
    assert [b.record.backup for b in report.destroyed] == ["half gone", *going]
    assert (report.left, report.log_stays, report.skipped) == (0, "", ())


def test_who_is_stopped_does_nothing_more(place: Place, receiver: Receiver) -> None:
    receiver.prune()
    everything, asked = list(place.done), 0
    for count in range(len(everything) + 3):
        place.done.clear()
        asked = 0

        def stop(count: int = count) -> bool:
            nonlocal asked
            asked += 1
            if asked > count:
                place.looks *= "stopped" in place.done
                place.done.append("stopped")
            return asked > count

        report = receiver.prune(stop=stop)
        end = place.done.index("stopped") if "stopped" in place.done else len(place.done)
        assert set(place.done[end:]) <= {"stopped"}, "nothing is done behind it"
        assert place.done[:end] == everything[:end]
        assert not ("stopped" in place.done and place.looks), "and nothing is asked"
        assert report.left == 5 - len(report.destroyed)
        assert report.cut == ("stopped" in place.done)
        assert len(report.plan.archived) == sum("binlog" in each for each in place.done)
        assert report.plan.orphans == (("an orphan",) if "an orphan" in place.done else ())


def test_a_daemon_that_is_told_to_end_has_not_pruned(place: Place, receiver: Receiver) -> None:
    """Else the next one would begin again only when a prune is due: also where the backups have gone."""
    cast(Any, receiver.ctx).destinations = (receiver.destination(LAST),)
    whole = len(receiver.prune().destroyed), len(place.done)
    assert whole == (5, 10)
    for count in range(whole[1]):
        place.done.clear()
        do = jobs(lambda: parse(""), Journal(Path("nowhere")), lambda count=count: len(place.done) == count)
        left = f"{whole[0] - count} backup" if count < whole[0] else "what else it removes there"
        with pytest.raises(Stopped, match=f"told to end with {left}s? left"):
            do(job_at("prune", place.name), receiver.ctx)
    place.done.append("more, so that nobody is told to end")
    assert do(job_at("prune", place.name), receiver.ctx).left == 0


def test_where_nobody_can_tell_what_is_real_nothing_goes(place: Place, receiver: Receiver) -> None:
    place.unproven = "it has no keys"
    for job in (receiver.plan, receiver.prune):
        with pytest.raises(Refused, match="it has no keys"):
            job()
    assert place.done == []


def test_the_newest_stays_and_says_why(place: Place, receiver: Receiver) -> None:
    [newest] = receiver.plan().retention.keep
    assert newest.backup.record == place.backups[-1].record
    assert "the next stream starts from it" in map(str, newest.reasons)


def test_what_is_another_instances_is_left_alone(place: Place, receiver: Receiver) -> None:
    place.remains = [replace(b, record=replace(b.record, instance="wiki")) for b in place.remains]
    receiver.prune()
    assert "half gone" not in place.done


def test_log_stays_where_nobody_knows_what_needs_it(place: Place, receiver: Receiver) -> None:
    place.unreadable = (("vault/b/x@y", "it is damaged"),)
    assert receiver.plan().archived == () == receiver.prune().plan.archived
    place.unreadable = ()
    assert receiver.plan(EMPTY).archived == () == receiver.prune(EMPTY).plan.archived


def test_log_that_a_backup_needs_which_could_not_go_stays(place: Place, receiver: Receiver) -> None:
    place.refused = NotFound("it is gone")
    report = receiver.prune()
    assert len(report.skipped) == 5 and report.plan.archived == ()


def test_log_that_cannot_be_removed_is_said_and_no_failure(place: Place, receiver: Receiver) -> None:
    place.unlogged = Refused("it is locked until tomorrow")
    report = receiver.prune()
    assert report.log_stays.endswith("it is locked until tomorrow") and report.plan.archived == ()
    for failure in (ConnectionFailed(("ssh",), 255, "reset"), PoolReadOnly(("zfs",), 1, "read-only")):
        place.unlogged = failure
        with pytest.raises(type(failure)):
            receiver.prune()


def test_what_holds_or_clones_keep_is_kept_and_named(place: Place, receiver: Receiver) -> None:
    first, second = (b.snapshots[0] for b in place.backups[:2])
    place.held = {first.guid: {"mine", "yours"}, second.guid: {"mine"}}
    place.backups[2] = replace(
        place.backups[2], snapshots=tuple(replace(s, clones=("vault/c",)) for s in place.backups[2].snapshots)
    )
    kept = {k.backup.record.backup: tuple(map(str, k.reasons)) for k in receiver.plan().retention.keep}
    names = [b.record.backup for b in place.backups]
    assert kept[names[0]] == ("held there by mine, yours",) and kept[names[1]] == ("held there by mine",)
    assert kept[names[2]] == ("origin of vault/c",) and names[3] not in kept


def test_a_hold_that_nobody_lists_holds_all_the_same(place: Place, receiver: Receiver) -> None:
    def refused(_: object) -> Mapping[int, tuple[str, ...]]:
        raise CommandFailed(("zfs", "holds"), 1, "the gate knows of none")

    place.held = {place.backups[0].snapshots[0].guid: {"mine"}}
    place.holds = refused  # type: ignore[method-assign, assignment]
    kept = {k.backup.record.backup: tuple(map(str, k.reasons)) for k in receiver.plan().retention.keep}
    assert kept[place.backups[0].record.backup] == ("held there",)


def test_what_a_dead_restore_held_goes_at_once(
    place: Place, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zbackup.jobs.ship.remote_holds._goes_on", lambda *_: False)
    place.held = {place.backups[0].snapshots[0].guid: {restore_tag(TAG, POOL, "look")}}
    assert place.backups[0].record.backup in [b.record.backup for b in receiver.prune().destroyed]


def test_it_is_looked_at_the_time_that_the_clock_says(place: Place, receiver: Receiver) -> None:
    whens: list[str] = []
    place.remove = lambda _, when: whens.append(when)  # type: ignore[method-assign, assignment]
    receiver.prune()
    assert {datetime.fromisoformat(when) for when in whens} == {receiver.ctx.clock.now()}
