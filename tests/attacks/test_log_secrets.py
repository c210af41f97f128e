"""Passwords in the log of a real server: `zbackup log` shows none of them."""

# ruff: noqa: E501  statements are whole

import json

import pymysql
import pytest

from tests.system.house import House

VARIANTS = ("mysql-9.7", "mariadb-11.8")
SLOW_VARIANTS = ("mariadb-10.11",)

SECRET = "Qu0kka-4711-zzYx"
TOLD = "told_apart"

WORDINGS = (
    "CREATE USER u1@'%' IDENTIFIED BY '{}'",
    "CREATE USER 'u2' IDENTIFIED BY /*!50000 '{}' */",
    "CREATE USER u3 IDENTIFIED BY /*M!100000 '{}' */ /*!99999 '{}' */",
    "CREATE USER u4 IDENTIFIED BY /*" + "x" * 300 + "*/ '{}'",
    "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "CREATE USER u5 IDENTIFIED BY 'x{}\\', u6 IDENTIFIED BY '{}'",
    "SET SESSION sql_mode = 'ANSI_QUOTES'",
    "CREATE USER \"it's\" IDENTIFIED BY '{}'",
    'CREATE PROCEDURE secrets.p0() SELECT "a", \'{}\' FROM "t"',
    "SET SESSION sql_mode = ''",
    "ALTER USER u1@'%' IDENTIFIED BY '{}'",
    "SET PASSWORD FOR u1@'%' = '{}'",
    "SET PASSWORD FOR u1@'%' = PASSWORD('{}')",
    "CREATE USER u7 IDENTIFIED WITH mysql_native_password AS '*{}'",
    "GRANT ALL ON secrets.* TO u8 IDENTIFIED BY '{}'",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD '{}', HOST 'h', DATABASE 'd')",
    "ALTER SERVER s OPTIONS (PASSWORD '{}')",
    "CREATE TABLE secrets.f (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:{}@h:3306/d/t'",
    'CREATE TABLE secrets.c (a INT) COMMENT=\'wrapper "mysql", password "{}"\'',
    "CREATE PROCEDURE secrets.p1() CHANGE MASTER TO MASTER_PASSWORD = '{}'",
    "CREATE PROCEDURE secrets.p2() CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = '{}'",
    "CREATE PROCEDURE secrets.p3() BEGIN SET @s = 'CREATE USER b IDENTIFIED BY ''{}'''; PREPARE x FROM @s; END",
    "CREATE PROCEDURE secrets.p4() BEGIN SET @s = 'CREATE USER b IDENTIFIED BY \\'{}\\''; PREPARE x FROM @s; END",
    "CREATE PROCEDURE secrets.p5() BEGIN SET @s = \"CREATE USER b IDENTIFIED BY '{}'\"; PREPARE x FROM @s; END",
    "CREATE PROCEDURE secrets.p6() SET GLOBAL init_connect = '{}'",
    "CREATE EVENT secrets.e1 ON SCHEDULE EVERY 1 DAY DO EXECUTE IMMEDIATE 'SET PASSWORD = ''{}'''",
    "CREATE EVENT secrets.e2 ON SCHEDULE EVERY 1 DAY DO UPDATE secrets.t SET b = '{}'",
    "CREATE FUNCTION secrets.f1(x BLOB) RETURNS BLOB DETERMINISTIC RETURN AES_DECRYPT(x, '{}')",
    "CREATE TRIGGER secrets.t1 BEFORE INSERT ON secrets.t FOR EACH ROW SET NEW.b = CONCAT('{}', NEW.b)",
    "CREATE VIEW secrets.v AS SELECT AES_ENCRYPT('x', '{}') AS a",
    "CREATE TABLE secrets.g (a INT, b BLOB AS (AES_ENCRYPT(a, '{}')))",
    "CREATE TABLE secrets.s AS SELECT '{}' AS a",
    "SET SESSION binlog_format = 'STATEMENT'",
    "INSERT INTO secrets.t (b) VALUES ('{}')",
    'UPDATE secrets.t SET b = "{}" WHERE a = 1',
    "SET SESSION binlog_format = 'ROW'",
    "INSERT INTO secrets.t (b) VALUES ('{}')",
    "DROP TABLE secrets.s /* {} */",
)
LEAST = 22
"""Wordings that each server takes."""


@pytest.fixture(scope="module")
def taken(house: House) -> int:
    """Run them; how many the server took."""
    count = 0
    with house.server.connect() as session, session.cursor() as cursor:
        for statement in (
            "CREATE DATABASE secrets",
            "CREATE TABLE secrets.t (a INT AUTO_INCREMENT KEY, b TEXT)",
        ):
            cursor.execute(statement)
        cursor.execute("SET SESSION " + annotations(house))
        for wording in WORDINGS:
            try:
                cursor.execute(wording.replace("{}", SECRET))
                count += "{}" in wording
            except pymysql.MySQLError:
                continue
        cursor.execute(f"CREATE TABLE secrets.{TOLD} (a INT)")
        cursor.execute(f"DROP TABLE secrets.{TOLD}")
    house.snapshot()
    return count


def annotations(house: House) -> str:
    """What makes a server log the statements beside the rows."""
    mysql = house.server.settings.kind == "mysql"
    return "binlog_rows_query_log_events = ON" if mysql else "binlog_annotate_row_events = ON"


class TestLogSecrets:
    """The tests."""

    def test_none_is_shown(self, house: House, taken: int) -> None:
        assert taken >= LEAST
        for words in ((), ("--json",), ("--kind", "ddl"), ("--grep", SECRET)):
            said = house.zb("log", *words)
            assert SECRET not in said.succeeded + said.err, words
            assert "***" in said.out
        assert f"DROP TABLE `secrets`.`{TOLD}`" in house.zb("log").succeeded

    def test_none_is_among_the_rows_of_accounts(self, house: House, taken: int) -> None:
        shown, _ = house.log("--kind", "ddl")
        accounts = [each for each in shown if "USER" in (each["text"] or "")]
        assert accounts and taken
        for each in accounts:
            said = house.zb("log", "--rows", each["gtid"] or each["start"])
            assert SECRET not in said.succeeded and "USER" in said.out

    def test_root_sees_them_when_asking_for_it(self, house: House, taken: int) -> None:
        said = house.zb("log", "--statements", "full", "--json")
        lines = [json.loads(line) for line in said.succeeded.splitlines()]
        full = [line["transaction"]["text"] or "" for line in lines if "transaction" in line]
        assert sum(SECRET in text for text in full) >= LEAST // 2 and taken
        assert "with their passwords" in said.err

    def test_a_real_data_statement_is_shown_with_its_rows(self, house: House, taken: int) -> None:
        shown, _ = house.log("--table", "secrets.t", "--kind", "insert")
        assert taken and len(shown) == 2
        by_text = next(each for each in shown if each["by_text"])
        assert SECRET in house.zb("log", "--rows", by_text["gtid"] or by_text["start"]).succeeded
