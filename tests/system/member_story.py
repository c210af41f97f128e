"""A new member of a MongoDB set, made of a backup by the steps that zbackup prints."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymongo
from pymongo.errors import PyMongoError

from tests.lab.mongo_fixture import ADMIN, ADMIN_PASSWORD, Client, MongoServer, free_port
from tests.lab.pool import run
from tests.lab.server_user import as_server_user
from tests.system.house import wait_until
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import hashes
from tests.unit.docs.typed import typed
from zbackup.proc.detached import Process

HOST = "127.0.0.1"


def join_by_the_steps(house: MongoHouse, primary: MongoServer) -> list[str]:
    """Do all that is printed; returns what mongod was started with, the program first.

    What was written before the steps and what is written afterwards has to be there, without an initial
    sync. In the end nothing is left of it.
    """
    before = house.names()
    port = free_port()
    words = typed("dev-clones.md", "zbackup clone create carts --as-replica-of", {"carts": "shop"})
    steps = house.zb(*words, "--json").data["steps"]
    assert house.names() == before
    cloned, linked, (started,), (added,), _, destroyed = (
        [c.replace("PORT", str(port)).replace("HOST", HOST) for c in step["run"]] for step in steps
    )
    for command in (*cloned, *linked):
        run("sh", "-c", command)
    words = shlex.split(started)
    try:
        run(*as_server_user(), str(house.server.settings.program), *words[1:])
        mongod = Process.of(int(Path(words[words.index("--pidfilepath") + 1]).read_text()))
        assert mongod
        try:
            _require_it_follows(house, primary, port, added)
        finally:
            mongod.kill(60)
    finally:
        for command in destroyed:
            run("sh", "-c", command)
    assert house.names() == before
    return words


def _require_it_follows(house: MongoHouse, primary: MongoServer, port: int, added: str) -> None:
    login = {"username": ADMIN, "password": ADMIN_PASSWORD, **house.server.settings.client}
    joined: Client = pymongo.MongoClient(HOST, port, directConnection=True, **login)
    with primary.client() as there, joined:
        there.shop.people.insert_one({"_id": "before"})
        _set_members(there, lambda others: [*others, {"_id": len(others), **_document_of(added)}])
        there.shop.people.insert_one({"_id": "afterwards"})
        wait_until("it has both", lambda: _has(joined, "before", "afterwards"), 120)
        assert {n: h for n, h in hashes(joined).items() if n.startswith("shop.")} == {
            n: h for n, h in hashes(there).items() if n.startswith("shop.")
        }
        hello = joined.admin.command("hello")
        assert hello["secondary"] and hello["hidden"]
        syncs = joined.admin.command("serverStatus")["metrics"]["repl"]["initialSync"]
        assert [syncs[key] for key in ("completed", "failedAttempts", "failures")] == [0, 0, 0]
        _set_members(there, lambda members: members[:-1])
        there.shop.people.delete_many({"_id": {"$in": ["before", "afterwards"]}})


def _document_of(added: str) -> dict[str, Any]:
    """What mongosh is told to add, which writes JSON with other quotes."""
    inner = added.removeprefix("rs.add(").removesuffix(")").replace("'", '"')
    found: dict[str, Any] = json.loads(re.sub(r"(\w+): ", r'"\1": ', inner))
    return found


def _set_members(primary: Client, change: Callable[[list[Any]], list[Any]]) -> None:
    """As rs.add() and rs.remove() do it."""
    config = primary.admin.command("replSetGetConfig")["config"]
    news = {"version": config["version"] + 1, "members": change(config["members"])}
    primary.admin.command("replSetReconfig", config | news)


def _has(joined: Client, *ids: str) -> bool:
    """Whether a member has these people; none has that does not answer yet."""
    try:
        return joined.shop.people.count_documents({"_id": {"$in": ids}}) == len(ids)
    except PyMongoError:
        return False
