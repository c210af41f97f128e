"""A sharded MongoDB without a mongos: a config server and shards, each a set of one member, driven directly.

What a mongos would do is done here: databases and collections are made by the config server's and the shards'
own commands, chunks are moved by the balancer's, and documents are written with the versions of the routing
table, so that a shard refuses what is not its own. A transaction on several shards is committed by the shard
that coordinates it, in two phases. MongoDB's documentation and source name the commands.
"""

import contextlib
import itertools
import socket
import struct
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bson
from bson.binary import Binary
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.timestamp import Timestamp

from tests.lab.mongo_fixture import MongoServer, MongoSettings, initiate

DATABASE, ORDERS = "shop", "orders"
SPAN = 1_000_000
"""So many keys of the first collection are each shard's, the first one's from 0 on."""
OP_MSG = 2013
MOVE_LIMIT_S = 300.0
AGAIN = (13388, 63, 249, 150)
"""StaleConfig and its like: the routing table is to be read again."""


class Failed(Exception):
    """A command that a server refused. `again` says that it did nothing, and may be sent once more."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        super().__init__(said.get("errmsg", said))
        transient = "TransientTransactionError" in said.get("errorLabels", ())
        self.again = transient or int(said.get("code", 0)) in AGAIN


class Wire:
    """One connection to a mongod's Unix socket, which sends what it is given and nothing besides."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(120)
        self._socket.connect(str(path))
        self._numbers = itertools.count(1)

    def __call__(self, database: str, command: Mapping[str, Any]) -> dict[str, Any]:
        body = bson.encode({**command, "$db": database})
        header = struct.pack("<iiii", 21 + len(body), next(self._numbers), 0, OP_MSG)
        self._socket.sendall(header + struct.pack("<iB", 0, 0) + body)
        (length,) = struct.unpack("<i", self._read(4))
        said = bson.decode(self._read(length - 4)[17:])
        if not said.get("ok"):
            raise Failed(said)
        for error in said.get("writeErrors", ()):
            raise Failed(error)
        return said

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self._socket.recv(size - len(found))
            if not piece:
                raise ConnectionError("the server hung up")
            found += piece
        return found


@dataclass(frozen=True, slots=True)
class Chunk:
    low: Any
    high: Any
    shard: str
    version: dict[str, Any]


@dataclass(slots=True)
class Router:
    """What a mongos knows and does, as far as it is needed here. One for each thread."""

    sockets: Mapping[str, Path]
    """The shards' by their names, and the config server's as "config"."""
    clock: dict[str, Any] = field(default_factory=dict)
    """The highest cluster time that was seen, to pass on; shared by the threads of one application."""
    _wires: dict[str, Wire] = field(default_factory=dict)
    _chunks: dict[str, list[Chunk]] = field(default_factory=dict)

    def on(self, name: str, database: str, command: Mapping[str, Any]) -> dict[str, Any]:
        """Send a command to one of them."""
        if name not in self._wires:
            self._wires[name] = Wire(self.sockets[name])
        told = {"$clusterTime": time_} if (time_ := self.clock.get("time")) else {}
        said = self._wires[name](database, {**command, **told})
        seen = said.get("$clusterTime")
        if seen and (not time_ or seen["clusterTime"] > time_["clusterTime"]):
            self.clock["time"] = seen
        return said

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def find(
        self,
        name: str,
        database: str,
        collection: str,
        wanted: Mapping[str, Any],
        concern: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """All documents of one server that are like that."""
        asked: dict[str, Any] = {"find": collection, "filter": wanted, "batchSize": 1_000_000}
        said = self.on(name, database, asked | ({"readConcern": concern} if concern else {}))["cursor"]
        found: list[dict[str, Any]] = said["firstBatch"]
        while said["id"]:
            more = {"getMore": said["id"], "collection": collection, "batchSize": 1_000_000}
            said = self.on(name, database, more)["cursor"]
            found += said["nextBatch"]
        return found

    def chunks(self, namespace: str, *, anew: bool = False) -> list[Chunk]:
        """The routing table of a collection."""
        if anew or namespace not in self._chunks:
            [about] = self.find("config", "config", "collections", {"_id": namespace})
            rows = self.find("config", "config", "chunks", {"uuid": about["uuid"]})
            newest: dict[str, Timestamp] = {}
            for row in rows:
                newest[row["shard"]] = max(newest.get(row["shard"], row["lastmod"]), row["lastmod"])
            self._chunks[namespace] = [
                Chunk(
                    row["min"]["_id"],
                    row["max"]["_id"],
                    row["shard"],
                    {"e": about["lastmodEpoch"], "t": about["timestamp"], "v": newest[row["shard"]]},
                )
                for row in rows
            ]
        return self._chunks[namespace]

    def owner(self, key: int, namespace: str = f"{DATABASE}.{ORDERS}") -> Chunk:
        for chunk in self.chunks(namespace):
            above = isinstance(chunk.low, MinKey) or key >= chunk.low
            below = isinstance(chunk.high, MaxKey) or key < chunk.high
            if above and below:
                return chunk
        raise AssertionError(f"no chunk of {namespace} has {key}")

    def retried(self, namespace: str, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do it again with the new routing table while the shards say that it is old."""
        limit = time.monotonic() + 120
        while True:
            try:
                return act()
            except Failed as failed:
                if not failed.again or time.monotonic() > limit:
                    raise
                time.sleep(0.02)
                self.chunks(namespace, anew=True)

    def write(self, key: int, command: Mapping[str, Any], collection: str = ORDERS) -> dict[str, Any]:
        """One document, at the shard that has it, acknowledged by the majority."""
        namespace = f"{DATABASE}.{collection}"

        def act() -> dict[str, Any]:
            chunk = self.owner(key, namespace)
            more = {"shardVersion": chunk.version, "writeConcern": {"w": "majority"}}
            return self.on(chunk.shard, DATABASE, {**command, **more})

        return self.retried(namespace, act)

    def transaction(self, statements: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
        """Statements for documents of any shard, all or none, decided by the first one's shard."""
        return self.retried(f"{DATABASE}.{ORDERS}", lambda: self._transaction(statements))

    def _transaction(self, statements: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
        session = {"lsid": {"id": Binary.from_uuid(uuid.uuid4())}, "txnNumber": bson.Int64(1)}
        in_it = {**session, "autocommit": False}
        joined: list[str] = []
        try:
            for key, statement in statements:
                chunk = self.owner(key)
                begin: dict[str, Any] = {}
                if chunk.shard not in joined:
                    begin = {"startTransaction": True, "readConcern": {"level": "snapshot"}}
                    if not joined:
                        begin["coordinator"] = True
                    joined.append(chunk.shard)
                self.on(chunk.shard, DATABASE, {**statement, **in_it, **begin, "shardVersion": chunk.version})
        except Failed:
            for shard in joined:
                with contextlib.suppress(Failed):
                    self.on(shard, "admin", {"abortTransaction": 1, **in_it})
            raise
        if len(joined) == 1:
            commit: dict[str, Any] = {"commitTransaction": 1}
        else:
            commit = {
                "coordinateCommitTransaction": 1,
                "participants": [{"shardId": name} for name in joined],
            }
        return self.on(joined[0], "admin", {**commit, **in_it, "writeConcern": {"w": "majority"}})


@dataclass(frozen=True, slots=True)
class Cluster:
    """Running servers: `config` and `shards`, of which a shard's name is its set's."""

    config: MongoServer
    shards: tuple[MongoServer, ...]

    @property
    def members(self) -> tuple[MongoServer, ...]:
        return (self.config, *self.shards)

    def router(self) -> Router:
        sockets = {shard.settings.replica_set: shard.settings.socket for shard in self.shards}
        return Router({**sockets, "config": self.config.settings.socket})

    def end(self) -> None:
        for server in self.members:
            server.__exit__()


def settings(datadir: Path, run_dir: Path, name: str, **more: Any) -> MongoSettings:
    """Of a member; the one called "config" is the config server."""
    role = "--configsvr" if name == "config" else "--shardsvr"
    options = (
        role,
        "--setParameter=migrateCloneInsertionBatchSize=10",
        "--setParameter=orphanCleanupDelaySecs=2",
    )
    return MongoSettings(
        datadir=datadir, run_dir=run_dir, replica_set=name, auth=False, options=options, **more
    )


def start(config: MongoSettings, shards: Sequence[MongoSettings]) -> Cluster:
    """Make the sets, and one cluster of them, with a sharded collection that has chunks on each."""
    servers = [MongoServer(each) for each in (config, *shards)]
    for server in servers:
        server.start()
        initiate([server])
    cluster = Cluster(servers[0], tuple(servers[1:]))
    router = cluster.router()
    majority = {"writeConcern": {"w": "majority"}}
    for shard in shards:
        host = f"{shard.replica_set}/127.0.0.1:{shard.port}"
        router.on("config", "admin", {"_configsvrAddShard": host, "name": shard.replica_set, **majority})
    router.on(
        "config",
        "config",
        {
            "update": "settings",
            "updates": [
                {"q": {"_id": "balancer"}, "u": {"$set": {"mode": "off", "stopped": True}}, "upsert": True}
            ],
        },
    )
    first = shards[0].replica_set
    router.on("config", "admin", {"_configsvrCreateDatabase": DATABASE, "primaryShardId": first, **majority})
    create_collection(router, ORDERS)
    for number, shard in enumerate(shards[1:], 1):
        move(router, ORDERS, number * SPAN, (number + 1) * SPAN, shard.replica_set)
    router.close()
    return cluster


def create_collection(router: Router, name: str) -> None:
    """A collection sharded by _id, all of it on the database's primary shard."""
    [about] = router.find("config", "config", "databases", {"_id": DATABASE})
    router.on(
        about["primary"],
        DATABASE,
        {
            "_shardsvrCreateCollection": name,
            "shardKey": {"_id": 1},
            "databaseVersion": about["version"],
            "writeConcern": {"w": "majority"},
        },
    )


def move(router: Router, collection: str, low: int, high: int, to: str) -> None:
    """Move what lies between two keys to a shard, as the balancer does: if that fails, again."""
    namespace = f"{DATABASE}.{collection}"
    limit = time.monotonic() + MOVE_LIMIT_S
    while True:
        router.chunks(namespace, anew=True)
        owner = router.owner(low, namespace)
        if owner.shard == to:
            return
        try:
            router.on(
                "config",
                "admin",
                {
                    "_configsvrMoveRange": namespace,
                    "toShard": to,
                    "min": {"_id": low},
                    "max": {"_id": high},
                    "epoch": owner.version["e"],
                    "collectionTimestamp": owner.version["t"],
                    "fromShard": owner.shard,
                    "waitForDelete": False,
                    "forceJumbo": 0,
                    "writeConcern": {"w": "majority"},
                },
            )
        except Failed:
            # A lock that others have, a shard that still deletes what it moved away, a balancer that starts.
            if time.monotonic() > limit:
                raise
            time.sleep(0.2)
