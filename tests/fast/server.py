"""A database server in memory, and the engine that speaks with it.

What it has committed are numbers, each with its time: `rows` in the data's dataset, `log` in the log's. A
snapshot of both at once is a backup, and the log of a later one leads on from an earlier one's rows.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zbackup.model.added_log import AddedFile
from zbackup.model.anchors import Anchor
from zbackup.model.backup import BackupFiles
from zbackup.model.cloning import Adoption
from zbackup.model.errors import DatabaseError, LockNotTaken, NotRecoverable, VerificationFailed
from zbackup.model.log import LogDamage, LogSpan, Searched, Transaction
from zbackup.model.progress import Progress
from zbackup.model.proof import ProofSubject, Sight
from zbackup.model.record import LockKind, Record, ends_log
from zbackup.model.recovery import (
    CheckedTables,
    Entrance,
    Reach,
    Recovered,
    RecoveryFiles,
    ReplayRange,
    Serving,
)
from zbackup.model.relocation import Relocation
from zbackup.model.server import DataPath, LockChoice, ServerFacts
from zbackup.model.silence import Silence
from zbackup.model.table_name import TableName
from zbackup.model.target import Stop, WholeLog, time_of
from zbackup.model.transaction_name import TransactionName
from zbackup.model.unreplayable import Unreplayable

if TYPE_CHECKING:
    from tests.fast.world import World

DATA, LOG = "/srv/db", "/srv/db/log"
WIDTH = 4
"""Bytes by which an archive gives a transaction."""
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@dataclass(slots=True)
class Server:
    """Production. `locked` while nobody can write; `healed` counts how often leftovers were looked for.
    `blockers` are what it says of why no moment could be recovered; without a log it writes none. `damage` is
    what is wrong with that. `sealed`: nobody but itself reads it.
    """

    running: bool = True
    locked: bool = False
    next: int = 1
    times: dict[int, datetime] = field(default_factory=dict)
    healed: int = 0
    replicas: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    damage: tuple[LogDamage, ...] = ()
    sealed: bool = False

    @property
    def logs(self) -> bool:
        return not any(ends_log(blocker) for blocker in self.blockers)


@dataclass
class Held:
    """The lock as a job sees it. `lost`: it went before the job let it go."""

    position: str
    facts: Mapping[str, str]
    gtid: str = ""
    lock_wait_ms: int = 1
    held_ms: int = 2
    lost: bool = False

    def seconds_left(self) -> float:
        return 10.0

    def confirm(self) -> None:
        if self.lost:
            raise LockNotTaken("the lock was lost")


class FakeEngine:
    """zbackup.engines.base.Engine."""

    def __init__(self, world: "World", *, loses_lock: bool = False) -> None:
        self.world, self.loses_lock = world, loses_lock
        self.held: Held | None = None

    def inspect(self) -> ServerFacts:
        if not self.world.server.running:
            raise DatabaseError("it does not answer")
        return ServerFacts(
            flavor="mysql",
            version="9.7.4",
            server_uuid=UUID,
            role="primary",
            applier_running=False,
            data_paths=(DataPath("data", f"{DATA}/data"), DataPath("log", f"{LOG}/binlog")),
            position=self._position(),
            gtid="",
            server={"datadir": f"{DATA}/data/"},
            blockers=self.world.server.blockers,
        )

    def has_table(self, name: TableName) -> bool:
        if self.world.production_has is None:
            raise DatabaseError("it does not answer")
        return self.world.production_has

    def replicas(self) -> tuple[str, ...]:
        return self.world.server.replicas

    def heal(self) -> None:
        self.world.door(("engine", "heal"), lambda: None)
        self.world.server.healed += 1

    def choose_lock(self, facts: ServerFacts) -> LockChoice:
        return LockChoice("ftwrl", "it is exact")

    def require_privileges(self, facts: ServerFacts, kind: LockKind) -> None:
        return

    @contextmanager
    def consistent(self, facts: ServerFacts, kind: LockKind) -> Iterator[Held]:
        server = self.world.server
        self.world.door(("engine", "lock"), lambda: None)
        server.locked = True
        self.held = Held(self._position(), {"warnings": ""})
        try:
            if self.loses_lock:
                server.locked, self.held.lost = False, True
            yield self.held
        finally:
            # However the process ends: the watchdog's word.
            server.locked, self.held = False, None

    def _position(self) -> str:
        return position(len(self.world.content(DATA)["rows"]))


class FakeRecovery:
    """zbackup.engines.base.Recovery and LogReader, and FileSearch as far as anybody asks."""

    log_delay_s = 0.0
    memory = 0

    def __init__(self, world: "World") -> None:
        self.world = world

    def reach(
        self, record: Record, where: Relocation, created: datetime, since: Record | None = None
    ) -> Reach:
        rows, log = self._rows(where), self._log(where)
        if log[: len(rows)] != rows and not record.log_lacks:
            raise VerificationFailed("the log is not that of the rows")
        if record.lock != "none" and record.position != position(len(rows)):
            raise VerificationFailed(f"{len(rows)} rows, and {record.position} was recorded")
        complete = self._time(log[-1]) + timedelta(microseconds=1)
        return Reach(as_of=self._time(rows[-1]), complete_to=complete)

    def log_span(self, record: Record, where: Relocation, since: Record | None = None) -> LogSpan | None:
        return LogSpan(position(0), position(len(self._log(where))))

    def unreplayable(
        self, subject: BackupFiles, after: str, *, live: bool = False, base: Record | None = None
    ) -> tuple[Unreplayable, ...]:
        return ()

    def silence(self, end: Record, log: BackupFiles) -> Silence | None:
        return None

    def live_log(self, newest: BackupFiles, live: Relocation) -> LogSpan | None:
        return LogSpan(position(0), position(len(self._log(live))))

    def bring_up_to_date(self, live: BackupFiles) -> None:
        """Its log is in files; of one that is sealed these are a copy."""
        if self.world.server.sealed and not self.world.server.running:
            raise DatabaseError("it does not answer")

    def live_log_damage(
        self, newest: BackupFiles, live: Relocation, most: int | None = None
    ) -> tuple[LogDamage, ...]:
        return self.world.server.damage

    def is_same_log(self, older: BackupFiles, newer: BackupFiles) -> bool:
        was, now = self._log(older[1]), self._log(newer[1])
        return now[: len(was)] == was

    def effective_target(self, target: datetime) -> datetime:
        return target

    def check_name(self, name: TransactionName) -> None:
        return

    def find(self, name: TransactionName, parts: Sequence[BackupFiles]) -> Searched:
        raise AssertionError("nobody looks for a transaction here")

    def examine(
        self,
        base: BackupFiles,
        log: BackupFiles,
        stop: Stop,
        anchors: Sequence[Anchor] = (),
    ) -> ReplayRange | None:
        rows, full = self._rows(base[1]), self._log(log[1])
        count = self._cut(rows, full, stop)
        return ReplayRange(
            last_applied=self._transaction(full, count - 1) if count > len(rows) else None,
            first_skipped=self._transaction(full, count) if count < len(full) else None,
            transactions=count - len(rows),
            log_bytes=0,
            out_of_order=0,
            effective_target=time_of(stop),
        )

    def check_program(self, record: Record) -> str:
        return "mysqld"

    def check_openable(self, record: Record) -> None:
        return

    def check_serving(self, record: Record, serving: Serving) -> None:
        assert serving, "nobody is to be served"

    def check_version(self, server: Mapping[str, str], version: str, members: Sequence[str] = ()) -> str:
        return "mysqld"

    def check_tables(self, files: RecoveryFiles, progress: Progress) -> CheckedTables:
        return CheckedTables(tables=1, damaged=self.world.damaged_tables)

    def only_reads(self, base: RecoveryFiles, log: BackupFiles) -> bool:
        return self.world.only_reads

    def recover(
        self,
        base: RecoveryFiles,
        log: RecoveryFiles,
        stop: Stop,
        serving: Serving | None,
        progress: Progress,
        *,
        skip: Transaction | None = None,
        proves: ProofSubject | None = None,
    ) -> Recovered:
        rows, full = self._rows(base.where), self._log(log.where)
        count = self._cut(rows, full, stop)
        applied = full[:count]
        assert skip is None, "nothing is left out here"
        self._run(base, {"rows": applied}, {"log": applied}, serving, "recover")
        if proves is None:
            return self._recovered(applied)
        following = self._transaction(full, count)
        return replace(self._recovered(applied), first_skipped=following, sights=self.world.sights[:1])

    def step_on(
        self,
        files: RecoveryFiles,
        home: Path,
        log: Record,
        following: Transaction,
        proves: ProofSubject,
        progress: Progress,
    ) -> Sight:
        assert self._rows(files.where), "it has what was recovered"
        self._run(files, {"rows": (0,)}, {"log": (0,)}, Serving(), "step on")
        self.world.stop_clone(files.run.name)
        return self.world.sights[1]

    def open(self, base: RecoveryFiles, serving: Serving | None, progress: Progress) -> Recovered:
        rows = self._rows(base.where)
        self._run(base, {}, {"log": rows}, serving, "open")
        return self._recovered(rows)

    def adopt(self, files: RecoveryFiles, adoption: Adoption, progress: Progress) -> None:
        self._run(files, {"adopted": True}, {}, adoption.serving, "adopt")

    def serve(self, files: RecoveryFiles, serving: Serving) -> None:
        self._run(files, {}, {}, serving, "serve")

    @contextmanager
    def entered(self, files: RecoveryFiles, progress: Progress) -> Iterator[Entrance]:
        self._run(files, {}, {}, Serving(), "enter")
        try:
            yield Entrance(socket=f"{files.run}/for-us-alone")
        finally:
            self.world.stop_clone(files.run.name)

    def connection(self, run: Path, port: int, user: str = "") -> tuple[str, str]:
        return f"{run}/socket", "mysql"

    def add_log(self, files: BackupFiles, added: Sequence[AddedFile], progress: Progress) -> LogSpan:
        end = int(files[0].log_to.rpartition(":")[2])
        held, (first, *others) = self._log(files[1])[:end], added
        if _numbers(first.read(0, end)) != held:
            raise NotRecoverable("the archived log is another one")
        log = (*held, *_numbers(first.read(end, first.size)))
        for other in others:
            log = (*log, *_numbers(other.read(0, other.size)))
        there = self.world.dataset_at(self._place(files[1], LOG))
        self.world.door(("engine", "add log"), lambda: there.files.update(log=log))
        return LogSpan(position(0), position(len(log)))

    def _run(
        self,
        files: RecoveryFiles,
        data: dict[str, Any],
        log: dict[str, Any],
        serving: Serving | None,
        what: str,
    ) -> None:
        """Change what is in the files, and start a server on them unless nobody wants one."""

        def act() -> None:
            self.world.dataset_at(self._place(files.where, DATA)).files.update(data)
            self.world.dataset_at(self._place(files.where, LOG)).files.update(log)
            if serving is not None:
                self.world.start_clone(files.run.name, [self._place(files.where, d) for d in (DATA, LOG)])

        self.world.door(("engine", what), act)

    def _cut(self, rows: tuple[int, ...], full: tuple[int, ...], stop: Stop) -> int:
        """How many of the log are applied."""
        if full[: len(rows)] != rows:
            raise NotRecoverable("the log does not lead on from the rows")
        if isinstance(stop, WholeLog):
            return len(full)
        if isinstance(stop, Transaction):
            return int(stop.start.rpartition(":")[2])
        return max(len(rows), sum(self._time(n) < time_of(stop) for n in full))

    def _recovered(self, applied: tuple[int, ...]) -> Recovered:
        return Recovered(
            last_applied=None, first_skipped=None, position=position(len(applied)), gtid="", base_exact=True
        )

    def _transaction(self, full: tuple[int, ...], index: int) -> Transaction:
        return Transaction(start=position(index), end=position(index + 1), committed=self._time(full[index]))

    def _rows(self, where: Relocation) -> tuple[int, ...]:
        found: tuple[int, ...] = self.world.content(self._place(where, DATA))["rows"]
        return found

    def _log(self, where: Relocation) -> tuple[int, ...]:
        try:
            found: tuple[int, ...] = self.world.content(self._place(where, LOG))["log"]
        except FileNotFoundError as missing:
            raise NotRecoverable(f"there is no log: {missing}") from missing
        return found

    @staticmethod
    def _place(where: Relocation, original: str) -> str:
        return str(where.path(original))

    def _time(self, number: int) -> datetime:
        return self.world.server.times[number]


def _numbers(parts: Iterator[bytes]) -> tuple[int, ...]:
    """Transactions, as tests.fast.archive gives them."""
    whole = b"".join(parts)
    return tuple(int.from_bytes(whole[at : at + WIDTH], "big") for at in range(0, len(whole), WIDTH))


def position(count: int) -> str:
    """So many transactions are before it."""
    return f"binlog.000001:{count}"
