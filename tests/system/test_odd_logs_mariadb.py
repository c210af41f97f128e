"""A MariaDB whose log lies behind a link and was torn by a crash, whose pages are compressed, and whose time
zone is not that of its host.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pymysql
import pytest

from tests.lab.pool import Pool
from tests.lab.server_user import give_away
from tests.lab.variants import Variant
from tests.system.conftest import end_clones
from tests.system.house import House, build, next_second, wait_until

TORN = b"\x00\x11\x22\x33\xa2\x01\x00\x00\x00\xff\x00\x00\x00"
"""The beginning of an event: a GTID event of 255 bytes, of which 13 are there."""


ZONE = "Asia/Kolkata"


@contextmanager
def in_own_zone() -> Iterator[pytest.MonkeyPatch]:
    """What is started in it is not in the host's time zone."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TZ", ZONE)
        yield environment


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    (pool.log.mountpoint / "log").mkdir()
    link = pool.home / "logs"
    link.symlink_to(pool.log.mountpoint / "log")
    give_away(pool.log.mountpoint / "log")
    variant = Variant(flavour="mariadb-10.11", options=(f"--log-bin={link}/binlog",))
    with in_own_zone() as environment, build(pool, pool.home, variant, pool.data, pool.log) as server:
        environment.undo()
        # Like a daemon that is not root, zbackup does not see the server's environment.
        (server.settings.run_dir / "server.pid").unlink()
        house = House(pool, pool.home, server, (pool.data.name,))
        yield house
        end_clones(house)
        # With direct I/O on ZFS it tries to write its compressed pages without end.
        server.kill()


@pytest.fixture(scope="module")
def torn(house: House) -> datetime:
    """The moment behind ten rows, before the eleventh. Between the fifth and the sixth the server crashed."""
    server = house.server
    server.sql("CREATE DATABASE story")
    server.sql("CREATE TABLE story.told (n INT PRIMARY KEY, t TEXT) PAGE_COMPRESSED=1")
    server.sql("CREATE TABLE story.clocks (own DATETIME, utc DATETIME)")
    house.snapshot()
    for number in range(5):
        server.sql("INSERT INTO story.told VALUES (%s, REPEAT('x', 9000))", (number,))
    (written,) = server.sql("SHOW MASTER STATUS")
    server.kill()
    file = house.pool.log.mountpoint / "log" / str(written[0])
    with file.open("ab") as log:
        log.write(TORN)
    checked = house.zb("check")
    assert checked.rc == 7 and "warning   log: the end of the server's log is torn" in checked.out, checked
    assert f"{file.name} ends in the middle of an event" in checked.out
    with in_own_zone():
        server.start()
    (now,) = server.sql("SHOW MASTER STATUS")
    assert now[0] != written[0], "the server has begun another file"
    assert file.read_bytes().endswith(TORN), "and left the torn one as it was"
    for number in range(5, 10):
        server.sql("INSERT INTO story.told VALUES (%s, REPEAT('x', 9000))", (number,))
    with server.connect() as session, session.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute("INSERT INTO story.clocks VALUES (NOW(), UTC_TIMESTAMP())")
    moment = next_second()
    server.sql("INSERT INTO story.told VALUES (10, '')")
    return moment


def test_what_check_calls_ready_restores(house: House, torn: datetime) -> None:
    (checked,) = house.zb("check", "--json").data
    assert [f["severity"] for f in checked["findings"] if f["subject"] == "log"] == ["ok"], checked
    assert checked["health"] != "critical"
    report = house.restore(torn, "back", "--read-only")
    with house.clone(report) as clone, clone.cursor() as cursor:
        cursor.execute("SELECT n, LENGTH(t) FROM story.told ORDER BY n")
        assert cursor.fetchall() == tuple((n, 9000) for n in range(10))
        cursor.execute("SELECT TIMEDIFF(own, utc) FROM story.clocks")
        assert cursor.fetchall() == ((timedelta(hours=5, minutes=30),),), "as the server's own clock was"


def test_a_server_that_stands_still_is_ended(house: House, torn: datetime) -> None:
    """Its last words are told, and what to set; nothing is left."""
    config = house.configure("stall", recovery={"stall": "20s"})
    words = house.restoring("now", "still")
    restoring = house.begin(*words, config=config, forked=True)
    note = house.home / "run" / "still.process"
    wait_until("it starts", lambda: note.exists() and bool(note.read_text()), 60)
    os.kill(int(note.read_text().split()[0]), signal.SIGSTOP)
    ended = restoring.end()
    assert ended.rc == 7 and "has done nothing for 20 s" in ended.err, ended
    assert "set recovery.stall" in ended.err
    assert not [name for name in house.names() if name.startswith(f"{house.clones}/still")]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO story.told VALUES (99, '')",
        "CREATE TABLE story.more (n INT) ENGINE=Aria",
        "CREATE USER somebody",
        "DROP DATABASE story",
    ],
)
def test_read_only_is_for_administrators_too(house: House, torn: datetime, statement: str) -> None:
    socket = str(house.home / "run" / "back" / "mysqld.sock")
    assert os.path.lexists(socket)
    refused = pytest.raises(pymysql.MySQLError, match="READ ONLY")
    with house.clone({"socket": socket}) as clone, clone.cursor() as cursor, refused:
        cursor.execute(statement)
