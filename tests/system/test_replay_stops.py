"""Log that no server can replay: a gap that names it, until the next base."""

import os
from datetime import datetime

import pytest

from tests.system.house import House, checksums, next_second

VARIANTS = ("mysql-9.7", "mariadb-10.11")
SLOW_VARIANTS = ("mysql-9.7-no-gtid",)

SHOP = ("shop.customers", "shop.orders")


class TestImport:
    """A file that is brought in is in no log: what came behind it takes a backup that was taken behind it."""

    def test_a_table_s_file_that_was_imported_is_a_gap_that_names_it_until_the_next_base(
        self, house: House
    ) -> None:
        server = house.server
        server.sql("CREATE TABLE shop.brought ENGINE=InnoDB SELECT 1 AS id")
        file = server.settings.datadir / "shop" / "brought.ibd"
        with server.connect(database="shop") as session, session.cursor() as cursor:
            cursor.execute("FLUSH TABLES brought FOR EXPORT")
            kept = {path: path.read_bytes() for path in (file, file.with_suffix(".cfg"))}
            owner = file.stat()
            cursor.execute("UNLOCK TABLES")
            house.snapshot()
            before, sums = next_second(), server.checksum(SHOP)
            cursor.execute("ALTER TABLE brought DISCARD TABLESPACE")
            for path, content in kept.items():
                path.write_bytes(content)
                os.chown(path, owner.st_uid, owner.st_gid)
            cursor.execute("ALTER TABLE brought IMPORT TABLESPACE")
        name, behind = last_of(house, "shop.brought")
        require_a_gap(house, name, behind, "IMPORT TABLESPACE")
        report = house.restore(before, "before-import")
        with house.clone(report) as clone:
            assert checksums(clone, list(sums)) == sums
        base = house.snapshot()
        report = house.restore("now", "after-import")
        assert report["base"]["backup"] == base["backup"]
        with house.clone(report) as clone:
            tables = [*SHOP, "shop.brought"]
            assert checksums(clone, tables) == server.checksum(tables)
        house.destroy("before-import", "after-import")


@pytest.mark.told_with("mariadb-10.11", "mysql-9.7-no-gtid")
class TestPlugins:
    """That a plugin was installed is in no log, and what uses it is. A function's file is where it was."""

    def test_a_plugin_that_the_backup_had_not_is_a_gap_that_names_it_until_the_next_base(
        self, house: House
    ) -> None:
        server = house.server
        mysql = server.settings.kind == "mysql"
        house.snapshot()
        if mysql:
            server.sql("INSTALL PLUGIN auth_socket SONAME 'auth_socket.so'")
            server.sql("CREATE FUNCTION service_get_read_locks RETURNS INT SONAME 'locking_service.so'")
        else:
            server.sql("INSTALL SONAME 'ha_archive'")
            server.sql("CREATE FUNCTION sphinx_snippets RETURNS STRING SONAME 'ha_sphinx.so'")
        before, functions = next_second(), server.sql("SELECT name, dl FROM mysql.func")
        if mysql:
            server.sql("CREATE USER by_socket@localhost IDENTIFIED WITH auth_socket")
            wanted, table = "the authentication plugin auth_socket", ""
        else:
            server.sql("CREATE TABLE shop.archived (id INT) ENGINE=ARCHIVE")
            wanted, table = "the storage engine archive", "shop.archived"
            server.sql("INSERT INTO shop.archived VALUES (1), (2)")
        name, behind = last_of(house, table)
        require_a_gap(house, name, behind, f"it needs {wanted}, which the server lacked when the backup was")
        report = house.restore(before, "before-plugin")
        with house.clone(report) as clone, clone.cursor() as cursor:
            cursor.execute("SELECT name, dl FROM mysql.func")
            assert list(cursor.fetchall()) == list(functions) != []
        base = house.snapshot()
        server.sql("UPDATE shop.customers SET email = CONCAT('later', id)")
        report = house.restore("now", "after-plugin")
        assert report["base"]["backup"] == base["backup"]
        with house.clone(report) as clone:
            tables = [*SHOP, *([table] if table else [])]
            assert checksums(clone, tables) == server.checksum(tables)
        house.destroy("before-plugin", "after-plugin")


def last_of(house: House, table: str) -> tuple[str, datetime]:
    """The last change of definitions in the log, by its name, and a moment behind what came after it."""
    house.server.sql("UPDATE shop.customers SET email = CONCAT('behind', id)")
    chosen = ("--table", table) if table else ()
    entry = house.log(*chosen, "--kind", "ddl", "--since", "-1h")[0][-1]
    return entry["gtid"] or entry["start"], next_second()


def require_a_gap(house: House, name: str, behind: datetime, why: str) -> None:
    """A restore across it is refused and names it, and the window shows it."""
    said = house.zb(*house.restoring(behind, "never"), "-q").refused(5)
    assert f"cannot be replayed: {why}" in said and f"--before {name}" in said
    gaps = [each["why"] for each in house.zb("window", "--json").data[0]["gaps"]]
    assert [each for each in gaps if f"{name} cannot be replayed: {why}" in each], gaps
