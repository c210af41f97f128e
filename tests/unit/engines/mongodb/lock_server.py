"""A mongod in memory, as far as fsyncLock goes, with a clock of its own, and the watchdog beside it.

tests/lab/selftest_mongo_lock.py sees the same with real servers and processes.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp

from tests.unit.engines.clock import Clock, Timer
from tests.unit.engines.watchdog import Killed, Watchdog, in_memory
from zbackup.engines.marker_file import MarkerFile
from zbackup.engines.mongodb.lock import lock, release, watchdog
from zbackup.engines.mongodb.lock import lock as healing
from zbackup.engines.mongodb.lock.lock import marker_file
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import CommandRefused, ConnectionLost, NotAnswered

CONNECT = ConnectOptions(user="zbackup")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@dataclass
class Session:
    """zbackup.engines.mongodb.server.connection.Connection; `ours` is zbackup's own, not the watchdog's."""

    server: "Mongod"
    ours: bool
    where: str = "127.0.0.1:27017"
    closed: bool = False

    def command(self, order: Mapping[str, Any], *, limit_s: float = 30) -> dict[str, Any]:
        if self.server.ended:
            # The client looks for it again and again meanwhile.
            self.server.clock.sleep(limit_s)
        name = next(iter(order))
        answer: dict[str, Any] = self._said(name, lambda: self.server.answer(order, limit_s), limit_s)
        return answer

    def find(self, collection: tuple[str, str], wanted: object, **how: Any) -> list[dict[str, Any]]:
        name = "newest entry" if how.get("backwards") else "first entry"
        found: list[dict[str, Any]] = self._said(
            name, lambda: [self.server.entry(first=not how.get("backwards"))]
        )
        return found

    def await_server(self, limit_s: float) -> None:
        if self.server.ended:
            raise ConnectionLost(f"the server at {self.where} has ended: nobody listens there")

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _said(self, name: str, answer: Callable[[], Any], limit_s: float = 30) -> Any:
        if self.server.ended:
            raise ConnectionLost(f"the server at {self.where} ended the connection")
        if self.server.refuses:
            raise CommandRefused("it is busy", 1)
        if not self.ours:
            return answer()
        if self.server.killed:
            raise Killed
        self.server.said.append(name)
        number = len(self.server.said)
        self.server.before(number)
        if number == self.server.hangs_at:
            self.server.clock.sleep(limit_s, lambda: self.server.killed)
            if self.server.killed:
                raise Killed
            raise NotAnswered(f"it does not answer {name}")
        found = answer()
        self.server.after(number)
        return found


def _nothing(number: int) -> None:
    pass


@dataclass
class Mongod:
    """What it is like: `free_in` is for how long fsync has to wait, `gives_up`, whether it minds its time
    limit (6.0.11 and later). The command with the number `hangs_at` is never answered. `before` and `after`
    may break what zbackup says: they get its number, from 1.
    """

    note: MarkerFile[str]
    replicates: bool = True
    free_in: float = 0.0
    gives_up: bool = True
    watchdog_fails: str = ""
    watchdog_dead: bool = False
    before: Callable[[int], None] = _nothing
    after: Callable[[int], None] = _nothing
    transactions: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[dict[str, Any]] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    said: list[str] = field(default_factory=list)
    locks: list[str] = field(default_factory=list)
    wrongly_released: int = 0
    watchdogs: list[Watchdog] = field(default_factory=list)
    killed: bool = False
    hangs_at: int = 0
    ended: bool = False
    refuses: bool = False
    sessions: list[Session] = field(default_factory=list)
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    held_for: list[float] = field(default_factory=list)
    _since: float = 0.0
    _coming: list[Timer] = field(default_factory=list)
    writes: int = 7

    def connect(self, ours: bool) -> Session:
        if self.ended:
            raise ConnectionLost("cannot reach the server")
        self.sessions.append(Session(self, ours))
        return self.sessions[-1]

    def start_guardian(self, module: str, line: str) -> Watchdog:
        assert module == "zbackup.engines.mongodb.lock.watchdog"
        self.watchdogs.append(Watchdog(self, watchdog.main, line))
        return self.watchdogs[-1]

    def kill(self) -> None:
        """Zbackup, not the server."""
        for each in self.watchdogs:
            each.end()
        self.killed = True

    def write(self) -> None:
        assert not self.locks, "nobody can write under the lock"
        self.writes += 1

    def lock_as_another(self) -> None:
        self.locks.append("another's")

    @property
    def ours(self) -> int:
        return self.locks.count("ours")

    @property
    def end(self) -> str:
        return f"{1000 + self.writes},1@2"

    def entry(self, *, first: bool) -> dict[str, Any]:
        if not self.replicates:
            raise CommandRefused("there is no oplog", 26)
        seconds = 1000 + (0 if first else self.writes)
        return {"ts": Timestamp(seconds, 1), "t": 2, "wall": NOON + timedelta(seconds=seconds)}

    def answer(self, order: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        match next(iter(order)):
            case "fsync":
                return self._lock(order, limit_s)
            case "fsyncUnlock":
                return self._unlock()
            case "currentOp":
                return self._operations(order)
            case "serverStatus":
                repl = {"repl": {"setName": "rs0"}} if self.replicates else {}
                written = {"inserted": self.writes, "updated": 0, "deleted": 0}
                return {"pid": 1, "metrics": {"document": written}} | repl
            case "replSetGetStatus" if self.replicates:
                return {"optimes": {"lastDurableWallTime": NOON}}
            case other:
                raise AssertionError(f"nobody asks for {other} here")

    def _lock(self, order: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        self.asked.append(order)
        within = order["fsyncLockAcquisitionTimeoutMillis"] / 1000 if self.gives_up else 1e9
        if self.free_in > min(within, limit_s):
            if within <= limit_s:
                self.clock.sleep(within)
                raise CommandRefused("Fsync lock timed out", 24)
            coming = Timer(self.clock, self.free_in, lambda: self.grant(coming))
            coming.start()
            self._coming.append(coming)
            self.clock.sleep(limit_s)
            raise NotAnswered("it does not answer")
        if self.free_in:
            self.clock.sleep(self.free_in)
        self.grant()
        return {"lockCount": len(self.locks)}

    def grant(self, coming: Timer | None = None) -> None:
        self._coming = [each for each in self._coming if each is not coming]
        self._since = self.clock.now
        self.locks.append("ours")

    def _unlock(self) -> dict[str, Any]:
        while self._coming:
            self.clock.sleep(1)
        if not self.locks:
            raise CommandRefused("fsyncUnlock called when not locked", 20)
        if self.ours:
            self.locks.remove("ours")
            self.held_for.append(self.clock.now - self._since)
        else:
            self.locks.pop()
            self.wrongly_released += 1
        return {"lockCount": len(self.locks)}

    def _operations(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        locked = {"fsyncLock": True} if self.locks else {}
        if "transaction" in wanted:
            return {"inprog": self.transactions} | locked
        if "waitingForLock" in wanted:
            return {"inprog": self.waiting} | locked
        assert wanted["desc"] == "fsyncLockWorker"
        return {"inprog": [{"desc": "fsyncLockWorker"} for _ in (*self.locks, *self._coming)]} | locked


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Mongod]]:
    """Make a server, which everybody who takes a lock from now on speaks with."""
    made: list[Mongod] = []

    def serve(**like: Any) -> Mongod:
        note = marker_file(tmp_path / f"run{len(made)}" / "shop.locked")
        server = Mongod(note=note, **like)
        made.append(server)
        for module in lock, lock, release:
            monkeypatch.setattr(module, "time", server.clock)
        for module in lock, healing:
            monkeypatch.setattr(module, "connect", lambda _: server.connect(ours=True))
        monkeypatch.setattr(lock, "start_guardian", server.start_guardian)
        in_memory(monkeypatch, watchdog, server.clock, lambda watched: watched.connect(ours=False))
        return server

    yield serve
    for server in made:
        for each in server.watchdogs:
            each.bury()


def note_says(server: Mongod) -> str | None:
    return str(json.loads(server.note.path.read_text())["still"]) if server.note.path.exists() else None
