"""Inspect which collections a recovered server has, and which of them the next oplog entry drops or empties.

An entry contains the UUID of that collection, which is unique. So it need not be applied (MongoDB's source,
oplog_entry.idl).
"""

from zbackup.engines.mongodb.oplog.oplog import Entry
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.engines.mongodb.server.named_collections import BUCKETS, named_collections, uuid_bytes
from zbackup.model.proof import ProofSubject, Sight


def look(connection: Connection, proves: ProofSubject, following: Entry | None) -> tuple[Sight, ...]:
    """Return the sights before and, if the next entry shows it, after that entry."""
    if proves.table is None:
        return ()
    database, taken = proves.table.schema, _taken(following)
    found = named_collections(connection, proves.table)
    if proves.kind == "truncate":
        found = {name: uuid for name, uuid in found.items() if connection.find((database, name), {})}
    there = {(name.removeprefix(BUCKETS), uuid.hex()) for name, uuid in found.items() if uuid}
    before = Sight(tables=frozenset(there))
    if not taken:
        return (before,)
    return before, Sight(tables=frozenset(each for each in there if each[1] != taken.hex()))


def _taken(following: Entry | None) -> bytes:
    """Return the UUID of the collection that an entry drops or empties; b"" if it has none."""
    if following is None or following.get("op") != "c":
        return b""
    command = following["o"]
    if "renameCollection" in command:
        return uuid_bytes(command.get("dropTarget"))
    return uuid_bytes(following.get("ui")) if {"drop", "emptycapped"} & set(command) else b""
