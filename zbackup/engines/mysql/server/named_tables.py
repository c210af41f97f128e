"""Find tables on a server by name."""

from typing import Any

from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.server.inspect import global_privileges, roles_in_use
from zbackup.model.table_name import TableName

_SHOWING = frozenset({"SELECT", "SHOW VIEW", "ALL PRIVILEGES"})
"""Each of these privileges shows every table (both manuals, "INFORMATION_SCHEMA TABLES Table")."""


def folds(setting: str | None) -> bool:
    """From lower_case_table_names whether names are case-insensitive."""
    return (setting or "0") != "0"


def named_tables(connection: Connection, name: TableName, *, folded: bool) -> list[dict[str, Any]]:
    """Return rows of tables and views with that name: s(chema), t(able), k(ind), e(ngine), c(reated)."""
    one = "" if name.is_schema else " AND TABLE_NAME = %s"
    rows = connection.rows(
        "SELECT TABLE_SCHEMA AS s, TABLE_NAME AS t, TABLE_TYPE AS k, ENGINE AS e, CREATE_TIME AS c "
        f"FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s{one}",
        (name.schema,) if name.is_schema else (name.schema, name.table),
    )
    return [row for row in rows if _is(name, (row["s"], row["t"]), folded=folded)]


def _is(name: TableName, found: tuple[Any, Any], *, folded: bool) -> bool:
    """Whether a row has exactly that name: collations of information_schema match more."""
    schema, table = (str(each).casefold() if folded else str(each) for each in found)
    wanted = (name.schema.casefold(), name.table.casefold()) if folded else (name.schema, name.table)
    return schema == wanted[0] and (name.is_schema or table == wanted[1])


def has_table(connection: Connection, name: TableName) -> bool:
    """Whether the table exists. Raise PrivilegeMissing if the account might not see it."""
    folded = folds(str(connection.one("SELECT @@lower_case_table_names AS f")["f"]))
    if named_tables(connection, name, folded=folded):
        return True
    account = str(connection.one("SELECT CURRENT_USER() AS account")["account"])
    if roles_in_use(connection) or _SHOWING.isdisjoint(global_privileges(connection, account)):
        raise connection.lacking("SHOW VIEW", "see every table")
    return False
