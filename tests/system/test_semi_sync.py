"""A commit waits for a semi-sync replica that is gone: backups and restores go on, and all locks end."""

import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pymysql
import pytest

from tests.lab.variants import Variant
from tests.system.house import House, wait_until

VARIANTS = ("mysql-9.7", "mariadb-10.11")
PATIENCE_S = 60
"""Seconds for any command; the commit waits longer."""
OPTIONS = {
    "mysql": ("--plugin-load-add=semisync_source.so", "--rpl-semi-sync-source-timeout=3600000"),
    "mariadb": ("--rpl-semi-sync-master-timeout=3600000", "--rpl-semi-sync-master-wait-point=AFTER_SYNC"),
}
WAITS = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for semi-sync ACK%'"
COUNT = "SELECT COUNT(*) FROM shop.work"


@pytest.fixture(scope="module")
def variant(variant: Variant) -> Variant:
    kind = variant.flavour.partition("-")[0]
    return Variant(flavour=variant.flavour, gtid=variant.gtid, options=OPTIONS[kind])


@pytest.fixture
def stalled(house: House) -> Iterator[None]:
    """A commit that is in the log and in no replica."""
    server = house.server
    word = "source" if server.settings.kind == "mysql" else "master"
    server.sql("CREATE TABLE shop.work (id INT AUTO_INCREMENT PRIMARY KEY, t INT)")
    server.sql("INSERT INTO shop.work (t) VALUES (1)")
    house.snapshot()
    server.sql("INSERT INTO shop.work (t) VALUES (2)")

    def commit() -> None:
        with suppress(pymysql.MySQLError):
            server.sql("INSERT INTO shop.work (t) VALUES (3)")

    server.sql(f"SET GLOBAL rpl_semi_sync_{word}_enabled = 1")
    thread = threading.Thread(target=commit)
    thread.start()
    try:
        wait_until("the commit waits", lambda: bool(server.sql(WAITS)), 20)
        yield
        assert thread.is_alive(), "the commit went on by itself"
    finally:
        server.sql(f"SET GLOBAL rpl_semi_sync_{word}_enabled = 0")
        thread.join(60)


def test_all_goes_on_while_a_commit_waits_for_a_replica(house: House, stalled: None) -> None:
    mysql = house.server.settings.kind == "mysql"
    began = time.monotonic()
    checked = house.zb("check")
    assert checked.rc == 0 and "semi-sync replication: 0 of 1 replicas are connected" in checked.out
    taken = house.zb("snapshot", "--json")
    if mysql:
        assert taken.data[0]["snapshot"]["lock"] == "backup-lock"
    else:
        assert "commits waiting for a semi-sync replica: " in taken.refused(8)
    wait_until("the sessions are gone", lambda: house.sessions() == [], 5)
    assert time.monotonic() - began < 2 * PATIENCE_S
    # The server is where it would be after a crash: what is in the log is committed.
    report = house.restore("latest", "latest")
    with house.clone(report) as clone, clone.cursor() as cursor:
        cursor.execute(COUNT)
        assert cursor.fetchall() == ((3,),)
    if mysql:
        backup = taken.data[0]["snapshot"]["name"]
        again = house.zb("restore", "--to-backup", backup, "--name", "base", "--json").data
        with house.clone(again) as clone, clone.cursor() as cursor:
            cursor.execute(COUNT)
            assert cursor.fetchall() == ((3,),)
    assert time.monotonic() - began < 4 * PATIENCE_S
