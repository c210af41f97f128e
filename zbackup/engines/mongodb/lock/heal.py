"""Release the lock of a run that died together with its watchdog: done by the run after it.

fsyncLock outlives its client, and has no owner that could be asked for. Somebody else's lock must never be
released: it may guard a copy under way. The marker file tells them apart: it holds what cannot change under
one lock (status.stillness).
"""

from pathlib import Path

from zbackup.engines.marker_file import MarkerFile
from zbackup.engines.mongodb.lock.release import release
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import Connection, connect
from zbackup.engines.mongodb.server.status import is_locked, stillness
from zbackup.model.errors import DatabaseError
from zbackup.model.event_log import log


def marker_file(path: Path) -> MarkerFile[str]:
    """Return the file that is there while the server may be locked by us."""
    return MarkerFile(
        path, "still", str, "delete it when the server is not locked (db.currentOp().fsyncLock)"
    )


def heal(options: ConnectOptions, note: MarkerFile[str]) -> None:
    """Release the lock that a killed run left, if it is still there and is certainly ours.

    Raise DatabaseError, with what to do, when there is a lock whose owner cannot be told.
    """
    still = note.read()
    if still is None:
        return
    try:
        connection = connect(options)
    except DatabaseError as failure:
        log.warning("lock.not_inspected", note=str(note.path), reason=str(failure))
        return
    with connection:
        if is_locked(connection):
            _require_ours(connection, note, still)
            release(connection)
            log.warning("lock.released_after_killed_run")
    note.remove()


def _require_ours(connection: Connection, note: MarkerFile[str], still: str) -> None:
    if stillness(connection) != still:
        raise DatabaseError(
            f"{connection.where} is locked (fsyncLock), and {note.path} says that a killed zbackup may have "
            f"done that, but another program may have as well: if no other backup runs, db.fsyncUnlock(), "
            f"and delete the note"
        )
