"""A note on disk that a lock of ours may be held, for the run after one that died together with its watchdog.

fsyncLock outlives its client, and has no owner that could be asked for. Somebody else's lock must never be
released: it may guard a copy under way. What was written tells them apart: under one lock nothing is.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import structlog

from zbackup.engines.mongodb.lock.release import release
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import Connection, connect
from zbackup.engines.mongodb.server.status import is_locked, stillness
from zbackup.model.errors import DatabaseError
from zbackup.proc import secure_files
from zbackup.proc.run_directory import prepare

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class MarkerFile:
    """The file that is there while the server may be locked by us."""

    path: Path

    def write(self, still: str) -> None:
        """`still` is what cannot change under our lock: see status.stillness."""
        prepare(self.path.parent)
        secure_files.replace(self.path, json.dumps({"still": still}))

    def read(self) -> str | None:
        """Tell what cannot have changed; None if there is no note."""
        try:
            return str(json.loads(secure_files.read_text(self.path))["still"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as damaged:
            raise DatabaseError(
                f"{self.path} cannot be read ({damaged}): delete it when the server is not locked "
                f"(db.currentOp().fsyncLock)"
            ) from damaged

    def remove(self) -> None:
        """There is none from now on."""
        secure_files.unlink(self.path)


def heal(options: ConnectOptions, note: MarkerFile) -> None:
    """Release the lock that a killed run left, if it is still there and is certainly ours.

    Raise DatabaseError, with what to do, when there is a lock whose owner cannot be told.
    """
    still = note.read()
    if still is None:
        return
    try:
        connection = connect(options)
    except DatabaseError as failure:
        log.warning("lock.not_looked_at", note=str(note.path), reason=str(failure))
        return
    with connection:
        if is_locked(connection):
            _require_ours(connection, note, still)
            release(connection)
            log.warning("lock.released_after_killed_run")
    note.remove()


def _require_ours(connection: Connection, note: MarkerFile, still: str) -> None:
    if stillness(connection) != still:
        raise DatabaseError(
            f"{connection.where} is locked (fsyncLock), and {note.path} says that a killed zbackup may have "
            f"done that, but another program may have as well: if no other backup runs, db.fsyncUnlock(), "
            f"and delete the note"
        )
