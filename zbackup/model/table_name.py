"""Parse names of tables and collections as users type them, and write them as log entries hold them.

A quoted name may have any character, also a dot (MySQL manual, "Schema Object Names"; MariaDB, "Identifier
Names"). A MongoDB database has no dot in its name, a collection often has.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from zbackup.model.command_line import command_line
from zbackup.model.errors import UsageError

EVERY_TABLE: Final = "*"
"""In place of a table's name: all those of the schema."""

_QUOTED: Final = r'`(?:[^`]|``)+`|"(?:[^"]|"")+"'
_TYPED: Final = re.compile(
    rf'(?P<schema>{_QUOTED}|[^`".][^.]*)(?:\.(?P<table>{_QUOTED}|[^`".].*))?', re.DOTALL
)
_SCHEMA: Final = re.compile(r"(`(?:[^`]|``)+`)\.")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table, view or collection. `table` is "*" for all that are in the schema (or database)."""

    schema: str
    table: str

    def __str__(self) -> str:
        return joined(self.schema, self.table)

    @property
    def is_schema(self) -> bool:
        """Whether the whole schema is meant."""
        return self.table == EVERY_TABLE

    def typed(self, engine: str) -> str:
        """Write it as parse_table reads it; `engine` is the instance's."""
        with suppress(UsageError):
            if parse_table(str(self), engine) == self:
                return str(self)
        return f"{_in_backticks(self.schema)}.{_in_backticks(self.table)}"


def joined(schema: str, table: str) -> str:
    """Join schema and table for separated() to split: a schema with a dot gets backticks."""
    return f"{_in_backticks(schema) if '.' in schema or schema[:1] == '`' else schema}.{table}"


def separated(text: str) -> tuple[str, str]:
    """Split a name that joined() wrote into schema and table."""
    if text[:1] == "`" and (found := _SCHEMA.match(text)):
        return _name_in(found[1]), text[found.end() :]
    schema, _, table = text.partition(".")
    return schema, table


def parse_table(text: str, engine: str) -> TableName:
    """Parse a typed name: shop.orders, `my.db`.`ta``ble`, "my.db"."orders"; shop or shop.* for all tables.

    `engine` is the instance's. Raise UsageError for an invalid name and, except for MongoDB, for an unquoted
    name that has two meanings.
    """
    typed = text.strip()
    found = None if any(ord(letter) < 32 for letter in typed) else _TYPED.fullmatch(typed)
    if found is None:
        raise UsageError(_why_none(typed))
    schema, table = found["schema"], found["table"] or EVERY_TABLE
    if engine != "mongodb" and "." in table and not (_is_quoted(schema) or _is_quoted(table)):
        raise UsageError(_ambiguous(typed))
    if _is_quoted(table) and _name_in(table) == EVERY_TABLE:
        raise UsageError(f"{typed}: a table with the name * is not supported")
    return TableName(_name_in(schema), _name_in(table))


def _is_quoted(part: str) -> bool:
    return part[0] in '`"'


def _name_in(part: str) -> str:
    return part[1:-1].replace(part[0] * 2, part[0]) if _is_quoted(part) else part


def _in_backticks(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _why_none(typed: str) -> str:
    said = f'"{typed}" is not a table name: use SCHEMA.TABLE, or SCHEMA for all of its tables'
    if "`" not in typed and '"' not in typed:
        return said
    return f"{said}. Close each quote, and double it within a name: `my.db`.`ta``ble`"


def _ambiguous(typed: str) -> str:
    """Return the error for a name with too many dots: it lists each possible reading, quoted."""
    parts = typed.split(".")
    ways = ((".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts)))
    shown = (command_line(f"{_in_backticks(schema)}.{_in_backticks(table)}") for schema, table in ways)
    return "\n  ".join((f'"{typed}" is ambiguous, because a name in it has a dot. Use one of:', *shown))
