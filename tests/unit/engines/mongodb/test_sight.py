"""What a recovered mongod has of a collection, and what the next entry of the oplog takes of it."""

from typing import Any, cast
from uuid import UUID

import pytest
from bson.binary import Binary

from zbackup.engines.mongodb.recovery.recover import look
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.proof import ProofSubject, Sight
from zbackup.model.table_name import TableName
from zbackup.plan.recovery.proof import judge

MINE, OTHER = UUID(int=1), UUID(int=2)
ORDERS = TableName("shop", "fs.orders")
DROP, EMPTIED = ProofSubject(kind="drop", table=ORDERS), ProofSubject(kind="truncate", table=ORDERS)


class Server:
    """Has collections with their UUIDs, and documents in those that are `full`. It tells one at a time."""

    def __init__(self, found: dict[str, UUID | None], full: tuple[str, ...] = ()) -> None:
        self.found, self.full = found, full

    def run(self, database: str, command: dict[str, Any]) -> dict[str, Any]:
        assert database == "shop"
        if "listCollections" in command:
            wanted = command["filter"]["name"]["$in"] if "filter" in command else [*self.found]
            self.left = [name for name in self.found if name in wanted]
        rows = [
            {"name": name, "info": {"uuid": uuid} if (uuid := self.found[name]) else {}}
            for name in self.left[:1]
        ]
        self.left = self.left[1:]
        return {"cursor": {"id": len(self.left), "firstBatch": rows, "nextBatch": rows}}

    def find(self, collection: tuple[str, str], _: object) -> list[object]:
        return [{}] if collection[1] in self.full else []


def seen(server: Server, subject: ProofSubject, following: dict[str, Any] | None) -> tuple[Sight, ...]:
    return look(cast(Connection, server), subject, following)


def command(uuid: UUID, **content: object) -> dict[str, Any]:
    return {"op": "c", "ns": "shop.$cmd", "ui": Binary.from_uuid(uuid), "o": content}


@pytest.mark.parametrize(
    ("following", "result"),
    [
        (command(MINE, drop="fs.orders"), "proved"),
        (command(OTHER, drop="fs.orders"), "remains"),
        (command(OTHER, renameCollection="shop.a", to="shop.fs.orders", dropTarget=MINE), "proved"),
        (command(MINE, create="fs.orders"), "open"),
        ({"op": "i", "ns": "shop.fs.orders", "ui": MINE, "o": {"drop": 1}}, "open"),
        (None, "open"),
    ],
)
def test_an_entry_names_what_it_drops_by_its_uuid(following: dict[str, Any] | None, result: str) -> None:
    sights = seen(Server({"fs.orders": MINE, "other": OTHER}), DROP, following)
    assert judge(DROP, sights).result == result


def test_what_is_not_there_is_told_before_anything_else() -> None:
    sights = seen(Server({"other": OTHER}), DROP, command(MINE, drop="fs.orders"))
    assert judge(DROP, sights).result == "absent"


def test_a_time_series_is_in_its_buckets() -> None:
    server = Server({"fs.orders": None, "system.buckets.fs.orders": MINE})
    assert judge(DROP, seen(server, DROP, command(MINE, drop="system.buckets.fs.orders"))).result == "proved"


def test_what_is_emptied_had_documents() -> None:
    following = command(MINE, emptycapped="fs.orders")
    assert judge(EMPTIED, seen(Server({"fs.orders": MINE}), EMPTIED, following)).result == "absent"
    full = Server({"fs.orders": MINE}, full=("fs.orders",))
    assert judge(EMPTIED, seen(full, EMPTIED, following)).result == "proved"


def test_all_of_a_database_is_seen() -> None:
    subject = ProofSubject(kind="drop", table=TableName("shop", "*"))
    sights = seen(Server({"a": MINE, "b": OTHER}), subject, command(OTHER, drop="b"))
    assert judge(subject, sights).text == "shop.* is there; one transaction later it is gone (1 table)"
