"""Compare a restored cluster with what the original held at a cluster time, by the original's own word.

mongod reads its own past at a cluster time (snapshot reads), and what it says is what each restored member
has to hold, document by document.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bson.timestamp import Timestamp

from tests.lab.mongo_cluster import (
    DATABASE,
    ORDERS,
    SPAN,
    Cluster,
    Failed,
    Router,
    create_collection,
    move,
)
from tests.system.cluster_story import (
    ACCOUNTS,
    CONFIG,
    EACH,
    MOVED,
    SHARDS,
    WANDERING,
    ClusterHouse,
    Load,
    insert,
)

Documents = dict[Any, dict[str, Any]]
SESSIONS = "config.system.sessions"


def before(at: Timestamp) -> Timestamp:
    """The cluster time just before one."""
    return Timestamp(at.time, at.inc - 1) if at.inc else Timestamp(at.time - 1, 2**31 - 1)


@dataclass(frozen=True)
class Past:
    """The original as it was just before a cluster time, by what it says itself."""

    chunks: list[dict[str, Any]]
    uuids: dict[str, Any]
    """Of the sharded collections, by name."""
    documents: dict[tuple[str, str], Documents]
    """By shard and collection, orphans included."""

    def owned(self, shard: str, collection: str) -> Documents:
        """Of these, what the routing table gives to the shard."""
        uuid = self.uuids[f"{DATABASE}.{collection}"]
        own = [c for c in self.chunks if c["uuid"] == uuid and c["shard"] == shard]
        return {k: d for k, d in self.documents[shard, collection].items() if any(_inside(c, k) for c in own)}


def _inside(chunk: Mapping[str, Any], key: int) -> bool:
    low, high = chunk["min"]["_id"], chunk["max"]["_id"]
    return (not isinstance(low, int) or key >= low) and (not isinstance(high, int) or key < high)


def past(cluster: Cluster, at: Timestamp) -> Past:
    """What the original held just before a cluster time; within the five minutes that it keeps."""
    router = cluster.router()
    concern = {"level": "snapshot", "atClusterTime": before(at)}
    try:
        collections = router.find(CONFIG, "config", "collections", {}, concern)
        uuids = {row["_id"]: row["uuid"] for row in collections if row["_id"].startswith(f"{DATABASE}.")}
        documents = {
            (shard, name.partition(".")[2]): _by_id(_then(router, shard, name.partition(".")[2], concern))
            for shard in SHARDS
            for name in uuids
        }
        return Past(router.find(CONFIG, "config", "chunks", {}, concern), uuids, documents)
    finally:
        router.close()


def _then(router: Router, shard: str, name: str, concern: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was in a collection; nothing where the shard had not made it yet."""
    try:
        return router.find(shard, DATABASE, name, {}, concern)
    except Failed as failed:
        if name == ORDERS or "Collection minimum" not in str(failed):
            raise
        return []


def _by_id(rows: list[dict[str, Any]]) -> Documents:
    assert len({row["_id"] for row in rows}) == len(rows), "no document is there twice"
    return {row["_id"]: row for row in rows}


def restored_router(report: Mapping[str, Any]) -> Router:
    """As an application finds the restored cluster."""
    return Router({member["replica_set"]: Path(member["socket"]) for member in report["members"]})


def require_same(report: Mapping[str, Any], was: Past, load: Load, at: Timestamp) -> int:
    """Every restored member holds what it held; nothing is lost, doubled or torn. How many orphans it had.

    What is not the shard's own (orphans) may have been cleaned up since its server runs.
    """
    router = restored_router(report)
    orphans = 0
    everywhere: Documents = {}
    for shard in SHARDS:
        for collection in {name for of, name in was.documents if of == shard}:
            found = _by_id(router.find(shard, DATABASE, collection, {}))
            then, own = was.documents[shard, collection], was.owned(shard, collection)
            orphans += len(then) - len(own)
            assert {k: d for k, d in found.items() if k in own} == own, f"{collection} on {shard}"
            assert all(then.get(k) == d for k, d in found.items()), f"{collection} on {shard}"
            if collection == ORDERS:
                assert not own.keys() & everywhere.keys(), "a document has one owner"
                everywhere |= own
    names = {str(row["uuid"]): str(row["_id"]) for row in router.find(CONFIG, "config", "collections", {})}
    assert _owners(router.find(CONFIG, "config", "chunks", {}), names) == _owners(was.chunks, names)
    router.close()
    require_sound(everywhere, load, at)
    return orphans


def _owners(chunks: list[dict[str, Any]], names: Mapping[str, str]) -> list[tuple[str, str, str, str]]:
    """Which shard has which range. Its version is raised when a shard gives up a migration as it starts.

    Where there is no table of sessions yet, a config server has one made some time after it started.
    """
    named = [(names.get(str(c["uuid"]), str(c["uuid"])), c) for c in chunks]
    return sorted((name, repr(c["min"]), repr(c["max"]), c["shard"]) for name, c in named if name != SESSIONS)


def require_sound(orders: Documents, load: Load, at: Timestamp) -> None:
    """What the applications know: sums, pairs, and what was acknowledged before and after."""
    accounts = [d["n"] for k, d in orders.items() if k % SPAN < ACCOUNTS]
    assert (len(accounts), sum(accounts)) == (len(SHARDS) * ACCOUNTS, len(SHARDS) * ACCOUNTS * EACH)
    marks = [
        {k - shard * SPAN for k, d in orders.items() if "mark" in d and k // SPAN == shard}
        for shard in (0, 1)
    ]
    assert marks[0] == marks[1], f"torn: {sorted(marks[0] ^ marks[1])}"
    assert sum(WANDERING <= k < WANDERING + MOVED for k in orders) == MOVED
    lost = [key for key, told in load.written.items() if told < at and key not in orders]
    assert not lost, f"acknowledged before {at}, and not there: {lost[:3]}"


def require_it_works(report: Mapping[str, Any]) -> None:
    """A mongos could be put in front: config server and shards find each other where they are now."""
    router = restored_router(report)
    for shard in SHARDS:
        [identity] = router.find(shard, "admin", "system.version", {"_id": "shardIdentity"})
        assert identity["configsvrConnectionString"] == report["configdb"]
    hosts = {row["host"] for row in router.find(CONFIG, "config", "shards", {})}
    assert hosts == {m["member"]["address"] for m in report["members"] if m["member"]["role"] == "shardsvr"}
    router.transaction(
        [
            (key, {"update": ORDERS, "updates": [{"q": {"_id": key}, "u": {"$set": {"new": True}}}]})
            for key in (0, SPAN)
        ]
    )
    assert router.find(SHARDS[0], DATABASE, ORDERS, {"new": True}) and router.find(
        SHARDS[1], DATABASE, ORDERS, {"new": True}
    )
    create_collection(router, "anew")
    move(router, "anew", 10, 20, SHARDS[1])
    insert(router, 15, "anew")
    assert [row["_id"] for row in router.find(SHARDS[1], DATABASE, "anew", {})] == [15]
    router.close()


def require_own_orphans(house: ClusterHouse, was: Past, at: Timestamp) -> None:
    """A shard that is restored by itself, and not started as one, holds the same, its orphans included."""
    for shard in SHARDS:
        stamp = f"{at.time},{at.inc}"
        argv = ("restore", shard, "--to-timestamp", stamp, "--name", f"{shard}-alone", "--json")
        report = house.zb(*argv).data
        router = Router({shard: Path(report["socket"])})
        for (of, collection), then in was.documents.items():
            if of == shard:
                assert _by_id(router.find(shard, DATABASE, collection, {})) == then, (
                    f"{collection} on {shard}"
                )
        router.close()
        house.destroy(f"{shard}-alone")
