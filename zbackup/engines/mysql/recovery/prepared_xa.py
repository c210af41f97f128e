"""XA transactions that are prepared, and neither committed nor rolled back.

A MySQL that does not log what it replays has forgotten at its next start what its applier prepared, and keeps
what was prepared before the base (both seen with 9.7). So that a server is the same before and after that
start, what the replay left in doubt is rolled back at once: else it would hold locks against the users
meanwhile, and somebody could commit what is gone after the next crash.
"""

from collections.abc import Mapping
from typing import Any

from zbackup.engines.mysql.server.connection import Connection, StatementFailed, whole_number
from zbackup.engines.mysql.sql.quoting import hexadecimal, printed_xa_id
from zbackup.model.errors import DatabaseError
from zbackup.model.event_log import log
from zbackup.model.printable import is_plain

Prepared = Mapping[str, str]
"""By how statements say it, each one's name for people."""


def prepared(flavor: str, connection: Connection) -> Prepared:
    """The transactions that are in doubt now. Their ids are any bytes, and none of them text."""
    if flavor != "mysql":
        names = map(_text, connection.rows("XA RECOVER FORMAT='SQL'"))
        return {name: name for name in names}
    found = connection.rows("XA RECOVER CONVERT XID")
    shown = map(_shown, found)
    return dict(zip(map(_xid, found), shown, strict=True))


def roll_back(connection: Connection, doubtful: Prepared) -> Prepared:
    """Roll these back on a MySQL, without a trace in its log, and tell which would not be."""
    connection.execute("SET SESSION sql_log_bin = 0")
    left = {}
    for xid, name in doubtful.items():
        try:
            connection.execute(f"XA ROLLBACK {printed_xa_id(xid)}")
        except StatementFailed as failure:
            log.warning("replay.still_in_doubt", xid=xid, reason=str(failure))
            left[xid] = name
    return left


def _ids(row: Mapping[str, Any]) -> bytes:
    """Its first two parts, which MySQL shows as one number in hexadecimal digits."""
    try:
        return bytes.fromhex(_text(row).removeprefix("0x"))
    except ValueError:
        raise DatabaseError(
            f"the server answered XA RECOVER with an invalid id: {row['data']!r:.60}"
        ) from None


def _xid(row: Mapping[str, Any]) -> str:
    ids, end, number = _ids(row).hex(), 2 * whole_number(row, "gtrid_length"), whole_number(row, "formatID")
    return f"{hexadecimal(ids[:end])}, {hexadecimal(ids[end:])}, {int(number)}"


def _shown(row: Mapping[str, Any]) -> str:
    """Its name for people: the text that it is, or else its parts."""
    name = _ids(row).decode(errors="replace")
    return name if is_plain(name) and "\ufffd" not in name else _xid(row)


def _text(row: Mapping[str, Any]) -> str:
    data = row["data"]
    return data.decode(errors="replace") if isinstance(data, bytes) else str(data)
