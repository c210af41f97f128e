"""The collections of a server that have a name."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.table_name import TableName

BUCKETS = "system.buckets."
"""The beginning of the names of collections that hold the buckets of a time series."""


def named_collections(connection: Connection, name: TableName) -> dict[str, bytes]:
    """The collections of that name as they are stored, and the UUID of each. Raise DatabaseError."""
    wanted: dict[str, Any] = {"listCollections": 1}
    if not name.is_schema:
        wanted["filter"] = {"name": {"$in": [name.table, BUCKETS + name.table]}}
    return {
        row["name"]: uuid_bytes(row["info"].get("uuid")) for row in _listed(connection, name.schema, wanted)
    }


def uuid_bytes(value: object) -> bytes:
    """The bytes of a UUID, however BSON's reader gives it; b"" for none."""
    if isinstance(value, UUID):
        return value.bytes
    return bytes(value) if isinstance(value, bytes) else b""


def _listed(connection: Connection, database: str, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    cursor = connection.run(database, wanted)["cursor"]
    yield from cursor["firstBatch"]
    while cursor["id"]:
        more = {"getMore": cursor["id"], "collection": "$cmd.listCollections"}
        cursor = connection.run(database, more)["cursor"]
        yield from cursor["nextBatch"]
