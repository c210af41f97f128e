"""Tells the worlds of a mongod, and takes the picture by which it is compared with a recovered one."""

from collections.abc import Sequence
from typing import Any

from pymongo.errors import PyMongoError

from tests.lab.mongo_fixture import MongoServer
from tests.odd.mongo_worlds import MONGO_WORLDS
from tests.odd.worlds import LAST, Stage

UNSEEN = {"uuid", "info"}


class MongoTelling:
    """The worlds `names` of one server."""

    def __init__(self, server: MongoServer, names: Sequence[str]) -> None:
        self._server, self._names = server, names
        self._kept: dict[str, dict[str, Any]] = {name: {} for name in names}

    def stage(self, number: int) -> None:
        """Tell a stage of all worlds."""
        if not self._names:
            return
        with self._server.client() as client:
            for name in self._names:
                stage = Stage(
                    number=number,
                    session=client,
                    server=self._server,
                    outside=self._server.settings.run_dir,
                    kept=self._kept[name],
                )
                try:
                    for act in MONGO_WORLDS[name].acts(number):
                        assert callable(act)
                        act(stage)
                except PyMongoError as failed:
                    if number != LAST:
                        raise AssertionError(f"{name}, stage {number}: {failed}") from failed

    def picture(self) -> dict[str, Any]:
        """What the worlds have made of the server by now."""
        if not self._names:
            return {}
        with self._server.client() as client:
            return picture(client)


def picture(client: Any) -> dict[str, Any]:
    """Contents and definitions of the worlds' databases, and accounts there."""
    found: dict[str, Any] = {}
    for name in sorted(client.list_database_names()):
        if not name.startswith("w_"):
            continue
        db = client[name]
        found |= {f"{name}.{c}": value for c, value in db.command("dbHash")["collections"].items()}
        for each in db.list_collections():
            if each["name"] == "system.profile":
                continue
            options = {key: value for key, value in each.items() if key not in UNSEEN}
            found[f"{name}.{each['name']} is"] = repr(options)
            if each["type"] == "collection":
                indexes = db[each["name"]].list_indexes()
                found[f"{name}.{each['name']} has"] = sorted(repr(dict(index)) for index in indexes)
        users = db.command("usersInfo", 1)["users"]
        found[f"{name} users"] = sorted(repr({k: v for k, v in u.items() if k != "userId"}) for u in users)
        found[f"{name} roles"] = sorted(repr(r) for r in db.command("rolesInfo", 1)["roles"])
    return found
