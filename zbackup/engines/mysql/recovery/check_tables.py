"""Have the server read and check its tables: what a drill proves beyond that a backup can be opened."""

from typing import Any

from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.progress import Progress
from zbackup.model.recovery import Checked

# Others are no files of ours (FEDERATED, SPIDER), hold nothing (BLACKHOLE, MEMORY), or cannot check.
CHECKABLE = ("InnoDB", "MyISAM", "Aria", "ROCKSDB", "ARCHIVE")


def check_tables(connection: Connection, progress: Progress) -> Checked:
    """CHECK TABLE of every table, the server's own included.

    InnoDB reads all of a table and of its indexes for that, and ends the server when a page is damaged.
    """
    rows = connection.rows(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t FROM information_schema.TABLES "
        f"WHERE TABLE_TYPE = 'BASE TABLE' AND ENGINE IN ({', '.join(['%s'] * len(CHECKABLE))}) "
        "AND TABLE_SCHEMA NOT IN ('information_schema', 'performance_schema')",
        CHECKABLE,
    )
    damaged = []
    for number, row in enumerate(rows):
        progress.advance(number, len(rows), "tables")
        found = connection.rows(f"CHECK TABLE {_quoted(row['s'])}.{_quoted(row['t'])}")
        if why := complaint(found):
            damaged.append(f"{row['s']}.{row['t']}: {why}")
    progress.advance(len(rows), len(rows), "tables")
    return Checked(tables=len(rows), damaged=tuple(damaged))


def complaint(rows: list[dict[str, Any]]) -> str:
    """What CHECK TABLE found wrong with a table; "" for nothing.

    A warning alone is none: a MyISAM table that was open says so of itself, and is well.
    """
    errors = [str(r["Msg_text"]) for r in rows if str(r["Msg_type"]).lower() == "error"]
    status = [str(r["Msg_text"]) for r in rows if str(r["Msg_type"]).lower() == "status"]
    if errors:
        return "; ".join(errors)
    # "OK", "Table is already up to date", and what an engine says that cannot check.
    return status[-1] if status and status[-1].lower() in ("corrupt", "operation failed") else ""


def _quoted(name: object) -> str:
    return "`" + str(name).replace("`", "``") + "`"
