"""XA transactions that are prepared, and neither committed nor rolled back.

A MySQL that does not log what it replays has forgotten at its next start what its applier prepared, and keeps
what was prepared before the base (both seen with 9.7). So that a server is the same before and after that
start, what the replay left in doubt is rolled back at once: else it would hold locks against the users
meanwhile, and somebody could commit what is gone after the next crash.
"""

from collections.abc import Mapping
from typing import Any

from zbackup.engines.mysql.server.connection import Connection, StatementFailed
from zbackup.engines.mysql.sql.quoting import hexadecimal, literal
from zbackup.model.event_log import log

Prepared = Mapping[str, str]
"""By how statements say it, each one's name for people."""


def prepared(flavor: str, connection: Connection) -> Prepared:
    """The transactions that are in doubt now."""
    if flavor != "mysql":
        return {literal(name): name for name in map(_name, connection.rows("XA RECOVER"))}
    shown = map(_name, connection.rows("XA RECOVER"))
    return dict(zip(map(_xid, connection.rows("XA RECOVER CONVERT XID")), shown, strict=True))


def roll_back(connection: Connection, doubtful: Prepared) -> Prepared:
    """Roll these back on a MySQL, without a trace in its log, and tell which would not be."""
    connection.execute("SET SESSION sql_log_bin = 0")
    left = {}
    for xid, name in doubtful.items():
        try:
            connection.execute(f"XA ROLLBACK {xid}")
        except StatementFailed as failure:
            log.warning("replay.still_in_doubt", xid=xid, reason=str(failure))
            left[xid] = name
    return left


def _xid(row: Mapping[str, Any]) -> str:
    """Its three parts; MySQL shows the first two as one number in hexadecimal digits."""
    data = _name(row).removeprefix("0x")
    end = 2 * int(row["gtrid_length"])
    return f"{hexadecimal(data[:end])}, {hexadecimal(data[end:])}, {int(row['formatID'])}"


def _name(row: Mapping[str, Any]) -> str:
    name = row["data"]
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)
