"""A log between a base and a moment: a temporary table, GTIDs, a reset, three origins."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.lab.pool import create_pool, run
from tests.system.house import House, checksums, local, next_second
from tests.system.portrait import Portrait, portrait

VARIANTS = ("mariadb-10.11",)
SLOW_VARIANTS = ("mysql-9.7", "mysql-9.7-no-gtid")

SHOP = ("shop.customers", "shop.orders")


@pytest.mark.told_with("mariadb-10.11", "mysql-9.7-no-gtid")
class TestOpenTemporary:
    """A temporary table that was open at the base is not in it, so no statement with it can be replayed."""

    def test_a_statement_that_needs_it_ends_a_restore_and_a_later_base_does_not_need_it(
        self, house: House
    ) -> None:
        with house.server.connect(database="shop") as session, session.cursor() as cursor:
            cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
            cursor.execute("CREATE TEMPORARY TABLE passing (id INT PRIMARY KEY)")
            cursor.execute("INSERT INTO passing VALUES (1), (2)")
            base = house.snapshot()
            house.server.sql("UPDATE shop.customers SET email = CONCAT('one', id)")
            before, sums = next_second(), house.server.checksum(SHOP)
            cursor.execute("UPDATE customers SET name = 'x' WHERE id IN (SELECT id FROM passing)")
            behind = next_second()
            house.server.sql("UPDATE shop.customers SET email = CONCAT('two', id)")
            held = house.names()
            refused = house.zb("-q", *house.restoring(behind, "never"))
            assert refused.rc == 5 and "shop.passing" in refused.err, str(refused)
            assert {name for name in house.names() - held if "@" not in name} <= {house.clones}
            later = house.snapshot()
        report = house.restore(before, "before")
        assert report["base"]["backup"] == base["backup"]
        with house.clone(report) as clone:
            assert checksums(clone, list(sums)) == sums
        report = house.restore("now", "later")
        assert report["base"]["backup"] == later["backup"]
        house.destroy("before", "later")


@pytest.mark.told_with("mariadb-10.11", "mysql-9.7")
class TestSwitch:
    """A replica that was promoted, and later followed a source again: three origins in one log."""

    def test_moments_before_and_after_each_switch(self, house: House, source: House) -> None:
        word = "REPLICA" if house.server.settings.kind == "mysql" else "SLAVE"
        _write(source, "from the source", house)
        base = house.snapshot()
        _write(source, "after the base", house)
        house.server.sql(f"STOP {word}")
        house.server.sql(f"RESET {word} ALL")
        house.server.sql("CREATE TABLE shop.promoted (a VARCHAR(60)) ENGINE=InnoDB")
        house.server.sql("INSERT INTO shop.promoted VALUES ('my own')")
        promoted, promoted_like = _quiet(house)
        house.server.sql("INSERT INTO shop.promoted VALUES ('more of my own')")
        house.server.make_replica_of(source.server)
        _write(source, "from the source again", house)
        back, back_like = _quiet(house)
        _write(source, "too late", house)
        for name, moment, like in (("promoted", promoted, promoted_like), ("back", back, back_like)):
            report = house.restore(moment, name)
            assert report["base"]["backup"] == base["backup"]
            with house.clone(report) as clone:
                assert portrait(clone) == like
            house.destroy(name)


@pytest.mark.told_with("mysql-9.7-no-gtid")
def test_gtids_that_were_switched_on_after_the_base(house: House) -> None:
    server = house.server
    base = house.snapshot()
    server.sql("UPDATE shop.customers SET email = CONCAT('anonymous', id)")
    server.sql("SET GLOBAL enforce_gtid_consistency = ON")
    for mode in ("OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"):
        server.sql(f"SET GLOBAL gtid_mode = {mode}")
        server.sql("DELETE FROM shop.orders ORDER BY id LIMIT 1")
    moment = next_second()
    sums = server.checksum(SHOP)
    server.sql("DELETE FROM shop.orders")
    report = house.restore(moment, "switched-on")
    assert report["base"]["backup"] == base["backup"]
    with house.clone(report) as clone:
        assert checksums(clone, list(sums)) == sums
    house.destroy("switched-on")


@pytest.mark.told_with("mariadb-10.11", "mysql-9.7-no-gtid")
class TestPurged:
    """Files of the log that the server purged before a backup had them: what they held, nobody can tell."""

    @pytest.fixture
    def config(self, house: House) -> Iterator[Path]:
        """With an account that may undo, and a destination."""
        server, secret, vault = house.server, house.home / "copy-password", create_pool()
        server.sql("CREATE USER zcopy@localhost IDENTIFIED BY 'copy-secret'")
        server.sql("GRANT ALL ON shop.* TO zcopy@localhost")
        secret.write_text("copy-secret")
        secret.chmod(0o600)
        run("zfs", "create", f"{vault.name}/vault")
        yield house.configure(
            "purged",
            copy_back={"user": "zcopy", "password": {"file": str(secret)}},
            ship=[{"name": "vault", "to": f"zfs:{vault.name}/vault", "initial": "allow"}],
        )
        vault.destroy()

    def test_who_searches_the_log_is_told_that_some_is_lost(self, house: House, config: Path) -> None:
        """A drop and an exchange of two columns lie there, of which nothing else tells."""
        server = house.server
        server.sql("CREATE TABLE shop.crossed (id INT PRIMARY KEY, a INT, b INT) ENGINE=InnoDB")
        server.sql("INSERT INTO shop.crossed VALUES (1, 10, 20)")
        _doom(house)
        before = next_second()
        server.sql("UPDATE shop.crossed SET a = 11")
        house.snapshot()
        assert house.zb("ship", config=config).rc == 0
        _doom(house)
        server.sql("ALTER TABLE shop.crossed RENAME COLUMN a TO c, RENAME COLUMN b TO a")
        server.sql("ALTER TABLE shop.crossed RENAME COLUMN c TO b")
        for _ in range(3):
            server.sql("FLUSH BINARY LOGS")
        name = _updated(house)
        server.sql(f"PURGE BINARY LOGS TO '{_log_files(house)[-1]}'")
        # MariaDB keeps those that its crash recovery would begin with.
        left = _log_files(house)[0]
        server.sql("UPDATE shop.customers SET email = CONCAT('purged', id)")
        self._look(house, config, before, name, left)
        house.snapshot()
        self._look(house, config, before, name, left)
        assert house.zb("ship", config=config).rc == 0
        self._look(house, config, before, name, left, "--at", "vault")

    def _look(self, house: House, config: Path, before: datetime, name: str, left: str, *at: str) -> None:
        held, place = house.names(), ("--from", *at[1:]) if at else ()
        for words in (
            ("log", *at),
            ("restore", "--before-drop", "shop.doomed", *place, "--name", "never", "--yes"),
            *(() if at else [("undo", name, "--yes")]),
        ):
            said = house.zb(*words, "-q", config=config).refused(9)
            assert re.search(rf"the log held between \S+:\d+ and {left}( \(. files?\))? is gone", said), said
        assert house.zb("log", *at, "--until", local(before), config=config).rc == 0
        assert house.names() == held


@pytest.mark.told_with("mariadb-10.11", "mysql-9.7-no-gtid")
class TestReset:
    """A log that was reset is another log."""

    def test_a_moment_before_a_reset_is_refused_and_one_after_it_needs_a_new_base(self, house: House) -> None:
        server = house.server
        mysql = server.settings.kind == "mysql"
        house.snapshot()
        server.sql("UPDATE shop.customers SET email = CONCAT('one', id)")
        lost = next_second()
        server.sql("RESET BINARY LOGS AND GTIDS" if mysql else "RESET MASTER")
        server.sql("UPDATE shop.customers SET email = CONCAT('two', id)")
        before = house.state()
        said = house.zb(*house.restoring(lost, "never"), "-q").refused(5)
        assert "reset" in said or "gap" in said
        assert house.state() == before
        base = house.snapshot()
        server.sql("UPDATE shop.customers SET email = CONCAT('three', id)")
        quiet = next_second()
        sums = server.checksum(SHOP)
        server.sql("UPDATE shop.customers SET email = CONCAT('four', id)")
        report = house.restore(quiet, "after-reset")
        assert report["base"]["backup"] == base["backup"]
        with house.clone(report) as clone:
            assert checksums(clone, list(sums)) == sums
        house.destroy("after-reset")


def _doom(house: House) -> None:
    house.server.sql("CREATE TABLE shop.doomed (id INT PRIMARY KEY) ENGINE=InnoDB")
    house.server.sql("INSERT INTO shop.doomed VALUES (1)")
    house.server.sql("DROP TABLE shop.doomed")


def _updated(house: House) -> str:
    """The transaction that a backup holds, and that is to be undone."""
    shown = house.zb("log", "--table", "shop.crossed", "--kind", "update", "--json").succeeded
    entry = json.loads(shown.splitlines()[-2])["transaction"]
    return str(entry["gtid"] or entry["start"])


def _log_files(house: House) -> list[str]:
    return [str(row[0]) for row in house.server.sql("SHOW BINARY LOGS")]


def _write(source: House, text: str, replica: House) -> None:
    source.server.sql("UPDATE shop.customers SET email = CONCAT(%s, id)", (text,))
    source.server.sql("DELETE FROM shop.orders ORDER BY id LIMIT 10")
    replica.server.catch_up(source.server)


def _quiet(house: House) -> tuple[datetime, Portrait]:
    moment = next_second()
    with house.server.connect() as connection:
        return moment, portrait(connection)
