"""Dev clones of a mongod that is a member of a set and asks for logins."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure

from tests.lab.mongo_fixture import ADMIN, ADMIN_PASSWORD, APP_PASSWORD, APP_USER, Client
from tests.lab.pool import Pool
from tests.system.clone_story import ADMIN as CLONE_ADMIN
from tests.system.clone_story import FIRST, LAST, create
from tests.system.conftest import end_clones
from tests.system.house import next_second, now
from tests.system.member_story import join_by_the_steps
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import hashes, mongo_house
from tests.unit.docs.typed import typed

PEOPLE = [{"_id": n, "name": f"Customer {n}", "email": f"c{n}@example.com"} for n in range(2000)]
MASK = """
import os
from urllib.parse import quote
import pymongo
where = quote(os.environ["ZBACKUP_SOCKET"], safe="")
email = {"$concat": [{"$toString": "$_id"}, "@x"]}
with pymongo.MongoClient(f"mongodb://{where}/?directConnection=true") as client:
    client.shop.people.update_many({}, [{"$set": {"name": "nobody", "email": email}}])
"""


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with mongo_house(pool) as house:
        with house.server.client() as client:
            client.shop.people.insert_many(PEOPLE)
        house.snapshot()
        yield house
        end_clones(house)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def dev1(house: MongoHouse) -> dict[str, Any]:
    """A clone, as it was made."""
    (made,) = create(house, "--name", "dev1")
    return made


def opened(made: dict[str, Any]) -> Client:
    """A client of a clone with its own password."""
    password = Path(made["password_file"]).read_text().strip()
    return connected(made, CLONE_ADMIN, password)


def connected(made: dict[str, Any], user: str, password: str) -> Client:
    login = {"username": user, "password": password, "authSource": "admin"} if user else {}
    return pymongo.MongoClient("127.0.0.1", made["port"], directConnection=True, **login)


def test_a_clone_has_all_there_was_and_is_nobody_s_member(house: MongoHouse, dev1: dict[str, Any]) -> None:
    """The newest writes are in the oplog only, when a member's files are snapshotted."""
    with house.server.client() as client:
        before = hashes(client)
    assert (dev1["user"], dev1["running"]) == (CLONE_ADMIN, True) and FIRST <= dev1["port"] <= LAST
    with pymongo.MongoClient(house.zb("clone", "dsn", "dev1", "--json").data["dsn"]) as clone:
        found = hashes(clone)
        assert {n: h for n, h in found.items() if n.startswith("shop.")} == {
            n: h for n, h in before.items() if n.startswith("shop.")
        }
        assert clone.shop.people.count_documents({}) == len(PEOPLE)
        hello = clone.admin.command("hello")
        assert hello["isWritablePrimary"] and "setName" not in hello
        clone.shop.people.delete_many({})
    with house.server.client() as client:
        assert client.shop.people.count_documents({}) == len(PEOPLE)


def test_production_s_passwords_do_not_open_it_and_its_own_does(
    house: MongoHouse, dev1: dict[str, Any]
) -> None:
    password = Path(dev1["password_file"]).read_text().strip()
    for user, old in ((ADMIN, ADMIN_PASSWORD), (APP_USER, APP_PASSWORD), ("", "")):
        with connected(dev1, user, old) as client, pytest.raises(OperationFailure):
            client.shop.people.find_one()
    with connected(dev1, APP_USER, password) as client:
        assert client.shop.people.find_one() is None
        with pytest.raises(OperationFailure):
            client.admin.command("createUser", "x", pwd="y", roles=["root"])
    assert house.zb("clone", "stop", "dev1", "--json").data["running"] is False
    assert house.zb("clone", "start", "dev1", "--json").data["running"] is True
    with opened(dev1) as client:
        assert client.shop.people.count_documents({}) == 0


def test_reset_it_has_its_data_again_and_the_same_password(house: MongoHouse, dev1: dict[str, Any]) -> None:
    before = Path(dev1["password_file"]).read_text()
    back = house.zb("clone", "reset", "dev1", "--json").data
    assert (back["state"], back["running"], back["port"]) == ("ready", True, dev1["port"])
    assert Path(back["password_file"]).read_text() == before
    with opened(back) as client:
        assert client.shop.people.count_documents({}) == len(PEOPLE)
    house.destroy("dev1")


def test_of_a_moment_and_masked(house: MongoHouse) -> None:
    moment = now()
    with house.server.client() as client:
        client.shop.people.delete_many({"_id": {"$gte": 1000}})
    program = house.home / "mask.py"
    program.write_text(MASK)
    masking = {"mask": [{"run": [sys.executable, str(program)]}]}
    config = house.configure("masking", clones=masking)
    (made,) = create(house, "--name", "before", "--at", moment.isoformat(), config=config)
    assert made["masked"]
    with opened(made) as clone:
        assert clone.shop.people.count_documents({}) == len(PEOPLE)
        assert clone.shop.people.distinct("name") == ["nobody"]
        assert clone.shop.people.count_documents({"email": {"$regex": "example"}}) == 0
    house.destroy("before")
    with house.server.client() as client:
        assert client.shop.people.count_documents({"name": "nobody"}) == 0


def test_a_member_made_by_the_printed_steps_needs_no_initial_sync(house: MongoHouse) -> None:
    """The journal is a link, which must not lead to production's."""
    assert join_by_the_steps(house, house.server)[0] == "mongod"


def test_a_collection_comes_back_out_of_a_restored_server(house: MongoHouse) -> None:
    """Dropped, then with documents gone and changed; by an account that the clone does not know."""
    with house.server.client() as client:
        orders = client.shop.orders
        orders.insert_many({"_id": n, "state": "paid"} for n in range(3000))
        orders.create_index("state")
        client.shop.command({"collMod": "orders", "validator": {"state": {"$type": "string"}}})
        house.snapshot()
        wanted = hashes(client)["shop.orders"]
        moment = next_second()
        time.sleep(1.1)
        orders.drop()
        house.restore(moment, "good")
        roles = [{"role": role, "db": "shop"} for role in ("readWrite", "dbAdmin")]
        client.admin.command({"createUser": "copier", "pwd": "copy-secret", "roles": roles})
        secret = house.home / "copy-password"
        secret.write_text("copy-secret")
        secret.chmod(0o600)
        copies = house.configure("copies", copy_back={"user": "copier", "password": {"file": str(secret)}})
        assert "createUser" in house.zb("copy", "good", "shop.orders", "-q").refused(9)
        words = ("copy", "good", "shop.orders", "--json")
        (done,) = house.zb(*words, config=copies).data["tables"]
        assert (done["action"], done["inserted"], done["verified"]) == ("new", 3000, True)
        assert hashes(client)["shop.orders"] == wanted
        assert orders.options()["validator"] and "state_1" in orders.index_information()
        orders.delete_many({"_id": {"$mod": [7, 0]}})
        orders.update_many({"_id": {"$mod": [7, 1]}}, {"$set": {"state": "wrong"}})
        (done,) = house.zb(*words, "--missing", "--changed", "--yes", config=copies).data["tables"]
        assert (done["inserted"], done["updated"]) == (429, 429)
        assert hashes(client)["shop.orders"] == wanted
        house.destroy("good")
        words = typed("restore-a-dropped-table.md", "zbackup restore shop --before-drop")
        again = house.zb(*words, "--yes", "--name", "again", "--json", config=copies)
        assert again.data["copied"]["tables"][0]["into"] == "shop.orders_restored"
        seen = "shop.orders is there; one transaction later it is gone"
        assert again.data["proof"] == {"proved": True, "seen": seen}
        assert hashes(client)["shop.orders_restored"] == wanted
        _one_transaction_is_taken_back(house, client, copies)
    assert "again" not in [c["name"] for c in house.zb("clone", "list", "--json").data]


def _one_transaction_is_taken_back(house: MongoHouse, client: Client, copies: Path) -> None:
    """Whose documents a clone tells, and again where the collection keeps pre-images."""
    orders = client.shop.orders
    wanted = hashes(client)["shop.orders"]
    for kept in (False, True):
        client.shop.command({"collMod": "orders", "changeStreamPreAndPostImages": {"enabled": kept}})
        with client.start_session() as session, session.start_transaction():
            orders.update_many({"_id": {"$lt": 20}}, {"$set": {"state": "wrong"}}, session=session)
            orders.delete_many({"_id": {"$gte": 2000}}, session=session)
            orders.insert_one({"_id": "new", "state": "wrong"}, session=session)
        orders.update_one({"_id": 13}, {"$set": {"state": "right"}})
        words = typed("undo-a-transaction.md", "zbackup log docs", {"docs": "shop"})
        *_, entry = house.log(*words[1:])[0]
        rows = house.zb("log", "--rows", entry["start"]).out.splitlines()
        assert len(rows) == entry["events"] and '"op": "i"' in rows[-1] and '"_id": "new"' in rows[-1]
        wrong = hashes(client)["shop.orders"]
        here = {"docs": "shop", "1714557720,3": entry["start"]}
        if kept:  # without, a server is restored each time
            dry = typed("undo-a-transaction.md", "zbackup undo 1714557720,3 docs --dry-run", here)
            shown = house.zb(*dry, "--json", config=copies)
            assert shown.rc == 17 and "EJSON.parse" in shown.out and hashes(client)["shop.orders"] == wrong
        words = (*typed("undo-a-transaction.md", "zbackup undo 1714557720,3 docs", here), "--json")
        done = house.zb(*words, "--yes", config=copies)
        assert done.rc == 17 and "_id=13: changed since" in done.err
        assert ("a server is restored to just before it" in done.err) is not kept
        # What was done comes first, and then the error.
        (table,) = json.JSONDecoder().raw_decode(done.out)[0]["data"]["tables"]
        assert [table[k] for k in ("updated", "inserted", "deleted", "refused")] == [19, 1000, 1, 1]
        orders.update_one({"_id": 13}, {"$set": {"state": "wrong" if kept else "paid"}})
        if kept:
            (table,) = house.zb(*words, "--yes", config=copies).data["tables"]
            assert (table["updated"], table["already"], table["refused"]) == (1, 1020, 0)
        assert hashes(client)["shop.orders"] == wanted
        assert house.zb("clone", "list", "--json").data == []
