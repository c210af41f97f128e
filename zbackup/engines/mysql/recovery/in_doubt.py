"""XA transactions that are prepared, and neither committed nor rolled back.

A MySQL that does not log what it replays has forgotten at its next start what its applier prepared, and keeps
what was prepared before the base (both seen with 9.7). So that a server is the same before and after that
start, what the replay left in doubt is rolled back at once: else it would hold locks against the users
meanwhile, and somebody could commit what is gone after the next crash.
"""

import re
from collections.abc import Mapping
from typing import Any

from zbackup.engines.mysql.server.connection import Connection, StatementFailed, whole_number
from zbackup.engines.mysql.sql.quoting import hexadecimal
from zbackup.model.errors import DatabaseError
from zbackup.model.event_log import log
from zbackup.model.printable import is_plain

_PART = r"(?:X'(?:[0-9A-Fa-f]{2})*'|'(?:[^'\\]|'')*')"
_SQL_XID = re.compile(rf"{_PART}(?:, *{_PART}(?:, *[0-9]{{1,10}})?)?")
"""An id as MariaDB prints it for a statement."""

Prepared = Mapping[str, str]
"""By how statements say it, each one's name for people."""


def prepared(flavor: str, connection: Connection) -> Prepared:
    """The transactions that are in doubt now. Their ids are any bytes, and none of them text."""
    if flavor != "mysql":
        names = map(_text, connection.rows("XA RECOVER FORMAT='SQL'"))
        return {_sql(name): name for name in names}
    return dict(map(_xid, connection.rows("XA RECOVER CONVERT XID")))


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


def _xid(row: Mapping[str, Any]) -> tuple[str, str]:
    """Its three parts, and its name; MySQL shows the first two parts as one number in hexadecimal digits."""
    try:
        ids = bytes.fromhex(_text(row).removeprefix("0x"))
    except ValueError:
        raise DatabaseError(f"the server answered XA RECOVER with no id: {row['data']!r:.60}") from None
    end = whole_number(row, "gtrid_length")
    xid = f"{hexadecimal(ids[:end].hex())}, {hexadecimal(ids[end:].hex())}, {whole_number(row, 'formatID')}"
    name = ids.decode(errors="replace")
    return xid, name if is_plain(name) and "\ufffd" not in name else xid


def _sql(name: str) -> str:
    """Raise DatabaseError for anything that is more than an id: it becomes part of a statement."""
    if not _SQL_XID.fullmatch(name):
        raise DatabaseError(f"the server answered XA RECOVER with no id: {name!r:.60}")
    return name


def _text(row: Mapping[str, Any]) -> str:
    data = row["data"]
    return data.decode(errors="replace") if isinstance(data, bytes) else str(data)
