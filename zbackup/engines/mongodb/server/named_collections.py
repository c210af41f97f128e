"""Find collections on a server by name."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.table_name import TableName

BUCKETS = "system.buckets."
"""The name prefix of the collections that hold the buckets of a time series."""


def named_collections(connection: Connection, name: TableName) -> dict[str, bytes]:
    """Map the stored collections with that name to their UUIDs. Raise DatabaseError."""
    wanted: dict[str, Any] = {"listCollections": 1}
    if not name.is_schema:
        wanted["filter"] = {"name": {"$in": [name.table, BUCKETS + name.table]}}
    return {
        row["name"]: uuid_bytes(row["info"].get("uuid")) for row in _listed(connection, name.schema, wanted)
    }


def uuid_bytes(value: object) -> bytes:
    """Return the bytes of a UUID in any form that the BSON reader returns; b"" for none."""
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
