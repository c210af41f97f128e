"""Helpers of the tests of MongoDB's recoveries: positions in oplogs, and clones to look into."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bson.timestamp import Timestamp

from tests.lab.mongo_fixture import ADMIN, ADMIN_PASSWORD, Client, MongoServer, connect, start_single
from tests.lab.pool import Pool
from tests.lab.server_user import give_away
from tests.system.mongo_house import MongoHouse, build
from tests.unit.docs.typed import typed

REPLICA_SET = "orders"

# Made by every server for itself, whenever it runs.
OWN_COLLECTIONS = ("config.system.sessions",)


@contextmanager
def mongo_house(pool: Pool, **more: Any) -> Iterator[MongoHouse]:
    """A set of one member whose journal is on a dataset of its own, within that of the data."""
    settings = build(pool, pool.home, replica_set=REPLICA_SET, **more)
    journal = pool.log.mountpoint / "journal"
    for directory in (settings.datadir, journal):
        directory.mkdir()
    (settings.datadir / "journal").symlink_to(journal)
    give_away(journal)
    server = start_single(settings)
    with server:
        yield MongoHouse(pool, pool.home, server, (pool.data.name,))


def newest(server: MongoServer) -> Timestamp:
    """The place of the newest entry of a server's oplog."""
    with server.client() as client:
        found = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])
    assert found is not None
    place: Timestamp = found["ts"]
    return place


def behind(place: Timestamp) -> str:
    """The cluster time before which the entry there is the last that may be."""
    return f"{place.time},{place.inc + 1}"


def at(place: Timestamp) -> str:
    """A place as --to-timestamp takes it."""
    return f"{place.time},{place.inc}"


def opened(report: Mapping[str, Any], *, login: bool = True) -> Client:
    """A client of a recovered server, as the administrator the original had."""
    who = {"username": ADMIN, "password": ADMIN_PASSWORD} if login else {}
    return connect(Path(report["socket"]), **who)


def hashes(client: Client, *, without: str = "") -> dict[str, str]:
    """dbHash by database.collection of all that recovers, the server's own databases included.

    A database with prepared transactions is left out as `without`: dbHash would wait for their end.
    """
    found: dict[str, str] = {}
    for name in client.list_database_names():
        if name not in ("local", without):
            of_one = client[name].command("dbHash")["collections"]
            found |= {f"{name}.{collection}": value for collection, value in of_one.items()}
    return {name: value for name, value in found.items() if name not in OWN_COLLECTIONS}


def restore_to(house: MongoHouse, stamp: str, name: str, *words: str) -> dict[str, Any]:
    """Restore to a cluster time; returns the report's JSON."""
    here = {"docs": "shop", "1795240185,7": stamp, "before-drop": name}
    page = typed("point-in-time-recovery-mongodb.md", "zbackup restore docs --to-timestamp", here)
    report: dict[str, Any] = house.zb(*page, "--json", *words).data
    return report
