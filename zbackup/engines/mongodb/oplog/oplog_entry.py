"""Tell what an oplog entry says, for reports and messages."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from zbackup.model.log import Transaction
from zbackup.model.oplog_position import OplogPosition

# Written up to this size by mongod for itself, but taken from nobody else (BSONObjMaxUserSize).
LARGEST_WRITABLE = 16 * 1024**2

_WORDS = {"i": "insert into", "u": "update of", "d": "delete from", "n": "no operation"}


def wall_time(entry: Mapping[str, Any]) -> datetime:
    """When an entry was written, in UTC, by the clock of the primary that wrote it: whole
    milliseconds."""
    wall: datetime = entry["wall"]
    return wall.astimezone(UTC)


def transaction(entry: Mapping[str, Any]) -> Transaction:
    """An entry as zbackup's reports show it."""
    position = str(OplogPosition.of(entry))
    return Transaction(start=position, end=position, committed=wall_time(entry), what=describe(entry))


def describe(entry: Mapping[str, Any]) -> str:
    """What an entry does, such as "insert into shop.orders" or "drop of shop.orders"."""
    operation, namespace = str(entry.get("op", "")), str(entry.get("ns", ""))
    if operation != "c":
        return f"{_WORDS.get(operation, operation)} {namespace}".strip()
    command, argument = next(iter(entry["o"].items()), ("command", None))
    if command == "applyOps":
        return _transaction(entry["o"])
    if not isinstance(argument, str):
        return str(command)
    # A rename names its collections in full, all others name them within their database.
    name = argument if command == "renameCollection" else namespace.removesuffix("$cmd") + argument
    return f"{command} of {name}"


def _transaction(applied: Mapping[str, Any]) -> str:
    touched = sorted({str(one.get("ns", "")) for one in applied["applyOps"]} - {""})
    kind = "part of a transaction" if applied.get("partialTxn") else "transaction"
    if applied.get("prepare"):
        kind = "prepared transaction"
    return f"{kind} on {', '.join(touched[:3])}{' ...' if len(touched) > 3 else ''}"
