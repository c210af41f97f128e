"""Is everything in a snapshot that was acknowledged before it? Asked of a mongod's own crash recovery.

What is acknowledged when, by write concern: `w: 1, j: false` promises that the server has it in memory, and
nothing after a crash; `j: true` and `majority` (with the default writeConcernMajorityJournalDefault) promise
that it is in the journal on disk.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from bson import Timestamp
from pymongo.errors import PyMongoError

from tests.lab.mongo_fixture import MongoServer, MongoSettings, connect
from tests.lab.mongo_load import CONCERNS
from tests.lab.mongo_lock_holder import engine
from tests.lab.pool import Pool, run
from zbackup.engines.mongodb.options import LockOptions
from zbackup.model.record import LockKind

WRITERS = ("w1", "w1", "journaled", "majority")
NOWHERE = Timestamp(0, 0)


@dataclass(slots=True)
class Round:
    """What was acknowledged before the snapshot, by writer, and what recovery found of it."""

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
    """Insert 1, 2, 3, ... as fast as they can, and know what was acknowledged last."""

    def __init__(self, server: MongoServer) -> None:
        self._end = threading.Event()
        self.acknowledged = dict.fromkeys(range(len(WRITERS)), 0)
        self._threads = [threading.Thread(target=self._write, args=(server, n)) for n in range(len(WRITERS))]

    def _write(self, server: MongoServer, number: int) -> None:
        with server.client() as client, suppress(PyMongoError):
            concern = CONCERNS[WRITERS[number]]
            into = client.ack[f"w{number}"].with_options(write_concern=concern)
            last = into.find_one(sort=[("_id", -1)])
            count = last["_id"] if last else 0
            while not self._end.is_set():
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


def rounds(pool: Pool, server: MongoServer, kind: LockKind, count: int) -> Iterator[Round]:
    """So many rounds, each after another while of writing."""
    for number in range(count):
        yield one_round(pool, server, kind, seconds=0.3 + number % 7 / 10)


def one_round(pool: Pool, server: MongoServer, kind: LockKind, seconds: float) -> Round:
    """Write, take a snapshot the moment the lock is granted, with no wait, and look at what recovers."""
    name = f"{pool.data.name}@round"
    zbackup = engine(server.settings.socket, server.settings.run_dir, LockOptions(kind=kind, hold_s=30))
    facts = zbackup.inspect()
    with Writers(server) as writers:
        threading.Event().wait(seconds)
        with zbackup.consistent(facts, kind) as held:
            done = Round(acknowledged=dict(writers.acknowledged))
            run("zfs", "snapshot", name)
            held.confirm()
    try:
        with _clone(pool, name) as place:
            _recover(server.settings, place, done, keep_tail=kind == "fsync")
    finally:
        run("zfs", "destroy", name)
    return done


@contextmanager
def _clone(pool: Pool, snapshot: str) -> Iterator[Path]:
    clone, place = f"{pool.name}/round", pool.home / "round"
    run("zfs", "clone", "-o", f"mountpoint={place}", snapshot, clone)
    try:
        yield place
    finally:
        run("zfs", "destroy", clone)


def _recover(original: MongoSettings, place: Path, done: Round, *, keep_tail: bool) -> None:
    """Crash recovery of the journal, then of the oplog.

    A set's member cuts its oplog at the stored point behind which there may be holes. Under the lock there
    are none, for nobody was writing: with `keep_tail` it is told to keep all.
    """
    settings = MongoSettings(
        flavour=original.flavour,
        datadir=place / original.datadir.name,
        run_dir=place.parent / "round-run",
        auth=False,
    )
    with MongoServer(settings) as first, connect(settings.socket) as client:
        for number in range(len(WRITERS)):
            entry = client.local["oplog.rs"].find_one(
                {"ns": f"ack.w{number}", "op": "i"}, sort=[("$natural", -1)]
            )
            done.in_oplog[number] = entry["o"]["_id"] if entry else 0
        if keep_tail:
            point = {"_id": "oplogTruncateAfterPoint"}
            keep = {"$set": {"oplogTruncateAfterPoint": NOWHERE}}
            client.local["replset.oplogTruncateAfterPoint"].update_one(point, keep)
        first.stop()
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
