"""A mongod in memory, as far as fsyncLock goes, with a clock of its own, and the watchdog beside it.

The watchdog is the real one (zbackup.engines.mongodb.lock.watchdog), as a thread that only goes on while
whoever told it something, or let time pass, waits for it. tests/lab/selftest_mongo_lock.py sees the same with
real servers and processes.
"""

import json
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bson import Timestamp

from tests.unit.engines.clock import Clock, Timer
from zbackup.engines.mongodb.lock import heal as healing
from zbackup.engines.mongodb.lock import lock, long_operations, release, watchdog
from zbackup.engines.mongodb.lock.marker_file import MarkerFile
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import CommandRefused, ConnectionLost, NotAnswered
from zbackup.model.errors import CommandFailed

CONNECT = ConnectOptions(user="zbackup")
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
LIMIT_S = 60.0
_this = threading.local()
"""Which watchdog a thread is."""


class Killed(BaseException):
    """zbackup got SIGKILL: nothing it does from now on has any effect."""


@dataclass
class Session:
    """zbackup.engines.mongodb.server.connection.Connection; `ours` is zbackup's own, not the watchdog's."""

    server: "Mongod"
    ours: bool
    where: str = "127.0.0.1:27017"

    def command(self, order: Mapping[str, Any], *, limit_s: float = 30) -> dict[str, Any]:
        answer: dict[str, Any] = self._said(next(iter(order)), lambda: self.server.answer(order, limit_s))
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
        pass

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _said(self, name: str, answer: Callable[[], Any]) -> Any:
        if self.server.ended:
            raise ConnectionLost(f"the server at {self.where} ended the connection")
        if not self.ours:
            return answer()
        if self.server.killed:
            raise Killed
        self.server.said.append(name)
        number = len(self.server.said)
        self.server.before(number)
        found = answer()
        self.server.after(number)
        return found


class Watchdog:
    """zbackup.proc.guardian.Guardian, and the process at its other end."""

    def __init__(self, server: "Mongod", line: str) -> None:
        self.server, self.line = server, line
        self.words: queue.Queue[str | None] = queue.Queue()
        self.answered: str | None = None
        self.status: int | None = None
        self.told: list[str] = []
        self.ignores: set[str] = set()
        self._waits = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        _this.watchdog = self
        try:
            self.status = watchdog.main()
        except Killed:
            self.status = -9
        except BaseException:
            self.status = 1
            raise
        finally:
            self._waits.set()

    def word(self, limit_s: float) -> str:
        timer = Timer(self.server.clock, limit_s, lambda: self._give(""))
        timer.start()
        self._waits.set()
        said = self.words.get()
        timer.cancel()
        if said is None:
            raise Killed
        return said

    def _give(self, word: str) -> None:
        """Go on when it waits for the next one, or has ended."""
        if self.alive:
            self._put(word)

    def _put(self, word: str | None) -> None:
        self._waits.clear()
        self.words.put(word)
        assert self._waits.wait(LIMIT_S)

    def ready(self) -> None:
        if self.server.watchdog_fails:
            raise CommandFailed(("watchdog",), -1, self.server.watchdog_fails)
        self._thread.start()
        assert self._waits.wait(LIMIT_S)
        if self.answered != "ready":
            raise CommandFailed(("watchdog",), -1, str(self.answered))

    def tell(self, word: str) -> None:
        self.told.append(word)
        self._from_us(word)

    def done(self) -> None:
        self.tell("done")
        self._from_us("")

    def act(self) -> bool:
        self._from_us("")
        return not self.server.watchdog_dead and self.status in (0, None)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self.status is None and not self.server.watchdog_dead

    def _from_us(self, word: str) -> None:
        if self.server.killed:
            raise Killed
        self._give(word)

    def end(self) -> None:
        """Whoever made it is dead."""
        self._give("")

    def bury(self) -> None:
        """The test is over."""
        if self._thread.is_alive():
            self._put(None)
            self._thread.join(LIMIT_S)


def _nothing(number: int) -> None:
    pass


@dataclass
class Mongod:
    """What it is like: `free_in` is for how long fsync has to wait, `gives_up`, whether it minds its time
    limit (6.0.11 and later). `before` and `after` may break what zbackup says: they get its number, from 1.
    """

    note: MarkerFile
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
    ended: bool = False
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    held_for: list[float] = field(default_factory=list)
    _since: float = 0.0
    _coming: list[Timer] = field(default_factory=list)
    writes: int = 7

    def connect(self, ours: bool) -> Session:
        if self.ended:
            raise ConnectionLost("cannot reach the server")
        return Session(self, ours)

    def start_guardian(self, module: str, line: str) -> Watchdog:
        assert module == "zbackup.engines.mongodb.lock.watchdog"
        self.watchdogs.append(Watchdog(self, line))
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
            case "replSetGetStatus":
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
            coming = Timer(self.clock, self.free_in, lambda: self._granted(coming))
            coming.start()
            self._coming.append(coming)
            self.clock.sleep(limit_s)
            raise NotAnswered("it does not answer")
        if self.free_in:
            self.clock.sleep(self.free_in)
        self._granted()
        return {"lockCount": len(self.locks)}

    def _granted(self, coming: Timer | None = None) -> None:
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
        note = MarkerFile(tmp_path / f"run{len(made)}" / "shop.locked")
        server = Mongod(note=note, **like)
        made.append(server)
        for module in lock, long_operations, release, watchdog:
            monkeypatch.setattr(module, "time", server.clock)
        for module in lock, healing:
            monkeypatch.setattr(module, "connect", lambda _: server.connect(ours=True))
        monkeypatch.setattr(lock, "start_guardian", server.start_guardian)
        monkeypatch.setattr(watchdog, "connect", lambda _: _this.watchdog.server.connect(ours=False))
        monkeypatch.setattr(watchdog, "signal", _signals())
        stdin = SimpleNamespace(readline=lambda: _this.watchdog.line)
        monkeypatch.setattr(watchdog, "sys", SimpleNamespace(stdin=stdin))
        monkeypatch.setattr(watchdog, "word", lambda limit_s: _this.watchdog.word(limit_s))
        monkeypatch.setattr(watchdog, "answer", lambda line: setattr(_this.watchdog, "answered", line))
        return server

    yield serve
    for server in made:
        for each in server.watchdogs:
            each.bury()


def _signals() -> SimpleNamespace:
    """The module `signal`, for a thread that is none: what it ignores is noted."""

    def note(number: signal.Signals, what: signal.Handlers) -> None:
        assert what == signal.SIG_IGN
        _this.watchdog.ignores.add(number.name)

    names = "SIGINT", "SIGTERM", "SIGHUP", "SIG_IGN"
    return SimpleNamespace(**{name: getattr(signal, name) for name in names}, signal=note)


def note_says(server: Mongod) -> str | None:
    return str(json.loads(server.note.path.read_text())["still"]) if server.note.path.exists() else None
