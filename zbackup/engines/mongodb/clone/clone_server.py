"""Starts and stops a mongod on a clone's files."""

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bson.timestamp import Timestamp

from zbackup.config.recovery import Login
from zbackup.engines.file_owner import owner_of
from zbackup.engines.mongodb.clone.identity import as_internal_user
from zbackup.engines.mongodb.clone.server_options import OwnPaths, Purpose, Shape, arguments
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import Connection, connect, is_deserted
from zbackup.engines.stall import STALL_S, ended_when_still
from zbackup.model.errors import DatabaseError, Refused, UsageError, VerificationFailed
from zbackup.model.record import Record
from zbackup.model.recovery import RecoveryFiles, Serving
from zbackup.proc import secure_files
from zbackup.proc.detached import Confinement, Process, launch

# The message "WiredTiger recoveryTimestamp"; ids are there to be relied on ("Log Messages", id).
RECOVERY_TIMESTAMP = 23987

LINES = 10
LENGTH = 300
TAIL = 256 * 1024

ENDING = "terminating"
"""The end of a message with which a server gives up at its start, such as 20557, about its directories."""

# Their lines are long and help only those who know mongod's sources.
_NOISE = ("BACKTRACE", "Frame", "/proc/self/maps")

LogLine = dict[str, Any]


def error_log_tail(output: Path) -> str:
    """The end of a server's output, for a message: why it gave up if it said so, else its last lines.

    What is not a log line, such as the complaint about an option, counts as a reason.
    """
    lines = [line for line in _tail(output).splitlines() if line.strip()]
    read = [(line, _parsed(line)) for line in lines]
    told = [_text(line, parsed) for line, parsed in read if not _is_noise(parsed)]
    reasons = [_text(line, parsed) for line, parsed in read if _is_reason(line, parsed)]
    return "\n".join((reasons or told)[-LINES:])


def stable_checkpoint(output: Path, since: int) -> Timestamp | None:
    """Where the recovery of the start that wrote from the byte `since` on began: what the tables then
    held.

    None without such a point.
    """
    found = None
    for line in _lines(output, since):
        if line.get("id") == RECOVERY_TIMESTAMP:
            stamp = line["attr"]["recoveryTimestamp"]["$timestamp"]
            found = Timestamp(stamp["t"], stamp["i"])
    return found if found and found.time else None


def _lines(output: Path, since: int) -> Iterator[LogLine]:
    with secure_files.open_regular(output) as source:
        source.seek(since)
        for line in source:
            if parsed := _parsed(line.decode(errors="replace")):
                yield parsed


def _tail(output: Path) -> str:
    return secure_files.read_end(output, TAIL).decode(errors="replace")


def _parsed(line: str) -> LogLine | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_reason(line: str, parsed: LogLine | None) -> bool:
    # A server that is killed may leave half a log line behind, which complains of nothing. Of severity E are
    # also complaints that stop no server, such as what its kernel lacks, but for the one it ends with; F is
    # fatal.
    if parsed is None:
        return not line.startswith("{")
    ends = parsed.get("s") == "E" and str(parsed.get("msg", "")).endswith(ENDING)
    return (parsed.get("s") == "F" or ends) and not _is_noise(parsed)


def _is_noise(parsed: LogLine | None) -> bool:
    return parsed is not None and str(parsed.get("msg", "")).strip().startswith(_NOISE)


def _text(line: str, parsed: LogLine | None) -> str:
    if parsed is None:
        return line[:LENGTH]
    attributes = json.dumps(parsed["attr"]) if parsed.get("attr") else ""
    return " ".join(f"{parsed.get('msg', '')} {attributes}".split())[:LENGTH]


# Replaying a day's oplog takes long and must not be cut off; a server that gives up ends.
START_LIMIT_S = 24 * 3600.0
STOP_LIMIT_S = 3600.0
POLL_S = 0.02

# Bytes of the key by which the only member of a new set knows itself.
KEY_BYTES = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneServer:
    """The server program, and the files it is to work on."""

    program: tuple[str, ...]
    files: RecoveryFiles
    memory: int
    workers: int
    login: Login = "original"
    closed: tuple[str, ...] = ()
    """Directories, such as those of other servers' sockets, in which the server finds nothing."""
    stall: float = STALL_S

    @property
    def own(self) -> OwnPaths:
        return OwnPaths(home=self.files.home, run=self.files.run)

    @property
    def asks_for_login(self) -> bool:
        """Whether the server for its users does: if the original did, unless told otherwise."""
        return self.login != "never" and self.files.record.server.get("authorization") == "enabled"

    @property
    def ended_well(self) -> bool:
        """Whether the last server on the files shut down in good order: only then it empties this
        file."""
        return secure_files.stat(self._data / "mongod.lock").st_size == 0

    @property
    def _data(self) -> Path:
        return self.files.where.path(self.files.record.fact("dbpath"))

    def make_room(self) -> None:
        """The directory for its socket, owned by whom it runs as."""
        secure_files.make_directory(self.own.run, owner=self._owner())

    @contextmanager
    def temporary(self, purpose: Purpose, *, disposable: bool = False) -> Iterator["Temporary"]:
        """A server for our own use only, which may still be starting; ended at the end whatever happens.

        It is reached through its socket alone, in a directory that only root and the files' owner may enter,
        and asks nobody to log in, or for a key that only we know. One that is `disposable` is killed: its
        files are not looked at again.
        """
        secure_files.set_mode(self.own.run, 0o700)
        output = self.own.output
        said = secure_files.size(output) if secure_files.exists(output) else 0
        asks = self.login == "always"
        shape = Shape(purpose=purpose, memory=self.memory, workers=self.workers, auth=asks, key=asks)
        login = self.by_key() if asks else self.by_socket
        process = self._start(shape)
        try:
            yield Temporary(self, process, said, login)
        finally:
            if disposable:
                process.kill(STOP_LIMIT_S)
            else:
                process.stop(STOP_LIMIT_S)
            secure_files.unlink(self.files.process)

    def serve(self, serving: Serving) -> Connection:
        """Start the server for its users and wait until it answers; it outlives us.

        One that could be reached by anybody and asks nobody to log in although the original did is Refused.
        """
        require_private(self.login, self.files.record, serving)
        asks = serving.login or self.asks_for_login
        secure_files.set_mode(self.own.run, 0o700 if self.login == "never" and not asks else 0o755)
        shape = Shape(
            purpose="serve",
            memory=serving.memory or self.memory,
            port=serving.port,
            read_only=serving.read_only,
            auth=asks,
            key=bool(asks and serving.replica_set),
            replica_set=serving.replica_set,
            role=serving.role,
            host=serving.host,
            limits=serving.limits,
        )
        return self.await_answer(self._start(shape), self.by_socket)

    @property
    def by_socket(self) -> ConnectOptions:
        """Our way to the server, without a login."""
        return ConnectOptions(socket=str(self.own.socket))

    def by_key(self, key: str = "") -> ConnectOptions:
        """The same as the server itself, with a key for its file; all who know that are the server.

        It is a new one, or that which the members of its cluster have.
        """
        return as_internal_user(str(self.own.socket), self._write_key(key or new_key()))

    def _write_key(self, key: str) -> str:
        secure_files.write_new(self.own.key, key + "\n", mode=0o400, owner=self._owner())
        return key

    def failure(self, what: str) -> DatabaseError:
        """What happened, with the server's own last words."""
        said = error_log_tail(self.own.output)
        return DatabaseError(f"the temporary server {what}; the end of {self.own.output}:\n{said}")

    def _start(self, shape: Shape) -> Process:
        # One that was killed leaves its socket behind, and a new one is what we wait for.
        secure_files.unlink(self.own.socket)
        uid, gid = self._owner()
        argv = [*self.program, *arguments(self.files.record.server, self.own, shape)]
        bind = tuple((now, original) for original, now in self.files.where.moves)
        for_users = shape.purpose == "serve"
        confinement = Confinement(
            hide=self.files.hide,
            bind=bind,
            uid=uid,
            gid=gid,
            own=self.files.own(for_users=for_users),
            cover=self.closed,
            network="host" if shape.port else "own",
            # Members of a set call each other, and themselves.
            calls_out=bool(shape.replica_set),
            limits=shape.limits,
        )
        return launch(argv, confinement, self.own.output, note=self.files.process)

    def _owner(self) -> tuple[int, int]:
        """Return who owns the data directory: the server must run as nobody else."""
        return owner_of(self._data)

    def await_answer(self, process: Process, login: ConnectOptions) -> Connection:
        """mongod listens when recovery is done, and not before."""
        with self.progressing(process):
            return self._answer(process, login)

    @contextmanager
    def progressing(self, *processes: Process) -> Iterator[None]:
        """While the body waits for servers, end them when they stand still.

        Raise DatabaseError then, with the last words of this one.
        """
        with ended_when_still(self.stall, *processes) as still:
            try:
                yield
            except (DatabaseError, VerificationFailed) as failure:
                if not still.ended:
                    raise
                raise self.failure(still.told) from failure

    def _answer(self, process: Process, login: ConnectOptions) -> Connection:
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if not process.alive:
                raise self.failure("ended while starting")
            # The socket is there long before anybody listens, and PyMongo looks again twice a second only.
            there = secure_files.exists(self.own.socket)
            if there and not is_deserted((str(self.own.socket), None)):
                try:
                    return connect(login)
                except DatabaseError:
                    pass
            time.sleep(POLL_S)
        raise self.failure("did not answer within its time limit")


def new_key() -> str:
    """A key that nobody knows yet."""
    return secrets.token_urlsafe(KEY_BYTES).replace("_", "/").replace("-", "+")


def require_private(login: Login, record: Record, serving: Serving) -> None:
    """Raise Refused when a port would let everybody on this machine in where the original asks for logins."""
    nobody_asked = login == "never" and not serving.login
    if nobody_asked and serving.port and record.server.get("authorization") == "enabled":
        raise Refused(
            'recovery.login is "never" and the original asks for logins: without one the recovered server is '
            "reached through its socket only; leave out --port"
        )


def require_key(login: Login, record: Record, serving: Serving) -> None:
    """Raise UsageError when members on several hosts have nothing to know each other by."""
    asks = login != "never" and record.server.get("authorization") == "enabled"
    if asks and serving.addresses and not serving.addresses.key:
        raise UsageError(
            "the original asks for logins, and the restored members know each other by a key that all hosts "
            "are given: --cluster-key FILE"
        )


@dataclass(slots=True)
class Temporary:
    """A server that only we use. What it says begins at the byte `said`."""

    server: CloneServer
    process: Process
    said: int
    login: ConnectOptions
    _connection: Connection | None = None

    @property
    def connection(self) -> Connection:
        """Our connection to it, once it answers. Raise DatabaseError when it ended instead."""
        if self._connection is None:
            self._connection = self.server.await_answer(self.process, self.login)
        return self._connection

    @property
    def recovered_from(self) -> Timestamp | None:
        """The checkpoint that its recovery began at; None if it had none."""
        return stable_checkpoint(self.server.own.output, self.said)

    def progressing(self, *others: Process) -> AbstractContextManager[None]:
        """See CloneServer.progressing; `others` work with it."""
        return self.server.progressing(self.process, *others)

    def shut_down(self) -> None:
        """Stop the server in good order.

        Raise VerificationFailed if it has to be killed, DatabaseError if it had died before: what it wrote
        last might not be on disk.
        """
        # One that still starts may be replaying, and must not be cut off.
        self.connection.close()
        if not self.process.alive:
            raise self.server.failure("died")
        if not self.process.stop(STOP_LIMIT_S):
            raise VerificationFailed(f"the temporary server did not shut down within {STOP_LIMIT_S:g} s")
        if not self.server.ended_well:
            raise self.server.failure("did not shut down in good order")
