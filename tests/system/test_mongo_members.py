"""Snapshots of a hidden member that lags on purpose, and of a server that runs alone."""

from collections.abc import Iterator
from datetime import UTC, timedelta
from typing import Any

import pytest

from tests.lab import mongo_load
from tests.lab.mongo_fixture import MongoServer, initiate, start_single
from tests.lab.pool import Pool
from tests.system.house import after_writing, now, utc, wait_until
from tests.system.mongo_house import MongoHouse, build
from zbackup import app
from zbackup.config.load import load
from zbackup.engines.mongodb.optime import timestamp
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.progress import Silent

LAG = 4
RATE = 15


@pytest.fixture(scope="module")
def primary(pool: Pool) -> Iterator[MongoServer]:
    with MongoServer(build(pool, pool.home, "p", replica_set="rs0")) as running:
        yield running


@pytest.fixture(scope="module")
def late(pool: Pool, primary: MongoServer) -> Iterator[MongoHouse]:
    home = pool.home / "l"
    home.mkdir()
    data = pool.dataset("late one")
    settings = build(pool, home, "l", data=data, replica_set="rs0")
    with MongoServer(settings) as running:
        initiate(
            [primary, running], {1: {"hidden": True, "priority": 0, "votes": 0, "secondaryDelaySecs": LAG}}
        )
        house = MongoHouse(pool, home, running, (data.name,))
        wait_until("zbackup's account has come", lambda: house.zb("check").rc == 0, 60)
        yield house


@pytest.fixture(scope="module")
def alone(pool: Pool) -> Iterator[MongoHouse]:
    home = pool.home / "a"
    home.mkdir()
    data = pool.dataset("alone")
    with start_single(build(pool, home, "a", data=data)) as running:
        yield MongoHouse(pool, home, running, (data.name,))


@pytest.mark.parametrize("lock", ["fsync", "none"])
def test_a_late_members_snapshot_is_as_of_what_it_had_applied(
    late: MongoHouse, primary: MongoServer, lock: str
) -> None:
    with mongo_load.start(primary, rate=RATE, concern="journaled", journal=late.home / "journal") as load:
        after_writing(load.journal, RATE * (LAG + 2))
        before = now()
        taken = late.snapshot(late.configure(lock, lock=lock))
    assert (taken["role"], taken["lock"]) == ("replica", lock)
    at, as_of, complete = (
        OplogPosition.parse(taken["position"]),
        utc(taken["as_of"]),
        utc(taken["complete_to"]),
    )
    with primary.client() as client:
        entry = client.local["oplog.rs"].find_one({"ts": timestamp(at), "t": at.term})
    assert entry is not None, "the position is not an entry of the set's oplog"
    wall = entry["wall"].replace(tzinfo=UTC)
    assert complete <= wall <= as_of
    assert as_of == wall if lock == "fsync" else as_of >= wall
    # The member applies nothing that is younger than its delay.
    assert as_of < utc(taken["taken"]) - timedelta(seconds=LAG - 1.5) < before + timedelta(minutes=2)


def test_a_late_member_says_so(late: MongoHouse) -> None:
    checked = late.zb("check")
    assert checked.rc == 0 and f"lags {LAG} s behind on purpose" in checked.out
    assert "mongodb 6.0.5, replica" in checked.out


def test_it_names_who_has_the_sets_data_too(
    late: MongoHouse, alone: MongoHouse, primary: MongoServer
) -> None:
    """With the account that backups have. A hidden member counts, and a server alone has none."""
    found = []
    for house in (late, alone):
        settings = load(house.default)
        found.append(app.context(settings, settings.instance["shop"], Silent()).engine.replicas())
    assert found == [(f"127.0.0.1:{primary.settings.port}",), ()]


def test_a_server_alone_is_snapshotted_but_not_brought_to_a_moment(alone: MongoHouse) -> None:
    checked = alone.zb("check")
    assert checked.rc == 9 and "keeps no oplog" in checked.out
    taken: dict[str, Any] = alone.snapshot()
    assert (taken["lock"], taken["position"], taken["role"]) == ("fsync", None, "primary")
    assert taken["finished"] and taken["as_of"] == taken["taken"] and not alone.locked()
    before = alone.state()
    said = alone.zb("--quiet", "restore", "--to", "now").refused(9)
    assert "cannot be recovered to a moment" in said and "rs.initiate()" in said
    assert alone.state() == before
    refused = alone.zb("snapshot", config=alone.configure("none", lock="none")).refused(9)
    assert "without an oplog only a lock says which writes are inside" in refused
