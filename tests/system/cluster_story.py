"""A sharded cluster on a pool, and applications, a balancer and an administrator who work with it."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bson.timestamp import Timestamp

from tests.lab import mongo_cluster
from tests.lab.mongo_cluster import DATABASE, ORDERS, SPAN, Cluster, Router, create_collection, move
from tests.lab.pool import Pool
from tests.system.conftest import end_clones
from tests.system.house import ZONE, Zbackup, toml

CONFIG, SHARDS = "config", ("rs0", "rs1")
ACCOUNTS, EACH = 20, 1000
MARKS, FREE, WANDERING = 1_000, 400_000, 600_000
"""Where in a shard's keys the marks of transactions begin, what is written alone, and what moves."""
MOVED = 50
"""Documents in the range that is moved to and fro."""
MOST_MADE = 12
PATIENCE = 1800.0
"""Seconds for one command: to restore three members fifteen servers are started one after the other."""
PAUSE_S = 0.05
"""Between two writes of one application: what a restore has to replay is no part of what is proven."""


class ClusterHouse(Zbackup):
    """A config server and two shards, each an instance on a dataset of its own."""

    def __init__(self, pool: Pool, cluster: Cluster, datasets: Mapping[str, str], home: Path) -> None:
        self.cluster = cluster
        self.members = dict(datasets)
        super().__init__(
            pool,
            home,
            tuple(datasets.values()),
            instance={"engine": "mongodb"},
            password="",
            program=cluster.config.settings.program,
        )
        self.patience = PATIENCE

    def configure(  # type: ignore[override]
        self,
        name: str,
        *,
        host: str = "",
        recovery: Mapping[str, object] | None = None,
        each: Callable[[str], Mapping[str, object]] = lambda _: {},
    ) -> Path:
        """The three instances and the cluster, with what `each` has; or one that has a `host` to itself."""
        home = self.home / f"host of {host}" if host else self.home
        home.mkdir(exist_ok=True)
        lines = [
            f"timezone = {toml(ZONE.key)}",
            f"run_dir = {toml(str(home / 'run'))}",
            f"daemon = {toml({'state_dir': str(home / 'state')})}",
        ]
        if not host:
            lines += ["[cluster.shop]", f"config = {toml(CONFIG)}", f"shards = {toml(list(SHARDS))}"]
        recovery = {"server": str(self.program), "mountpoint": str(home / "clones"), **(recovery or {})}
        for server in self.cluster.members:
            member = server.settings.replica_set
            if host not in ("", member):
                continue
            own = {
                "engine": "mongodb",
                "datasets": [self.members[member]],
                "socket": str(server.settings.socket),
                "lock": "none",
                **each(member),
            }
            lines += [f"[instance.{member}]", *(f"{key} = {toml(value)}" for key, value in own.items())]
            lines += [f"[instance.{member}.recovery]", *(f"{k} = {toml(v)}" for k, v in recovery.items())]
        file = self.home / f"{name}.toml"
        file.write_text("\n".join(lines) + "\n")
        return file

    def back_up(self, *members: str, config: Path | None = None) -> None:
        """A backup of each member, one after the other: at different instants."""
        for member in members or (CONFIG, *SHARDS):
            self.zb("snapshot", member, "--json", config=config).data  # noqa: B018  checks the exit status

    def restore_all(self, at: Timestamp, name: str, *words: str) -> dict[str, Any]:
        """The whole cluster at a cluster time; the report's JSON."""
        stamp = f"{at.time},{at.inc}"
        argv = ("restore", "--cluster", "shop", "--to-timestamp", stamp, "--name", name, "--json", *words)
        report: dict[str, Any] = self.zb(*argv).data
        return report

    def remove(self, report: Mapping[str, Any]) -> None:
        """The restored cluster's clones."""
        self.destroy(*(member["clone"] for member in report["members"]))


@contextmanager
def cluster_house(pool: Pool, **more: Any) -> Iterator[ClusterHouse]:
    """A running cluster with accounts on both shards."""
    home = pool.home / "cluster"
    home.mkdir()
    datasets, settings = {}, {}
    for name in (CONFIG, *SHARDS):
        data = pool.dataset(f"of {name}")
        (home / name).mkdir()
        datasets[name] = data.name
        settings[name] = mongo_cluster.settings(data.mountpoint / "data", home / name, name, **more)
    cluster = mongo_cluster.start(settings[CONFIG], [settings[name] for name in SHARDS])
    try:
        router = cluster.router()
        for shard in range(len(SHARDS)):
            for number in range(ACCOUNTS):
                insert(router, shard * SPAN + number, n=EACH)
        for number in range(MOVED):
            insert(router, WANDERING + number, n=0)
        router.close()
        house = ClusterHouse(pool, cluster, datasets, home)
        try:
            yield house
        finally:
            end_clones(house)  # type: ignore[arg-type]
    finally:
        cluster.end()


def insert(router: Router, key: int, collection: str = ORDERS, **values: Any) -> dict[str, Any]:
    return router.write(key, {"insert": collection, "documents": [{"_id": key, **values}]}, collection)


@dataclass
class Load:
    """Threads that work with a cluster as applications do, and what they were told.

    `written` are the keys of documents that were written alone, each acknowledged at that cluster time.
    """

    cluster: Cluster
    transfers: int = 0
    moves: int = 0
    made: list[str] = field(default_factory=list)
    written: dict[int, Timestamp] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    clock: dict[str, Any] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    @property
    def over(self) -> bool:
        """Something failed, which is told where the load ends."""
        return bool(self.failures)

    @contextmanager
    def running(self, *, base: int = 0) -> Iterator["Load"]:
        """While the body runs. `base` sets the keys of one such time apart from another's."""
        works = (self._transfer, self._transfer, self._write, self._administer)
        threads = [
            threading.Thread(target=self._run, args=(work, base * 4_000 + number * 100_000))
            for number, work in enumerate(works)
        ]
        self._stop.clear()
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        if self.failures:
            raise self.failures[0]

    def _run(self, work: Any, base: int) -> None:
        router = self.cluster.router()
        router.clock = self.clock
        number = base
        try:
            while not self._stop.is_set():
                work(router, number)
                number += 1
                self._stop.wait(PAUSE_S)
        except BaseException as failure:  # noqa: BLE001  told where the load ends
            self.failures.append(failure)
        finally:
            router.close()

    def _transfer(self, router: Router, number: int) -> None:
        """From an account on one shard to one on the other, with a mark of the same number on each."""
        amount, one, other = number % 7 + 1, number % ACCOUNTS, SPAN + number * 3 % ACCOUNTS
        if number % 2:
            one, other = other, one
        marks = (MARKS + number, SPAN + MARKS + number)
        router.transaction(
            [
                (one, {"update": ORDERS, "updates": [{"q": {"_id": one}, "u": {"$inc": {"n": -amount}}}]}),
                (other, {"update": ORDERS, "updates": [{"q": {"_id": other}, "u": {"$inc": {"n": amount}}}]}),
                *((mark, {"insert": ORDERS, "documents": [{"_id": mark, "mark": number}]}) for mark in marks),
            ]
        )
        self.transfers += 1

    def _write(self, router: Router, number: int) -> None:
        key = FREE + number % 100_000 + number % 2 * SPAN
        self.written[key] = insert(router, key, alone=number)["operationTime"]

    def _administer(self, router: Router, number: int) -> None:
        """One thing after the other, as balancers do: a shard moves one range at a time."""
        if number % 3 == 0 and len(self.made) < MOST_MADE:
            self._make(router, number)
        else:
            self._move(router)

    def _move(self, router: Router) -> None:
        """A range of one shard's keys to the other, and back."""
        for key in range(WANDERING, WANDERING + MOVED, 7):
            change = {"q": {"_id": key}, "u": {"$inc": {"n": 1}}}
            router.write(key, {"update": ORDERS, "updates": [change]})
        there = router.owner(WANDERING).shard
        move(router, ORDERS, WANDERING, WANDERING + MOVED, next(s for s in SHARDS if s != there))
        self.moves += 1

    def _make(self, router: Router, number: int) -> None:
        """A new collection on both shards."""
        name = f"made{number}"
        create_collection(router, name)
        insert(router, 1, name, of=number)
        move(router, name, 1000, 2000, SHARDS[1])
        insert(router, 1001, name, of=number)
        self.made.append(name)


def newest(cluster: Cluster) -> Timestamp:
    """The newest cluster time of any member."""
    router = cluster.router()
    ends = [
        router.on(name, "admin", {"ping": 1})["$clusterTime"]["clusterTime"] for name in (CONFIG, *SHARDS)
    ]
    router.close()
    found: Timestamp = max(ends)
    return found


def torn(cluster: Cluster, since: Timestamp) -> list[tuple[Timestamp, Timestamp, Timestamp]]:
    """Transactions on both shards: the commit timestamp, and where the first and last commit entry stand."""
    router = cluster.router()
    found: dict[tuple[bytes, int], list[tuple[Timestamp, Timestamp]]] = {}
    for shard in SHARDS:
        wanted = {"ts": {"$gt": since}, "o.commitTransaction": 1}
        for entry in router.find(shard, "local", "oplog.rs", wanted):
            key = bytes(entry["lsid"]["id"]), int(entry["txnNumber"])
            found.setdefault(key, []).append((entry["o"]["commitTimestamp"], entry["ts"]))
    router.close()
    both = [both for both in found.values() if len(both) == len(SHARDS)]
    assert all(one[0][0] == one[1][0] for one in both), "one commit timestamp on all shards"
    spans = sorted((one[0][0], min(e for _, e in one), max(e for _, e in one)) for one in both)
    return [span for span in spans if span[0] < span[1] < span[2]]


def ending(cluster: Cluster, since: Timestamp) -> list[Timestamp]:
    """Cluster times at which a migration of the orders was not over.

    The shard that gets the chunk has been told, and the one that gave it has not noted that yet.
    """
    router = cluster.router()
    begun, told = [], []
    for shard in SHARDS:
        made = {"ts": {"$gt": since}, "op": "i", "ns": "config.migrationCoordinators"}
        begun += [entry["o"] for entry in router.find(shard, "local", "oplog.rs", made)]
        noted = {"ts": {"$gt": since}, "ns": "admin.system.version", "o2._id": "migrationCoordinatorStats"}
        told += router.find(shard, "local", "oplog.rs", noted)
    router.close()
    own = {(bytes(m["lsid"]["id"]), m["txnNumber"] + 1) for m in begun if m["nss"] == f"{DATABASE}.{ORDERS}"}
    found = sorted(entry["ts"] for entry in told if (bytes(entry["lsid"]["id"]), entry["txnNumber"]) in own)
    return [Timestamp(at.time, at.inc + 1) for at in found]


def moved(cluster: Cluster, since: Timestamp) -> list[Timestamp]:
    """The places in the config server's oplog where the routing table changed."""
    router = cluster.router()
    where = [{"ns": "config.chunks"}, {"o.applyOps.ns": "config.chunks"}]
    found = router.find(CONFIG, "local", "oplog.rs", {"ts": {"$gt": since}, "$or": where})
    router.close()
    return [entry["ts"] for entry in found]
