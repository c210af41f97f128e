"""Looking at real mongods and holding them still. Needs no ZFS; run with pytest by name."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import servers
from tests.lab.mongo_fixture import (
    FLAVOURS,
    MongoServer,
    initiate,
    locked,
    start_single,
)
from tests.lab.mongo_locking import (
    Writers,
    await_that,
    engine_of,
    holder,
    is_locked,
    lock_as_another,
    note_of,
    open_transaction,
    primary,
    room,
    settings_in,
    started,
    watchdog_of,
)
from zbackup.engines.mongodb.server.connection import connect
from zbackup.engines.mongodb.server.status import oplog_end
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.oplog_position import OplogPosition
from zbackup.proc.detached import Process

__all__ = ["primary", "room"]

KILLS = int(os.environ.get("LAB_KILLS", "2"))
"""How often each way of dying is tried."""


@pytest.fixture(scope="module", params=FLAVOURS)
def server(request: pytest.FixtureRequest, room: Path) -> Iterator[MongoServer]:
    servers.ensure([request.param])
    with start_single(settings_in(room / request.param, request.param, replica_set="rs0")) as running:
        yield running


@pytest.fixture(scope="module")
def alone(room: Path) -> Iterator[MongoServer]:
    servers.ensure(["mongodb-6.0"])
    with start_single(settings_in(room / "a", "mongodb-6.0")) as running:
        yield running


def test_it_is_looked_at_from_outside(server: MongoServer) -> None:
    facts = engine_of(server).inspect()
    assert (facts.flavor, facts.role, facts.blockers, facts.warnings) == ("mongodb", "primary", (), ())
    assert facts.version.startswith("6.0.")
    data = str(server.settings.datadir)
    assert {place.what: place.path for place in facts.data_paths} == {
        "data": data,
        "journal": f"{data}/journal",
    }
    assert facts.server_uuid.startswith("replica set rs0 ") and len(facts.server_uuid.split()[-1]) == 24
    wanted = {"dbpath": data, "fcv": "6.0", "replica_set": "rs0", "member_state": "PRIMARY"}
    wanted |= {"oplog_bytes": str(200 << 20), "authorization": "enabled"}
    assert wanted.items() <= facts.server.items()
    assert json.loads(facts.server["options"])["net"] == {"bindIp": "127.0.0.1"}
    # Entries before the first primary have no term.
    assert [OplogPosition.parse(end).term for end in facts.server["oplog_terms"].split()] == [-1]
    assert engine_of(server).choose_lock(facts).kind == "none"


def test_the_lock_holds_the_oplog_and_is_gone_afterwards(server: MongoServer) -> None:
    zbackup = engine_of(server)
    facts = zbackup.inspect()
    with Writers(server) as writers:
        with zbackup.consistent(facts, "fsync") as held:
            assert writers.stand_still()
            assert is_locked(server) and note_of(server).exists()
            with connect(zbackup.connect) as looking:
                assert str(oplog_end(looking).at) == held.position
            assert set(held.facts) == {"oplog_wall"}
            assert held.seconds_left() > 0
            held.confirm()
            assert OplogPosition.parse(held.facts["oplog_first"]) < OplogPosition.parse(facts.position)
        writers.more()
        assert held.held_ms >= 800
        assert not is_locked(server) and not note_of(server).exists()


def test_without_a_lock_both_ends_are_known(server: MongoServer) -> None:
    zbackup = engine_of(server)
    with Writers(server) as writers, zbackup.consistent(zbackup.inspect(), "none") as held:
        writers.more()
        held.confirm()
        assert OplogPosition.parse(held.position) < OplogPosition.parse(held.facts["oplog_after"])
        assert held.facts["oplog_wall"] <= held.facts["oplog_after_wall"]
        assert held.facts["oplog_durable_wall"] < held.facts["oplog_after_wall"]
        assert OplogPosition.parse(held.facts["oplog_first"]) < OplogPosition.parse(held.position)
        assert not is_locked(server)


def test_it_does_not_nest_on_somebody_elses_lock(primary: MongoServer) -> None:
    zbackup = engine_of(primary)
    facts = zbackup.inspect()
    with primary.client() as other:
        assert other.admin.command({"fsync": 1, "lock": True})["lockCount"] == 1
        said = "is locked by somebody else's fsyncLock"
        with pytest.raises(LockNotTaken, match=said), zbackup.consistent(facts, "fsync"):
            raise AssertionError("held in spite of another lock")
        assert locked(other) and not note_of(primary).exists()
        assert other.admin.command({"fsyncUnlock": 1})["lockCount"] == 0


@pytest.mark.parametrize("group", [False, True], ids=["alone", "with its group"])
def test_killed_under_the_lock_the_server_is_free_again(primary: MongoServer, group: bool) -> None:
    with Writers(primary) as writers:
        for _ in range(KILLS):
            with holder(primary) as process:
                assert is_locked(primary)
                if group:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()
                await_that("the lock is gone", lambda: not is_locked(primary), 10)
            writers.more()
            await_that("the note is gone", lambda: not note_of(primary).exists(), 10)


def test_stopped_under_the_lock_it_loses_it_at_the_ceiling(primary: MongoServer) -> None:
    with holder(primary, hold=2) as process:
        os.kill(process.pid, signal.SIGSTOP)
        assert is_locked(primary)
        await_that("the lock is gone", lambda: not is_locked(primary), 12)


def test_a_lock_that_did_not_last_is_not_confirmed(primary: MongoServer) -> None:
    zbackup = engine_of(primary, hold=1)
    with (
        pytest.raises(LockNotTaken, match="did not last to the end"),
        zbackup.consistent(zbackup.inspect(), "fsync") as held,
    ):
        await_that("the watchdog releases it", lambda: not is_locked(primary), 10)
        held.confirm()
    assert not is_locked(primary) and not note_of(primary).exists()


def test_past_the_ceiling_another_lock_is_not_released(primary: MongoServer) -> None:
    zbackup = engine_of(primary, hold=1)
    with primary.client() as other:
        with (
            pytest.raises(LockNotTaken, match="did not last to the end"),
            zbackup.consistent(zbackup.inspect(), "fsync") as held,
        ):
            await_that("the watchdog releases it", lambda: not is_locked(primary), 10)
            other.admin.command({"fsync": 1, "lock": True})
            held.confirm()
        assert locked(other)
        assert other.admin.command({"fsyncUnlock": 1})["lockCount"] == 0
    assert not note_of(primary).exists()


def test_killed_before_it_asked_it_releases_nobody_elses_lock(primary: MongoServer) -> None:
    with primary.client() as client, client.start_session() as session:
        client.shop.work.insert_one({"collection": "there"})
        session.start_transaction()
        client.shop.work.insert_one({"open": True}, session=session)
        # A transaction counts as long, and is waited for, when it has been open for a second.
        time.sleep(1.5)
        asking = threading.Thread(target=lock_as_another, args=(primary,))
        asking.start()
        with started(primary, 60) as process:
            assert process.stdout
            lines = iter(process.stdout.readline, "")
            assert any("lock.waits_for_transactions" in line for line in lines)
            watchdog = Process.of(watchdog_of(process))
            process.kill()
            assert watchdog and watchdog.wait(60)
        # Its commit would wait for the end of the lock.
        session.abort_transaction()
        asking.join(60)
    assert is_locked(primary) and not note_of(primary).exists()
    with primary.client() as other:
        assert other.admin.command({"fsyncUnlock": 1})["lockCount"] == 0


@pytest.mark.parametrize("kind", ["primary", "alone"])
def test_when_the_watchdog_dies_too_the_next_run_releases_it(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server: MongoServer = request.getfixturevalue(kind)
    with holder(server) as process:
        os.kill(watchdog_of(process), signal.SIGKILL)
        process.kill()
        process.wait()
        time.sleep(0.5)
        assert is_locked(server) and note_of(server).exists()
        engine_of(server).heal()
        assert not is_locked(server) and not note_of(server).exists()


def test_a_note_releases_nobody_elses_lock(primary: MongoServer) -> None:
    with holder(primary) as process:
        os.kill(watchdog_of(process), signal.SIGKILL)
        process.kill()
        process.wait()
    with primary.client() as other:
        other.admin.command({"fsyncUnlock": 1})
        other.shop.work.insert_one({"between": "two locks"})
        other.admin.command({"fsync": 1, "lock": True})
        with pytest.raises(DatabaseError, match="another program may have as well"):
            engine_of(primary).heal()
        assert locked(other)
        other.admin.command({"fsyncUnlock": 1})
    engine_of(primary).heal()
    assert not note_of(primary).exists()


def test_an_open_transaction_is_seen_before_anybody_waits(primary: MongoServer) -> None:
    facts = engine_of(primary).inspect()
    with open_transaction(primary), Writers(primary) as writers:
        time.sleep(1)
        for policy, said in (("abort", "are open"), ("wait", "did not end within 2 s")):
            zbackup = engine_of(primary, wait=2, on_long_query=policy)
            with pytest.raises(LockNotTaken, match=said), zbackup.consistent(facts, "fsync"):
                raise AssertionError("locked behind an open transaction")
            writers.more()
    assert not note_of(primary).exists()


def test_a_lock_that_is_granted_too_late_is_released(server: MongoServer) -> None:
    zbackup = engine_of(server, wait=1, long_query=1000)
    facts = zbackup.inspect()
    with (
        open_transaction(server),
        pytest.raises(LockNotTaken, match="was not granted"),
        zbackup.consistent(facts, "fsync"),
    ):
        raise AssertionError("granted behind an open transaction")
    with Writers(server) as writers:
        await_that("no lock is left", lambda: not is_locked(server), 15)
        writers.more()
    await_that("the note is gone", lambda: not note_of(server).exists(), 15)


def test_a_server_alone_is_locked_too_and_says_what_it_lacks(alone: MongoServer) -> None:
    zbackup = engine_of(alone)
    facts = zbackup.inspect()
    assert facts.position == "" and facts.server_uuid == f"standalone at {alone.settings.datadir}"
    assert len(facts.blockers) == 1 and "keeps no oplog" in facts.blockers[0]
    choice = zbackup.choose_lock(facts)
    assert choice.kind == "fsync"
    with Writers(alone) as writers:
        with zbackup.consistent(facts, choice.kind) as held:
            assert writers.stand_still() and held.position == "" and held.facts == {}
            held.confirm()
        writers.more()


def _knows_zbackup(server: MongoServer) -> bool:
    try:
        engine_of(server).inspect()
    except (
        DatabaseError
    ):  # not there yet; a login that meets its coming may fail in other ways than LoginRefused
        return False
    return True


def test_a_hidden_late_member_is_held_where_it_is(room: Path) -> None:
    servers.ensure(["mongodb-6.0"])
    members = [
        MongoServer(settings_in(room / f"m{n}", "mongodb-6.0", replica_set="rs1")).start() for n in range(2)
    ]
    try:
        late = {"hidden": True, "priority": 0, "votes": 0, "secondaryDelaySecs": 3}
        initiate(members, {1: late})
        zbackup = engine_of(members[1])
        with Writers(members[0]) as writers:
            await_that("the account has come to the late member", lambda: _knows_zbackup(members[1]), 20)
            facts = zbackup.inspect()
            assert (facts.role, facts.server["member_state"]) == ("replica", "SECONDARY")
            assert (facts.server["hidden"], facts.server["delay_s"]) == ("true", "3")
            assert any("lags 3 s behind on purpose" in warning for warning in facts.warnings)
            assert facts.server_uuid == engine_of(members[0]).inspect().server_uuid
            with zbackup.consistent(facts, "fsync") as held:
                writers.more()
                assert is_locked(members[1]) and not is_locked(members[0])
                held.confirm()
                behind = OplogPosition.parse(engine_of(members[0]).inspect().position)
                assert behind.seconds - OplogPosition.parse(held.position).seconds >= 2
    finally:
        for member in members:
            member.kill()
