"""Starts and stops a mongod on a clone's files."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.connection import Connection, connect
from zbackup.engines.mongodb.last_words import last_words, stable_checkpoint
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server_options import Place, Purpose, Shape, arguments
from zbackup.model.errors import DatabaseError, VerificationFailed
from zbackup.model.recovery import Files, Serving
from zbackup.proc.detached import Confinement, Process, launch
from zbackup.proc.private import write_new

# Replaying a day's oplog takes long and must not be cut off; a server that gives up ends.
START_LIMIT_S = 24 * 3600.0
STOP_LIMIT_S = 3600.0
POLL_S = 0.05

# Bytes of the key by which the only member of a new set knows itself.
KEY_BYTES = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneServer:
    """The server program, and the files it is to work on."""

    program: tuple[str, ...]
    files: Files
    memory: int
    workers: int

    @property
    def place(self) -> Place:
        return Place(home=self.files.home, run=self.files.run)

    @property
    def asks_for_login(self) -> bool:
        """Whether the original did."""
        return self.files.record.server.get("authorization") == "enabled"

    @property
    def ended_well(self) -> bool:
        """Whether the last server on the files shut down in good order: only then it empties this file."""
        return self._data.joinpath("mongod.lock").stat().st_size == 0

    @property
    def _data(self) -> Path:
        return self.files.where.path(self.files.record.server["dbpath"])

    def make_room(self) -> None:
        """The directory for its socket, owned by whom it runs as."""
        self.place.run.mkdir(parents=True, exist_ok=True)
        os.chown(self.place.run, *self._owner())

    @contextmanager
    def temporary(self, purpose: Purpose) -> Iterator["Temporary"]:
        """A server for our own use only; stopped at the end whatever happens.

        It asks nobody to log in, and is reached through its socket alone, in a directory that only root and
        the files' owner may enter.
        """
        self.place.run.chmod(0o700)
        output = self.place.output
        said = output.stat().st_size if output.exists() else 0
        process = self._start(Shape(purpose=purpose, memory=self.memory, workers=self.workers))
        try:
            yield Temporary(self, process, self._await_answer(process), said)
        finally:
            process.stop(STOP_LIMIT_S)
            self.files.process.unlink(missing_ok=True)

    def serve(self, serving: Serving) -> Connection:
        """Start the server for its users and wait until it answers; it outlives us."""
        self.place.run.chmod(0o755)
        shape = Shape(
            purpose="serve",
            memory=serving.memory or self.memory,
            port=serving.port,
            read_only=serving.read_only,
            auth=serving.login or self.asks_for_login,
            replica_set=serving.replica_set,
            nice=serving.nice,
        )
        return self._await_answer(self._start(shape))

    def make_key(self) -> str:
        """The key of a new set of one member, for its file; all who know it are the server itself."""
        key = secrets.token_urlsafe(KEY_BYTES).replace("_", "/").replace("-", "+")
        self.place.key.unlink(missing_ok=True)
        write_new(self.place.key, key + "\n", mode=0o400, owner=self._owner())
        return key

    def failure(self, what: str) -> DatabaseError:
        """What happened, with the server's own last words."""
        return DatabaseError(
            f"the temporary server {what}; the end of {self.place.output}:\n{last_words(self.place.output)}"
        )

    def _start(self, shape: Shape) -> Process:
        # One that was killed leaves its socket behind, and a new one is what we wait for.
        self.place.socket.unlink(missing_ok=True)
        uid, gid = self._owner()
        argv = [*self.program, *arguments(self.files.record.server, self.place, shape)]
        bind = tuple((now, original) for original, now in self.files.where.moves)
        confinement = Confinement(hide=self.files.hide, bind=bind, uid=uid, gid=gid, nice=shape.nice)
        return launch(argv, confinement, self.place.output, note=self.files.process)

    def _owner(self) -> tuple[int, int]:
        """Whoever owns the data directory: the server must run as nobody else."""
        stat = self._data.stat()
        return stat.st_uid, stat.st_gid

    def _await_answer(self, process: Process) -> Connection:
        """mongod listens when recovery is done, and not before."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if not process.alive:
                raise self.failure("ended while starting")
            if self.place.socket.exists():
                try:
                    return connect(ConnectOptions(socket=str(self.place.socket)))
                except DatabaseError:
                    pass
            time.sleep(POLL_S)
        raise self.failure("did not answer within its time limit")


@dataclass(slots=True)
class Temporary:
    """A server that only we use, and our connection to it. What it says begins at the byte `said`."""

    server: CloneServer
    process: Process
    connection: Connection
    said: int

    @property
    def recovered_from(self) -> Timestamp | None:
        """The checkpoint that its recovery began at; None if it had none."""
        return stable_checkpoint(self.server.place.output, self.said)

    def shut_down(self) -> None:
        """Stop the server in good order.

        Raise VerificationFailed if it has to be killed, DatabaseError if it had died before: what it wrote
        last might not be on disk.
        """
        self.connection.close()
        if not self.process.alive:
            raise self.server.failure("died")
        if not self.process.stop(STOP_LIMIT_S):
            raise VerificationFailed(f"the temporary server did not shut down within {STOP_LIMIT_S:g} s")
        if not self.server.ended_well:
            raise self.server.failure("did not shut down in good order")
