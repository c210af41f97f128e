"""Recovery of a mongod to moments of its past: under load, quiet, exact, with the server down."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from bson.timestamp import Timestamp
from pymongo import WriteConcern
from pymongo.errors import OperationFailure

from tests.lab import mongo_load
from tests.lab.mongo_fixture import connect
from tests.lab.mysql_fixture import free_port
from tests.lab.pool import Pool, run
from tests.lab.repeats import some
from tests.system.conftest import end_clones
from tests.system.house import after_writing, now, utc, wait_until
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import at, behind, hashes, mongo_house, newest, opened, restore_to
from tests.unit.docs.typed import typed

THREADS, RATE = 3, 60.0

# A clone's server cannot read the files unless it is told the same.
LAYOUT = ("--directoryperdb", "--wiredTigerDirectoryForIndexes", "--wiredTigerJournalCompressor=zlib")


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened to the server, as remembered by somebody who watched."""

    journal: Path
    backups: list[dict[str, Any]]
    early: datetime
    late: datetime
    """Under load, after the first and after the second backup."""
    quiet: datetime
    """Nothing was written just before, and more just after."""
    quiet_end: Timestamp
    hashes: dict[str, str]
    """The oplog's end and dbHash at `quiet`."""
    drop: Timestamp
    """Of the entry that drops a collection."""


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with mongo_house(pool, options=LAYOUT) as house:
        yield house
        end_clones(house)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def history(house: MongoHouse) -> History:
    """Let it happen: backups under load with both locks, a quiet moment, more load, a collection dropped."""
    server, journal = house.server, house.home / "journal"
    load = {"threads": THREADS, "rate": RATE, "journal": journal}
    with mongo_load.start(server, **load):
        first = house.snapshot(house.configure("fsync", lock="fsync"))
        early = whole_millisecond(after_writing(journal, 60))
        after_writing(journal, 60)
        second = house.snapshot(house.configure("none", lock="none"))
        late = whole_millisecond(after_writing(journal, 60))
        after_writing(journal, 60)
    with server.client() as client:
        sums, quiet_end = hashes(client), newest(server)
        quiet = whole_millisecond(now())
        wait_until("a millisecond", lambda: now() > quiet, 1)
        client.shop.orders.insert_one({"_id": "too late"})
        with mongo_load.start(server, **load):
            after_writing(journal, 40)
            client[mongo_load.SCHEMA].ledger.drop()
            drop = client.local["oplog.rs"].find_one({"o.drop": "ledger"})
            assert drop is not None
    return History(
        journal=journal,
        backups=[first, second],
        early=early,
        late=late,
        quiet=quiet,
        quiet_end=quiet_end,
        hashes=sums,
        drop=drop["ts"],
    )


def whole_millisecond(moment: datetime) -> datetime:
    """The next one that is whole: mongod's oplog knows no finer times."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class TestRecovery:
    """In the order of the story: the last ones do to the server what nobody wishes for."""

    def test_a_dry_run_changes_nothing(self, house: MongoHouse, history: History) -> None:
        before = house.state()
        plan = house.restore(history.quiet, "dry", "--dry-run")
        assert house.state() == before
        assert (plan["base"]["backup"], plan["replay"]) == (history.backups[1]["backup"], None)

    def test_a_quiet_moment_is_back_exactly(self, house: MongoHouse, history: History) -> None:
        report = house.restore(history.quiet, "quiet")
        assert report["base"]["backup"] == history.backups[1]["backup"]
        recovered = report["recovered"]
        assert recovered["last_applied"]["start"].startswith(f"{at(history.quiet_end)}@")
        assert recovered["last_applied"]["start"] == recovered["position"]
        assert utc(recovered["first_skipped"]["committed"]) >= history.quiet
        with opened(report) as client:
            assert hashes(client) == history.hashes
            assert set(client.local.list_collection_names()) <= {"startup_log"}
            assert "setName" not in client.admin.command("hello")
        with opened(report, login=False) as client, pytest.raises(OperationFailure, match="authentication"):
            client.shop.orders.find_one()
        assert report["connect"].startswith("mongosh 'mongodb://%2F")
        listed = {c["name"]: c for c in house.zb("clone", "list", "--json").data}
        assert (listed["quiet"]["running"], listed["quiet"]["reached"]) == (True, recovered["position"])

    def test_a_snapshot_of_others_comes_back_and_is_not_called_exact(self, house: MongoHouse) -> None:
        """Of a member that takes writes: what was acknowledged is there, and what came later is not."""
        name = f"{house.datasets[0]}@zrepl_20240501_100000_000"
        with house.server.client() as client:
            client.others.marks.with_options(write_concern=WriteConcern(j=True)).insert_one({"_id": 1})
            run("zfs", "snapshot", "-r", name)
            client.others.marks.insert_one({"_id": 2})
        report = house.zb("restore", "--base", name, "--name", "others", "--json").data
        assert report["foreign"] == name and not report["recovered"]["base_exact"]
        with opened(report) as client:
            assert [d["_id"] for d in client.others.marks.find()] == [1]
        assert house.zb("list", "--foreign", "--json").data[0]["foreign"][0]["tool"] == "zrepl"
        house.destroy("others")
        run("zfs", "destroy", "-r", name)

    def test_a_clone_is_stopped_and_started(self, house: MongoHouse, history: History) -> None:
        assert house.zb("clone", "stop", "quiet", "--json").data["running"] is False
        report = house.zb("clone", "start", "quiet", "--json").data
        with opened(report) as client:
            assert hashes(client) == history.hashes
            client.shop.orders.insert_one({"_id": "it can be written to"})
        house.destroy("quiet")

    def test_the_drop_of_a_collection_is_found(self, house: MongoHouse, history: History) -> None:
        name = f"{mongo_load.SCHEMA}.ledger"
        here = {"shop.orders": name, "log docs": "log shop"}
        words = typed("point-in-time-recovery-mongodb.md", "zbackup log docs", here)
        entries, end = house.log(*words[1:], "--kind", "drop")
        [dropped] = entries
        assert dropped["start"].startswith(f"{at(history.drop)}@")
        assert end["restore"] == f"zbackup restore shop --to-timestamp {at(history.drop)}"
        plan = house.zb("restore", "--before-drop", name, "--yes", "--dry-run", "--json").data
        assert plan["cluster_time"] == at(history.drop)

    def test_the_drop_of_a_database_is_found_as_that_of_its_collections(
        self, house: MongoHouse, history: History
    ) -> None:
        with house.server.client() as client:
            client.gone.marks.insert_one({"_id": 1})
            client.drop_database("gone")
            drop = client.local["oplog.rs"].find_one({"o.drop": "marks"})
        assert drop is not None
        plan = house.zb("restore", "--before-drop", "gone.marks", "--yes", "--dry-run", "--json").data
        assert plan["cluster_time"] == at(drop["ts"])

    @pytest.mark.parametrize("when", some(["early", "late"], "late"))
    def test_a_busy_moment_is_cut_between_transactions(
        self, house: MongoHouse, history: History, when: str
    ) -> None:
        """Whoever restores it may say that nobody is to write to it."""
        moment = getattr(history, when)
        report = house.restore(moment, when, "--read-only")
        assert report["base"]["backup"] == history.backups[when == "late"]["backup"]
        assert utc(report["recovered"]["last_applied"]["committed"]) < moment
        assert utc(report["recovered"]["first_skipped"]["committed"]) >= moment
        assert report["replay"]["transactions"] > 0
        with opened(report) as client:
            assert mongo_load.verify(client, history.journal, moment).present > 0
            with pytest.raises(OperationFailure, match="read-only"):
                client.shop.orders.insert_one({"_id": 1})
        house.destroy(when)

    def test_a_set_of_its_own_asks_for_logins(self, house: MongoHouse, history: History) -> None:
        port = free_port()
        here = {"docs": "shop", "--to now": f"--to-timestamp {behind(history.quiet_end)}", "27018": str(port)}
        words = typed(
            "point-in-time-recovery-mongodb.md", "zbackup restore docs --to now --name rescue", here
        )
        report = house.zb(*words, "--json").data
        assert (report["replica_set"], report["cluster_time"]) == ("rescue", behind(history.quiet_end))
        with opened(report) as client:
            hello = client.admin.command("hello")
            assert (hello["setName"], hello["hosts"]) == ("rescue", [f"127.0.0.1:{port}"])
            assert hashes(client).items() >= history.hashes.items()
        house.zb("clone", "stop", "rescue", "--json").data  # noqa: B018  checks the exit status
        again = house.zb("clone", "start", "rescue", "--json").data
        with opened(again) as client:
            wait_until("a primary", lambda: client.admin.command("hello")["isWritablePrimary"], 60)
        with (
            connect(Path(again["socket"])) as client,
            pytest.raises(OperationFailure, match="authentication"),
        ):
            client.admin.command("replSetGetConfig")
        house.destroy("rescue")

    def test_just_before_the_drop_with_the_server_down(self, house: MongoHouse, history: History) -> None:
        house.server.kill()
        (house.home / "password").write_text("wrong")
        told = house.zb("log", "--rows", at(history.drop))
        assert '"drop": "ledger"' in told.out and told.rc == 0, str(told)  # a snapshot's log has it
        report = restore_to(house, at(history.drop), "rescued")
        skipped = report["recovered"]["first_skipped"]
        assert (skipped["what"], skipped["start"].partition("@")[0]) == (
            f"drop of {mongo_load.SCHEMA}.ledger",
            at(history.drop),
        )
        with opened(report) as client:
            assert client[mongo_load.SCHEMA].ledger.count_documents({}) > 0
        words = typed(
            "point-in-time-recovery-mongodb.md", "zbackup clone destroy", {"before-drop": "rescued"}
        )
        house.zb(*words, "--yes", "--json").data  # noqa: B018  checks the exit status

    def test_now_is_all_that_was_acknowledged(self, house: MongoHouse, history: History) -> None:
        before = house.snapshots()
        report = house.restore("now", "all")
        assert len(house.snapshots() - before) == 2  # to read the log from, of both datasets
        assert report["recovered"]["first_skipped"] is None
        with opened(report) as client:
            assert client.shop.orders.find_one() == {"_id": "too late"}
            assert mongo_load.SCHEMA in client.list_database_names()
        house.destroy("all")
        assert {n for n in house.names() if n.startswith(house.clones + "/")} == set()
