"""Replay on MySQL and Percona Server: the binlogs are given to the server as its relay logs.

The server applies them with its own parallel applier (CHANGE REPLICATION SOURCE TO ... RELAY_LOG_FILE;
MySQL manual, "START REPLICA Statement", UNTIL RELAY_LOG_FILE). A channel of our own brings its own relay
log index, so a large log stays where it is, and no restart is needed. The last file is cut off at the stop
position first, so nothing from the target on can be read even by mistake.
"""

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from zbackup.engines.mysql.recovery.packets import PacketStep
from zbackup.engines.mysql.recovery.replay import Applier, LogRange, follow
from zbackup.engines.mysql.server.connection import Connection, whole_number
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.engines.mysql.sql.shown import error_shown
from zbackup.model.errors import DatabaseError, VerificationFailed
from zbackup.model.log import LogPosition
from zbackup.model.progress import Progress
from zbackup.proc import secure_files

CHANNEL = "zbackup"
SMALL = 64 << 20
"""Bytes of log that are copied rather than shown to the server where they are: some 100,000 transactions."""
_AT_ONCE = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


def forget_replication(connection: Connection) -> None:
    """Remove every channel that came with the files: a clone must never call production's source."""
    for row in connection.rows("SHOW REPLICA STATUS"):
        connection.execute(f"RESET REPLICA ALL FOR CHANNEL {literal(row['Channel_Name'])}")


def is_small(files: Sequence[Path]) -> bool:
    """Whether these are so few bytes that a server is better off with copies of them.

    It can then go on as its users' server: one that was shown the clone of the log would keep that busy.
    """
    return sum(map(secure_files.size, files)) <= SMALL


def copied(log: LogRange, relay: Path) -> LogRange:
    """The same range in copies of its files in the relay log directory. Raise DatabaseError without room."""
    facts = secure_files.stat(relay)
    copies = []
    for file in log.files:
        copy = relay / file.name
        with _room():
            secure_files.write_new(copy, b"", mode=0o640, owner=(facts.st_uid, facts.st_gid))
            with secure_files.open_regular(file) as source, secure_files.open_to_append(copy) as sink:
                left = log.size(file)
                while chunk := source.read(min(_AT_ONCE, left)):
                    sink.write(chunk)
                    left -= len(chunk)
        copies.append(copy)
    return replace(log, files=tuple(copies))


def cut_torn(log: LogRange, owner: int) -> None:
    """Take from the range's files, which are the owner's, what is behind the end for a replay."""
    for file in log.files:
        if (end := log.torn.get(file.name)) is not None:
            secure_files.truncate(file, end, owner)


@contextmanager
def _room() -> Iterator[None]:
    """Raise DatabaseError in one line where a file of the replay's cannot be written for lack of room."""
    try:
        yield
    except OSError as failure:
        if failure.errno not in _FULL:
            raise
        raise DatabaseError(
            "there is no space left for the log to be replayed: the pool is full, or the clone's quota is "
            "reached"
        ) from failure


def replay(
    connection: Connection,
    log: LogRange,
    steps: Sequence[PacketStep],
    relay: Path,
    progress: Progress,
    told: Callable[[object], None],
) -> None:
    """Apply the range in steps; `relay` is the server's relay log directory, `told` as for follow.

    Raise VerificationFailed if it fails, and DatabaseError where there is no room for it.
    """
    # As the kernel says, and not by name: the directories are those of the server's user.
    facts = secure_files.stat(relay)
    owner = (facts.st_uid, facts.st_gid)
    index = relay / f"relay-{CHANNEL}.index"
    with _room():
        secure_files.truncate(log.files[-1], log.stop.offset, owner[0])
        secure_files.write_new(index, "".join(f"{file}\n" for file in log.files), mode=0o640, owner=owner)
    channel = f"FOR CHANNEL {literal(CHANNEL)}"
    connection.execute(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'none', SOURCE_USER = 'none', "
        f"RELAY_LOG_FILE = {literal(str(log.files[0]))}, RELAY_LOG_POS = {log.start.offset} {channel}"
    )
    for step in steps:
        connection.execute(f"SET GLOBAL replica_max_allowed_packet = {step.packet}")
        connection.execute(
            f"START REPLICA SQL_THREAD UNTIL RELAY_LOG_FILE = {literal(step.stop.file)}, "
            f"RELAY_LOG_POS = {step.stop.offset} {channel}"
        )
        part = replace(log, stop=step.stop, ends_file=step.ends_file)
        follow(lambda: applier_state(connection), part, progress, told)
    connection.execute(f"RESET REPLICA ALL {channel}")


def applier_state(connection: Connection) -> Applier:
    """Where the applier is.

    With several workers the position lags; it is exact once the applier stopped.
    """
    row = next((r for r in connection.rows("SHOW REPLICA STATUS") if r["Channel_Name"] == CHANNEL), None)
    if row is None:
        raise VerificationFailed("the server has lost the replay's channel")
    return Applier(
        running=row["Replica_SQL_Running"] == "Yes",
        # NULL while the thread is starting or ending.
        idle=str(row["Replica_SQL_Running_State"]).startswith("Replica has read all relay log"),
        position=LogPosition.of(row["Relay_Log_File"], whole_number(row, "Relay_Log_Pos")),
        error=_error(connection, row),
    )


def _error(connection: Connection, row: dict[str, Any]) -> str:
    """The applier's error; the workers know it better than the coordinator, which only points at them."""
    if not row["Last_SQL_Errno"]:
        return ""
    workers = connection.rows(
        "SELECT last_error_message AS message FROM performance_schema.replication_applier_status_by_worker "
        "WHERE last_error_number <> 0 ORDER BY last_error_timestamp LIMIT 1"
    )
    return error_shown(str(workers[0]["message"] if workers else row["Last_SQL_Error"]))
