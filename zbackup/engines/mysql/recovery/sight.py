"""Inspect which tables a server has, or whether it has a transaction: see model.proof."""

from typing import Any, Final

from zbackup.engines.mysql.recovery.verify_replay import has_transaction
from zbackup.engines.mysql.server.connection import Connection, StatementFailed
from zbackup.engines.mysql.server.named_tables import folds, named_tables
from zbackup.engines.mysql.sql.quoting import identifier, qualified
from zbackup.model.log import Transaction
from zbackup.model.proof import ProofSubject, Sight
from zbackup.model.record import Record

_EMPTY: Final = frozenset({"MEMORY", "BLACKHOLE"})
"""Engines without rows after a server start, or ever."""
_DATED: Final = frozenset({"MYISAM", "ARIA"})
_WITH_ROWS: Final = frozenset({"BASE TABLE", "SYSTEM VERSIONED"})


def look(
    connection: Connection, record: Record, subject: ProofSubject, transaction: Transaction, *, behind: bool
) -> Sight:
    """Inspect the server; `behind`: the replay included the transaction. This is the answer if there are no
    GTIDs, because the replay has verified its position."""
    try:
        return _look(connection, record, subject, transaction, behind=behind)
    except StatementFailed as failure:
        return Sight(unclear=str(failure))


def _look(
    connection: Connection, record: Record, subject: ProofSubject, transaction: Transaction, *, behind: bool
) -> Sight:
    if subject.table is None:
        told = has_transaction(connection, record.engine, transaction)
        return Sight(holds=behind if told is None else told)
    found = named_tables(connection, subject.table, folded=folds(record.server.get("lower_case_table_names")))
    if subject.kind != "truncate":
        # MariaDB's CREATE OR REPLACE drops, and leaves a table of that name.
        return Sight(tables=frozenset((each["t"], _identity(connection, record, each)) for each in found))
    of_rows = [each for each in found if each["k"] in _WITH_ROWS]
    if unclear := [each for each in of_rows if str(each["e"]).upper() in _EMPTY]:
        return Sight(unclear=f"{unclear[0]['e']} tables keep no rows")
    return Sight(
        tables=frozenset((each["t"], part) for each in of_rows for part in _with_rows(connection, each))
    )


def _identity(connection: Connection, record: Record, row: dict[str, Any]) -> str:
    """Return the identity of a table, to see whether it was replaced by another one with its name.

    InnoDB: the table ids, one for each partition. MyISAM and Aria: the creation time. MySQL: "", because it
    has no statement that replaces a table.
    """
    if record.engine == "mysql":
        return ""
    if str(row["e"]).upper() in _DATED:
        return str(row["c"])
    known = connection.rows(
        "SELECT TABLE_ID AS i FROM information_schema.INNODB_SYS_TABLES, (SELECT CONCAT("
        "CAST(CONVERT(%s USING filename) AS BINARY), '/', CAST(CONVERT(%s USING filename) AS BINARY)) AS n) "
        "AS one WHERE CAST(NAME AS BINARY) = n OR LEFT(CAST(NAME AS BINARY), LENGTH(n) + 3) = "
        "CONCAT(n, CAST('#P#' AS BINARY)) ORDER BY i",
        (row["s"], row["t"]),
    )
    return " ".join(str(one["i"]) for one in known)


def _with_rows(connection: Connection, row: dict[str, Any]) -> list[str]:
    """The partitions that have rows, as ALTER TABLE ... TRUNCATE PARTITION empties one; [""] for the whole of
    a table that has none."""
    told = connection.rows(
        "SELECT DISTINCT TABLE_SCHEMA AS s, TABLE_NAME AS t, PARTITION_NAME AS p "
        "FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s "
        "AND PARTITION_NAME IS NOT NULL",
        (row["s"], row["t"]),
    )
    parts = [str(each["p"]) for each in told if (each["s"], each["t"]) == (row["s"], row["t"])]
    table, found = qualified(row["s"], row["t"]), []
    for part in parts or [""]:
        where = f" PARTITION ({identifier(part)})" if part else ""
        if connection.rows(f"SELECT 1 FROM {table}{where} LIMIT 1"):
            found.append(part)
    return found
