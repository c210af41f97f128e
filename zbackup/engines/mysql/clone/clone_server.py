"""Starts and stops a server on a clone's files."""

import os
import random
import re
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from zbackup.engines.file_owner import owner_of
from zbackup.engines.mysql.binlog.files import index_without_links
from zbackup.engines.mysql.clone import after_replay, outside_directories
from zbackup.engines.mysql.clone.accounts import TemporaryAccount
from zbackup.engines.mysql.clone.keyring import own_copy
from zbackup.engines.mysql.clone.server_options import OwnPaths, Shape, arguments, searched_directories
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import (
    Connection,
    ConnectionLost,
    LoginRefused,
    StatementFailed,
    connect,
    whole_number,
)
from zbackup.engines.mysql.server.system_zone import zone_for
from zbackup.engines.stall import STALL_S, ended_when_still
from zbackup.model.errors import DatabaseError, VerificationFailed
from zbackup.model.recovery import RecoveryFiles, Serving
from zbackup.proc import secure_files
from zbackup.proc.detached import Confinement, Process, last_lines, launch
from zbackup.proc.memory import available
from zbackup.proc.mount_namespace import named_paths
from zbackup.proc.start import for_server

SHARE = 4
"""The divisor of the free memory: no more than that part of it is taken.

What is free is asked at each start. A pool takes its memory as it fills, so recoveries that start within the
same seconds see the same memory as free. No count is kept: drills come one at a time, a pool has no more than
twice the redo log, and where that is too much after all, Linux ends one of them before production's server.
"""

_DIGITS = 19
"""Digits of an exabyte."""


def for_crash_recovery(memory: int, flavor: str, recorded: Mapping[str, str]) -> int:
    """Bytes: `memory`, or more where MariaDB recovers sooner with that. `recorded` is Record.server.

    It keeps what it reads of the redo log in the pool, beside the pages that it changes. Where these find no
    room it writes pages to their files meanwhile, and where the log finds none, it is read in parts: of
    180 MiB with a pool of 256 MiB all pages were written, in 160 syncs, and with 512 MiB none.
    """
    if flavor != "mariadb":
        return memory
    size = recorded.get("innodb_log_file_size", "")
    # A record that came from elsewhere may say anything.
    wanted = 2 * int(size) if len(size) < _DIGITS and size.isdecimal() else 0
    return max(memory, min(wanted, (available() or 0) // SHARE))


TAIL = 200
FIRST, LAST = 3, 2

# Each start announces itself, in a log that is appended to.
_BEGUN = re.compile(r"\bstarting as process\b|\] Starting MariaDB ", re.IGNORECASE)
_REASON = re.compile(r"\[ERROR\]|\[FATAL\]|\bgot signal \d+|\bgot exception\b|Assertion failure")
_CLOCK = re.compile(r"^\d{4}-\d\d-\d\d[T ]+\S+ +\d+ ")


def error_log_tail(output: Path, *, without: str = "") -> str:
    """The errors of the last start, without the time: the first of them, and the last. If it named none, its
    last lines. Lines that hold `without` are left out."""
    lines = last_lines(output, TAIL, without=without).splitlines()
    begun = max((n for n, line in enumerate(lines) if _BEGUN.search(line)), default=0)
    said = dict.fromkeys(_CLOCK.sub("", line) for line in lines[begun:] if _REASON.search(line))
    reasons = list(said)
    if not reasons:
        return last_lines(output, without=without)
    return "\n".join(reasons if len(reasons) <= FIRST + LAST else [*reasons[:FIRST], "...", *reasons[-LAST:]])


# ZFS refuses writes while it still shows some room: what a write may need at worst has to fit.
LEAST_FREE = 16 << 20
PATIENCE_S = 10.0
DISK_POLL_S = 1.0


@contextmanager
def killed_when_full(process: Process, directory: Path) -> Iterator[threading.Event]:
    """While the body runs, kill the server once the file system of `directory` was full for PATIENCE_S.

    The event says that this was done; whoever talks to the server only sees it gone.
    """
    done, full = threading.Event(), threading.Event()
    watching = threading.Thread(target=_watch, args=(process, directory, done, full), daemon=True)
    watching.start()
    try:
        yield full
    finally:
        done.set()
        watching.join()


def _watch(process: Process, directory: Path, done: threading.Event, full: threading.Event) -> None:
    since = time.monotonic()
    while not done.wait(DISK_POLL_S):
        now = time.monotonic()
        if shutil.disk_usage(directory).free >= LEAST_FREE:
            since = now
        elif now - since > PATIENCE_S:
            full.set()
            process.send(signal.SIGKILL)
            return


# Crash recovery of a large redo log takes long and must not be cut off; a server that gives up ends.
START_LIMIT_S = 4 * 3600.0
STOP_LIMIT_S = 600.0
DYING_S = 1.0
POLL_S = 0.02

# A server runs its init file, which makes our account, before it lets anybody in (MySQL reference manual,
# init_file). One that goes on refusing us will not change its mind.
REFUSED_LIMIT_S = 60.0
# Its log gets a line for each time, and has to keep room for the reason.
REFUSED_PAUSE_S = 2.0

PRIVATE = Serving()
NO_ROOM = "was given up: the pool is full, or the clone's quota is reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneServer:
    """The server program, and the files it is to work on."""

    flavor: str
    program: tuple[str, ...]
    files: RecoveryFiles
    memory: int
    workers: int
    closed: tuple[str, ...] = ()
    """Directories, such as those of other servers' sockets, in which the server finds nothing."""
    stall: float = STALL_S

    @property
    def own(self) -> OwnPaths:
        return OwnPaths(home=self.files.home, run=self.files.run)

    def make_room(self) -> None:
        """The directories it needs beside its data, owned by whom it runs as.

        Where the original may have made tables since, it finds nothing: a table of its own can have the
        number of one of those, and it would not start with two files of one number.
        """
        for directory in (self.own.relay, self.own.scratch, self.own.run):
            secure_files.make_directory(directory, owner=self.owner)
        members = [original for original, _ in self.files.where.moves]
        searched = searched_directories(self.flavor, self.files.record.server)
        self.make_room_outside(outside_directories.beyond(searched, members))

    def make_room_outside(self, directories: Sequence[str]) -> None:
        """The same for what tables were made in elsewhere: see outside_directories."""
        if not directories:
            return
        recorded = {**self.files.record.server, "innodb_directories": ""}
        members = [original for original, _ in self.files.where.moves]
        argv = [*self.program, *arguments(self.flavor, recorded, self.own, self._shape(replaying=True))]
        program = map(os.path.realpath, self.program)
        keyring = filter(None, [recorded.get("keyring_file")])
        needed = (*members, *named_paths(argv), *program, *keyring, str(self.files.run))
        outside_directories.make_room(self.files.home, directories, needed, self.owner)

    def forget_identity(self) -> None:
        """A copied auto.cnf would make two servers with one UUID; without it the server makes a new one."""
        secure_files.unlink(self._datadir / "auto.cnf")

    def name_log_files(self) -> None:
        """List the log's files by the path they are started with here, which is without links."""
        recorded = self.files.record.server
        if not recorded.get("log_bin_index"):
            return
        index = self.files.where.path(recorded["log_bin_index"])
        try:
            text = secure_files.read_text(index)
        except FileNotFoundError:
            return
        wanted = index_without_links(text, str(Path(recorded["log_bin_basename"]).parent))
        if wanted != text:
            content = wanted.encode("utf-8", "surrogateescape")
            secure_files.replace(index, content, mode=0o640, owner=self.owner)

    @contextmanager
    def temporary(self, before: str = "", *, recovers: bool = False) -> Iterator["Temporary"]:
        """A server for our own use only, with an account of ours; gone at the end whatever happens.

        `before` are statements, one a line, that are run first. One that `recovers` has a backup's files as
        they were found.
        Killed when the body fails: one that is stuck would take its time to stop, and nobody needs its files.
        Raise DatabaseError, with the end of its log, when it ends before it is asked to, or the pool is full.
        """
        with (
            self._ours(self._shape(replaying=True, recovers=recovers), before) as temporary,
            self._explained_by_its_log(temporary.process),
        ):
            yield temporary
            temporary.process.stop(STOP_LIMIT_S)

    @contextmanager
    def recovering(self, serving: Serving | None) -> Iterator["Temporary"]:
        """A server for our own use while the body runs, see temporary, and its users' afterwards.

        It goes on as theirs where that makes no difference, else it is stopped and started: so is one that
        sees another clone, which it would keep busy. With None it is gone at the end.
        """
        if serving and after_replay.can_stay(serving) and self.files.beside in ((), (self.files.home,)):
            with self._staying(serving) as temporary:
                yield temporary
            return
        with self.temporary(recovers=True) as temporary:
            yield temporary
            temporary.hand_over()
        if serving:
            self.serve(serving)

    @contextmanager
    def _staying(self, serving: Serving) -> Iterator["Temporary"]:
        shape = self._shape(replace(serving, read_only=False), replaying=True, recovers=True)
        shape = replace(shape, stays=True)
        secure_files.set_mode(self.own.run, 0o700)
        with ExitStack() as ended:
            process, account = self._begun(shape, "", ended)
            with self._given_up_when_full(process), self._explained_by_its_log(process):
                temporary = self._entered(process, account, REFUSED_LIMIT_S)
                yield temporary
                temporary.settle(serving)
            secure_files.set_mode(self.own.run, 0o755)
            # It goes on: what would end it is forgotten.
            ended.pop_all()

    @contextmanager
    def _ours(self, shape: Shape, before: str = "") -> Iterator["Temporary"]:
        """Started with an account of ours; surely gone at the end."""
        secure_files.set_mode(self.own.run, 0o700)
        with ExitStack() as ended:
            process, account = self._begun(shape, before, ended)
            with self._given_up_when_full(process):
                yield self._entered(process, account, REFUSED_LIMIT_S)

    @contextmanager
    def opened(
        self, serving: Serving, before: str, after: Sequence[str] = (), *, calls_out: bool = False
    ) -> Iterator["Temporary"]:
        """A server for its users, with an account of ours while the body runs. Gone if the body fails.

        `before` are statements, one a line, that are run before anybody is let in, and `after` those of the
        end, when our account is no more. One that `calls_out` may be told whom to replicate.
        """
        secure_files.set_mode(self.own.run, 0o755)
        with ExitStack() as ended:
            shape = replace(self._shape(serving, recovers=True), calls_out=calls_out)
            process, account = self._begun(shape, before, ended)
            with self._given_up_when_full(process), self._explained_by_its_log(process):
                # Refused at all, the init file failed, and what it should have done may not be done.
                temporary = self._entered(process, account, patience=0)
                yield temporary
                temporary.leave(after, serving)
            # It goes on: what would end it is forgotten.
            ended.pop_all()

    def _begun(self, shape: Shape, before: str, ended: ExitStack) -> tuple[Process, TemporaryAccount]:
        """A server with an account of ours; `ended` gets what takes both away."""
        account = TemporaryAccount.fresh()
        ended.callback(secure_files.unlink, self._init)
        secure_files.write_new(self._init, before + account.creation(), mode=0o600, owner=self.owner)
        process = self.start(replace(shape, init=self._init))
        ended.callback(self._kill, process)
        return process, account

    def _entered(self, process: Process, account: TemporaryAccount, patience: float) -> "Temporary":
        with self.progressing(process):
            connection = self._await_login(process, account, patience)
        secure_files.unlink(self._init)
        return Temporary(self, process, account, connection)

    @property
    def _init(self) -> Path:
        return self.own.run / "init.sql"

    def _kill(self, process: Process) -> None:
        process.send(signal.SIGKILL)
        process.wait(STOP_LIMIT_S)
        secure_files.unlink(self.files.process)

    @contextmanager
    def _explained_by_its_log(self, process: Process) -> Iterator[None]:
        """Why a server died, from its log: whoever talked to it knows only that it answers no more."""
        try:
            yield
        except (ConnectionLost, StatementFailed, VerificationFailed) as failure:
            if process.wait(DYING_S):
                raise self.failure(f"ended while it was worked on ({failure})") from failure
            raise

    @contextmanager
    def _given_up_when_full(self, process: Process) -> Iterator[None]:
        """Kill the server when its pool is full, and say so: whoever works with it only sees it gone."""
        with killed_when_full(process, self.files.home) as full:
            try:
                yield
            except (DatabaseError, VerificationFailed) as failure:
                if not full.is_set():
                    raise
                raise self.failure(NO_ROOM) from failure
        if full.is_set():
            raise self.failure(NO_ROOM)

    def serve(self, serving: Serving) -> Process:
        """Start the server for its users and wait until it answers; it outlives us."""
        secure_files.set_mode(self.own.run, 0o755)
        process = self.start(self._shape(serving))
        with self._given_up_when_full(process), self.progressing(process):
            self._await_answer(process)
        return process

    def start(self, shape: Shape) -> Process:
        """Start; the process is noted, see Files.process; see launch for errors."""
        uid, gid = self.owner
        recorded = self.files.record.server
        elsewhere = outside_directories.shown(self.files.home)
        shape = replace(shape, outside=tuple(path for _, path in elsewhere))
        argv = [*self.program, *arguments(self.flavor, recorded, self.own, shape)]
        bind = tuple((now, original) for original, now in self.files.where.moves)
        members = [original for _, original in bind]
        bind += own_copy(recorded, members, self.own.keyring, (uid, gid)) + elsewhere
        confinement = Confinement(
            hide=self.files.hide,
            bind=bind,
            uid=uid,
            gid=gid,
            own=self.files.own(for_users=not shape.replaying),
            cover=self.closed,
            network="host" if shape.port and not shape.replaying else "own",
            calls_out=shape.calls_out or shape.follows,
            limits=shape.limits,
        )
        environment = for_server(zone_for(recorded))
        # One that was killed has left its socket. MariaDB (10.11.18) tries whether anybody answers there, and
        # a server that may call nobody ends. MySQL asks who has the process id that is in the file beside it.
        for left in (self.own.socket, self.own.socket.with_name(f"{self.own.socket.name}.lock")):
            secure_files.unlink(left)
        return launch(argv, confinement, self.own.output, note=self.files.process, environment=environment)

    def _shape(self, serving: Serving = PRIVATE, *, replaying: bool = False, recovers: bool = False) -> Shape:
        memory = serving.memory or self.memory
        if recovers and not serving.limits.memory:
            memory = for_crash_recovery(memory, self.flavor, self.files.record.server)
        return Shape(
            server_id=random.SystemRandom().randrange(2**31, 2**32),
            memory=memory,
            workers=self.workers,
            port=serving.port,
            read_only=serving.read_only,
            replaying=replaying,
            limits=serving.limits,
            events_off=serving.events_off,
            restricted=serving.restricted,
            follows=serving.follows,
        )

    @property
    def owner(self) -> tuple[int, int]:
        """Return who owns the data directory: the server must run as nobody else."""
        return owner_of(self._datadir)

    @property
    def _datadir(self) -> Path:
        return self.files.where.path(self.files.record.fact("datadir"))

    def _await_login(self, process: Process, account: TemporaryAccount, patience: float) -> Connection:
        options = ConnectOptions(
            socket=str(self.own.socket), user=account.user, password=lambda: account.password
        )
        refused_since = None
        for _ in self._attempts(process):
            try:
                return connect(options)
            except LoginRefused:
                now = time.monotonic()
                refused_since = refused_since or now
                if now - refused_since >= patience:
                    process.send(signal.SIGKILL)
                    what = "refuses the account that its init file should have made"
                    raise self.failure(what, without=account.user) from None
                time.sleep(REFUSED_PAUSE_S)
            except DatabaseError:
                refused_since = None
        raise self.failure("did not let us in within its time limit")

    def _await_answer(self, process: Process) -> None:
        """Ready is when the socket answers, be it that it knows no such user."""
        nobody = ConnectOptions(socket=str(self.own.socket), user="zbackup-is-it-up", password=lambda: "")
        for _ in self._attempts(process):
            try:
                connect(nobody).close()
                return
            except LoginRefused:
                return
            except DatabaseError:
                continue
        raise self.failure("did not answer within its time limit")

    def _attempts(self, process: Process) -> Iterator[None]:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            # A look costs nothing, and a server that starts needs the CPU more than we do.
            if secure_files.exists(self.own.socket):
                yield
            if not process.alive:
                raise self.failure("ended while starting")
            time.sleep(POLL_S)

    @contextmanager
    def progressing(self, *processes: Process) -> Iterator[Callable[[object], None]]:
        """While the body waits for servers, end them when they stand still; what is yielded is to be told how
        far they are.

        Raise DatabaseError then, with the end of this one's log.
        """
        with ended_when_still(self.stall, *processes) as still:
            try:
                yield still.at
            except (DatabaseError, VerificationFailed) as failure:
                if not still.ended:
                    raise
                raise self.failure(still.told) from failure

    def failure(self, what: str, *, without: str = "") -> DatabaseError:
        """The error, with the reason in the server's log, of which lines that hold `without` are left out."""
        said = error_log_tail(self.own.output, without=without)
        return DatabaseError(f"the temporary server {what}; {self.own.output} says:\n{said}")


@dataclass(slots=True)
class Temporary:
    """A server that only we use, and our connection to it."""

    server: CloneServer
    process: Process
    account: TemporaryAccount
    connection: Connection

    def progressing(self, *others: Process) -> AbstractContextManager[Callable[[object], None]]:
        """See CloneServer.progressing; `others` work with it."""
        return self.server.progressing(self.process, *others)

    def leave(self, after: Sequence[str] = (), serving: Serving | None = None) -> None:
        """Remove our account, and run these statements: this session keeps its privileges to its end. What
        memory the server had to recover with it gives back, where it goes on `serving`."""
        with self.progressing():
            self.account.drop(self.connection)
            for statement in after:
                self.connection.execute(statement)
            if serving and (last := self._given_back(serving)):
                self.connection.hand_in(last)
        self.connection.close()

    def discard(self) -> None:
        """Kill it: nobody needs its files."""
        self.connection.close()
        self.process.send(signal.SIGKILL)

    def settle(self, serving: Serving) -> None:
        """Remove what we brought along, and let it be its users' server: see after_replay."""
        flavor = self.server.flavor
        with self.progressing():
            for statement in after_replay.taken_back(flavor, self.server.files.record.server):
                self.connection.execute(statement)
        self.leave(after_replay.at_last(flavor, read_only=serving.read_only), serving)

    def _given_back(self, serving: Serving) -> str:
        has = whole_number(self.connection.one("SELECT @@innodb_buffer_pool_size AS size"), "size")
        return after_replay.given_back(self.server.flavor, has, serving.memory or self.server.memory)

    def hand_over(self, after: Sequence[str] = ()) -> None:
        """Remove what we brought along, see leave, and stop the server in good order.

        Raise DatabaseError if it has to be killed: what it replayed last might not be on disk.
        """
        self.connection.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        self.leave(after)
        if not self.process.stop(STOP_LIMIT_S):
            raise self.server.failure(f"did not shut down within {STOP_LIMIT_S:g} s")
