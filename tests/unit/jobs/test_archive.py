"""The job that archives a log: round after round, through failures, beside others, until told to stop."""

import copy
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit import samples
from tests.unit.engines.mysql.archived import UUID, Archive, Server, check, require_up_to_date
from tests.unit.reports import a_backup
from tests.unit.samples import NOON
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.jobs.archive import archive as archiving
from zbackup.jobs.archive import keep_up
from zbackup.jobs.archive.archive import (
    INVENTORY_S,
    SIGN_S,
    Archiver,
    archive_destinations,
    archive_once,
    ready,
)
from zbackup.jobs.archive.keep_up import KeepUp
from zbackup.jobs.archive.state import ArchiveState, read_state
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.archive import ArchiveRules
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import ConnectionFailed, NotFound, Refused, Taken, VerificationFailed
from zbackup.model.progress import Silent

SUBJECT_OF = archiving._subject


@dataclass
class Clock:
    passed: float = 0.0
    leapt: timedelta = timedelta()
    synchronised: bool = False

    def now(self) -> Any:
        self.passed += 0.001
        return NOON + timedelta(seconds=self.passed) + self.leapt

    def reading(self) -> Reading:
        return Reading("a boot", self.passed, self.synchronised)

    def monotonic(self) -> float:
        return self.passed


@dataclass
class Place:
    """A destination in memory."""

    session: object
    address: str = "memory"
    down: int = 0
    connected: int = 0

    @contextmanager
    def connect(self) -> Iterator[object]:
        self.connected += 1
        if self.down:
            self.down -= 1
            raise ConnectionFailed(("ssh",), 255, "no route to host", "vault")
        yield self.session


class Settings(dict[str, str]):
    """What is set on a dataset."""

    def own_settings(self, _: str) -> dict[str, str]:
        return dict(self)

    def set_properties(self, _: str, properties: dict[str, str]) -> None:
        self.update(properties)


@dataclass
class World:
    server: Server
    home: Path
    archive: Archive = field(default_factory=Archive)
    clock: Clock = field(default_factory=Clock)
    zfs: "Settings" = field(default_factory=lambda: Settings())

    def __post_init__(self) -> None:
        self.place = Place(self.archive)
        destination = SimpleNamespace(name="offsite", adapter=self.place, limit=0)
        self.destination = cast(ShipDestination, destination)
        self.ctx = cast(
            Context,
            SimpleNamespace(
                instance="shop",
                engine_name="mysql",
                shared=self.home / "shared",
                clock=self.clock,
                follower=MysqlLogFollower(),
                archive=ArchiveRules(to=("offsite",), every=0.001),
                destinations=(destination,),
                datasets=("tank/shop",),
                zfs=self.zfs,
                progress=Silent(),
            ),
        )


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    (tmp_path / "server").mkdir()
    found = World(Server(tmp_path / "server"), tmp_path)

    def subject(_: Context, __: ShipDestination, at: float) -> object:
        return archiving._ArchivedLog(found.server.live(), cast(Any, None), "", at)

    monkeypatch.setattr(archiving, "_subject", subject)
    monkeypatch.setattr(archiving, "_older", lambda _: found.server.snapshots)
    return found


def test_once_brings_it_up_to_date(world: World) -> None:
    assert "nothing is archived" in ready(world.ctx, world.destination)
    assert not world.archive.files
    world.server.commit()
    world.server.rotate()
    world.server.commit()
    done = archive_once(world.ctx, world.destination)
    assert done.appended and done.end and done.end.file.number == 2
    require_up_to_date(world.server, world.archive)
    assert archive_once(world.ctx, world.destination).appended == 0
    assert ready(world.ctx, world.destination) == f"archived up to binlog.000002:{done.end.size}"


def test_a_log_with_a_name_that_no_archive_takes_is_refused_before_anything_is_archived(world: World) -> None:
    (world.home / "odd").mkdir()
    world.server = Server(world.home / "odd", log_bin="my bin")
    world.server.commit()
    for attempt in (ready, archive_once):
        with pytest.raises(Refused, match=r"'my bin\.000001' cannot be archived: its name may have letters"):
            attempt(world.ctx, world.destination)
    assert not world.archive.files


def test_what_is_behind_a_gap_is_archived_in_the_same_run(world: World) -> None:
    world.server.commit()
    archive_once(world.ctx, world.destination)
    world.server.commit()
    world.server.rotate()
    world.server.commit()
    world.server.snapshot()
    world.server.rotate()
    world.server.purge()
    done = archive_once(world.ctx, world.destination)
    assert done.gap.startswith("of the log nothing is left from binlog.000002:")
    assert done.gap.endswith(" to binlog.000003")
    assert done.end and done.end.file.number == 3
    check(world.server, world.archive)


def test_a_quiet_server_is_told_of_now_and_then(world: World) -> None:
    world.server.commit()
    archiver = Archiver(world.ctx, world.destination)
    archiver.round(world.archive)
    (before,) = world.archive.archived().files
    assert archiver.round(world.archive).appends == 0
    assert world.archive.archived().files == (before,)
    world.clock.passed += SIGN_S
    assert archiver.round(world.archive).appends == 0
    (after,) = world.archive.archived().files
    assert after.size == before.size and after.last.read > before.last.read + timedelta(seconds=SIGN_S - 1)
    assert after.complete_to == after.last.read


def test_by_a_clock_that_leapt_nothing_is_claimed(world: World) -> None:
    archiver = Archiver(world.ctx, world.destination)
    world.server.commit()
    archiver.round(world.archive)
    (before,) = world.archive.archived().files
    world.clock.leapt = timedelta(days=1)
    world.server.commit()
    archiver.round(world.archive)
    (during,) = world.archive.archived().files
    assert during.size > before.size and during.complete_to == before.complete_to
    world.clock.synchronised = True
    world.server.commit()
    archiver.round(world.archive)
    (set_right,) = world.archive.archived().files
    assert set_right.complete_to == set_right.last.read > NOON + timedelta(days=1)


def test_what_a_clock_that_had_leapt_claimed_is_taken_back_even_while_nothing_is_written(
    world: World,
) -> None:
    world.clock.leapt = timedelta(days=1)
    world.server.commit()
    Archiver(world.ctx, world.destination).round(world.archive)
    world.clock.leapt = timedelta()
    Archiver(world.ctx, world.destination).round(world.archive)
    (after,) = world.archive.archived().files
    assert after.complete_to == after.last.read < NOON + timedelta(minutes=1)


def test_a_leap_is_remembered_while_a_destination_is_down(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", lambda _: None)
    world.server.commit()
    rounds = []

    def hears(state: ArchiveState) -> None:
        rounds.append(bool(state.error))
        world.clock.leapt = timedelta(days=1)
        if len(rounds) == 1:
            world.server.directory.rename(world.server.directory.with_name("away"))
        elif len(rounds) == 2:
            world.server.directory.with_name("away").rename(world.server.directory)
            world.server.commit()
        else:
            stop.set()

    KeepUp(world.ctx, world.destination, stop, hears).run()
    assert rounds == [False, True, False]
    (after,) = world.archive.archived().files
    assert after.last.read > NOON + timedelta(days=1)
    assert after.complete_to is not None and after.complete_to < NOON + timedelta(minutes=1)


def test_after_a_failure_the_files_are_looked_at_anew(world: World) -> None:
    world.server.commit(100)
    archiver = Archiver(world.ctx, world.destination)
    archiver.round(world.archive)
    builder = world.server.files[1]
    del builder.data[builder.written[0].start :]
    builder.written.clear()
    world.server.commit(1000)
    with pytest.raises(VerificationFailed):
        archiver.round(world.archive)
    archiver.round(world.archive)
    require_up_to_date(world.server, world.archive)


def test_another_archiver_is_noticed_and_nothing_is_mixed(world: World) -> None:
    one, other = (Archiver(world.ctx, world.destination) for _ in range(2))
    world.server.commit()
    one.round(world.archive)
    other.round(world.archive)
    world.server.commit()
    one.round(world.archive)
    with pytest.raises(Taken):
        other.round(world.archive)
    assert other.round(world.archive).appended == 0
    world.server.commit()
    other.round(world.archive)
    world.clock.passed += INVENTORY_S + 1
    one.round(world.archive)
    require_up_to_date(world.server, world.archive)


def test_one_run_at_a_time_here(world: World) -> None:
    with archiving.archive_lock(world.ctx, world.destination), pytest.raises(Taken, match="zbackup archive"):
        archive_once(world.ctx, world.destination)


def test_what_takes_no_archive_and_what_is_not_configured(world: World) -> None:
    world.place.session = object()
    with pytest.raises(Refused, match="memory takes no log archive"):
        archive_once(world.ctx, world.destination)
    cast(Any, world.ctx).archive = None
    with pytest.raises(NotFound, match=r"add \[instance.shop.archive\]"):
        archive_destinations(world.ctx)


def test_a_destination_that_is_down_is_caught_up_with(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, told = threading.Event(), list[ArchiveState]()
    waits: list[float] = []
    world.place.down = 3
    world.server.commit()

    def hears(state: ArchiveState) -> None:
        told.append(state)
        if state.archived:
            stop.set()

    monkeypatch.setattr(stop, "wait", lambda seconds: waits.append(seconds))
    KeepUp(world.ctx, world.destination, stop, hears).run()
    assert [bool(state.error) for state in told] == [True, True, True, False]
    assert "no route to host" in told[0].error and told[0].archived is None
    assert waits[:3] == sorted(waits[:3]) and waits[0] < waits[2]
    assert read_state(world.ctx, "offsite") == told[-1]
    require_up_to_date(world.server, world.archive)


def test_it_waits_while_the_instance_is_paused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    asked = []

    def paused() -> bool:
        asked.append(len(world.archive.files))
        return len(asked) < 4

    monkeypatch.setattr(stop, "wait", lambda _: None)
    world.server.commit()
    KeepUp(world.ctx, world.destination, stop, lambda _: stop.set(), paused).run()
    assert asked == [0, 0, 0, 0] and len(world.archive.files) == 1


def test_told_to_stop_it_begins_nothing(world: World) -> None:
    stop = threading.Event()
    stop.set()
    KeepUp(world.ctx, world.destination, stop, lambda _: pytest.fail("it was told to stop")).run()
    assert world.place.connected == 0


def test_a_failure_is_told_first_and_then_ever_more_seldom(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[int] = []
    monkeypatch.setattr(
        keep_up,
        "log",
        SimpleNamespace(error=lambda *_, failures, **__: said.append(failures), info=lambda *_, **__: None),
    )
    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", lambda _: None)
    world.place.down = 20
    KeepUp(world.ctx, world.destination, stop, lambda state: stop.set() if state.archived else None).run()
    assert said == [1, 2, 4, 8, 16]


def test_two_hosts_of_one_server_are_told_from_each_other(world: World, tmp_path: Path) -> None:
    """A machine that was cloned goes its own way; it is taken over by hand, and the first one stops then."""
    for _ in range(3):
        world.server.commit()
    archive_once(world.ctx, world.destination)
    (tmp_path / "clone").mkdir()
    clone = World(copy.deepcopy(world.server), tmp_path / "elsewhere", world.archive)
    clone.server.directory = tmp_path / "clone"
    clone.server.number += 100
    clone.server.commit()
    world.server.commit()
    first, mine = world.server, clone.server
    one = Archiver(world.ctx, world.destination)
    one.round(world.archive)

    world.server = mine
    before = {key: archived for key, archived in world.archive.chunks.items()}
    with pytest.raises(Taken, match=r"another host's \(epoch 0\).*--take-over") as refused:
        archive_once(clone.ctx, clone.destination)
    assert world.archive.chunks == before and "\n" not in str(refused.value)
    done = archive_once(clone.ctx, clone.destination, take_over=True)
    assert done.end and done.end.file.epoch == 1 and "from another host" in done.new_epoch
    assert archive_once(clone.ctx, clone.destination).appended == 0

    world.server = first
    first.commit()
    assert one.round(world.archive).appended, "it goes on in what is its own, and harms nobody"
    world.clock.passed += INVENTORY_S + 1
    with pytest.raises(Taken, match="epoch 1"):
        one.round(world.archive)
    assert archive_once(world.ctx, world.destination, take_over=True).end.file.epoch == 2  # type: ignore[union-attr]
    check(first, Archive({k: c for k, c in world.archive.chunks.items() if k[7] != "1"}, world.archive.files))


def test_an_epoch_that_was_taken_and_never_begun_is_left_out(world: World) -> None:
    world.server.commit()
    archive_once(world.ctx, world.destination)
    world.archive.claims[(UUID, 1)] = "f" * 32
    world.server.reset()
    with pytest.raises(Taken, match="epoch 1"):
        archive_once(world.ctx, world.destination)
    done = archive_once(world.ctx, world.destination, take_over=True)
    assert done.end and done.end.file.epoch == 2


def test_a_log_that_nobody_can_read_is_refused_with_the_reason(world: World) -> None:
    encrypted = replace(
        samples.PLAIN,
        server={"blockers": "the binlog is encrypted (binlog_encryption)"},
        log_from="",
        log_to="",
    )
    backups: list[Backup] = []
    cast(Any, world.ctx).catalog = lambda: SimpleNamespace(backups=backups)
    with pytest.raises(NotFound, match="has no backup yet that says which log is its own"):
        SUBJECT_OF(world.ctx, world.destination, 0.0)
    backups += [Backup(record=encrypted, snapshots=a_backup().snapshots)]
    with pytest.raises(
        Refused, match=r"cannot be archived: the binlog is encrypted \(binlog_encryption\) \(by"
    ):
        SUBJECT_OF(world.ctx, world.destination, 0.0)
