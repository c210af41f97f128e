"""The lab's mongod servers and write load against each other, on this machine's own file system.

Not part of the unit tests, for it starts real servers: pytest tests/lab/selftest_mongo.py
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pymongo.errors import OperationFailure

from tests.lab import mongo_load, servers
from tests.lab.mongo_fixture import FLAVOURS, MongoServer, MongoSettings, dbhash, initiate, start_single
from tests.lab.repeats import some


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name that the servers' user may enter."""
    with TemporaryDirectory(prefix="zbm-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def settings(place: Path, name: str, replica_set: str = "", flavour: str = "mongodb-6.0") -> MongoSettings:
    servers.ensure([flavour])
    datadir, run_dir = place / f"{name} data", place / name
    return MongoSettings(flavour=flavour, datadir=datadir, run_dir=run_dir, replica_set=replica_set)


def await_like(member: MongoServer, wanted: dict[str, str]) -> None:
    """Wait until a member holds this. A late one does not even know the accounts at first."""
    found: object = None
    limit = time.monotonic() + 90
    while found != wanted:
        assert time.monotonic() < limit, f"{found} and not {wanted}"
        time.sleep(0.2)
        try:
            found = dbhash(member.client())
        except OperationFailure as refused:
            found = refused


@pytest.mark.parametrize("flavour", some(FLAVOURS, FLAVOURS[0]))
def test_a_killed_primary_has_all_it_acknowledged(place: Path, flavour: str) -> None:
    server = start_single(settings(place, "s", "rs0", flavour))
    try:
        load = mongo_load.start(server)
        time.sleep(2)
        server.kill()
        summary = load.stop()
        server.start()
        verdict = mongo_load.verify(server.client(), load.journal)
        assert summary.transactions > 50
        assert verdict.present >= summary.transactions
        assert "thread 1" in load.messages
    finally:
        server.kill()


def test_an_earlier_moment_and_a_changed_document_are_refused(place: Path) -> None:
    server = start_single(settings(place, "s", "rs0"))
    try:
        with mongo_load.start(server, threads=3, rate=300) as load:
            time.sleep(1)
            middle = datetime.now(UTC)
            time.sleep(1)
        client = server.client()
        mongo_load.verify(client, load.journal)
        with pytest.raises(AssertionError, match="are too much"):
            mongo_load.verify(client, load.journal, middle)
        before = dbhash(client)
        client.workload.balance.update_one({"thread": 2}, {"$inc": {"amount": 1}})
        with pytest.raises(AssertionError, match="thread 2: balance"):
            mongo_load.verify(client, load.journal)
        changed = {name for name, value in dbhash(client).items() if before[name] != value}
        assert changed == {"workload.balance"}
    finally:
        server.kill()


def test_a_set_of_three_has_a_hidden_and_a_late_member(place: Path) -> None:
    members = [MongoServer(settings(place, f"m{number}", "rs0")).start() for number in range(3)]
    try:
        initiate(members, {1: {"hidden": True, "priority": 0}, 2: {"priority": 0, "secondaryDelaySecs": 2}})
        with mongo_load.start(members[0], rate=50) as load:
            time.sleep(1)
        for member in members[1:]:
            wanted = dbhash(members[0].client())
            await_like(member, wanted)
            mongo_load.verify(member.client(), load.journal)
    finally:
        for member in members:
            member.kill()


def test_a_standalone_server_takes_its_accounts(place: Path) -> None:
    server = start_single(settings(place, "s"))
    try:
        assert server.client("zbackup", "zb-secret").admin.command("ping")["ok"] == 1
        server.stop()
        assert not server.running
    finally:
        server.kill()
