"""zbackup stopped or interrupted on its way to a mongod's lock. Needs no ZFS; run with pytest by name."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from pymongo.errors import PyMongoError

from tests.lab import servers
from tests.lab.mongo_fixture import MongoServer, start_single
from tests.lab.mongo_locking import (
    Writers,
    await_that,
    engine_of,
    is_locked,
    lock_as_another,
    note_of,
    open_transaction,
    settings_in,
    started,
    watchdog_of,
)
from zbackup.engines.mongodb.engine import MongoEngine
from zbackup.engines.mongodb.lock.lock import SLACK_S
from zbackup.model.errors import LockNotTaken
from zbackup.model.server import ServerFacts
from zbackup.proc.detached import Process

WAIT_S = 5
"""How long tests.lab.mongo_lock_holder waits for the lock."""


@pytest.fixture(scope="module")
def server() -> Iterator[MongoServer]:
    servers.ensure(["mongodb-6.0"])
    room = Path(tempfile.mkdtemp(prefix="zw", dir="/tmp"))
    room.chmod(0o755)
    with start_single(settings_in(room, "mongodb-6.0", replica_set="rs0")) as running:
        yield running
    shutil.rmtree(room)


def test_stopped_before_it_asked_it_releases_nobody_elses_lock(server: MongoServer) -> None:
    """However long for: its watchdog does not take the lock that comes meanwhile for its own."""
    with ExitStack() as until_then:
        with open_transaction(server):
            # A transaction counts as long, and is waited for, when it has been open for a second.
            time.sleep(1.5)
            process = until_then.enter_context(started(server, 60))
            assert process.stdout
            assert any("lock.waits_for_transactions" in line for line in iter(process.stdout.readline, ""))
            os.kill(process.pid, signal.SIGSTOP)
        lock_as_another(server)
        until_then.callback(unlock, server)
        watchdog = Process.of(watchdog_of(process))
        assert watchdog and not watchdog.wait(WAIT_S + SLACK_S + 2), "it does not wait any more"
        assert is_locked(server)
        os.kill(process.pid, signal.SIGCONT)
        assert process.wait(60) != 0
        assert watchdog.wait(60)
        assert is_locked(server) and not note_of(server).exists()


def test_interrupted_while_it_waits_the_lock_is_released_when_it_comes(server: MongoServer) -> None:
    with open_transaction(server), started(server, 60, long=1000) as process:
        await_that("the lock is asked for", lambda: is_asked_for(server), 30)
        watchdog = Process.of(watchdog_of(process))
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT, "it has given up by itself"
        assert watchdog and watchdog.alive, "it has not come yet"
    assert watchdog.wait(60)
    assert not is_locked(server) and not note_of(server).exists()
    with Writers(server) as writers:
        writers.more()


def test_a_server_killed_while_the_lock_is_waited_for_is_told(server: MongoServer) -> None:
    """And not that time passed. What it had is there when it runs again, unlocked."""
    zbackup = engine_of(server, wait=60, long_query=1000)
    facts = zbackup.inspect()
    with suppress(PyMongoError), open_transaction(server, gone_after=1), ThreadPoolExecutor() as beside:
        taking = beside.submit(lambda: held_by(zbackup, facts))
        await_that("the lock is asked for", lambda: is_asked_for(server), 30)
        server.kill()
        with pytest.raises(LockNotTaken, match="went away while it was to be locked"):
            taking.result()
    server.start()
    zbackup.heal()
    assert not is_locked(server) and not note_of(server).exists()


def test_a_server_killed_under_the_lock_is_not_waited_for(server: MongoServer) -> None:
    """Its lock ended with it: nobody asks it for ten minutes to unlock. One that only hangs is unlocked."""
    zbackup = engine_of(server, hold=60)
    with ExitStack() as until_then, ThreadPoolExecutor() as beside:
        until_then.enter_context(zbackup.consistent(zbackup.inspect(), "fsync"))
        os.kill(server.pid, signal.SIGSTOP)
        beside.submit(go_on_later, server)
        until_then.close()
        assert not is_locked(server) and not note_of(server).exists()
    held = ExitStack()
    held.enter_context(zbackup.consistent(zbackup.inspect(), "fsync"))
    with ThreadPoolExecutor() as beside:
        server.kill()
        time.sleep(2)  # until all that watches the server knows
        try:
            # What it is compared with is ten minutes.
            beside.submit(held.close).result(60)
        finally:
            server.start()
    zbackup.heal()
    assert not is_locked(server) and not note_of(server).exists()


def go_on_later(server: MongoServer) -> None:
    time.sleep(8)
    os.kill(server.pid, signal.SIGCONT)


def held_by(zbackup: MongoEngine, facts: ServerFacts) -> None:
    with zbackup.consistent(facts, "fsync"):
        raise AssertionError("locked, and a transaction is open")


def unlock(server: MongoServer) -> None:
    with server.client() as other:
        assert other.admin.command({"fsyncUnlock": 1})["lockCount"] == 0


def is_asked_for(server: MongoServer) -> bool:
    with server.client() as client:
        found = client.admin.command({"currentOp": 1, "$all": True, "desc": "fsyncLockWorker"})
        return bool(found["inprog"])
