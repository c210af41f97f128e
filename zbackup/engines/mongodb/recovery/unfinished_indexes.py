"""Index builds that were under way at the target, and so are in no state to be used."""

from collections.abc import Iterator

from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.errors import DatabaseError


def drop_unfinished_indexes(connection: Connection) -> list[str]:
    """Drop them, and tell which: "INDEX of DATABASE.COLLECTION".

    A mongod that runs alone continues none of them, but keeps them: they are listed, a unique one refuses
    nothing, and to create the same one again waits for ever (seen with 6.0.5).
    """
    dropped: list[str] = []
    for database, collection in _collections(connection):
        for index in _unfinished(connection, database, collection):
            connection.run(database, {"dropIndexes": collection, "index": index})
            dropped.append(f"{index} of {database}.{collection}")
    return dropped


def _collections(connection: Connection) -> Iterator[tuple[str, str]]:
    databases = connection.command({"listDatabases": 1, "nameOnly": True})["databases"]
    for database in (str(found["name"]) for found in databases if found["name"] != "local"):
        order = {
            "listCollections": 1,
            "nameOnly": True,
            "filter": {"type": "collection"},
            # All in one answer, as far as one may be large.
            "cursor": {"batchSize": 1_000_000},
        }
        cursor = connection.run(database, order)["cursor"]
        if cursor["id"]:
            raise DatabaseError(f"{database} has too many collections to look for unfinished indexes in")
        yield from ((database, str(found["name"])) for found in cursor["firstBatch"])


def _unfinished(connection: Connection, database: str, collection: str) -> list[str]:
    order = {"listIndexes": collection, "includeBuildUUIDs": True, "cursor": {"batchSize": 1000}}
    listed = connection.run(database, order)["cursor"]["firstBatch"]
    return [str(index["spec"]["name"]) for index in listed if "buildUUID" in index]
