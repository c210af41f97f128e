"""Have the server read and check its tables: what a drill proves beyond that a backup can be opened."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import qualified
from zbackup.model.progress import Progress
from zbackup.model.recovery import CheckedTables

# Others are no files of ours (FEDERATED, SPIDER), hold nothing (BLACKHOLE, MEMORY), or cannot check.
CHECKABLE = ("InnoDB", "MyISAM", "Aria", "ROCKSDB", "ARCHIVE")

WELL = ("ok", "table is already up to date")

# The server says it in its own language, but for what to type: "REPAIR TABLE `t`", "ALTER TABLE `t` FORCE".
_UPGRADE = re.compile(r"\b(REPAIR TABLE\b|ALTER TABLE\b.*\bFORCE\b)")


def check_tables(connection: Connection, progress: Progress) -> CheckedTables:
    """CHECK TABLE of every table, the server's own included; how many of them it did check.

    InnoDB reads all of a table and of its indexes for that, and ends the server when a page is damaged.
    """
    # Not "BASE TABLE": MariaDB calls tables that keep their history and sequences otherwise. A table that
    # cannot be opened has no engine, and why not for its comment.
    rows = connection.rows(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, ENGINE AS e, TABLE_COMMENT AS c "
        "FROM information_schema.TABLES WHERE TABLE_TYPE NOT IN ('VIEW', 'SYSTEM VIEW') "
        f"AND (ENGINE IS NULL OR ENGINE IN ({', '.join(['%s'] * len(CHECKABLE))})) "
        "AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema')",
        CHECKABLE,
    )
    checked, damaged, old = 0, [], []
    for number, row in enumerate(rows):
        progress.advance(number, len(rows), "tables")
        name = f"{row['s']}.{row['t']}"
        if row["e"] is None:
            damaged.append(f"{name}: it cannot be opened: {row['c'] or 'the server does not say why'}")
            continue
        found = connection.rows(f"CHECK TABLE {qualified(str(row['s']), str(row['t']))}")
        if needs_upgrade(found):
            old.append(name)
        elif not cannot_check(found):
            checked += 1
            if why := complaint(found):
                damaged.append(f"{name}: {why}")
    progress.advance(len(rows), len(rows), "tables")
    if old:
        more = f" (and {len(old) - 1} more)" if old[1:] else ""
        progress.note(f"{old[0]}{more} was not checked: the server wants it upgraded first (mariadb-upgrade)")
    return CheckedTables(tables=checked, damaged=tuple(damaged), unchecked=tuple(old))


def complaint(rows: Sequence[Mapping[str, Any]]) -> str:
    """What CHECK TABLE found wrong with a table; "" for nothing.

    A warning alone is none: a MyISAM table that was open says so of itself, and is well. But a table is well
    only when the server says so at last.
    """
    if errors := _said(rows, "error"):
        return "; ".join(errors)
    status = _said(rows, "status")
    if status and status[-1].lower() in WELL:
        return ""
    said = status[-1:] or [str(r["Msg_text"]) for r in rows] or ["nothing"]
    return f"the server does not say that it is well, but {'; '.join(said)}"


def needs_upgrade(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the table is of an older server, and this one checks it only when it is upgraded: no
    damage."""
    errors = _said(rows, "error")
    return bool(errors) and all(_UPGRADE.search(text) for text in errors)


def cannot_check(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the table's engine has no check: the server says so in a note, and in its own language."""
    return bool(rows) and all(str(r["Msg_type"]).lower() == "note" for r in rows)


def _said(rows: Sequence[Mapping[str, Any]], kind: str) -> list[str]:
    return [str(r["Msg_text"]) for r in rows if str(r["Msg_type"]).lower() == kind]
