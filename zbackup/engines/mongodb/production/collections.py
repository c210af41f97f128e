"""Read what a mongod says of its collections, and documents as the bytes that are stored.

MongoDB manual, "listCollections", "listIndexes".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bson
from bson import Timestamp
from bson.raw_bson import RawBSONDocument

from zbackup.engines.mongodb.server.connection import Connection, Document
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

BATCH_BYTES = 4 << 20
BATCH_DOCUMENTS = 1000
# A type, a name and eight bytes; anywhere in a document, so there may be none where it is found.
EMPTY_TIMESTAMP = re.compile(rb"\x11[^\0]*\0{9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A collection, view or time series. `options` are those it was created with, `indexes` without that of
    _id; `count` is the server's estimate."""

    name: TableName
    type: str
    options: Mapping[str, Any]
    uuid: object = None
    indexes: tuple[Mapping[str, Any], ...] = ()
    count: int = 0

    @property
    def in_order(self) -> bool:
        """Whether it can be walked by _id, so that a beginning of it is known to be one."""
        return self.type == "collection" and not (
            self.options.get("capped") or self.options.get("clusteredIndex")
        )

    @property
    def without_validator(self) -> dict[str, Any]:
        """The options to create it with: documents may be older than the rule for new ones."""
        return {key: value for key, value in self.options.items() if key not in VALIDATION}

    @property
    def validation(self) -> dict[str, Any]:
        return {key: value for key, value in self.options.items() if key in VALIDATION}


VALIDATION = ("validator", "validationLevel", "validationAction")


def in_database(connection: Connection, database: str) -> list[TableName]:
    """All but the server's own, views last."""
    found = [row for row in _listed(connection, database, {}) if not str(row["name"]).startswith("system.")]
    found.sort(key=lambda row: (row["type"] == "view", str(row["name"])))
    return [TableName(database, str(row["name"])) for row in found]


def read_collection(connection: Connection, name: TableName) -> Collection | None:
    """Return what the server says of one collection; None where there is none."""
    row = next(iter(_listed(connection, name.schema, {"name": name.table})), None)
    if row is None:
        return None
    view, about = row["type"] == "view", row
    if row["type"] == "timeseries":
        # It is a view of the collection that holds its buckets, and only that has an identity.
        about = next(iter(_listed(connection, name.schema, {"name": f"system.buckets.{name.table}"})), row)
    count = 0
    if row["type"] == "collection":
        count = int(connection.run(name.schema, {"count": name.table})["n"])
    return Collection(
        name=name,
        type=str(row["type"]),
        options=_options(name, row["options"]),
        uuid=about.get("info", {}).get("uuid"),
        indexes=() if view else tuple(_indexes(connection, name)),
        count=count,
    )


def _options(name: TableName, said: Mapping[str, Any]) -> dict[str, Any]:
    """What it was created with, which production is given as fields of its command `create`. Raise Refused
    for what would name another collection or command."""
    if strange := [field for field in said if field == "create" or field.startswith("$")]:
        raise Refused(f"{name} cannot be copied: its server says that it was created with {strange[0]!r}")
    return dict(said)


def _listed(connection: Connection, database: str, wanted: Mapping[str, Any]) -> list[Document]:
    return list(
        _all(connection, database, {"listCollections": 1, "filter": dict(wanted)}, "$cmd.listCollections")
    )


def _indexes(connection: Connection, name: TableName) -> Iterator[Mapping[str, Any]]:
    for index in _all(connection, name.schema, {"listIndexes": name.table}, name.table):
        if index["name"] != "_id_" and not index.get("clustered"):
            # Older servers name the collection in it, which a new one refuses.
            yield {key: value for key, value in index.items() if key != "ns"}


def _all(connection: Connection, database: str, command: Mapping[str, Any], of: str) -> Iterator[Document]:
    cursor = connection.run(database, command)["cursor"]
    yield from cursor["firstBatch"]
    while cursor["id"]:
        cursor = connection.run(database, {"getMore": cursor["id"], "collection": of})["cursor"]
        yield from cursor["nextBatch"]


def batches(documents: Iterator[RawBSONDocument]) -> Iterator[list[RawBSONDocument]]:
    """Documents in bounded portions."""
    batch: list[RawBSONDocument] = []
    size = 0
    for document in documents:
        if batch and size + len(document.raw) > BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document.raw)
        if len(batch) >= BATCH_DOCUMENTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def key(document: Mapping[str, Any]) -> bytes:
    """A document's _id, as bytes that are the same for the same value and type."""
    return bytes(bson.encode({"_id": document["_id"]}))


def has_empty_timestamp(document: RawBSONDocument) -> bool:
    """Whether an insert would store something else: into an empty Timestamp outside of _id and of
    embedded documents the server writes its own time (MongoDB manual, "BSON Types", "Timestamps")."""
    return bool(EMPTY_TIMESTAMP.search(document.raw)) and any(
        name != "_id" and isinstance(value, Timestamp) and not (value.time or value.inc)
        for name, value in document.items()
    )


def ids(documents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The filter for these documents."""
    return {"_id": {"$in": [document["_id"] for document in documents]}}
