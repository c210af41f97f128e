"""A log between a base and a moment: a temporary table, GTIDs, a reset, three origins."""

from datetime import datetime

import pytest

from tests.system.house import House, checksums, next_second
from tests.system.portrait import Portrait, portrait

VARIANTS = ("mariadb-10.11",)
SLOW_VARIANTS = ("mysql-9.7", "mysql-9.7-no-gtid")

SHOP = ("shop.customers", "shop.orders")


@pytest.mark.told_with("mariadb-10.11", "mysql-9.7-no-gtid")
class TestOpenTemporary:
    """A temporary table that was open at the base is not in it, so a statement that reads it fails."""

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
            assert refused.rc == 11 and "passing" in refused.err, str(refused)
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


def _write(source: House, text: str, replica: House) -> None:
    source.server.sql("UPDATE shop.customers SET email = CONCAT(%s, id)", (text,))
    source.server.sql("DELETE FROM shop.orders ORDER BY id LIMIT 10")
    replica.server.catch_up(source.server)


def _quiet(house: House) -> tuple[datetime, Portrait]:
    moment = next_second()
    with house.server.connect() as connection:
        return moment, portrait(connection)
