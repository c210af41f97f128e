"""A member of a replica set that is archived while all sorts of things happen to it, in memory."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import bson
from bson.timestamp import Timestamp

from tests.unit.samples import PLAIN
from zbackup.engines.mongodb.archive.follow import MongoLogFollower
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import Connection, ConnectionLost
from zbackup.jobs.archive.archive import append_all
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId, server_key
from zbackup.model.backup import BackupFiles
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation
from zbackup.plan.archive import ArchivePlan, newest_epoch, plan_archive

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
FIRST = 1_777_000_000
RECORD: Record = replace(
    PLAIN,
    engine="mongodb",
    server_uuid="replica set rs0 65f0c0ffee",
    server={"replica_set": "rs0", "set_id": "65f0c0ffee", "dbpath": "/srv/data"},
    log_id="1",
    log_from=f"{FIRST},1@1",
    log_to=f"{FIRST},1@-1",
    position=f"{FIRST},1@1",
)
SERVER = server_key(RECORD.server_uuid)


def entry(seconds: int, increment: int, term: int, size: int = 0, **more: Any) -> bytes:
    """An entry of an oplog, `size` bytes larger than the smallest."""
    wall = NOON + timedelta(seconds=seconds - FIRST, milliseconds=increment)
    return bson.encode(
        {
            "op": "i",
            "ns": "shop.orders",
            "o": {"_id": increment, "x": b"x" * size},
            "ts": Timestamp(seconds, increment),
            "t": term,
            "wall": wall,
            **more,
        }
    )


def place_of(data: bytes) -> OplogPosition:
    found = bson.decode(data)
    return OplogPosition(found["ts"].time, found["ts"].inc, found["t"])


@dataclass
class Member:
    """`oplog` is what it has, of which the majority has the first `committed`; `ever` is all that was."""

    oplog: list[bytes] = field(default_factory=list)
    committed: int = 0
    voting: int = 1
    set_id: str = "65f0c0ffee"
    seconds: int = FIRST
    increment: int = 0
    term: int = 1
    most: int = 1 << 30
    histories: list[list[bytes]] = field(default_factory=list)
    calls_left: int | None = None

    def write(self, count: int = 1, size: int = 0) -> None:
        for _ in range(count):
            self.increment += 1
            self.oplog.append(entry(self.seconds, self.increment, self.term, size))
        self.committed = len(self.oplog)

    def pass_time(self, seconds: int) -> None:
        self.seconds, self.increment = self.seconds + seconds, 0

    def elect(self) -> None:
        self.term += 1

    def roll_back(self, count: int) -> None:
        """A majority lost its last writes, by force; a new primary goes on."""
        self.histories.append(list(self.oplog))
        del self.oplog[max(1, len(self.oplog) - count) :]
        self.committed = len(self.oplog)
        self.elect()
        self.pass_time(1)

    def drop_oldest(self, count: int) -> None:
        self.histories.append(list(self.oplog))
        kept = max(1, len(self.oplog) - count)
        del self.oplog[:-kept]
        self.committed = min(self.committed, len(self.oplog))

    def called(self) -> None:
        """Raise ConnectionLost where nobody answers any more."""
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                self.calls_left = None
                raise ConnectionLost("the connection is cut")

    # as a connection

    where = "a test"

    def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        self.called()
        assert "replSetGetConfig" in command
        members = [{"votes": 1}] * self.voting
        return {"config": {"_id": "rs0", "members": members, "settings": {"replicaSetId": self.set_id}}}

    def find(
        self, _: object, wanted: Mapping[str, Any], *, backwards: bool = False, most: int = 1, **__: Any
    ) -> list[dict[str, Any]]:
        self.called()
        found = [e for e in map(_decoded, self.oplog) if not wanted or e["ts"] == wanted["ts"]]
        return (found[::-1] if backwards else found)[:most]

    def committed_batches(self, _: object, wanted: Mapping[str, Any], most: int) -> tuple[list[bytes], bool]:
        self.called()
        since = wanted["ts"]["$gte"] if wanted else Timestamp(0, 0)
        found, size = list[bytes](), 0
        for each in self.oplog[: self.committed]:
            if bson.decode(each)["ts"] >= since:
                found.append(each)
                size += len(each)
                if size >= min(most, self.most):
                    return found, True
        return found, False

    def close(self) -> None:
        pass


def _decoded(data: bytes) -> dict[str, Any]:
    found = bson.decode(data)
    return found | {"wall": found["wall"].replace(tzinfo=UTC)}


@dataclass
class Archive:
    """What is archived of it."""

    member: Member
    bytes_of: dict[str, bytes] = field(default_factory=dict)
    inventory: ArchiveInventory = field(default_factory=lambda: ArchiveInventory(address="there"))
    follower: MongoLogFollower = field(init=False)
    now: datetime = NOON + timedelta(days=1)
    since: str = ""
    more: bool = False

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.follower = MongoLogFollower(ConnectOptions())
        self.follower._connection = cast(Connection, self.member)

    def look(self) -> Sequence[Any]:
        self.restart() if self.follower._connection is None else None
        newest = newest_epoch(self.inventory.files)
        archived = [f for f in self.inventory.files if f.file.epoch == newest]
        live = BackupFiles(RECORD, Relocation(()))
        return self.follower.scan(live, lambda: (), archived, self.since, lambda: self.now)

    def round(self, most: int = 1 << 30) -> ArchivePlan:
        """One look, of which `most` appends are made."""
        here = tuple(self.look())
        plan = plan_archive(SERVER, self.inventory.files, here)
        done = replace(plan, appends=plan.appends[:most])

        def appended(now: ArchiveInventory, _: Chunk) -> None:
            self.inventory = now

        append_all(cast(Any, self), self.follower, done, self.inventory, appended)
        self.more = any(file.more for file in here)
        return plan

    def all(self) -> None:
        self.round()
        while self.more:
            self.round()

    def append_log(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        self.member.called()
        before = self.bytes_of.get(file.key, b"")
        assert len(before) == chunk.begin and hashlib.sha256(data).hexdigest() == chunk.sha256
        self.bytes_of[file.key] = before + data
        return chunk.size

    def read(self, archived: ArchivedFile, begin: int, end: int) -> Iterator[bytes]:
        data = self.bytes_of[archived.file.key]
        yield data[begin : (begin + end) // 2]
        yield data[(begin + end) // 2 : end]


def optime(data: bytes) -> OplogPosition:
    return place_of(data)
