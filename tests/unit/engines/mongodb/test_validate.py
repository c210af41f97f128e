"""Collections that are validated, and what of the answers is damage."""

from collections.abc import Mapping
from typing import Any, cast

from zbackup.engines.mongodb.recovery.recover import validate_collections
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.progress import Silent


class Server:
    """Three databases; the list of collections comes in two parts."""

    def __init__(self) -> None:
        self.validated: list[str] = []

    def command(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"databases": [{"name": "admin"}, {"name": "local"}, {"name": "shop"}]}

    def run(self, database: str, command: Mapping[str, Any], *, limit_s: float = 0) -> dict[str, Any]:
        match next(iter(command)):
            case "listCollections":
                assert command["filter"] == {"type": "collection"}, "a view has nothing to be validated"
                return {"cursor": {"id": 7, "firstBatch": [{"name": "a"}]}}
            case "getMore":
                return {"cursor": {"id": 0, "nextBatch": [{"name": "b"}]}}
        name = f"{database}.{command['validate']}"
        self.validated.append(name)
        return {"valid": name != "shop.b", "errors": ["an index lacks a key"]}


def test_all_but_what_is_the_servers_own() -> None:
    server = Server()
    found = validate_collections(cast(Connection, server), Silent())
    assert server.validated == ["admin.a", "admin.b", "shop.a", "shop.b"]
    assert (found.tables, found.damaged) == (4, ("shop.b: an index lacks a key",))


def test_people_see_how_far_it_is() -> None:
    seen: list[tuple[int, int, str]] = []

    class Watching(Silent):
        def advance(self, done: int, total: int, unit: str = "B") -> None:
            seen.append((done, total, unit))

    validate_collections(cast(Connection, Server()), Watching())
    assert seen == [(number, 4, "collections") for number in range(5)]
