"""An archiver: the log that it follows, what it asks for, and what it does with what it is told there is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fast.server import DATA, LOG, UUID
from tests.fast.world import World
from tests.unit.engines.mysql.archived import Archive
from tests.unit.jobs.test_archive import Clock, Place
from tests.unit.samples import NOON
from zbackup.jobs.archive import archive as room
from zbackup.jobs.archive.archive import (
    INVENTORY_S,
    SIGN_S,
    SUBJECT_S,
    Archiver,
    archive_destinations,
    archive_once,
    ready,
)
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.ship import ship
from zbackup.model.archive import ArchivedFile, ArchiveRules, tail_hash
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import NotFound, Refused, Stopped, Taken, VerificationFailed
from zbackup.model.written_log import LogBytes, WrittenFile

SECOND = timedelta(seconds=1)


@dataclass
class Asked:
    """What a follower was asked for in one look."""

    live: BackupFiles
    older: Sequence[str]
    archived: Sequence[ArchivedFile]
    since: str


@dataclass
class Follower:
    """engines.base.LogFollower of a log in memory; the last of its `looks` goes on."""

    looks: list[tuple[WrittenFile, ...]]
    asked: list[Asked] = field(default_factory=list)

    def scan(
        self,
        live: BackupFiles,
        older: Callable[[], Sequence[BackupFiles]],
        archived: Sequence[ArchivedFile],
        since: str,
        now: Callable[[], datetime],
    ) -> tuple[WrittenFile, ...]:
        self.asked.append(Asked(live, [each.record.backup for each in older()], tuple(archived), since))
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def read(self, file: WrittenFile, begin: int, end: int) -> LogBytes:
        data = b"x" * (end - begin)
        return LogBytes(data, tail_hash(data))

    def forget(self) -> None:
        """Nothing is remembered."""


@dataclass
class Vault(Place):
    name: str = "vault"


@dataclass
class Yard:
    """An instance with a log in memory, and where that is archived."""

    world: World
    ctx: Context
    follower: Follower
    archive: Archive
    clock: Clock
    destination: ShipDestination

    def backup(self) -> None:
        """By commands, which take time by the world's clock alone."""
        snapshot(self.world.context())

    def once(self, **more: Any) -> room.Round:
        return archive_once(self.ctx, self.destination, **more)

    def archiver(self) -> Archiver:
        return Archiver(self.ctx, self.destination)


def size(count: int, /, **changes: Any) -> tuple[WrittenFile, ...]:
    """The log is one file with so many bytes, which is still written."""
    written = WrittenFile(
        name="binlog.000001", number=1, head="0" * 32, size=count, closed=False, read=NOON, complete_to=NOON,
        same=True,
    )  # fmt: skip
    return (replace(written, **changes),)


@pytest.fixture
def yard(world: World) -> Yard:
    clock, follower, archive = Clock(), Follower([size(10)]), Archive()
    destination = ShipDestination(adapter=cast(Any, Vault(archive)), tag="t")
    ctx = world.context(
        clock=clock,
        follower=follower,
        archive=ArchiveRules(to=("vault",), every=5.0),
        destinations=(destination,),
    )
    return Yard(world, ctx, follower, archive, clock, destination)


def test_it_is_the_log_of_the_newest_backup_that_knows_its_own(world: World, yard: Yard) -> None:
    with pytest.raises(NotFound, match="zbackup snapshot shop"):
        yard.once()
    for _ in range(2):
        yard.backup()
    first, second = (b.record.backup for b in yard.ctx.catalog().backups)
    yard.backup()
    for part in yard.ctx.catalog().backups[-1].snapshots:
        for fact in ("log_id", "log_from", "log_to"):
            world.pools.snapshot_called(str(part)).properties.pop(f"zbackup:{fact}")
    yard.once()
    asked = yard.follower.asked[0]
    assert asked.live.record.backup == second and asked.older == [second, first]
    assert dict(asked.live.where.moves) == {DATA: DATA, LOG: LOG}


def test_a_backup_that_nobody_can_look_into_is_left_out(world: World, yard: Yard) -> None:
    for _ in range(2):
        yard.backup()
    world.writing = False
    world.pools.datasets["tank/db"].mounted = None
    yard.once()
    asked = yard.follower.asked[0]
    assert asked.older == [] and dict(asked.live.where.moves) == {LOG: LOG}


@pytest.mark.parametrize("reset", ["", "at once", "with a backup since"])
def test_a_log_that_restarts_begins_one_epoch_also_when_it_is_reset_later(
    world: World, yard: Yard, reset: str
) -> None:
    yard.backup()
    yard.once()
    world.pools.destroy_snapshot(str(yard.ctx.catalog().backups[-1].snapshots[1]))
    world.writing = True
    yard.backup()
    restart = yard.ctx.catalog().backups[-1]
    assert "log_restarts" in restart.record.server
    for part in restart.snapshots:
        world.pools.snapshot_called(str(part)).properties["zbackup:log_to"] = "binlog.000050:100"
    if reset == "with a backup since":
        yard.backup()
        yard.follower.looks = [size(20, name="binlog.000050", number=50)]
    elif not reset:
        yard.follower.looks = [size(20, name="binlog.000050", number=50)]
    found = [bool(yard.once().new_epoch) for _ in range(3)]
    assert found == [not reset, False, False]


def test_what_the_backups_at_the_destination_hold_is_not_archived_again(world: World, yard: Yard) -> None:
    yard.backup()
    yard.once()
    assert yard.follower.asked[-1].since == ""
    yard.backup()
    sender = world.context(destinations=(world.destination(),))
    ship(sender, sender.destinations[0])
    yard.backup()
    yard.once()
    first, there, newest = (b.record.log_to for b in yard.ctx.catalog().backups)
    assert yard.follower.asked[-1].since == there not in (first, newest)
    elsewhere = ShipDestination(adapter=cast(Any, Vault(Archive(), name="offsite")), tag="t")
    archive_once(yard.ctx, elsewhere)
    assert yard.follower.asked[-1].since == ""
    for part in yard.ctx.catalog().backups[1].snapshots:
        world.pools.destroy_snapshot(str(part))
    yard.once()
    assert yard.follower.asked[-1].since == "", "what is there is not known here any more"


def test_the_backups_are_looked_at_once_a_minute_and_the_destination_every_ten(yard: Yard) -> None:
    yard.backup()
    archiver, listed = yard.archiver(), list[float]()
    archived = yard.archive.archived

    def list_it() -> Any:
        listed.append(yard.clock.passed)
        return archived()

    yard.archive.archived = list_it  # type: ignore[method-assign]
    yard.clock.passed = 0.0
    archiver.round(yard.archive)  # type: ignore[arg-type]
    yard.backup()
    first, second = (b.record.backup for b in yard.ctx.catalog().backups)
    used = []
    for seconds in (SUBJECT_S, SUBJECT_S + 0.5, INVENTORY_S, INVENTORY_S + 0.5):
        yard.clock.passed = seconds
        archiver.round(yard.archive)  # type: ignore[arg-type]
        used.append(yard.follower.asked[-1].live.record.backup)
    assert used == [first, second, second, second]
    assert listed == [0.0, INVENTORY_S + 0.5]


def test_what_was_not_looked_at_yet_follows_and_after_nothing_nothing_does(yard: Yard) -> None:
    yard.backup()
    looks = [size(10, more=True), size(20, more=True), size(30)]
    yard.follower.looks = list(looks)
    done = yard.once()
    assert (done.appended, done.appends, done.more) == (30, 3, False)
    asked = len(yard.follower.asked)
    assert yard.once().appended == 0 and len(yard.follower.asked) == asked + 1, "one look tells that"


def test_a_round_says_what_it_found(yard: Yard) -> None:
    yard.backup()
    archiver = yard.archiver()
    yard.follower.looks = [()]
    began = yard.clock.now()
    nothing = archiver.round(yard.archive)  # type: ignore[arg-type]
    assert (nothing.end, nothing.appended, nothing.more) == (None, 0, False) and nothing.looked > began
    before = NOON - SECOND
    yard.follower.looks = [size(10, acknowledged=before, more=True), size(10), ()]
    rounds = [archiver.round(yard.archive) for _ in range(3)]  # type: ignore[arg-type]
    assert rounds[0].looked == before and rounds[0].more
    assert rounds[1].looked > began and not rounds[1].more
    assert rounds[2].looked > rounds[1].looked
    assert [each.end and each.end.size for each in rounds] == [10, 10, 10]


@pytest.mark.parametrize(
    ("later", "signs"),
    [
        ({"read": NOON + SIGN_S * SECOND, "complete_to": NOON + SIGN_S * SECOND}, 1),
        ({"read": NOON + (SIGN_S - 1) * SECOND, "complete_to": NOON + (SIGN_S - 1) * SECOND}, 0),
        ({"read": NOON + 99 * SECOND, "complete_to": NOON + 98 * SECOND}, 0),
        ({"read": NOON + 99 * SECOND, "complete_to": None}, 0),
    ],
)
def test_a_sign_of_life_is_given_of_a_log_that_is_known_to_be_quiet(
    yard: Yard, later: dict[str, datetime | None], signs: int
) -> None:
    yard.backup()
    archiver = yard.archiver()
    archiver.round(yard.archive)  # type: ignore[arg-type]
    yard.follower.looks = [size(10, **later)]
    archiver.round(yard.archive)  # type: ignore[arg-type]
    ((_, *more),) = yard.archive.chunks.values()
    assert [(chunk.size, chunk.complete_to) for chunk, _ in more] == [(0, later["complete_to"])] * signs


def test_of_a_file_that_is_closed_there_is_nothing_more_to_say(yard: Yard) -> None:
    yard.backup()
    archiver = yard.archiver()
    yard.follower.looks = [size(10, closed=True)]
    archiver.round(yard.archive)  # type: ignore[arg-type]
    late = NOON + 99 * SECOND
    yard.follower.looks = [size(10, closed=True, read=late, complete_to=late)]
    archiver.round(yard.archive)  # type: ignore[arg-type]
    ((only,),) = yard.archive.chunks.values()
    assert only[0].closed and only[0].read == NOON


def test_who_begins_an_epoch_asks_for_it_first_and_once(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    yard.backup()
    asked, claim = list[int](), yard.archive.claim_log

    def claims(server: str, epoch: int, writer: str) -> str:
        asked.append(epoch)
        return claim(server, epoch, writer)

    monkeypatch.setattr(yard.archive, "claim_log", claims)
    archiver = yard.archiver()
    yard.follower.looks = [size(10), size(20), size(30), size(7, same=False)]
    for _ in range(3):
        archiver.round(yard.archive)  # type: ignore[arg-type]
    assert asked == [0]
    yard.archive.claims[(UUID, 1)] = "f" * 32
    with pytest.raises(Taken, match="epoch 1"):
        archiver.round(yard.archive)  # type: ignore[arg-type]
    assert [each.file.epoch for each in yard.archive.archived().files] == [0], (
        "two hosts would be mixed there"
    )


def test_who_takes_over_begins_with_all_that_is_here(yard: Yard) -> None:
    yard.backup()
    done = yard.once(take_over=True)
    assert done.end and done.end.file.epoch == 0, "there was nothing to take over"
    yard.follower.looks = [size(7, same=False), size(7)]
    yard.once()
    assert [each.file.epoch for each in yard.follower.asked[-1].archived] == [1]
    for epoch in (0, 1):
        yard.archive.claims[(UUID, epoch)] = "f" * 32
    before = len(yard.follower.asked)
    done = yard.once(take_over=True)
    assert done.end and done.end.file.epoch == 2 and yard.follower.asked[before].archived == ()
    for epoch in range(2, 150):
        yard.archive.claims[(UUID, epoch)] = "f" * 32
    with pytest.raises(Refused, match=r"the 100 epochs behind 2 of .* are others' already"):
        yard.once(take_over=True)


def test_told_to_stop_it_ends_behind_the_append_that_is_under_way(yard: Yard) -> None:
    yard.backup()
    yard.follower.looks = [size(30, cuts=(10, 20, 30))]
    answers = iter([False, True])
    with pytest.raises(Stopped):
        yard.once(stop=lambda: next(answers))
    assert [each.size for each in yard.archive.archived().files] == [20]
    assert yard.once().appended == 10


def test_gaps_and_new_epochs_are_told_to_who_reads_the_journal(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, dict[str, str]]] = []

    def tell(event: str, **facts: str) -> None:
        told.append((event, facts))

    monkeypatch.setattr(room, "log", SimpleNamespace(warning=tell, error=tell))
    yard.backup()
    archiver = yard.archiver()
    archiver.round(yard.archive)  # type: ignore[arg-type]
    assert told == []
    yard.follower.looks = [size(7, same=False)]
    done = archiver.round(yard.archive)  # type: ignore[arg-type]
    about = {"instance": "shop", "destination": "vault"}
    assert told == [("archive.new_epoch", {"why": done.new_epoch} | about)] and done.new_epoch
    yard.follower.looks = [size(7, number=5, name="binlog.000005", same=None)]
    done = archiver.round(yard.archive)  # type: ignore[arg-type]
    assert told[1:] == [("archive.gap", {"what": done.gap} | about)] and done.gap


def test_it_says_how_an_archive_is_and_what_would_be_refused(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match="has no backup yet"):
        ready(yard.ctx, yard.destination)
    yard.backup()
    assert ready(yard.ctx, yard.destination) == "nothing is archived yet"
    yard.once()
    assert ready(yard.ctx, yard.destination) == "archived up to binlog.000001:10"
    yard.follower.looks = [size(7, same=False), size(7)]
    yard.once()
    ready(yard.ctx, yard.destination)
    assert [each.file.epoch for each in yard.follower.asked[-1].archived] == [1], "of the newest epoch"

    def refuses(*_: object) -> None:
        raise Refused("the binlog is encrypted")

    with monkeypatch.context() as patch:
        patch.setattr(yard.follower, "scan", refuses)
        with pytest.raises(Refused, match="the binlog is encrypted"):
            ready(yard.ctx, yard.destination)
    broken = replace(yard.archive.archived(), problems=("half a line",))
    monkeypatch.setattr(yard.archive, "archived", lambda: broken)
    with pytest.raises(VerificationFailed, match=r"^memory: half a line$"):
        ready(yard.ctx, yard.destination)


def test_the_destinations_of_the_log_are_those_that_are_named(yard: Yard) -> None:
    offsite = ShipDestination(adapter=cast(Any, Vault(Archive(), name="offsite")), tag="t")
    ctx = replace(yard.ctx, destinations=(offsite, yard.destination))
    assert archive_destinations(ctx) == (yard.destination,)
    with pytest.raises(NotFound, match=r"its log is archived nowhere; add \[instance.shop.archive\]"):
        archive_destinations(replace(ctx, archive=None))
