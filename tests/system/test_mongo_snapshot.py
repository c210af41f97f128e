"""Snapshots of a mongod: what they say, what refuses them, and zbackup cut off while it holds the lock."""

import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.lab import mongo_load
from tests.lab.mongo_fixture import start_single
from tests.lab.pool import Pool, create_pool, run
from tests.system.house import after_writing, now, utc
from tests.system.mongo_house import MongoHouse, build
from tests.system.mongo_kills import AT_ONCE, kill_under_the_lock, lock_held
from tests.system.zfs_door import ZfsDoor
from tests.unit.docs.typed import typed
from zbackup.engines.mongodb.optime import timestamp
from zbackup.model.oplog_position import OplogPosition


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with start_single(build(pool, pool.home, replica_set="rs0")) as server:
        yield MongoHouse(pool, pool.home, server, (pool.data.name,))


@pytest.fixture(scope="module")
def journal(house: MongoHouse) -> Path:
    """Of the load that all tests here go on with."""
    return house.home / "journal"


@pytest.fixture
def door(house: MongoHouse, tmp_path: Path) -> Iterator[ZfsDoor]:
    with closing(ZfsDoor(tmp_path / "door")) as door:
        yield door


def end(house: MongoHouse) -> dict[str, Any]:
    """The newest entry of the oplog."""
    with house.server.client() as client:
        return next(iter(client.local["oplog.rs"].find().sort("$natural", -1).limit(1)))


def test_check_finds_nothing_wrong(house: MongoHouse) -> None:
    checked = house.zb("check")
    assert checked.rc == 0, str(checked)
    assert "mongodb 6.0.5, primary" in checked.out and "none: data, journal and oplog" in checked.out


def test_under_the_lock_all_is_exact(house: MongoHouse, journal: Path) -> None:
    with mongo_load.start(house.server, rate=40, journal=journal) as load:
        taken = house.snapshot(house.configure("fsync", lock="fsync"))
        after_writing(load.journal, 20)
    assert (taken["engine"], taken["lock"], taken["role"]) == ("mongodb", "fsync", "primary")
    assert taken["server_uuid"].startswith("replica set rs0 ")
    at = OplogPosition.parse(taken["position"])
    with house.server.client() as client:
        last = client.local["oplog.rs"].find_one({"ts": timestamp(at), "t": at.term})
        assert last is not None, "the position is not an entry of the oplog"
        later = client.local["oplog.rs"].find_one({"ts": {"$gt": timestamp(at)}})
        assert later is not None
    assert abs(utc(taken["as_of"]) - last["wall"].replace(tzinfo=now().tzinfo)) < timedelta(seconds=1)
    assert taken["complete_to"] == taken["taken"]
    assert utc(taken["taken"]) < later["wall"].replace(tzinfo=now().tzinfo) + timedelta(milliseconds=1)
    assert taken["lock_held_ms"] > 0 and not house.locked()


def test_without_a_lock_it_is_known_how_far_it_reaches(house: MongoHouse, journal: Path) -> None:
    with mongo_load.start(house.server, rate=40, journal=journal):
        words = typed("back-up-mongodb.md", "zbackup snapshot carts", {"carts": "shop"})
        taken = house.zb(*words, "--json").data[0]["snapshot"]
    assert taken["lock"] == "none" and taken["finished"]
    last_of_oplog = utc(taken["as_of"]) + timedelta(milliseconds=1)  # mongod cuts its times to milliseconds
    assert utc(taken["complete_to"]) < min(utc(taken["taken"]), last_of_oplog)
    assert OplogPosition.parse(taken["position"]) < OplogPosition.of(end(house))
    checked = house.zb(*typed("back-up-mongodb.md", "zbackup check carts", {"carts": "shop"})).out
    assert "lock: none: data, journal and oplog are one atomic snapshot" in checked, checked
    words = typed("back-up-mongodb.md", "zbackup list carts", {"carts": "shop"})
    listed = house.zb(*words, "--json").data[0]["backups"][-1]
    assert listed["position"] == taken["position"] and listed["complete"]


def test_what_is_written_down_is_what_a_recovery_needs(house: MongoHouse) -> None:
    taken = house.snapshot(house.configure("fsync", lock="fsync"))
    snapshot = f"{house.datasets[0]}@{taken['name']}"
    server = run("zfs", "get", "-Hpo", "value", "zbackup:server", snapshot)
    for word in ('"dbpath":', '"fcv":"6.0"', '"set_id":', '"oplog_first":', '"oplog_wall":', '"options":'):
        assert word in server
    assert "zb-secret" not in run("zfs", "get", "-Hpo", "value", "all", snapshot)


@pytest.mark.parametrize("group", [False, True], ids=["alone", "with its group"])
def test_killed_under_the_lock_others_go_on(
    house: MongoHouse, door: ZfsDoor, journal: Path, group: bool
) -> None:
    kill_under_the_lock(house, door, journal, group=group)


def test_ctrl_c_lets_go_and_leaves_nothing(house: MongoHouse, door: ZfsDoor, journal: Path) -> None:
    before = house.snapshots()
    with lock_held(house, door, journal) as command:
        command.signal_group(signal.SIGINT)
        assert command.end().rc == 130
        after_writing(journal, 20, within=AT_ONCE)
    assert not house.locked() and house.snapshots() == before


def test_the_ceiling_aborts_a_snapshot_that_takes_too_long(
    house: MongoHouse, door: ZfsDoor, journal: Path
) -> None:
    before = house.snapshots()
    door.slow("snapshot", 60)
    config = house.configure("low", lock={"kind": "fsync", "hold": "3s"})
    with mongo_load.start(house.server, threads=3, rate=25, journal=journal):
        result = house.zb("snapshot", config=config, environment=door.environment)
        assert result.rc in (3, 8), str(result)
        after_writing(journal, 20, within=AT_ONCE)
    assert not house.locked() and house.snapshots() == before


def refused(house: MongoHouse, status: int, *words: str, config: Path | None = None) -> str:
    """What is said by a command that must be refused, and leaves all as it was."""
    before = house.state()
    result = house.zb("--quiet", *words, config=config)
    assert "zb-secret" not in str(result) and house.state() == before
    return result.refused(status)


def test_somebody_elses_lock_is_left_alone(house: MongoHouse) -> None:
    with house.server.client() as other:
        other.admin.command({"fsync": 1, "lock": True})
        said = refused(house, 8, "snapshot", config=house.configure("fsync", lock="fsync"))
        assert "locked by somebody else's fsyncLock" in said
        assert other.admin.command("fsyncUnlock")["lockCount"] == 0


def test_a_transaction_of_another_kind_of_log(house: MongoHouse) -> None:
    assert "(zbackup restore --to-timestamp)" in refused(house, 2, "restore", "--before", "0-1-7")
    assert "nothing can be left out" in refused(house, 9, "restore", "--skip", "1714557720,1")


def test_a_wrong_password(house: MongoHouse) -> None:
    file = house.home / "wrong"
    file.write_text("not-the-password")
    file.chmod(0o600)
    said = refused(house, 7, "snapshot", config=house.configure("w", password={"file": str(file)}))
    assert "refused the login of zbackup" in said and "not-the-password" not in said


def test_a_uri_with_a_password_by_reference(house: MongoHouse) -> None:
    file = house.home / "uri"
    port = house.server.settings.port
    file.write_text(f"mongodb://zbackup:zb-secret@127.0.0.1:{port}/?authSource=admin")
    file.chmod(0o600)
    other = {"socket": None, "password": None, "user": None, "uri": {"file": str(file)}}
    config = house.configure("uri", **other)
    assert house.zb("check", config=config).rc == 0
    file.write_text(f"mongodb://zbackup:zb-wrong@127.0.0.1:{port}/?authSource=admin")
    said = refused(house, 7, "snapshot", config=config)
    assert f"127.0.0.1:{port} refused the login" in said and "zb-wrong" not in said
    file.write_text("mongodb://one,two/")
    assert "the uri names 2 servers" in refused(house, 7, "snapshot", config=config)


def test_a_dataset_that_does_not_hold_the_data(house: MongoHouse) -> None:
    elsewhere = house.pool.dataset("elsewhere")
    config = house.configure("elsewhere", datasets=[elsewhere.name])
    said = refused(house, 9, "snapshot", config=config)
    assert "not on the instance's datasets" in said and str(house.server.settings.datadir) in said
    missing = house.configure("missing", datasets=[f"{house.pool.name}/nowhere"])
    assert "nowhere" in refused(house, 4, "snapshot", config=missing)


def test_datasets_on_two_pools(house: MongoHouse) -> None:
    other = create_pool()
    try:
        second = other.dataset("more")
        config = house.configure("pools", datasets=[*house.datasets, second.name])
        said = refused(house, 9, "snapshot", config=config)
        assert "2 pools" in said and second.name in said and house.datasets[0] in said
    finally:
        other.destroy()


def test_a_journal_that_is_linked_elsewhere(house: MongoHouse) -> None:
    stray = house.server.settings.datadir / "linked"
    stray.symlink_to("/var")
    try:
        said = refused(house, 9, "snapshot")
        assert "link linked in /var" in said
    finally:
        stray.unlink()


def test_a_server_that_is_down(house: MongoHouse) -> None:
    """The last of the tests: nobody starts it again."""
    house.server.stop()
    said = refused(house, 7, "snapshot")
    assert "cannot reach the server" in said and "is it running?" in said
    assert house.zb("list").rc == 0
