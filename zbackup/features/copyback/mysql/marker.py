"""The marker that tells the next run that the tables have their names, when a run is cut short between that
and its end: an empty table, which is renamed in the same statement, and dropped last.

Its name has a mark of what was asked for, and the moment that is in the names of the old tables.
"""

import hashlib

from zbackup.engines.mysql.production.tables import quoted_name
from zbackup.engines.mysql.server.connection import Connection
from zbackup.features.copyback.copying import CopyWish
from zbackup.model.table_name import TableName

_BEFORE, _AFTER = "zbackup_copy_naming_", "zbackup_copy_named_"


def marker_of(wish: CopyWish, schema: str) -> TableName:
    """The name that it has before the tables have theirs."""
    return TableName(schema, f"{_BEFORE}{_mark(wish)}_{wish.moment}")


def marker_named(marker: TableName) -> TableName:
    """The name that it has behind that."""
    return TableName(marker.schema, marker.table.replace(_BEFORE, _AFTER, 1))


def set_marker(production: Connection, wish: CopyWish, schema: str) -> TableName:
    """Make it, and drop those of runs that did not come that far."""
    marker = marker_of(wish, schema)
    for name in _found(production, schema, f"{_BEFORE}{_mark(wish)}_"):
        remove_marker(production, name)
    production.execute(f"CREATE TABLE {quoted_name(marker)} (n INT PRIMARY KEY)")
    return marker


def remove_marker(production: Connection, marker: TableName) -> None:
    """Drop it. None is fine."""
    production.execute(f"DROP TABLE IF EXISTS {quoted_name(marker)}")


def find_marker(production: Connection, wish: CopyWish, schema: str) -> tuple[TableName, str] | None:
    """The one that an earlier run of the same copy left, and its moment."""
    begins = f"{_AFTER}{_mark(wish)}_"
    found = _found(production, schema, begins)
    return (found[0], found[0].table.removeprefix(begins)) if found else None


def _found(production: Connection, schema: str, begins: str) -> list[TableName]:
    rows = production.rows(
        "SELECT TABLE_NAME AS t FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s "
        "AND LEFT(TABLE_NAME, %s) = %s ORDER BY TABLE_NAME",
        (schema, len(begins), begins),
    )
    return [TableName(schema, str(row["t"])) for row in rows]


def _mark(wish: CopyWish) -> str:
    """The same for the same copy alone."""
    options = (wish.clone, wish.into, wish.replace, wish.where, wish.bare, *sorted(wish.tables))
    return hashlib.sha256("\0".join(map(str, options)).encode()).hexdigest()[:16]
