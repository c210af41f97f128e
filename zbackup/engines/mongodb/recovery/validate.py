"""Have mongod read and check its collections: what a drill proves beyond that a backup can be opened."""

from collections.abc import Iterator
from typing import Any

from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.progress import Progress
from zbackup.model.recovery import CheckedTables

# A collection is read as a whole, with all of its indexes: the drill's own limit is what ends that.
VALIDATE_LIMIT_S = 7 * 86_400.0

# What is this server's alone, and no part of what is recovered.
OWN = ("local",)


def validate_collections(connection: Connection, progress: Progress) -> CheckedTables:
    """`validate` of every collection of all databases but the server's own."""
    found = [(d, c) for d in _databases(connection) if d not in OWN for c in _collections(connection, d)]
    damaged = []
    for number, (database, collection) in enumerate(found):
        progress.advance(number, len(found), "collections")
        said = connection.run(database, {"validate": collection}, limit_s=VALIDATE_LIMIT_S)
        if why := complaint(said):
            damaged.append(f"{database}.{collection}: {why}")
    progress.advance(len(found), len(found), "collections")
    return CheckedTables(tables=len(found), damaged=tuple(damaged))


def complaint(said: dict[str, Any]) -> str:
    """What `validate` found wrong with a collection; "" for nothing."""
    if said.get("valid"):
        return ""
    return "; ".join(str(error) for error in said.get("errors", ())) or "it is not valid"


def _databases(connection: Connection) -> list[str]:
    said = connection.command({"listDatabases": 1, "nameOnly": True})
    return [str(row["name"]) for row in said["databases"]]


def _collections(connection: Connection, database: str) -> Iterator[str]:
    wanted = {"listCollections": 1, "nameOnly": True, "filter": {"type": "collection"}}
    cursor = connection.run(database, wanted)["cursor"]
    yield from (str(row["name"]) for row in cursor["firstBatch"])
    while cursor["id"]:
        more = {"getMore": cursor["id"], "collection": "$cmd.listCollections"}
        cursor = connection.run(database, more)["cursor"]
        yield from (str(row["name"]) for row in cursor["nextBatch"])
