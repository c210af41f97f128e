"""Statements that take rows back, as text that people can read and any client can send. Pure.

Both servers take a literal with its character set in front for the bytes that are stored (manuals, "Character
Set Introducers"), and a number for a member of an ENUM or SET ("The ENUM Type").
"""

import json
import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Final

from zbackup.engines.mysql.production.statements import whole
from zbackup.engines.mysql.production.tables import Column, ServerTable, quoted_name
from zbackup.engines.mysql.sql import quoting
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.undo.mysql.changes import Row, Unknown
from zbackup.features.undo.mysql.json_binary import Untold
from zbackup.features.undo.mysql.net_change import Key, RowStep
from zbackup.features.undo.mysql.values import Value, members
from zbackup.model.errors import VerificationFailed

CHOICES: Final = ("enum", "set")
_UTF8: Final = frozenset({"utf8mb4", "utf8mb3", "utf8"})
_AS_ASCII: Final = _UTF8 | {"latin1", "ascii"}
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?")
_PLAIN: Final = re.compile(r"[A-Za-z0-9 _.-]+")
_SHOWN: Final = 40
_KEPT_BY_SERVER: Final = ("timestamp", "datetime")
"""Columns that the server may set by itself where a statement leaves them out."""


def selected(columns: Sequence[Column]) -> str:
    """The columns of a SELECT, so that what it gives can be compared with what the log holds."""
    return ", ".join(_expression(column) for column in columns)


def _expression(column: Column) -> str:
    name = identifier(column.name)
    if column.data_type in CHOICES:
        return f"CAST({name} AS UNSIGNED)"
    return whole(column) if column.kind == "float" else name


def select(table: ServerTable, keys: Sequence[Key], *, locked: bool) -> bytes:
    """All rows with these keys."""
    condition = " OR ".join(f"({where(table, key)})" for key in keys)
    if len(table.key) == 1:
        values = ", ".join(literal(table.key[0], key[0]) for key in keys)
        condition = f"{identifier(table.key[0].name)} IN ({values})"
    text = f"SELECT {selected(table.stored)} FROM {quoted_name(table.name)} WHERE {condition}"
    return (text + " FOR UPDATE" * locked).encode()


def where(table: ServerTable, key: Key) -> str:
    """The condition for one row."""
    pairs = zip(table.key, key, strict=True)
    return " AND ".join(f"{identifier(column.name)} = {literal(column, value)}" for column, value in pairs)


def statement(table: ServerTable, step: RowStep) -> str:
    """The statement that takes one row back. Raise VerificationFailed for values that none can be written
    as."""
    name = quoted_name(table.name)
    if step.before is None:
        return f"DELETE FROM {name} WHERE {where(table, step.key)}"
    pairs = [
        (column, value)
        for column, value in zip(table.stored, step.before, strict=True)
        if not isinstance(value, Unknown)
    ]
    if step.after is None:
        columns = ", ".join(identifier(column.name) for column, _ in pairs)
        return f"INSERT INTO {name} ({columns}) VALUES ({', '.join(literal(c, v) for c, v in pairs)})"
    after = dict(zip((c.name for c in table.stored), step.after, strict=True))
    written = [
        (column, value)
        for column, value in pairs
        if after[column.name] != value or column.data_type in _KEPT_BY_SERVER
    ]
    values = ", ".join(f"{identifier(column.name)} = {literal(column, value)}" for column, value in written)
    return f"UPDATE {name} SET {values} WHERE {where(table, step.key)}"


def writable(row: Row | None) -> bool:
    """Whether a statement can give all of the row back."""
    return not any(isinstance(value, Untold) for value in row or ())


def literal(column: Column, value: Value | Unknown) -> str:
    """A value as statements take it. Raise VerificationFailed for one that its column cannot have."""
    if value is None:
        return "NULL"
    if isinstance(value, Unknown | Untold):
        raise VerificationFailed(f"a value of {column.name} is not known")
    if column.data_type in CHOICES:
        return _choice(column, value)
    if column.kind == "number":
        text = value.decode("ascii", "replace")
        if not _NUMBER.fullmatch(text):
            raise VerificationFailed(f"the log gave {text[:_SHOWN]!r} for a number in {column.name}")
        return text
    if column.kind == "bytes":
        return f"_binary 0x{value.hex()}" if value else "_binary ''"
    charset = "utf8mb4" if column.data_type == "json" else column.charset
    return _text(charset if column.kind == "text" else "ascii", value)


def _choice(column: Column, value: bytes) -> str:
    number = int(value)
    words = members(column)
    if column.data_type == "enum":
        chosen = words[number - 1] if 0 < number <= len(words) else ""
    else:
        chosen = ",".join(word for bit, word in enumerate(words) if number >> bit & 1)
    shown = all(map(_PLAIN.fullmatch, chosen.split(","))) if chosen else False
    return f"{number} /* {chosen} */" if shown else str(number)


def _text(charset: str, value: bytes) -> str:
    charset = charset or "ascii"
    introducer = f"_{charset or 'latin1'}"
    if charset in _AS_ASCII and value.isascii():
        introducer, text = "", value.decode("ascii")
    elif charset in _UTF8:
        introducer = "" if charset == "utf8mb4" else introducer
        text = value.decode("utf-8", "replace")
        if text.encode() != value:
            return f"{introducer or '_utf8mb4'} 0x{value.hex()}"
    else:
        return f"{introducer} 0x{value.hex()}" if value else f"{introducer} ''"
    if not text.isprintable():
        return f"_{charset} 0x{value.hex()}" if value else "''"
    return introducer + quoting.literal(text)


def same_row(table: ServerTable, one: Row, other: Row) -> bool:
    """Whether two rows are the same, as far as both are known."""
    return not differing(table, one, other)


def differing(table: ServerTable, one: Row, other: Row) -> list[Column]:
    """The columns in which two rows differ, as far as both are known."""
    triples = zip(table.stored, one, other, strict=True)
    return [column for column, a, b in triples if not same(column, a, b)]


def same(column: Column, one: Value | Unknown, other: Value | Unknown) -> bool:
    """Whether two values are the same, however the server and the log write them."""
    if isinstance(one, Unknown) or isinstance(other, Unknown) or one == other:
        return True
    if one is None or other is None:
        return False
    return canonical(column, one) == canonical(column, other)


def canonical(column: Column, value: Value | Unknown) -> object:
    """The same for values that are the same."""
    if value is None or isinstance(value, Unknown):
        return value
    try:
        if column.kind == "number":
            return Decimal(value.decode())
        if column.data_type in ("float", "double"):
            return float(value)
        if column.data_type == "json" and not isinstance(value, Untold):
            return json.loads(value, parse_float=Decimal, parse_int=Decimal)
    except (ValueError, InvalidOperation):
        return value
    return value


def canonical_key(table: ServerTable, key: Key) -> tuple[object, ...]:
    """A key by which rows can be looked up."""
    return tuple(canonical(column, value) for column, value in zip(table.key, key, strict=True))


def shown_key(table: ServerTable, key: Key) -> str:
    """A key for people."""
    pairs = zip(table.key, key, strict=True)
    return ", ".join(f"{column.name}={shown(column, value)}" for column, value in pairs)


def shown(column: Column, value: Value | Unknown) -> str:
    """A value for people."""
    if isinstance(value, Untold):
        return "(a document)"
    text = "?" if isinstance(value, Unknown) else literal(column, value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
