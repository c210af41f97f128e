"""A cluster's metadata in the files of one member, changed to where the restored members are.

Source: MongoDB's manual, "Restore a Self-Managed Sharded Cluster", and what a 6.0 keeps.
"""

from collections.abc import Mapping
from typing import Any

from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.cluster import CONFIG, Addresses, ClusterMembership, require_same_sets
from zbackup.model.errors import VerificationFailed

MOST_SHARDS = 10_000
IDENTITY = "shardIdentity"


def membership(connection: Connection, role: str) -> ClusterMembership:
    """Of which cluster the files are, and on its config server which shards that has."""
    if role != CONFIG:
        return ClusterMembership(cluster=_id_in(connection, ("admin", "system.version"), {"_id": IDENTITY}))
    shards = tuple(sorted(_sets(connection).values()))
    return ClusterMembership(cluster=_id_in(connection, ("config", "version"), {}), shards=shards)


def _id_in(connection: Connection, collection: tuple[str, str], wanted: Mapping[str, Any]) -> str:
    found = connection.find(collection, wanted)
    return str(found[0].get("clusterId", "")) if found else ""


def _sets(connection: Connection) -> dict[str, str]:
    """The replica set of each shard, by the shard's name."""
    known = connection.find(("config", "shards"), {}, most=MOST_SHARDS)
    return {str(shard["_id"]): str(shard["host"]).partition("/")[0] for shard in known}


def rewrite(connection: Connection, role: str, addresses: Addresses) -> None:
    """Let the member find the restored members, and none of the original's.

    Raise VerificationFailed when its metadata are not those of a cluster of exactly these members.
    """
    if role == CONFIG:
        _rewrite_config_server(connection, addresses)
    else:
        _rewrite_shard(connection, addresses)


def _rewrite_config_server(connection: Connection, addresses: Addresses) -> None:
    sets = _sets(connection)
    require_same_sets(set(sets.values()), set(addresses.hosts) - {addresses.config})
    for shard, replica_set in sets.items():
        _set(connection, ("config", "shards"), shard, {"host": addresses.connection(replica_set)})
    # Who pinged, and who held a lock, were servers of the original. A migration that was under way would be
    # ordered again; the shards finish or give up by themselves what of it they had begun.
    for name in ("mongos", "lockpings", "migrations"):
        connection.run("config", {"delete": name, "deletes": [{"q": {}, "limit": 0}]})
    freed = {"q": {"state": {"$gt": 0}}, "u": {"$set": {"state": 0}}, "multi": True}
    connection.run("config", {"update": "locks", "updates": [freed]})
    # It would begin to move chunks as soon as its server runs, before anybody has looked.
    _set(connection, ("config", "settings"), "balancer", {"stopped": True, "mode": "off"}, upsert=True)


def _rewrite_shard(connection: Connection, addresses: Addresses) -> None:
    version = ("admin", "system.version")
    identity = connection.find(version, {"_id": IDENTITY})
    if not identity:
        raise VerificationFailed("at that time the shard had not been added to a cluster yet")
    known = str(identity[0].get("configsvrConnectionString", "")).partition("/")[0]
    if known != addresses.config:
        raise VerificationFailed(
            f"at that time the shard's config server was of the replica set {known}, and not "
            f"{addresses.config}"
        )
    config = addresses.connection(addresses.config)
    _set(connection, version, IDENTITY, {"configsvrConnectionString": config})
    recovery = {"q": {"_id": "minOpTimeRecovery"}, "limit": 1}
    connection.run("admin", {"delete": "system.version", "deletes": [recovery]})
    # Every transaction on several shards is decided, and one that is not there is not to be decided again.
    connection.run("config", {"delete": "transaction_coordinators", "deletes": [{"q": {}, "limit": 0}]})


def _set(
    connection: Connection,
    collection: tuple[str, str],
    identity: str,
    values: Mapping[str, Any],
    *,
    upsert: bool = False,
) -> None:
    database, name = collection
    update = {"q": {"_id": identity}, "u": {"$set": dict(values)}, "upsert": upsert}
    said = connection.run(database, {"update": name, "updates": [update]})
    if said.get("n") != 1 or said.get("writeErrors"):
        raise VerificationFailed(f"{identity} in {database}.{name} could not be changed to the new addresses")
