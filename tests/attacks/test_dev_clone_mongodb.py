"""A developer attacks from his clone of MongoDB."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymongo
import pytest
from pymongo.errors import OperationFailure, PyMongoError

from tests.attacks.dev_clone_story import require_confined
from tests.lab.mongo_fixture import ADMIN, APP_USER, Client
from tests.lab.pool import Pool
from tests.system.clone_story import create
from tests.system.conftest import end_clones
from tests.system.forked import forks
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import mongo_house

UNAUTHORIZED = 13


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with mongo_house(pool) as house, forks(house.home) as house.forks:
        with house.server.client() as client:
            client.shop.people.insert_many([{"_id": n} for n in range(10)])
        house.snapshot()
        yield house
        end_clones(house)  # type: ignore[arg-type]


def client_of(made: dict[str, Any], user: str) -> Client:
    password = Path(made["password_file"]).read_text().strip()
    login = {"username": user, "password": password, "authSource": "admin"}
    return pymongo.MongoClient("127.0.0.1", made["port"], directConnection=True, **login)


def refused(attempt: Callable[[], object]) -> bool:
    """Whether the server says that one may not."""
    try:
        attempt()
    except OperationFailure as failure:
        return failure.code == UNAUTHORIZED
    return False


def attempts(client: Client) -> dict[str, Callable[[], object]]:
    admin = client.admin
    root = [{"role": "root", "db": "admin"}]
    users = {"db": "admin", "coll": "system.users"}
    return {
        "shutdown": lambda: admin.command("shutdown", force=True),
        "logRotate": lambda: admin.command("logRotate", 1),
        "setParameter": lambda: admin.command("setParameter", 1, logLevel=1),
        "replSetInitiate": lambda: admin.command("replSetInitiate", {"_id": "x", "members": []}),
        "replSetReconfig": lambda: admin.command("replSetReconfig", {"_id": "x", "members": []}),
        "fsync": lambda: admin.command("fsync", 1, lock=True),
        "root": lambda: admin.command("createUser", "evil", pwd="x", roles=root),
        "grant": lambda: admin.command("grantRolesToUser", "zbackup_clone", roles=root),
        "update": lambda: admin.command("updateUser", ADMIN, roles=root),
        "from shop": lambda: client.shop.command("createUser", "evil", pwd="x", roles=root),
        "role": lambda: admin.command("createRole", "evil", privileges=[], roles=root),
        "users": lambda: admin["system.users"].insert_one({"_id": "admin.evil"}),
        "rename": lambda: admin.command("renameCollection", "admin.x", to="admin.system.users"),
        "out": lambda: list(client.shop.people.aggregate([{"$out": users}])),
        "local": lambda: client.local["startup_log"].delete_many({}),
    }


def test_the_developers_account_has_what_it_needs_and_no_more(house: MongoHouse) -> None:
    (made,) = create(house, "--name", "dev")
    with client_of(made, "zbackup_clone") as client:
        client.shop.people.insert_one({"_id": 100})
        client.shop.people.create_index("x")
        client.shop.command("collMod", "people", validationLevel="off")
        client.shop.people.rename("persons")
        client.mine.t.insert_one({"_id": 1})
        assert {"shop", "mine"} <= set(client.list_database_names())
        client.admin.command("serverStatus")
        client.shop.command("createUser", "colleague", pwd="x", roles=["readWrite"])
        client.drop_database("shop")
    for user in ("zbackup_clone", ADMIN):
        with client_of(made, user) as client:
            allowed = [name for name, attempt in attempts(client).items() if not refused(attempt)]
            assert allowed == [], user
    with client_of(made, APP_USER) as client:
        assert client.shop.people.find_one() is None
    require_confined(house, "dev")  # type: ignore[arg-type]
    house.destroy("dev")


def test_the_full_account_reaches_nothing_of_the_host_s(house: MongoHouse) -> None:
    (made,) = create(house, "--name", "own", "--own-root")
    with client_of(made, "zbackup_clone") as client:
        client.admin.command("setParameter", 1, logLevel=0)
        with pytest.raises(PyMongoError):
            client.admin.command("replSetInitiate", {"_id": "x", "members": []})
    require_confined(house, "own")  # type: ignore[arg-type]
    status = Path("/proc", (house.home / "run" / "own.process").read_text().split()[0], "status")
    assert "Seccomp:\t2" in status.read_text(), "it can call nobody"
    house.destroy("own")
