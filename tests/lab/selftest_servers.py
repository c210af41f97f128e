"""The lab's servers and write load against each other, on this machine's own file system.

Not part of the unit tests, for it starts real servers: pytest tests/lab/selftest_servers.py
"""

import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.lab import servers
from tests.lab.load import Load, rows, verify
from tests.lab.load_journal import read, summarise
from tests.lab.load_model import SCHEMA
from tests.lab.mongo_fixture import MongoServer, MongoSettings
from tests.lab.mysql_fixture import DatabaseServer, ServerFailed, Settings, free_port
from tests.lab.repeats import some
from tests.lab.servers.accounts import ZBACKUP_PASSWORD, ZBACKUP_USER

KINDS = [("mysql-9.7", True), ("mysql-9.7", False), ("mariadb-10.11", True)]
TOLD = some(KINDS, KINDS[0], KINDS[2])
RATE = 300.0
"""Transactions a second, where it is enough that many are under way."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name that the servers' user may enter."""
    with TemporaryDirectory(prefix="zbs-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module", params=TOLD, ids=lambda kind: f"{kind[0]}{'' if kind[1] else '-no-gtid'}")
def running(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A running server of each kind, its binary log in a directory of its own."""
    flavour, gtid = request.param
    servers.ensure([flavour])
    with TemporaryDirectory(prefix="zbs-") as name:
        Path(name).chmod(0o755)
        settings = Settings(
            flavour=flavour,
            gtid=gtid,
            datadir=Path(name) / "my data",
            binlog_dir=Path(name) / "my data" / "binlog",
            run_dir=Path(name) / "run",
            port=free_port(),
        )
        started = DatabaseServer(settings).start()
        yield started
        started.kill()


@pytest.fixture
def server(running: DatabaseServer) -> DatabaseServer:
    """The one of this kind, on which no load has written yet."""
    running.sql(f"DROP DATABASE {SCHEMA}")
    running.sql(f"CREATE DATABASE {SCHEMA} CHARACTER SET utf8mb4")
    return running


def test_a_killed_server_has_all_it_acknowledged(server: DatabaseServer) -> None:
    load = Load.start(server, threads=4)
    time.sleep(1)
    server.kill()
    summary = load.stop()
    server.start()
    verdict = verify(server.connect(), load.journal)
    print(f"\n{server.settings.flavour}: {summary.rate:.0f} transactions/s, {verdict}")
    assert summary.transactions > 100
    assert verdict.present >= summary.transactions
    assert "thread 1" in load.messages


def test_the_end_is_right_and_an_earlier_moment_is_refused(server: DatabaseServer) -> None:
    with Load.start(server, threads=3, rate=300) as load:
        time.sleep(1)
        middle = datetime.now(UTC)
        time.sleep(1)
    connection = server.connect()
    verdict = verify(connection, load.journal, datetime.now(UTC))
    assert verdict.undecided == 3  # one beyond the journal for every thread
    assert 50 < load.summary().transactions < 800
    with pytest.raises(AssertionError, match="are too much"):
        verify(connection, load.journal, middle)


def test_a_changed_row_is_found(server: DatabaseServer) -> None:
    with Load.start(server, threads=2, rate=RATE) as load:
        time.sleep(0.5)
    connection = server.connect()
    verify(connection, load.journal)
    server.sql("UPDATE workload.balance SET amount = amount + 1 WHERE thread = 2 ORDER BY slot LIMIT 1")
    with pytest.raises(AssertionError, match="thread 2: balance"):
        verify(connection, load.journal)


def test_a_second_load_goes_on_where_the_first_ended(server: DatabaseServer) -> None:
    with Load.start(server, threads=2, rate=RATE) as load:
        time.sleep(0.3)
    first = rows(server.connect())[1].last
    with Load.start(server, threads=2, rate=RATE, journal=load.journal):
        time.sleep(0.3)
    assert rows(server.connect())[1].last > first
    verify(server.connect(), load.journal)


def test_a_lock_shows_as_a_stall(server: DatabaseServer) -> None:
    with Load.start(server, threads=4, rate=RATE) as load:
        time.sleep(0.5)
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute("FLUSH TABLES WITH READ LOCK")
            time.sleep(0.7)
            cursor.execute("UNLOCK TABLES")
        time.sleep(0.5)
    assert 650 < summarise(read(load.journal)).stall < 3000


@pytest.mark.parametrize("updates", [True, False], ids=["log-updates", "no-log-updates"])
def test_a_replica_follows_under_load(server: DatabaseServer, place: Path, updates: bool) -> None:
    settings = Settings(
        flavour=server.settings.flavour,
        gtid=server.settings.gtid,
        datadir=place / "replica",
        run_dir=place / "r",
        port=free_port(),
        log_replica_updates=updates,
    )
    with DatabaseServer(settings) as replica:
        replica.make_replica_of(server)
        with Load.start(server, threads=4, rate=RATE) as load:
            time.sleep(1)
        replica.catch_up(server)
        assert replica.checksum() == server.checksum()
        verify(replica.connect(), load.journal)


def test_the_account_of_zbackup_sees_tables_but_reads_none(server: DatabaseServer) -> None:
    with server.connect(ZBACKUP_USER, ZBACKUP_PASSWORD).cursor() as cursor:
        cursor.execute("SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_NAME = 'orders'")
        assert cursor.fetchall() == (("InnoDB",),)
        with pytest.raises(Exception, match="SELECT command denied"):
            cursor.execute("SELECT * FROM shop.orders")


def test_gtids_are_on_or_off_as_asked(server: DatabaseServer) -> None:
    if server.settings.kind == "mysql":
        assert server.sql("SELECT @@gtid_mode") == [("ON" if server.settings.gtid else "OFF",)]
    server.sql("DELETE FROM shop.orders WHERE id = 1")
    written = server.sql("SHOW BINLOG EVENTS IN 'binlog.000001'")
    kinds = {str(event[2]).lower() for event in written}
    assert bool(kinds & {"gtid", "gtid_tagged"}) is (
        server.settings.gtid or server.settings.kind == "mariadb"
    )


def test_it_does_not_run_as_root(server: DatabaseServer) -> None:
    owner = (server.settings.datadir / "ibdata1").stat().st_uid
    assert Path(f"/proc/{server.pid}").stat().st_uid == owner
    assert owner != 0 or os.geteuid() != 0


def test_a_server_that_cannot_start_says_why(server: DatabaseServer, place: Path) -> None:
    settings = Settings(
        flavour=server.settings.flavour,
        datadir=place / "bad",
        run_dir=place / "b",
        options=("--no-such-option",),
    )
    with pytest.raises(ServerFailed, match="no-such-option"):
        DatabaseServer(settings).start()


def test_a_server_that_is_given_up_while_it_starts_is_gone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a bench is told to end."""

    def told_to_end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    servers.ensure(["mariadb-10.11", "mongodb-6.0"])
    sql = DatabaseServer(Settings(flavour="mariadb-10.11", datadir=place / "d", run_dir=place / "r"))
    mongod = MongoServer(MongoSettings(datadir=place / "m", run_dir=place / "mr"))
    for server in (sql, mongod):
        monkeypatch.setattr(server, "_await_answer", told_to_end)
        with pytest.raises(SystemExit), server:
            pass
        assert server.pid and not server.running
