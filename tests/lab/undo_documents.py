"""Transactions of an oplog that are taken back, between real servers: part of selftest_copy_mongo."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import bson
import pytest
from pymongo import WriteConcern

from tests.lab.mongo_fixture import Client
from zbackup.engines.mongodb.server.connection import PrivilegeMissing
from zbackup.features.undo.mongodb.session import MongoUndo, MongoUndoer
from zbackup.features.undo.undoing import ImagesIncomplete, UndoneTable, UndoWish
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.log import ClusterTime
from zbackup.model.progress import Silent
from zbackup.model.recovery import Entrance

SETS = {"$set": {"a.b": 9, "list.2": "x", "new": {"z": 1, "y": 2}}, "$unset": {"gone": 1}}


class TestUndoDocuments:
    """Each transaction is made in production, and taken back there; a secondary follows."""

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def nothing_left(cls, rig: Any) -> Iterator[None]:
        """Others copy the whole database."""
        yield
        rig.forget()
        with rig.clone.client() as client:
            client.shop.drop_collection("kinds")
            client.shop.drop_collection("other")

    @pytest.mark.parametrize("images", [False, True], ids=["clone", "pre-images"])
    def test_documents_are_what_they_were(self, rig: Any, images: bool) -> None:
        before = _anew(rig, images=images)
        at = _transaction(rig, _all_kinds)
        assert rig.hashes(rig.production) != before
        if not images:
            with pytest.raises(ImagesIncomplete, match="keeps no pre-images"):
                _undo(rig, at)
        with _session(rig, at, clone=not images) as session:
            plan = session.plan()
            assert [line for table in plan.tables for line in table.conflicts] == []
            shown = list(session.statements())
            assert len(shown) == plan.changes and shown[0].startswith('db.getSiblingDB("shop").runCommand(')
            done = {str(t.table): t for t in session.act()}
        kinds = done["shop.kinds"]
        assert (kinds.inserted, kinds.updated, kinds.deleted) == (5, 6, 2)
        assert done["shop.other"].updated == 1
        assert rig.hashes(rig.production) == before
        _wait_for_secondary(rig)
        assert rig.hashes(rig.secondary) == before
        again = {str(t.table): t for t in _undo(rig, at, clone=not images, anew=True)}
        assert (again["shop.kinds"].changes, again["shop.kinds"].already) == (0, 13)

    @pytest.mark.parametrize("images", [False, True], ids=["clone", "pre-images"])
    def test_what_was_changed_since_is_left_alone_and_named(self, rig: Any, images: bool) -> None:
        _anew(rig, images=images)
        at = _transaction(rig, _all_kinds)
        with rig.production.client() as client:
            kinds = client.shop.kinds
            kinds.update_one({"_id": 1}, {"$set": {"since": 1}})
            kinds.insert_one({"_id": 10, "other": 1})
            kinds.delete_one({"_id": 2})
            kinds.update_one({"_id": "new"}, {"$set": {"since": 1}})
        first, *_ = _undo(rig, at, clone=not images)
        assert (first.inserted, first.updated, first.deleted, first.refused) == (4, 4, 1, 4)
        assert sorted(first.conflicts) == [
            'shop.kinds _id="new": changed since',
            "shop.kinds _id=10: inserted again since",
            "shop.kinds _id=1: changed since",
            "shop.kinds _id=2: deleted since",
        ]

    def test_what_production_does_not_take_is_a_conflict_and_the_rest_is_back(self, rig: Any) -> None:
        _anew(rig, images=True)
        with rig.production.client() as client:
            client.shop.kinds.create_index("u", unique=True, sparse=True)
            client.shop.kinds.insert_one({"_id": "first", "u": 1})
        at = _transaction(
            rig, lambda c, s: c.shop.kinds.delete_many({"_id": {"$in": ["first", 3]}}, session=s)
        )
        with rig.production.client() as client:
            client.shop.kinds.insert_one({"_id": "second", "u": 1})
        (done,) = _undo(rig, at)
        assert (done.inserted, done.refused) == (1, 1) and "duplicate key" in done.conflicts[0]

    def test_a_single_write_and_a_large_transaction(self, rig: Any) -> None:
        before = _anew(rig, images=True)
        with rig.production.client() as client:
            client.shop.kinds.update_one({"_id": 1}, {"$inc": {"n": 1}})
            at = _last(client)
        assert _undo(rig, at)[0].updated == 1
        at = _transaction(
            rig,
            lambda c, s: c.shop.kinds.insert_many(
                [{"_id": 1000 + n, "t": "x" * 9_000_000} for n in range(3)], session=s
            ),
        )
        (done,) = _undo(rig, at)
        assert (done.deleted, done.left) == (3, 0)
        assert rig.hashes(rig.production) == before

    def test_what_cannot_be_taken_back_is_refused_by_name(self, rig: Any) -> None:
        _anew(rig, images=True)
        with rig.production.client() as client:
            shop = client.shop
            shop.create_collection("series", timeseries={"timeField": "t"})
            shop.series.insert_one({"t": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)})
            with pytest.raises(Refused, match=r"shop\.series is a time series"):
                _undo(rig, _last(client))
            shop.kinds.create_index("n")
            with pytest.raises(Refused, match="no change of documents, but commitIndexBuild"):
                _undo(rig, _last(client, "c"))
            shop.other.insert_one({"_id": "x"})
            at = _last(client)
            shop.other.drop()
            with pytest.raises(Refused, match=r"shop\.other is not in production any more"):
                _undo(rig, at)
            shop.other.insert_one({"_id": "x"})
            with pytest.raises(Refused, match=r"shop\.other is another collection than then"):
                _undo(rig, at)
            with pytest.raises(NotRecoverable, match="no entry at 5,1 is in the oplog"):
                _undo(rig, ClusterTime(5, 1))
            client.admin.command({"createRole": "kept", "roles": [], "privileges": _without_remove()})
            (user,) = client.admin.command({"usersInfo": "copier"})["users"]
            client.admin.command({"updateUser": "copier", "roles": ["kept"]})
            shop.kinds.insert_one({"_id": "y"})
            with pytest.raises(PrivilegeMissing, match="may not delete the documents"):
                _undo(rig, _last(client))
            client.admin.command({"updateUser": "copier", "roles": user["roles"]})


def _without_remove() -> list[dict[str, Any]]:
    actions = ["find", "insert", "update", "createCollection", "createIndex", "collMod", "dropCollection"]
    actions += ["listCollections", "listIndexes", "changeStream", "renameCollectionSameDB"]
    return [{"resource": {"db": "shop", "collection": ""}, "actions": actions}]


def _anew(rig: Any, *, images: bool) -> dict[str, str]:
    """The same documents in production and in the clone."""
    rows: list[dict[str, Any]] = [
        {
            "_id": n,
            "n": n,
            "a": {"b": n, "c": [1, 2, {"d": n}]},
            "list": [1, 2, 3, 4],
            "gone": "x",
            "t": "long " * n,
            "f": bson.Decimal128("1.50"),
            "l": bson.Int64(n),
            "ts": bson.Timestamp(n, n),
        }
        for n in range(1, 21)
    ]
    rig.forget()
    with rig.clone.client() as client:
        client.drop_database("shop_before")
        client.shop.drop_collection("kinds")
        client.shop.drop_collection("other")
    uuids: dict[str, Any] = {}
    with rig.production.client() as client:
        more = {"changeStreamPreAndPostImages": {"enabled": True}} if images else {}
        for name in ("kinds", "other"):
            client.shop.create_collection(name, **more)
            client.shop[name].insert_many(rows)
            (about,) = client.shop.list_collections(filter={"name": name})
            uuids[name] = about["info"]["uuid"]
    with rig.clone.client() as client:
        for name, uuid in uuids.items():
            operation = {"op": "c", "ns": "shop.$cmd", "ui": uuid, "o": {"create": name}}
            client.admin.command({"applyOps": [operation]})
            client.shop[name].insert_many(rows)
    return dict(rig.hashes(rig.production))


def _all_kinds(client: Client, session: Any) -> None:
    kinds = client.shop.kinds
    kinds.update_many({"_id": {"$in": [1, 2]}}, SETS, session=session)
    kinds.update_one({"_id": 2}, {"$push": {"list": {"$each": [9], "$position": 0}}}, session=session)
    kinds.replace_one({"_id": 3}, {"b": 1, "a": 2}, session=session)
    kinds.update_one({"_id": 4}, {"$rename": {"t": "tt"}, "$inc": {"l": 1}}, session=session)
    kinds.update_one({"_id": 5}, [{"$replaceWith": {"$literal": {"_id": 5, "$x": 1}}}], session=session)
    kinds.update_one({"_id": 6}, {"$set": {"n": 6.0}}, session=session)
    kinds.delete_many({"_id": {"$gte": 10, "$lt": 15}}, session=session)
    kinds.insert_one({"_id": 14, "back": 1}, session=session)
    kinds.delete_one({"_id": 14}, session=session)
    kinds.insert_many([{"_id": "new", "v": 1}, {"_id": "newer"}, {"_id": "gone"}], session=session)
    kinds.update_one({"_id": "new"}, {"$set": {"v": 2}}, session=session)
    kinds.delete_one({"_id": "gone"}, session=session)
    kinds.update_one({"_id": 20}, {"$set": {"v": 2}}, session=session)
    kinds.update_one({"_id": 20}, {"$unset": {"v": 1}}, session=session)
    client.shop.other.update_one({"_id": 7}, {"$unset": {"a": 1}}, session=session)


def _transaction(rig: Any, action: Callable[[Client, Any], object]) -> ClusterTime:
    with rig.production.client() as client:
        with client.start_session() as session, session.start_transaction():
            action(client, session)
        return _last(client)


def _last(client: Client, kind: str = "") -> ClusterTime:
    wanted = {"op": kind or {"$in": ["i", "u", "d", "c"]}, "ns": {"$regex": r"^(shop|admin)\."}}
    found = client.local["oplog.rs"].find(wanted).sort("$natural", -1).limit(1)
    at = next(iter(found))["ts"]
    return ClusterTime(at.time, at.inc)


@contextmanager
def _session(rig: Any, at: ClusterTime, *, clone: bool = False) -> Iterator[MongoUndo]:
    undoer = MongoUndoer(account=rig.copier().account)
    entrance = Entrance(socket=str(rig.clone.settings.socket)) if clone else None
    subject = undoer.find(at)
    with undoer.session(subject, (), UndoWish(name=str(at)), entrance, Silent()) as session:
        yield session


def _undo(rig: Any, at: ClusterTime, *, clone: bool = False, anew: bool = False) -> tuple[UndoneTable, ...]:
    if clone and anew:
        _clone_as_before(rig)
    with _session(rig, at, clone=clone) as session:
        session.plan()
        return session.act()


def _clone_as_before(rig: Any) -> None:
    """The clone as it was when it was made: what was done there once more is gone."""
    with rig.production.client() as there, rig.clone.client() as client:
        for name in ("kinds", "other"):
            client.shop[name].delete_many({})
            client.shop[name].insert_many(there.shop[name].find())


def _wait_for_secondary(rig: Any) -> None:
    with rig.production.client() as client:
        client.shop.get_collection("waited", write_concern=WriteConcern(w=2, wtimeout=60_000)).insert_one({})
        client.shop.waited.drop()
