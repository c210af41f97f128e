"""Is everything in a snapshot that was acknowledged before it? Asked of a mongod's own crash recovery.

What is acknowledged when, by write concern: `w: 1, j: false` promises that the server has it in memory, and
nothing after a crash; `j: true` and `majority` (with the default writeConcernMajorityJournalDefault) promise
that it is in the journal on disk.
"""

import shutil
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bson import Timestamp
from pymongo.errors import PyMongoError

from tests.lab.mongo_fixture import MongoServer, MongoSettings, connect
from tests.lab.mongo_load import CONCERNS
from tests.lab.mongo_lock_holder import engine
from tests.lab.pool import Pool, run
from zbackup.config.lock import Lock
from zbackup.model.record import LockKind

WRITERS = ("w1", "w1", "journaled", "majority")
NOWHERE = Timestamp(0, 0)
PAUSE_S = 0.001


@dataclass(slots=True)
class Round:
    """What was acknowledged before the snapshot, by writer, and what recovery found of it.

    The oplog alone is looked at under the lock only.
    """

    acknowledged: dict[int, int]
    in_oplog: dict[int, int] = field(default_factory=dict)
    recovered: dict[int, int] = field(default_factory=dict)

    def lost(self, concerns: tuple[str, ...], found: dict[int, int]) -> dict[int, int]:
        """By writer with one of these concerns: how many acknowledged writes are not there."""
        return {
            number: count - found.get(number, 0)
            for number, count in self.acknowledged.items()
            if WRITERS[number] in concerns and count > found.get(number, 0)
        }


class Writers:
    """Insert 1, 2, 3, ... and know what was acknowledged last."""

    def __init__(self, server: MongoServer) -> None:
        with server.client() as client:
            client.drop_database("ack")
        self._end = threading.Event()
        self.acknowledged = dict.fromkeys(range(len(WRITERS)), 0)
        self._threads = [threading.Thread(target=self._write, args=(server, n)) for n in range(len(WRITERS))]

    def _write(self, server: MongoServer, number: int) -> None:
        with server.client() as client, suppress(PyMongoError):
            concern = CONCERNS[WRITERS[number]]
            into = client.ack[f"w{number}"].with_options(write_concern=concern)
            count = 0
            while not self._end.wait(PAUSE_S):
                count += 1
                into.insert_one({"_id": count})
                self.acknowledged[number] = count

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a writer hangs"


class Image(Protocol):
    """A way to keep a server's files as they are at one instant."""

    def take(self) -> None:
        """Keep them as they are now."""

    def opened(self) -> AbstractContextManager[Path]:
        """The directory with a copy that may be changed; all is gone behind it."""


@dataclass(frozen=True, slots=True)
class ZfsImage:
    """An atomic snapshot of the pool's dataset, and a clone of that."""

    pool: Pool

    def take(self) -> None:
        run("zfs", "snapshot", self._snapshot)

    @contextmanager
    def opened(self) -> Iterator[Path]:
        clone, place = f"{self.pool.name}/round", self.pool.home / "round"
        run("zfs", "clone", "-o", f"mountpoint={place}", self._snapshot, clone)
        try:
            yield place
        finally:
            run("zfs", "destroy", clone)
            run("zfs", "destroy", self._snapshot)

    @property
    def _snapshot(self) -> str:
        return f"{self.pool.data.name}@round"


@dataclass(frozen=True, slots=True)
class CopiedImage:
    """A plain copy, which is of one instant only because the lock lets nothing be written meanwhile."""

    data: Path
    into: Path

    def take(self) -> None:
        shutil.copytree(self.data, self.into / self.data.name)

    @contextmanager
    def opened(self) -> Iterator[Path]:
        try:
            yield self.into
        finally:
            shutil.rmtree(self.into)


def rounds(
    server: MongoServer, image: Image, kind: LockKind, count: int, *, replayed_every: int = 1
) -> Iterator[Round]:
    """So many rounds, each after another while of writing.

    What the journal brings back is looked at in all; what replaying the oplog makes of it in every so many.
    """
    for number in range(count):
        replayed = number % replayed_every == 0
        yield one_round(server, image, kind, seconds=0.3 + number % 7 / 20, replayed=replayed)


def one_round(
    server: MongoServer, image: Image, kind: LockKind, *, seconds: float, replayed: bool = True
) -> Round:
    """Write, keep the files the moment the lock is granted, with no wait, and look at what recovers."""
    zbackup = engine(
        server.settings.socket, server.settings.run_dir, Lock.model_construct(kind=kind, hold=30)
    )
    facts = zbackup.inspect()
    with Writers(server) as writers:
        threading.Event().wait(seconds)
        with zbackup.consistent(facts, kind) as held:
            done = Round(acknowledged=dict(writers.acknowledged))
            image.take()
            held.confirm()
    with image.opened() as place:
        settings = _alone(server.settings, place)
        if kind == "fsync":
            _recover_journal(settings, done)
        if replayed:
            _replay_oplog(settings, done)
    return done


def _alone(original: MongoSettings, place: Path) -> MongoSettings:
    return MongoSettings(
        flavour=original.flavour,
        datadir=place / original.datadir.name,
        run_dir=original.run_dir.parent / "round-run",
        auth=False,
    )


def _recover_journal(settings: MongoSettings, done: Round) -> None:
    """Crash recovery of the journal, by a server that is started alone.

    A set's member cuts its oplog at the stored point behind which there may be holes. Under the lock there
    are none, for nobody was writing: it is told to keep all.
    """
    with MongoServer(settings) as first:
        # Closed before its server is stopped, to which it would say good-bye for ten seconds.
        with connect(settings.socket) as client:
            for number in range(len(WRITERS)):
                entry = client.local["oplog.rs"].find_one(
                    {"ns": f"ack.w{number}", "op": "i"}, sort=[("$natural", -1)]
                )
                done.in_oplog[number] = entry["o"]["_id"] if entry else 0
            point = {"_id": "oplogTruncateAfterPoint"}
            keep = {"$set": {"oplogTruncateAfterPoint": NOWHERE}}
            client.local["replset.oplogTruncateAfterPoint"].update_one(point, keep)
        first.stop()


def _replay_oplog(settings: MongoSettings, done: Round) -> None:
    """Crash recovery of the tables, from their checkpoint to the oplog's end."""
    replay = ("--setParameter=recoverFromOplogAsStandalone=true", "--setParameter=ttlMonitorEnabled=false")
    with MongoServer(MongoSettings(**{**_fields(settings), "options": replay})) as second:
        with connect(settings.socket) as client:
            for number in range(len(WRITERS)):
                done.recovered[number] = _unbroken(client.ack[f"w{number}"].distinct("_id"))
        second.kill()


def _fields(settings: MongoSettings) -> dict[str, object]:
    return {name: getattr(settings, name) for name in settings.__dataclass_fields__}


def _unbroken(numbers: list[int]) -> int:
    """How far 1, 2, 3, ... goes without a gap."""
    there = set(numbers)
    count = 0
    while count + 1 in there:
        count += 1
    return count
