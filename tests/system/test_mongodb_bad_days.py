"""Failures around a recovery of MongoDB: said in one line, or put right by doing it again."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from bson.timestamp import Timestamp

from tests.lab.mysql_fixture import free_port
from tests.lab.pool import Pool, run
from tests.system.conftest import end_clones
from tests.system.house import utc, wait_until
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import at, behind, hashes, mongo_house, newest, opened, restore_to
from tests.system.program import Result
from zbackup.model.drill import VERDICT

MIB = 1024**2
OPLOG_MIB = 40


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    # As small as it may be for the largest entry, and with a checkpoint every second: an oplog drops nothing
    # that its server would need to recover.
    with mongo_house(pool, oplog_mib=OPLOG_MIB, options=("--syncdelay=1",)) as house:
        yield house
        end_clones(house)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def place(house: MongoHouse) -> Timestamp:
    """Behind a backup and a few documents, with a later backup to read the log from."""
    house.snapshot()
    with house.server.client() as client:
        client.admin.command("setParameter", 1, wiredTigerEngineRuntimeConfig="cache_size=1G")
        client.shop.items.insert_many([{"_id": n} for n in range(1000)])
    found = newest(house.server)
    with house.server.client() as client:
        client.shop.items.insert_one({"_id": "too late"})
    house.snapshot(house.configure("none", lock="none"))
    return found


def clones(house: MongoHouse) -> set[str]:
    return {name for name in house.names() if name.startswith(f"{house.clones}/")}


def amidst(
    house: MongoHouse, sent: str, name: str, place: Timestamp, *words: str, config: Path | None = None
) -> Result:
    """Restore, and send this signal to the temporary mongod that replays; how the restore ended."""
    command = ("restore", "--to-timestamp", behind(place), "--name", name, *words)
    running = house.begin(*command, config=config)
    output = house.home / "clones" / name / "server.log"
    wait_until(
        "a replay",
        lambda: output.exists() and "recoverFromOplogAsStandalone" in output.read_text(),
        120,
    )
    number = int((house.home / "run" / f"{name}.process").read_text().split()[0])
    run("kill", sent, str(number))
    ended = running.end()
    assert ended.rc != 0, str(ended)
    return ended


def killed_amidst(house: MongoHouse, name: str, place: Timestamp, *words: str) -> str:
    """What is said when it is killed."""
    return amidst(house, "-KILL", name, place, *words).err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--to", "now", "--to-timestamp", "1,1"), 2, "with --to TARGET"),
        (("--to-timestamp", "yesterday"), 2, '"yesterday" is not SECONDS,INCREMENT'),
        (("--to", "now", "--as-replica-set", "rescue"), 2, "--as-replica-set needs --port"),
        (("--to-timestamp", "4000000000,1"), 5, "that moment is in the future"),
        (("--to-timestamp", "1000000000,1"), 5, "no backup is that old"),
    ],
)
def test_what_cannot_be_is_refused(
    house: MongoHouse, place: Timestamp, words: tuple[str, ...], status: int, said: str
) -> None:
    before = house.state()
    assert said in house.zb("restore", "-q", *words).refused(status)
    assert house.state() == before


def test_a_mongod_killed_while_it_replays_is_told_and_removed(house: MongoHouse, place: Timestamp) -> None:
    said = killed_amidst(house, "killed", place)
    assert "the temporary server ended while starting" in said or "died" in said, said
    # Its last log lines: a message, and what mongod tells with it.
    assert '{"' in said.partition("server.log:")[2], said
    assert clones(house) == set()


def test_a_mongod_that_stands_still_is_ended(house: MongoHouse, place: Timestamp) -> None:
    """Its last words are told, and what to set; nothing is left."""
    before = house.state()
    config = house.configure("stall", recovery={"stall": "10s"})
    ended = amidst(house, "-STOP", "still", place, config=config)
    assert ended.rc == 7 and "has done nothing for 10 s" in ended.err, str(ended)
    assert "set recovery.stall" in ended.err and "server.log:" in ended.err, str(ended)
    assert clones(house) == set() and house.state() == before
    assert not (house.home / "run" / "still.process").exists()


def test_with_keep_it_is_kept_for_a_look(house: MongoHouse, place: Timestamp) -> None:
    said = killed_amidst(house, "kept", place, "--keep")
    assert f"kept for a look: {house.clones}/kept" in said
    assert f"{house.clones}/kept/0" in clones(house)


def test_zbackup_killed_amidst_then_again(house: MongoHouse, place: Timestamp) -> None:
    """What is left makes way each time: of what was kept, and of what zbackup had no time to remove."""
    output = house.home / "clones" / "kept" / "server.log"
    left = output.stat().st_ctime_ns
    running = house.begin("restore", "--to-timestamp", behind(place), "--name", "kept")
    wait_until("a merge", lambda: output.exists() and output.stat().st_ctime_ns > left, 120)
    running.process.send_signal(signal.SIGKILL)
    running.end()
    port = free_port()
    restored = restore_to(house, behind(place), "kept", "--port", str(port))
    with opened(restored) as client:
        assert client.shop.items.count_documents({}) == 1000
        assert len(hashes(client)) > 1
    assert restored["connect"] == f"mongosh 'mongodb://127.0.0.1:{port}/?directConnection=true'"


def test_a_name_and_a_port_in_use_are_refused(house: MongoHouse, place: Timestamp) -> None:
    words = ("restore", "-q", "--to-timestamp", behind(place), "--name")
    for options in ((), ("--dry-run",)):
        assert f"{house.clones}/kept exists" in house.zb(*words, "kept", *options).refused(10)
    port = str(house.server.settings.port)
    assert f"port {port} cannot be used" in house.zb(*words, "other", "--port", port).refused(10)
    house.destroy("kept")
    assert clones(house) == set()


def test_a_drill_takes_no_snapshot_and_leaves_nothing(house: MongoHouse) -> None:
    before = house.state()
    assert not [line for line in before if VERDICT in line]
    drill = house.zb("verify", "--drill", "--json").data[0]["drill"]
    assert drill["tables"] > 0 and drill["verdict"]["passed"]
    assert drill["position"] and drill["base"]["name"] in [b["name"] for b in house.backups()]
    assert [line for line in house.state() if VERDICT not in line] == before, (
        "its verdict is all that is left"
    )


def test_an_entry_larger_than_mongod_takes_is_named(house: MongoHouse, place: Timestamp) -> None:
    with house.server.client() as client:
        client.shop.large.insert_one({"_id": 1, "x": b"x" * (16 * MIB - 40)})
    large = newest(house.server)
    command = ("restore", "-q", "--to-timestamp", behind(large), "--name", "large")
    said = house.zb(*command).refused(5)
    assert f"the oplog entry at {at(large)}@1 (insert into shop.large) is 16777" in said
    assert f"--to-timestamp {at(large)}" in said
    assert clones(house) == set()


def oldest(house: MongoHouse) -> Timestamp:
    """The place of the oldest entry of the server's oplog."""
    with house.server.client() as client:
        found = client.local["oplog.rs"].find_one(sort=[("$natural", 1)])
    assert found is not None
    stamp: Timestamp = found["ts"]
    return stamp


def overrun(house: MongoHouse, end: Timestamp) -> None:
    """Write until the oplog has dropped the entry there and what follows it."""
    with house.server.client() as client:

        def write() -> bool:
            for n in range(8):
                client.shop.filler.replace_one({"_id": n}, {"x": os.urandom(MIB)}, upsert=True)
            return oldest(house) > end

        wait_until("the oplog has gone on", write, 120)


def test_an_oplog_that_dropped_what_is_needed_is_refused(house: MongoHouse, place: Timestamp) -> None:
    """With the gap's ends, and the size that would have been enough."""
    house.snapshot()
    base = newest(house.server)
    overrun(house, base)
    said = house.zb("restore", "-q", "--to", "now", "--name", "gap").refused(5)
    found = re.search(r"the oplog has a gap: the base ends at (\d+),(\d+)@.* begins at (\d+),(\d+)@", said)
    assert found, said
    assert (int(found[1]), int(found[2])) <= (base.time, base.inc)
    assert (int(found[3]), int(found[4])) > (base.time, base.inc)
    sizes = re.search(r"may hold (\d+) MiB; about (\d+) MiB would have been enough", said)
    assert sizes and int(sizes[1]) == OPLOG_MIB < int(sizes[2]), said
    assert clones(house) == set()
    later = house.snapshot()
    gaps = house.zb("window", "--json").data[0]["gaps"]
    assert [gap["cause"] for gap in gaps] == ["purged"] and gaps[0]["newer"] == later["name"]
    after = utc(gaps[0]["after"])
    between = after + (utc(gaps[0]["to"]) - after) / 2
    said = house.zb("restore", "-q", "--to", between.isoformat(), "--name", "gap").refused(5)
    assert "the oplog has a gap" in said
    assert clones(house) == set()


def test_the_log_of_another_set_is_refused(house: MongoHouse, place: Timestamp) -> None:
    house.server.stop()
    data = house.server.settings.datadir
    for file in data.iterdir():
        if not file.is_symlink() and file.name != "journal":
            run("rm", "-r", str(file))
    for file in (data / "journal").iterdir():
        file.unlink()
    from tests.lab.mongo_fixture import initiate

    house.server.start()
    initiate([house.server])
    said = house.zb("restore", "-q", "--to", "now", "--name", "other").refused(5)
    assert "the log source is of another replica set: orders (" in said
    assert clones(house) == set()
