"""A base of a member, an oplog that goes on behind it, and a recovery, with mongods in memory."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson.timestamp import Timestamp

from tests.unit.engines.mongodb.applying import Disk, Mongod
from tests.unit.engines.mongodb.archived_set import FIRST, NOON, RECORD, entry, optime
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mongodb.recovery import recover
from zbackup.engines.mongodb.recovery.recover import MongoRecovery
from zbackup.model.log import ClusterTime
from zbackup.model.progress import Silent
from zbackup.model.record import Record
from zbackup.model.recovery import Recovered, RecoveryFiles, Serving
from zbackup.model.relocation import Relocation
from zbackup.model.target import Stop, Time

SERVING = Serving(port=27117)


def written(number: int, term: int = 1, **more: Any) -> bytes:
    """The entry of that second."""
    return entry(FIRST + number, 1, term, **more)


def ts(number: int) -> Timestamp:
    return Timestamp(FIRST + number, 1)


def at(number: float) -> datetime:
    return NOON + timedelta(seconds=number)


def until(number: float) -> Time:
    return Time(at(number))


def cluster_time(number: int) -> ClusterTime:
    return ClusterTime(FIRST + number, 1)


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.phases: list[tuple[str, str]] = []

    def phase(self, name: str, detail: str = "") -> None:
        self.phases.append((name, detail))

    def note(self, text: str) -> None:
        self.notes.append(text)


class Story:
    """The base has the entries 1 to 4, and its tables are at the second; the log source has eight."""

    def __init__(self, room: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = room
        self.progress = Notes()
        oplog = [written(number) for number in range(1, 9)]
        self.base = Disk(oplog=oplog[:4], checkpoint=ts(2), tables=[ts(1), ts(2)])
        self.source = Disk(oplog=oplog, checkpoint=ts(7), tables=[ts(n) for n in range(1, 8)])
        self.base_record, self.source_record = self.record(4), self.record(8)
        self.servers: dict[str, Mongod] = {}
        self.sets: list[tuple[str, str, str]] = []
        self.options: dict[str, Any] = {}
        self.recovery = MongoRecovery(table=RecoveryTable(workers=1))
        monkeypatch.setattr(MongoRecovery, "server_on", self._server)
        monkeypatch.setattr(recover, "make_replica_set", lambda *made: self.sets.append(made))

    def record(self, number: int, **changes: Any) -> Record:
        """A backup under a lock, whose oplog ends with that entry."""
        end = str(optime(written(number)))
        known = {"lock": "fsync", "lock_held_ms": 40, "role": "primary", "taken": at(number + 0.5)}
        return replace(RECORD, **({"position": end, "log_to": end} | known | changes))

    def unlocked(self, number: int, **changes: Any) -> Record:
        return self.record(number, **({"lock": "none", "lock_held_ms": None} | changes))

    def files(self, name: str, record: Record) -> RecoveryFiles:
        where = Relocation((("/srv/data", str(self.room / name)),))
        return RecoveryFiles(
            record=record, where=where, home=self.room / name, run=self.room / "run", hide=()
        )

    def _server(self, files: RecoveryFiles) -> Any:
        name = files.home.name
        if name not in self.servers:
            disk = (self.base if name == "base" else self.source).copy()
            more = self.options if name == "base" else {}
            self.servers[name] = Mongod(files, disk, **more)
        return self.servers[name]

    def recover(self, stop: Stop, serving: Serving | None = SERVING, **more: Any) -> Recovered:
        base, log = self.files("base", self.base_record), self.files("log", self.source_record)
        return self.recovery.recover(base, log, stop, serving, self.progress, **more)

    def open(self, serving: Serving | None = SERVING) -> Recovered:
        return self.recovery.open(self.files("base", self.base_record), serving, self.progress)

    @property
    def server(self) -> Mongod:
        """The one on the base's files."""
        return self.servers["base"]

    @property
    def numbers(self) -> list[int]:
        """Of the writes that are in its tables."""
        return [each.time - FIRST for each in self.server.disk.tables]

    def require_not_served(self) -> None:
        assert not self.server.serving
