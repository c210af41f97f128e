"""The last writes before a moment, acknowledged by memory alone: a restore to that moment has them.

And, on the same server, what else a mongod's days hold: logins on recovered servers, a restart, a daemon.
"""

import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from pymongo.errors import OperationFailure

from tests.lab import mongo_load
from tests.lab.mongo_fixture import await_primary, start_single
from tests.lab.pool import Pool
from tests.system.conftest import end_clones
from tests.system.daemon_story import logged_daemon
from tests.system.house import after_writing, now, utc, wait_until
from tests.system.mongo_house import MongoHouse, build
from tests.system.mongo_story import opened


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with start_single(build(pool, pool.home, replica_set="rs0")) as server:
        house = MongoHouse(pool, pool.home, server, (pool.data.name,))
        house.snapshot()
        yield house
        end_clones(house)  # type: ignore[arg-type]


def whole(moment: datetime) -> datetime:
    """An oplog knows milliseconds."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def test_up_to_the_lock_from_the_locked_snapshot_itself(house: MongoHouse) -> None:
    """Its oplog's end is marked as unsure, for mongod cannot note how far it is sure while it is locked.

    Where nobody logs in, as where all users have certificates, which say nothing on a socket, nobody else
    gets in.
    """
    journal = house.home / "locked"
    with mongo_load.start(house.server, concern="w1", rate=80, journal=journal):
        after_writing(journal, 40)
        taken = house.snapshot(house.configure("fsync", lock="fsync"))
        after_writing(journal, 20)
    config = house.configure("never", recovery={"login": "never"})
    moment = whole(utc(taken["taken"]))
    words = house.restoring(moment, "locked")
    before = house.state()
    open_to_all = [word for word in words if word != "--json"] + ["--port", "27018"]
    assert "leave out --port" in house.zb("-q", *open_to_all, config=config).refused(9)
    assert house.state() == before
    report = house.zb(*words, config=config).data
    assert report["log"]["name"] == taken["name"]
    with opened(report, login=False) as client:
        verdict = mongo_load.verify(client, journal, moment)
    assert verdict.required >= 40
    assert Path(report["socket"]).parent.stat().st_mode & 0o777 == 0o700
    house.destroy("locked")


def starts(house: MongoHouse, name: str) -> list[bool]:
    """Of each start of a clone's server, in order: whether it knew a key."""
    output = house.home / "clones" / name / "server.log"
    lines = (json.loads(line) for line in output.read_text().splitlines() if line.startswith("{"))
    options = [line["attr"]["options"] for line in lines if line["msg"] == "Options set by command line"]
    return ["keyFile" in given.get("security", {}) for given in options]


def test_up_to_now_from_a_snapshot_that_is_taken_for_it(house: MongoHouse) -> None:
    """It is taken when the journal has had its time to be written.

    Temporary servers ask for a key if they are to.
    """
    journal = house.home / "now"
    config = house.configure("always", recovery={"login": "always"})
    with house.server.client() as client:
        client.drop_database(mongo_load.SCHEMA)
    with mongo_load.start(house.server, concern="w1", rate=80, journal=journal):
        after_writing(journal, 40)
        moment = whole(now())
        report = house.zb(*house.restoring(moment, "now"), config=config).data
    assert starts(house, "now") == [True, True, True, False]
    with opened(report, login=False) as client, pytest.raises(OperationFailure, match="authentication"):
        client.admin.command("listDatabases")
    with opened(report) as client:
        verdict = mongo_load.verify(client, journal, moment)
    assert verdict.required >= 40
    house.destroy("now")


def test_a_restart_leaves_no_gap_in_the_window(house: MongoHouse) -> None:
    before = [backup["position"] for backup in house.backups() if backup["position"]][-1]
    house.server.stop()
    down = house.zb("window", "--json").data[0]
    assert not down["looked_at_live_log"]
    house.server.start()
    with house.server.client() as client:
        await_primary(client)
        client.shop.marks.insert_one({"_id": "after the restart"})
    found = house.zb("window", "--json").data[0]
    assert found["gaps"] == [] and found["looked_at_live_log"]
    assert found["ranges"][-1]["live"] and found["ranges"][-1]["to"] == found["now"]
    taken = house.snapshot()
    assert taken["position"].partition("@")[2] > before.partition("@")[2], "it has begun no term"
    assert house.zb("window", "--json").data[0]["gaps"] == []


@contextmanager
def shown(file: Path) -> Iterator[None]:
    """What is in the file at the end is shown when a test fails."""
    try:
        yield
    finally:
        print(file.read_text())


def test_a_daemon_keeps_it(house: MongoHouse) -> None:
    """Snapshots and prunes on time under load, says that all is well, and leaves nothing when told to end."""
    journal, log = house.home / "kept", house.home / "daemon.log"
    config = house.configure(
        "daemon",
        lock={"kind": "fsync"},
        schedule={"snapshot": "30s", "prune": "2s"},
        retention={"last": 1, "minimum": 1, "window": "1 minute"},
    )
    old = house.snapshots()
    with house.server.client() as client:
        client.drop_database(mongo_load.SCHEMA)
    load = mongo_load.start(house.server, threads=2, rate=10, journal=journal)
    with load, shown(log), logged_daemon(config, log) as daemon:

        def busy() -> bool:
            there = house.snapshots()
            return daemon.poll() is not None or bool(old - there and there - old)

        waited = wait_until("it has taken one and pruned another", busy, 180)
        assert daemon.poll() is None, f"it ended after {waited:g} s: {log.read_text()}"
        status = house.zb("status", "--json", config=config).data[0]
        assert status["daemon_runs"] and status["health"] != "critical", status
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(timeout=120) == 0, log.read_text()
        after_writing(journal, 20)
        moment = whole(now())
        time.sleep(0.01)
        report = house.restore(moment, "kept")
    told = [json.loads(line)["event"] for line in log.read_text().splitlines()]
    assert {"daemon.started", "snapshot.created", "daemon.stopped"} <= set(told)
    assert not {"job.failed", "job.defect"} & set(told)
    assert not house.locked() and all(b["complete"] and b["finished"] for b in house.backups())
    with opened(report) as client:
        assert mongo_load.verify(client, journal, moment).present > 0
    house.destroy("kept")
