"""Collections of every kind out of one real mongod into a replica set. Needs no ZFS."""

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.datetime_ms import DatetimeMS

from tests.lab.lock_rig import room
from tests.lab.mongo_fixture import ADMIN, ADMIN_PASSWORD, Client, MongoServer, MongoSettings, initiate
from tests.lab.repeats import step
from tests.lab.said import said
from tests.lab.undo_documents import TestUndoDocuments
from zbackup.config.copying import CopyBack
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.production.account import ROLES, MongoAccount
from zbackup.engines.mongodb.server.connection import Connection, PrivilegeMissing
from zbackup.features.copyback.copying import CopiedTable, CopyWish, Difference
from zbackup.features.copyback.mongodb.fill import prove
from zbackup.features.copyback.mongodb.session import MongoCopier, MongoCopy
from zbackup.model.errors import DatabaseError, Refused, Taken, VerificationFailed
from zbackup.model.progress import Silent
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName, parse_table

__all__ = ["TestUndoDocuments", "room"]

COLLECTIONS = ("capped", "clustered", "collated", "docs", "guarded", "odd.name")


@dataclass(frozen=True)
class Rig:
    """Production, a primary with one secondary, and a server that plays the clone."""

    production: MongoServer
    secondary: MongoServer
    clone: MongoServer

    @contextmanager
    def session(self, *names: str, **wish: Any) -> Iterator[MongoCopy]:
        copier = self.copier()
        wanted = CopyWish(
            tables=tuple(parse_table(name, "mongodb") for name in names),
            moment="20260101T000000",
            clone="c",
            **wish,
        )
        with copier.session(Entrance(socket=str(self.clone.settings.socket)), wanted, Silent()) as copying:
            yield copying

    def copy(self, *names: str, **wish: Any) -> tuple[CopiedTable, ...]:
        with self.session(*names, **wish) as copying:
            return copying.act(copying.plan())

    def compare(self, name: str) -> Difference:
        with self.session(name, missing=True, changed=True) as copying:
            return copying.compare(copying.plan().steps[0])

    def forget(self) -> None:
        with self.production.client() as client:
            client.drop_database("shop")

    def change(self, collection: str, command: str, *arguments: Any) -> None:
        with self.production.client() as client:
            getattr(client["shop"][collection], command)(*arguments)

    def copier(self) -> MongoCopier:
        socket = str(self.production.settings.socket)
        usual = ConnectOptions(socket=socket, user=ADMIN, password=lambda: ADMIN_PASSWORD)
        rules = CopyBack.model_construct(user="copier", password=said("x"))
        return MongoCopier(account=MongoAccount(instance="docs", usual=usual, rules=rules))

    def hashes(self, server: MongoServer) -> dict[str, str]:
        """dbHash of each collection; capped ones are hashed as they lie."""
        with server.client() as client:
            found: dict[str, str] = client["shop"].command("dbHash")["collections"]
            return {name: value for name, value in found.items() if not name.startswith("system.")}

    def definitions(self, server: MongoServer) -> dict[str, Any]:
        """Options and indexes of everything."""
        with server.client() as client:
            shop = client["shop"]
            return {
                str(row["name"]): (
                    row["type"],
                    row["options"],
                    [] if row["type"] == "view" else sorted(map(str, shop[row["name"]].list_indexes())),
                )
                for row in shop.list_collections()
                if not str(row["name"]).startswith("system.")
            }

    def measurements(self, server: MongoServer, name: str = "series") -> list[Any]:
        with server.client() as client:
            return sorted(str(sorted(one.items())) for one in client["shop"][name].find())


@pytest.fixture(scope="module")
def rig(room: Path) -> Iterator[Rig]:
    def settings(name: str, **more: Any) -> MongoSettings:
        return MongoSettings(datadir=room / name / "data", run_dir=room / name / "run", **more)

    with (
        MongoServer(settings("p", replica_set="rs", auth=True)) as production,
        MongoServer(settings("s", replica_set="rs", auth=True)) as secondary,
        MongoServer(settings("c", auth=False)) as clone,
    ):
        initiate([production, secondary])
        with production.client() as client:
            roles = [{"role": role, "db": "shop"} for role in ROLES]
            client.admin.command({"createUser": "copier", "pwd": "x", "roles": roles})
        _make(clone)
        yield Rig(production, secondary, clone)


def _make(clone: MongoServer) -> None:
    with clone.client() as client:
        shop = client["shop"]
        ids: list[Any] = [
            *range(500),
            *(f"text {n}" for n in range(500)),
            *(bson.ObjectId() for _ in range(500)),
            *({"a": n, "b": [n]} for n in range(500)),
            *(bson.Int64(10**12 + n) for n in range(200)),
            *(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(n) for n in range(200)),
        ]
        shop["docs"].insert_many(
            {
                "_id": one,
                "n": n,
                "k": {"z": 1.0, "a": bson.Decimal128("1.10")},
                "x": [None, b"\0", bson.MinKey()],
            }
            for n, one in enumerate(ids)
        )
        shop["docs"].create_index([("n", 1)], unique=True, partialFilterExpression={"n": {"$gt": 3}})
        shop["docs"].create_index([("k.a", -1), ("x", 1)], name="two", hidden=True)
        shop["docs"].create_index([("at", 1)], expireAfterSeconds=3600)
        shop["docs"].create_index([("what", "text")])
        shop["guarded"].insert_many({"_id": n, "v": "old"} for n in range(10))
        shop.command(
            {"collMod": "guarded", "validator": {"v": {"$type": "int"}}, "validationAction": "error"}
        )
        shop.create_collection("collated", collation={"locale": "de", "strength": 1})
        shop["collated"].insert_many({"_id": word} for word in ("Apfel", "birne", "Äpfel1", "zebra"))
        shop["collated"].create_index([("w", 1)])
        shop.create_collection("capped", capped=True, size=1 << 20)
        shop["capped"].insert_many({"_id": 100 - n} for n in range(100))
        shop.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
        shop["clustered"].insert_many({"_id": n} for n in range(100))
        shop["odd.name"].insert_one({"_id": 1})
        shop.create_collection(
            "series", timeseries={"timeField": "t", "metaField": "m", "granularity": "hours"}
        )
        start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
        shop["series"].insert_many(
            {"t": start + datetime.timedelta(minutes=n), "m": {"s": n % 7}, "v": n / 3} for n in range(3000)
        )
        shop["series"].create_index([("m.s", 1), ("t", 1)])
        shop.create_collection("seen", viewOn="docs", pipeline=[{"$match": {"n": {"$lt": 5}}}])


def test_a_whole_database_with_every_kind_of_collection_is_the_same_on_every_member(rig: Rig) -> None:
    rig.forget()
    done = rig.copy("shop")
    assert {str(each.into).partition(".")[2] for each in done} == {*COLLECTIONS, "series_restored", "seen"}
    assert all(each.verified or each.action == "view" for each in done)
    wanted = rig.definitions(rig.clone)
    wanted["series_restored"] = wanted.pop("series")
    assert rig.definitions(rig.production) == wanted
    assert rig.measurements(rig.production, "series_restored") == rig.measurements(rig.clone)
    here, there = rig.hashes(rig.production), rig.hashes(rig.clone)
    assert here == rig.hashes(rig.secondary), "written to a majority of two is written to both"
    del here["capped"], there["capped"]  # its hash is that of places on disk
    assert here == there
    with rig.production.client() as client:
        assert [one["_id"] for one in client["shop"]["capped"].find()] == list(range(100, 0, -1))


def test_documents_that_are_gone_and_that_differ_come_back(rig: Rig) -> None:
    rig.forget()
    rig.copy("shop.docs")
    rig.change("docs", "delete_many", {"n": {"$mod": [3, 0]}})
    rig.change("docs", "update_many", {"n": {"$mod": [5, 1]}}, {"$set": {"k.z": 2, "wrong": True}})
    found = rig.compare("shop.docs")
    assert (found.missing, found.changed) == (800, 320)
    assert ("wrong", "true", "nothing") in found.examples[0].values
    (done,) = rig.copy("shop.docs", missing=True, changed=True)
    assert (done.inserted, done.updated, done.refused) == (800, 320, 0)
    assert rig.hashes(rig.production)["docs"] == rig.hashes(rig.clone)["docs"]
    assert rig.hashes(rig.secondary) == rig.hashes(rig.production)


def test_only_missing_only_some_and_what_is_kept_out(rig: Rig) -> None:
    rig.forget()
    rig.copy("shop.docs", "shop.guarded")
    rig.change("docs", "delete_many", {"n": {"$in": [10, 11, 12]}})
    rig.change("docs", "update_one", {"n": 20}, {"$set": {"later": True}})
    rig.change("docs", "insert_one", {"_id": "new", "n": 12})
    (some,) = rig.copy("shop.docs", missing=True, where='{"n": {"$lt": 11}}')
    assert some.inserted == 1
    (rest,) = rig.copy("shop.docs", missing=True)
    assert (rest.inserted, rest.updated, rest.refused) == (1, 0, 1)
    assert rest.conflicts[0].startswith("_id=12: E11000 duplicate key")
    with rig.production.client() as client:
        assert client["shop"]["docs"].find_one({"n": 20})["later"]  # type: ignore[index]
    rig.change("guarded", "delete_one", {"_id": 3})
    (kept_out,) = rig.copy("shop.guarded", missing=True)
    assert kept_out.conflicts == ("_id=3: Document failed validation",)


def test_an_id_that_only_the_server_takes_for_the_same(rig: Rig) -> None:
    """A number of another type is the same _id, and becomes the clone's; a word in capitals stays."""
    rig.forget()
    with rig.production.client() as client:
        client["shop"]["docs"].insert_many([{"_id": bson.Int64(1), "v": "bad"}, {"_id": 2.0, "v": "bad"}])
        client["shop"].create_collection("collated", collation={"locale": "de", "strength": 1})
        client["shop"]["collated"].insert_one({"_id": "APFEL", "v": "bad"})
    found = rig.compare("shop.docs")
    assert (found.missing, found.changed) == (2398, 2)
    (done,) = rig.copy("shop.docs", missing=True, changed=True)
    assert (done.inserted, done.updated, done.refused) == (2398, 2, 0)
    assert rig.hashes(rig.production)["docs"] == rig.hashes(rig.clone)["docs"]
    (words,) = rig.copy("shop.collated", missing=True, changed=True)
    assert (words.inserted, words.updated, words.refused) == (3, 0, 1)
    (missing,) = rig.copy("shop.collated", missing=True)
    for done in (words, missing):
        assert done.refused == 1
        assert done.conflicts[0].startswith('_id="Apfel": production has it as _id="APFEL"')


def test_documents_that_drivers_and_servers_make_difficulties_about(rig: Rig) -> None:
    """Fields that begin with $, empty timestamps, dates that Python has not, and two that are large."""
    rig.forget()
    empty = {"a.b": 1, "$price": 5, "ts": bson.Timestamp(0, 0), "far": DatetimeMS(2**60)}
    for server, v in ((rig.clone, 1), (rig.production, 0)):
        with server.client() as client:
            for n in range(2, 5):
                setting = [{"$replaceWith": {"$literal": {"_id": n, "v": v, **empty}}}]
                client["shop"].command(
                    "update", "odd", updates=[{"q": {"_id": n}, "u": setting, "upsert": True}]
                )
            client["shop"]["odd"].insert_many(
                [{"_id": 1, "v": v, "b": b"x" * 9_000_000}, {"_id": DatetimeMS(2**60)}]
            )
    found = rig.compare("shop.odd")
    assert (found.missing, found.changed) == (0, 4)
    rig.change("odd", "delete_one", {"_id": 3})
    try:
        (done,) = rig.copy("shop.odd", missing=True, changed=True)
        assert (done.inserted, done.updated, done.refused) == (1, 2, 1)
        assert done.conflicts[0].startswith("_id=1: it is too large")
        rig.change("odd", "delete_one", {"_id": 1})
        rig.copy("shop.odd", missing=True)
        assert rig.hashes(rig.production)["odd"] == rig.hashes(rig.clone)["odd"]
        rig.forget()
        (whole,) = rig.copy("shop.odd")
        assert whole.verified and rig.hashes(rig.production) == {"odd": rig.hashes(rig.clone)["odd"]}
    finally:
        with rig.clone.client() as client:
            client["shop"].drop_collection("odd")


def test_what_a_copy_reads_is_kept_open_while_it_waits(rig: Rig) -> None:
    """The server ends a cursor with its session after half an hour: it is told that it is still in use."""
    for name in ("docs", "series"):
        rig.forget()
        with rig.clone.client() as client, rig.session(f"shop.{name}") as copying:
            before = _refreshed(client)
            copying.writer.rate, copying.writer.sleep = 1_000, lambda _: None
            (done,) = copying.act(copying.plan())
            assert done.verified and _refreshed(client) > before


def _refreshed(client: Client) -> int:
    counts = client.admin.command("serverStatus")["metrics"]["commands"]["refreshSessions"]
    assert not counts["failed"]
    return int(counts["total"])


def test_beside_and_what_is_refused(rig: Rig) -> None:
    rig.forget()
    rig.copy("shop.docs", "shop.series")
    (beside,) = rig.copy("shop.docs", where='{"n": {"$lt": 5}}')
    assert (str(beside.into), beside.inserted) == ("shop.docs_restored", 5)
    with pytest.raises(Taken, match="--into"):
        rig.copy("shop.docs")
    (other,) = rig.copy("shop.series", into=TableName("shop", "again"))
    assert other.inserted == 3000
    for name, words, wish in (
        ("shop.docs", "cannot exchange", {"replace": True}),
        ("shop.series", "compare documents by _id", {"missing": True}),
    ):
        with pytest.raises(Refused, match=words):
            rig.copy(name, **wish)
    with pytest.raises(PrivilegeMissing):
        rig.copy("shop.docs", into=TableName("other", "docs"))


def test_a_time_series_is_never_dropped_for_somebody_may_write_to_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into one that an application writes to meanwhile, and again after that."""
    series = TableName("shop", "series")
    own = {"t": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "m": {"s": 9}, "app": 1}
    rig.forget()
    _die_after(monkeypatch, "insert", lambda: rig.change("series", "insert_one", dict(own)))
    for error, words in ((DatabaseError, "cut off"), (Refused, "holds more than")):
        with pytest.raises(error, match=words):
            rig.copy("shop.series", into=series)
    monkeypatch.undo()
    rig.forget()
    _die_after(monkeypatch, "insert", lambda: None)
    with pytest.raises(DatabaseError):
        rig.copy("shop.series", into=series)
    monkeypatch.undo()
    (done,) = rig.copy("shop.series", into=series)
    assert done.inserted == 2000 and rig.measurements(rig.production) == rig.measurements(rig.clone)
    rig.forget()

    def prove_beside(*arguments: Any) -> None:
        rig.change("series", "insert_one", dict(own))
        prove(*arguments)

    monkeypatch.setattr("zbackup.features.copyback.mongodb.session.prove", prove_beside)
    with pytest.raises(VerificationFailed, match=r"drop shop\.series"):
        rig.copy("shop.series", into=series)
    assert len(rig.measurements(rig.production)) == 3001


def _die_after(patch: pytest.MonkeyPatch, command: str, then: Callable[[], object]) -> None:
    original = Connection.run

    def run(self: Connection, database: str, told: Any, **more: Any) -> Any:
        answer = original(self, database, told, **more)
        if next(iter(told)) == command:
            then()
            raise DatabaseError("cut off")
        return answer

    patch.setattr(Connection, "run", run)


def test_a_copy_that_is_cut_off_at_any_command_is_finished_by_the_next(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection, a view and a time series: whatever was done is known, and nothing comes twice."""
    wanted = rig.hashes(rig.clone)["docs"]
    names = {"docs", "seen", "series_restored"}
    for number in count(1, step(3)):
        rig.forget()
        with monkeypatch.context() as patch:
            cut = _cut_at(patch, number)
            try:
                rig.copy("shop.docs", "shop.seen", "shop.series")
            except DatabaseError:
                assert rig.hashes(rig.production).get("docs") in (None, wanted), "half of it has its name"
        if not cut:
            break
        if rig.definitions(rig.production).keys() != names:
            rig.copy("shop.docs", "shop.seen", "shop.series")
        found, originals = rig.definitions(rig.production), rig.definitions(rig.clone)
        assert found.keys() == names and rig.hashes(rig.production)["docs"] == wanted, number
        assert all(found[name] == originals[name.removesuffix("_restored")] for name in names), number
        assert rig.measurements(rig.production, "series_restored") == rig.measurements(rig.clone)
    assert number > 15


def _cut_at(patch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Lose the connection at the command of that number that changes something; [] if it never came."""
    seen: list[int] = []
    cut: list[int] = []
    original = Connection.run

    def run(self: Connection, database: str, command: Any, **more: Any) -> Any:
        mine = next(iter(command)) in (
            "create",
            "insert",
            "update",
            "createIndexes",
            "collMod",
            "renameCollection",
            "drop",
        )
        if mine:
            seen.append(1)
        answer = original(self, database, command, **more)
        if mine and len(seen) == number:
            cut.append(1)
            raise DatabaseError("cut off")
        return answer

    patch.setattr(Connection, "run", run)
    return cut
