"""A MySQL or MariaDB in memory, as far as locks go, with a clock of its own: no test waits for anything.

It ends a session that was silent for its wait_timeout, and a session's end is its locks' end, be it some time
later. tests/lab/selftest_lock.py and its neighbours see real servers do so.
"""

import math
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.engines.clock import Clock, Timer
from tests.unit.engines.watchdog import Killed, Watchdog, in_memory
from zbackup.config.lock import Lock
from zbackup.engines.mysql.lock import (
    applier,
    applier_watchdog,
    lock,
    lock_watchdog,
    long_queries,
    wait_limit,
)
from zbackup.engines.mysql.lock.lock import TakenLock, watched
from zbackup.engines.mysql.lock.lock import locked as locked_by
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import ConnectionLost, NotAnswered, StatementFailed
from zbackup.model.errors import DatabaseError
from zbackup.model.record import LockKind

CONNECT = ConnectOptions(user="zbackup", password=lambda: "")
STOP_COMMITS = "FLUSH TABLES WITH READ LOCK", "BACKUP STAGE BLOCK_COMMIT"
TAKES = *STOP_COMMITS, "BACKUP STAGE START", "LOCK INSTANCE FOR BACKUP"
RELEASES = "UNLOCK TABLES", "BACKUP STAGE END", "UNLOCK INSTANCE"
WATCHDOGS = {each.__name__: each for each in (applier_watchdog, lock_watchdog)}
THEIRS = 100
"""Numbers of watchdogs' sessions are above this."""


@contextmanager
def locked(options: ConnectOptions, limits: Lock, kind: LockKind) -> Iterator[TakenLock]:
    """As MysqlEngine.consistent has it."""
    with watched(options, kind) as watchdog, locked_by(options, limits, kind, watchdog) as lock:
        yield lock


@dataclass
class Session:
    """zbackup.engines.mysql.server.connection.Connection. `silence` and `patience` are its wait_timeout and
    lock_wait_timeout; `holds` is since when it has a lock that nobody has taken from it. One is `stuck` whose
    statement will never be answered: the server does not see then that its client has gone (`cut`).
    """

    server: "Server"
    id: int
    silence: float
    spoke: float
    patience: float = 31_536_000
    alive: bool = True
    busy: bool = False
    ours: bool = True
    listed_until: float = math.inf
    holds: float | None = None
    stops_commits: bool = False
    limit_s: float = math.inf
    stuck: bool = False
    cut: bool = False
    where = "socket /s"

    @property
    def version(self) -> str:
        return self.server.version

    @property
    def ends_at(self) -> float:
        return self.spoke + self.silence if self.alive and not self.busy else math.inf

    def end_if_silent(self) -> None:
        if self.ends_at <= self.server.clock.now:
            self.end(0)

    def hang(self, text: str) -> None:
        """KILL ends what waits for a lock, and nothing that waits for a mutex, as questions of the log do."""
        self.busy = True
        self.stuck = text not in TAKES and not text.startswith(("SET", "KILL", *RELEASES))
        self.server.hung.append(text)
        self.server.clock.sleep(min(self.limit_s, 1e5), lambda: not self.alive or self.cut)
        if self.ours and self.server.killed:
            raise Killed
        if not self.alive or self.cut:
            raise ConnectionLost(f"the server at {self.where} ended the connection")
        assert self.limit_s < 1e5, f"{text}: this waits for ever"
        self.cut = True
        raise NotAnswered(f"the server at {self.where} did not answer {text} within {self.limit_s:g} s")

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        before, self.limit_s = self.limit_s, seconds
        try:
            yield
        finally:
            self.limit_s = before

    def abort(self) -> None:
        self.cut = True

    def client_ends(self, clearing: float) -> None:
        """The server sees it when it next looks: not while a statement waits."""
        self.cut = True
        if not self.busy:
            self.end(clearing)

    def end(self, clearing: float) -> None:
        """As the server sees it, which may still have to clear it away."""
        self.alive = False
        self.listed_until = min(self.listed_until, self.server.clock.now + clearing)
        if clearing == 0:
            self.release()

    def release(self) -> None:
        if self.holds is not None:
            self.server.held_for.append(min(self.listed_until, self.server.clock.now) - self.holds)
        self.holds, self.stops_commits = None, False

    def execute(self, statement: str, arguments: Sequence[object] = ()) -> None:
        self.rows(statement, arguments)

    def rows(self, statement: str, arguments: Sequence[object] = ()) -> list[dict[str, Any]]:
        text = statement % tuple(arguments) if arguments else statement
        if self.ours and self.server.killed:
            raise Killed
        if not self.alive or self.cut:
            raise ConnectionLost(f"the server at {self.where} ended the connection")
        if not self.ours:
            self.server.by_watchdog.append(text)
            return self.server.answer(self, text)
        self.server.said.append((self.id, text))
        number = len(self.server.said)
        self.server.before(number, self)
        if number == self.server.hangs_at:
            self.hang(text)
        answer = self.server.answer(self, text)
        self.spoke = self.server.clock.now
        self.server.after(number, self)
        return answer

    def one(self, statement: str) -> dict[str, Any]:
        return next(iter(self.rows(statement)), {})

    def keep_for(self, seconds: float) -> None:
        self.execute("SET SESSION wait_timeout = %s", (math.ceil(seconds) + 60,))

    def close(self) -> None:
        if self.alive:
            self.client_ends(self.server.clearing)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _nothing(number: int, session: Session) -> None:
    pass


@dataclass
class Server:
    """What it is like: `free_in` is for how long each statement that takes a lock has to wait, counted from
    when it is first given; `clearing`, for how long a closed session is still there with its locks.
    `before` and `after` may break what is said: they get its number, from 1, and the session. `appliers` run
    or not, by their channels; each takes `stop_s` to stop. The statement with the number `hangs_at` is never
    answered.
    """

    version: str = "9.7.4"
    logs: bool = True
    clearing: float = 0.1
    silence: float = 28_800
    flush_s: float = 0.0
    free_in: dict[str, float] = field(default_factory=dict)
    running: list[dict[str, Any]] = field(default_factory=list)
    query_ends_s: float = 0.0
    can_kill: bool = True
    appliers: dict[str, bool] = field(default_factory=dict)
    until: str = "None"
    stop_s: float = 0.0
    starts: bool = True
    away: bool = False
    killed: bool = False
    hangs_at: int = 0
    hung: list[str] = field(default_factory=list)
    watchdog_dead: bool = False
    watchdog_fails: str = ""
    before: Callable[[int, Session], None] = _nothing
    after: Callable[[int, Session], None] = _nothing
    clock: Clock = field(default_factory=Clock)
    file: str = "binlog.000001"
    offset: int = 4
    gtid: str = "a:1-3"
    unflushed: int = 3
    said: list[tuple[int, str]] = field(default_factory=list)
    held_for: list[float] = field(default_factory=list)
    asked: list[Session] = field(default_factory=list)
    by_watchdog: list[str] = field(default_factory=list)
    watchdogs: list[Watchdog] = field(default_factory=list)
    _free_at: dict[str, float] = field(default_factory=dict)

    @property
    def sessions(self) -> "list[Session]":
        """Those of zbackup's that are in the process list."""
        for session in self.clock.sessions:
            if session.listed_until <= self.clock.now:
                session.release()
        return [s for s in self.clock.sessions if s.ours and s.listed_until > self.clock.now]

    @property
    def holder(self) -> Session | None:
        return next((session for session in self.sessions if session.holds is not None), None)

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.said]

    def connect(self, options: ConnectOptions = CONNECT, *, ours: bool = True) -> Session:
        if ours and self.killed:
            raise Killed
        if self.away:
            raise DatabaseError("cannot reach the server")
        number = sum(session.ours == ours for session in self.clock.sessions) + 1
        session = Session(
            self, number if ours else number + THEIRS, self.silence, self.clock.now, ours=ours,
            limit_s=options.limit_s or math.inf,
        )  # fmt: skip
        self.clock.sessions.append(session)
        return session

    def start_guardian(self, module: str, line: str) -> Watchdog:
        self.watchdogs.append(Watchdog(self, WATCHDOGS[module].main, line))
        return self.watchdogs[-1]

    def kill(self) -> None:
        """zbackup, not the server, which sees the closed connections."""
        self.killed = True
        for session in self.clock.sessions:
            if session.ours:
                session.client_ends(0)
        for each in self.watchdogs:
            each.end()

    def commit(self) -> None:
        """One of an application's, which the lock must not have let through."""
        assert not (self.holder and self.holder.stops_commits), "nobody can commit under the lock"
        self.offset, self.unflushed = self.offset + 100, self.unflushed + 1

    def answer(self, session: Session, text: str) -> list[dict[str, Any]]:
        if text in TAKES:
            self._take(session, text)
        elif text in RELEASES:
            session.release()
        elif text == "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS":
            self._wait(session, self.flush_s, math.inf)
            self.unflushed = 0
        elif order := re.fullmatch(self._orders, text):
            self._apply(session, order["name"], run=order["verb"] == "START")
        elif not self._set_or_kill(session, text):
            return self._told(text)
        return []

    def _set_or_kill(self, session: Session, text: str) -> bool:
        if setting := re.fullmatch(r"SET SESSION (lock_)?wait_timeout = (\d+)", text):
            setattr(session, "patience" if setting[1] else "silence", int(setting[2]))
        elif number := re.fullmatch(r"KILL (\d+)", text):
            self._kill(int(number[1]))
        elif number := re.fullmatch(r"KILL QUERY (\d+)", text):
            self._end_statement(int(number[1]))
        else:
            return False
        return True

    def _told(self, text: str) -> list[dict[str, Any]]:
        if text == "SHOW PROCESSLIST":
            return [{"Id": known.id} for known in self.sessions]
        if text == "SHOW FULL PROCESSLIST":
            return self.running
        if text == ("SHOW ALL SLAVES STATUS" if self.mariadb else f"SHOW {self._replica} STATUS"):
            return [self._channel(name) for name in self.appliers]
        return self._log_status(text)

    @property
    def mariadb(self) -> bool:
        return "MariaDB" in self.version

    @property
    def _replica(self) -> str:
        """In whose words: MySQL's new ones came with 8.0.22."""
        return "SLAVE" if self.mariadb or self.version == "8.0.20" else "REPLICA"

    @property
    def _orders(self) -> str:
        if self.mariadb:
            return "(?P<verb>START|STOP) SLAVE '(?P<name>.*)' SQL_THREAD"
        return f"(?P<verb>START|STOP) {self._replica} SQL_THREAD FOR CHANNEL '(?P<name>.*)'"

    def _channel(self, name: str) -> dict[str, Any]:
        word = self._replica.capitalize()
        named = "Connection_name" if self.mariadb else "Channel_Name"
        running = "Yes" if self.appliers[name] else "No"
        error = "" if self.starts else "a row is missing"
        return {
            named: name,
            f"{word}_SQL_Running": running,
            "Until_Condition": self.until,
            "Last_SQL_Error": error,
        }

    def _apply(self, session: Session, name: str, *, run: bool) -> None:
        """STOP cannot be taken back; START of one that runs does nothing."""
        assert name in self.appliers, "there is no such channel"
        if run:
            self.appliers[name] = self.appliers[name] or self.starts
            return
        self.appliers[name] = False
        self._wait(session, self.stop_s, math.inf)

    def _log_status(self, text: str) -> list[dict[str, Any]]:
        position = {"File": self.file, "Position": self.offset}
        known: dict[str, dict[str, Any]] = (
            {"SHOW MASTER STATUS": position, "SELECT @@global.gtid_binlog_pos AS gtid": {"gtid": self.gtid}}
            if self.mariadb
            else {"SHOW BINARY LOG STATUS": position | {"Executed_Gtid_Set": self.gtid}}
        )
        if text not in known:
            raise StatementFailed(f"no such statement: {text}", 1064)
        return [known[text]] if self.logs else []

    def _take(self, session: Session, text: str) -> None:
        self.asked.append(Session(self, session.id, session.silence, 0, session.patience))
        free_at = self._free_at.setdefault(text, self.clock.now + self.free_in.get(text, 0))
        self._wait(session, max(0.0, free_at - self.clock.now), session.patience)
        session.holds = self.clock.now
        session.stops_commits = text in STOP_COMMITS

    def _wait(self, session: Session, needed: float, most: float) -> None:
        session.busy = True
        if needed:
            self.clock.sleep(min(needed, most, session.limit_s), lambda: not session.alive or session.cut)
        if needed > session.limit_s:
            session.hang("it")
        session.busy = False
        if not session.alive:
            raise ConnectionLost("the server ended the connection")
        if needed > most:
            raise StatementFailed("Lock wait timeout exceeded; try restarting transaction", 1205)

    def _end_statement(self, number: int) -> None:
        if all(row["Id"] != number for row in self.running):
            raise StatementFailed(f"Unknown thread id: {number}", 1094)

        def end() -> None:
            self.running = [row for row in self.running if row["Id"] != number]

        Timer(self.clock, self.query_ends_s, end).start()

    def _kill(self, number: int) -> None:
        if not self.can_kill:
            raise StatementFailed("it cannot be ended", 1317)
        for session in self.clock.sessions:
            if session.id == number:
                session.cut = True
                if not session.stuck:
                    session.end(0)


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> "Iterator[Callable[..., Server]]":
    """Make a server, which everybody who takes a lock from now on speaks with."""

    made: list[Server] = []

    def serve(**like: Any) -> Server:
        server = Server(**like)
        for module in lock, long_queries:
            monkeypatch.setattr(module, "time", server.clock)
            monkeypatch.setattr(module, "connect", server.connect)
        monkeypatch.setattr(applier, "connect", server.connect)
        for module in applier, lock:
            monkeypatch.setattr(module, "start_guardian", server.start_guardian)
        for module in applier_watchdog, lock_watchdog:
            in_memory(monkeypatch, module, server.clock, lambda watched: watched.connect(ours=False))
        made.append(server)
        timers = SimpleNamespace(Event=threading.Event, Timer=lambda s, act: Timer(server.clock, s, act))
        monkeypatch.setattr(wait_limit, "threading", timers)
        return server

    yield serve
    for server in made:
        for each in server.watchdogs:
            each.bury()


__all__ = ["CONNECT", "Server", "Session", "TakenLock", "locked", "serving"]
