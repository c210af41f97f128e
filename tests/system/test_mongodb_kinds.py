"""Entries of all kinds that a mongod can write into its oplog, replayed: the clone is what the server was, by
dbHash.

The lab's mongod takes test commands here, as only so a transaction can be prepared without a sharded cluster,
and an index build be held in the middle.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError

from tests.lab.mongo_fixture import Client, MongoServer, await_primary
from tests.lab.mysql_fixture import free_port
from tests.lab.pool import Pool
from tests.system.conftest import end_clones
from tests.system.house import wait_until
from tests.system.mongo_archive_story import elsewhere
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import at, behind, hashes, mongo_house, newest, opened, restore_to

FLAVOUR = "mongodb-6.0.27"
"""The other tests of recoveries are with 6.0.5."""
HELD = "held"
"""A database of its own for documents of transactions under way, which dbHash would wait for."""
BUILD_HANGS = "hangAfterStartingIndexBuild"
SESSIONS = "config.transactions"
"""mongod's notes on sessions. The first entries of a transaction of several show there already, and what is
noted of one that is prepared is not kept."""
YEAR = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class History:
    """`whole` is after everything of the first part, `amidst` is within a transaction of several entries."""

    whole: Timestamp
    whole_hashes: dict[str, str]
    amidst: Timestamp
    amidst_hashes: dict[str, str]
    validated: list[str] = field(default_factory=lambda: ["items", "big", "capped", "clustered"])


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    options = ("--setParameter=enableTestCommands=1",)
    with mongo_house(pool, flavour=FLAVOUR, auth=False, options=options) as house:
        yield house
        end_clones(house)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def history(house: MongoHouse) -> Iterator[History]:
    with house.server.client() as client:
        seed(client)
        never = prepared(client, "never")
        later = prepared(client, "later")
        with building(house.server, client, "items", "n", unique=True):
            house.snapshot(house.configure("none", lock="none"))
        commit(client, later)
        everything(client)
        transactions(client)
        whole, whole_hashes = newest(house.server), hashes(client, without=HELD)
        pending = prepared(client, "pending")
        with building(house.server, client, "items", "twice"):
            client.shop.items.update_one({"_id": 7}, {"$set": {"twice": 700}})
            amidst_hashes = hashes(client, without=HELD)
            large_transaction(client, 100)
            amidst = last_of_chain(client)
        commit(client, pending)
        abort(client, never)
        client.shop.items.insert_one({"_id": "too late", "n": -1})
        yield History(whole=whole, whole_hashes=whole_hashes, amidst=amidst, amidst_hashes=amidst_hashes)


def seed(client: Client) -> None:
    # The cache of the lab is small, and a transaction of two entries takes a good part of it.
    client.admin.command("setParameter", 1, wiredTigerEngineRuntimeConfig="cache_size=1G")
    client.shop.items.insert_many([{"_id": n, "n": n, "twice": 2 * n} for n in range(3000)])
    client.shop.items.create_index("twice", name="to be dropped")
    client.shop.moved.insert_many([{"_id": n} for n in range(100)])
    client.shop.dropped.insert_one({"_id": "of the first one"})
    client.shop.create_collection("again")
    client[HELD].create_collection("documents")


def everything(client: Client) -> None:
    """All but transactions: each in the way an application or its administrator would."""
    shop = client.shop
    shop.items.update_many({"_id": {"$lt": 50}}, {"$inc": {"n": 10_000}})
    shop.items.update_one({"_id": 60}, [{"$set": {"n": {"$add": ["$n", 20_000]}}}])
    shop.items.find_one_and_update({"_id": 61}, {"$push": {"list": {"$each": [3, 1, 2], "$sort": 1}}})
    shop.items.replace_one({"_id": "new"}, {"n": -5}, upsert=True)
    shop.items.delete_many({"_id": {"$gte": 2900, "$lt": 3000}})
    with pytest.raises(DuplicateKeyError):
        shop.items.insert_one({"_id": "twice", "n": 70})
    shop.items.drop_index("to be dropped")
    shop.items.create_index([("n", 1), ("twice", -1)], partialFilterExpression={"n": {"$gt": 5}})
    shop.items.create_index([("$**", "text")], name="words")
    shop.command("collMod", "items", validator={"n": {"$exists": True}}, validationLevel="moderate")
    shop.command("collMod", "items", index={"name": "n_1_twice_-1", "hidden": True})
    shop.create_collection("capped", capped=True, size=4096)
    shop.capped.insert_many([{"_id": n, "x": "y" * 50} for n in range(200)])
    shop.create_collection("measured", timeseries={"timeField": "at", "metaField": "of"})
    shop.measured.insert_many([{"at": YEAR + timedelta(seconds=n), "of": n % 3, "v": n} for n in range(300)])
    shop.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    shop.clustered.insert_many([{"_id": n} for n in range(20)])
    shop.command("create", "cheap", viewOn="items", pipeline=[{"$match": {"n": {"$lt": 100}}}])
    client.admin.command("renameCollection", "shop.moved", to="elsewhere.moved")
    shop.dropped.drop()
    shop.dropped.insert_one({"_id": "of the second one"})
    client.drop_database("elsewhere2")
    shop.again.drop()
    shop.create_collection("again", collation={"locale": "de"})
    shop.expiring.create_index("at", expireAfterSeconds=3600)
    shop.expiring.insert_many([{"_id": n, "at": datetime.now(UTC)} for n in range(10)])
    client.admin.command(
        "createRole",
        "reader of items",
        privileges=[{"resource": {"db": "shop", "collection": "items"}, "actions": ["find"]}],
        roles=[],
    )
    client.admin.command("createUser", "guest", pwd="secret", roles=["reader of items"])
    client.admin.command("createUser", "gone", pwd="secret", roles=[])
    client.admin.command("dropUser", "gone")
    client.shop.items.aggregate([{"$match": {"n": {"$lt": 20}}}, {"$out": "copied"}])


def transactions(client: Client) -> None:
    with client.start_session() as session, session.start_transaction():
        client.shop.items.insert_one({"_id": "in a transaction", "n": -2}, session=session)
        client.shop.items.delete_one({"_id": 100}, session=session)
        client.elsewhere.moved.update_one({"_id": 1}, {"$set": {"x": 1}}, session=session)
    with client.start_session() as session:
        session.start_transaction()
        client.shop.items.insert_one({"_id": "never committed", "n": -3}, session=session)
        session.abort_transaction()
    large_transaction(client, 0)
    commit(client, prepared(client, "both after the backup"))
    abort(client, prepared(client, "aborted"))


def large_transaction(client: Client, begin: int) -> None:
    """More than fits into one oplog entry: 16 MiB."""

    def insert(session: ClientSession) -> None:
        for n in range(begin, begin + 17):
            client.shop.big.insert_one({"_id": n, "x": os.urandom(1_000_000)}, session=session)

    with client.start_session() as session:
        session.with_transaction(insert)


def last_of_chain(client: Client) -> Timestamp:
    """The place of the entry that commits the large transaction, behind the others of its chain."""
    found = list(client.local["oplog.rs"].find({"o.applyOps.ns": "shop.big"}, {"ts": 1, "o.partialTxn": 1}))
    assert len(found) >= 4 and found[-2]["o"]["partialTxn"] and "partialTxn" not in found[-1]["o"]
    place: Timestamp = found[-1]["ts"]
    return place


Prepared = tuple[ClientSession, Timestamp]


def prepared(client: Client, name: str) -> Prepared:
    """A transaction that is prepared, with one document."""
    session = client.start_session()
    session.start_transaction()
    client[HELD].documents.insert_one({"_id": name}, session=session)
    said = client.admin.command("prepareTransaction", session=session)
    return session, said["prepareTimestamp"]


def commit(client: Client, transaction: Prepared) -> None:
    session, place = transaction
    client.admin.command({"commitTransaction": 1, "commitTimestamp": place}, session=session)


def abort(client: Client, transaction: Prepared) -> None:
    client.admin.command("abortTransaction", session=transaction[0])


@contextmanager
def building(server: MongoServer, client: Client, name: str, key: str, **options: Any) -> Iterator[None]:
    """While the body runs, an index build is under way; afterwards it is finished."""

    def build() -> None:
        with server.client() as own:
            own.shop[name].create_index(key, **options)

    client.admin.command("configureFailPoint", BUILD_HANGS, mode="alwaysOn")
    thread = threading.Thread(target=build)
    thread.start()
    try:
        wait_until("an index build", lambda: f"{key}_1" in client.shop[name].index_information(), 60)
        yield
    finally:
        client.admin.command("configureFailPoint", BUILD_HANGS, mode="off")
        thread.join()


def held(client: Client) -> set[str]:
    """Documents of prepared transactions that are there."""
    return {document["_id"] for document in client[HELD].documents.find()}


def test_all_of_it_is_replayed(house: MongoHouse, history: History) -> None:
    report = restore_to(house, behind(history.whole), "whole")
    with opened(report, login=False) as client:
        found = hashes(client, without=HELD)
        assert {name for name, value in found.items() if history.whole_hashes.get(name) != value} == {
            SESSIONS
        }
        assert found.keys() == history.whole_hashes.keys()
        open_ones = {"state": {"$in": ["prepared", "inProgress"]}}
        assert client.config.transactions.count_documents(open_ones) == 0, "one was prepared at the moment"
        assert held(client) == {"later", "both after the backup"}
        assert client.shop.items.index_information()["n_1"]["unique"]
        assert client.shop.expiring.index_information()["at_1"]["expireAfterSeconds"] == 3600
        assert client.shop.again.options()["collation"]["locale"] == "de"
        assert client.shop.measured.count_documents({}) == 300
        assert client.shop.cheap.count_documents({}) > 0
        assert client.admin.command("getParameter", ttlMonitorEnabled=1)["ttlMonitorEnabled"] is False
        warnings = client.admin.command("getLog", "startupWarnings")["log"]
        assert not [line for line in warnings if "replset" in line]
        _rows_expire_once_it_is_told_so(client)
        for name in history.validated:
            assert client.shop.command("validate", name, full=True)["valid"], name
    house.destroy("whole")


def _rows_expire_once_it_is_told_so(client: Client) -> None:
    client.shop.gone.create_index("at", expireAfterSeconds=0)
    client.shop.gone.insert_one({"at": datetime(2020, 1, 1, tzinfo=UTC)})
    client.admin.command({"setParameter": 1, "ttlMonitorEnabled": True, "ttlMonitorSleepSecs": 1})
    wait_until("it expires", lambda: client.shop.gone.count_documents({}) == 0, 90)


def test_nothing_is_visible_of_what_was_under_way_and_a_set_is_restarted_with_it(
    house: MongoHouse, history: History
) -> None:
    """At the target one transaction is prepared, another logged in part, and an index is being built."""
    words = ("--port", str(free_port()), "--as-replica-set", "rescue")
    report = restore_to(house, at(history.amidst), "amidst", *words)
    assert report["recovered"]["last_applied"]["what"] == "part of a transaction on shop.big"
    with opened(report, login=False) as client:
        await_primary(client)
        found = hashes(client, without=HELD)
        assert {n for n, v in found.items() if history.amidst_hashes.get(n) != v} <= {SESSIONS}
        assert history.amidst_hashes.keys() - found.keys() == set()
        assert held(client) == {"later", "both after the backup"}
        assert client.shop.big.count_documents({"_id": {"$gte": 100}}) == 0
        assert client.shop.command("validate", "items", full=True)["valid"]
    for _ in range(2):
        house.zb("clone", "stop", "amidst", "--json").data  # noqa: B018  checks the exit status
        report = house.zb("clone", "start", "amidst", "--json").data
        with opened(report, login=False) as client:
            await_primary(client)
            assert held(client) == {"later", "both after the backup"}
            client[HELD].documents.insert_one({"_id": "anew"})
            client[HELD].documents.delete_one({"_id": "anew"})
    house.destroy("amidst")


def test_all_of_it_comes_back_from_the_archived_oplog_on_another_pool(
    house: MongoHouse, history: History
) -> None:
    """The backup is shipped, and all behind it archived; the replay takes no second server."""
    with elsewhere(house) as away:
        assert house.zb("ship", config=away.config).rc == 0
        done = away.archived()
        assert done["appended"] > 0 and done["gap"] is None, done
        with away.back("--to-timestamp", behind(history.whole)) as client:
            found = hashes(client, without=HELD)
            assert held(client) == {"later", "both after the backup"}
        assert {n for n, v in found.items() if history.whole_hashes.get(n) != v} == {SESSIONS}
        assert found.keys() == history.whole_hashes.keys()
        checked = house.zb("verify", "--at", "there", "--read", "all", "--json", config=away.burnt).data[0]
        assert checked["problems"] == [] and checked["archived_log"]["read"] > 0
