"""What is shown of a statement: never a secret, and of a definition what it defines."""

# ruff: noqa: E501  statements are whole

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.sql.shown import HIDDEN, LONGEST, shown

MODES = [
    {},
    {"ansi_quotes": False, "backslash_escapes": True},
    {"ansi_quotes": False, "backslash_escapes": False},
]

WORDINGS = [
    "CREATE USER a@b IDENTIFIED BY 'Qu0kka'",
    "CREATE USER a@b IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$Qu0kka'",
    "CREATE USER a IDENTIFIED BY PASSWORD '*Qu0kka'",
    "ALTER USER a IDENTIFIED VIA ed25519 USING PASSWORD('Qu0kka') OR unix_socket",
    "ALTER USER a IDENTIFIED VIA mysql_native_password USING '*Qu0kka'",
    "SET PASSWORD FOR 'a'@'%'='*Qu0kka'",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 'Qu0kka', HOST 'h')",
    "CREATE TABLE f (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:Qu0kka@h:3306/d/t'",
    "CREATE PROCEDURE p() CHANGE MASTER TO MASTER_HOST='h', MASTER_PASSWORD = 'Qu0kka'",
    "CREATE PROCEDURE p() CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='Qu0kka'",
    "CREATE PROCEDURE p() START GROUP_REPLICATION USER='u', PASSWORD='Qu0kka'",
    "CREATE PROCEDURE p() START REPLICA USER='u' PASSWORD='Qu0kka'",
    "CREATE PROCEDURE p() CLONE INSTANCE FROM 'u'@'h':3306 IDENTIFIED BY 'Qu0kka'",
    "CREATE PROCEDURE p() BEGIN SET @s = 'CREATE USER b IDENTIFIED BY ''Qu0kka'''; PREPARE x FROM @s; EXECUTE x; END",
    "CREATE PROCEDURE p() BEGIN SET @s = 'CREATE USER b IDENTIFIED BY \\'Qu0kka\\''; PREPARE x FROM @s; EXECUTE x; END",
    "CREATE PROCEDURE p() BEGIN SET @s = \"CREATE USER b IDENTIFIED BY 'Qu0kka'\"; PREPARE x FROM @s; EXECUTE x; END",
    "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO EXECUTE IMMEDIATE 'SET PASSWORD FOR a = PASSWORD(''Qu0kka'')'",
    "CREATE USER b IDENTIFIED BY /*!50000 'Qu0kka' */",
    "CREATE USER b IDENTIFIED BY /*M! 'Qu0kka' */",
    "/*!50708 CREATE USER b IDENTIFIED BY 'Qu0kka' */",
    "CREATE TABLE t ENGINE=CONNECT TABLE_TYPE=MYSQL OPTION_LIST='host=h,user=u,password=Qu0kka'",
    "CREATE TABLE t ENGINE=CONNECT TABLE_TYPE=ODBC CONNECTION='DSN=x;UID=u;PWD=Qu0kka'",
    "CREATE TABLE t ENGINE=CONNECT TABLE_TYPE=JDBC CONNECTION='jdbc:mysql://h/d?user=u&password=Qu0kka' OPTION_LIST='User=u,Password=Qu0kka,Driver=x'",
    'CREATE TABLE t (a int) ENGINE=SPIDER COMMENT=\'wrapper "mysql", host "h", user "u", password "Qu0kka"\'',
    'CREATE TABLE t (a int) ENGINE=SPIDER PARTITION BY HASH(a) (PARTITION p1 COMMENT = \'host "h", password "Qu0kka"\')',
    "CREATE TABLE t (a int) ENGINE=SPIDER REMOTE_SERVER=s REMOTE_PASSWORD='Qu0kka'",
    "CREATE PROCEDURE p() SET GLOBAL s3_secret_key='Qu0kka'",
    "CREATE PROCEDURE p() SET GLOBAL wsrep_sst_auth='root:Qu0kka'",
    "CREATE PROCEDURE p() SET @@global.binlog_password='Qu0kka'",
    "CREATE USER a IDENTIFIED BY /**/ /**/ /**/ /**/ /**/ /**/ /**/ /**/ /**/ /**/ /**/ /**/ /**/ /**/ 'Qu0kka'",
    "CREATE USER a IDENTIFIED BY 'Qu0kka' ATTRIBUTE '{\"x\":1}'",
    "CREATE USER a IDENTIFIED BY 'Qu0kka', b IDENTIFIED BY 'Qu0kka'",
    "ALTER USER a IDENTIFIED BY 'Qu0kka' REPLACE 'Qu0kka' RETAIN CURRENT PASSWORD",
    "CREATE USER a IDENTIFIED BY 'Qu0' 'kka'",
    "SET PASSWORD FOR a TO RANDOM",
    "CREATE FUNCTION f(x BLOB) RETURNS BLOB RETURN AES_DECRYPT(x, 'Qu0kka')",
    "INSERT INTO users (name, password) VALUES ('a', 'Qu0kka')",
    "UPDATE users SET password = MD5('Qu0kka') WHERE id = 1",
    "UPDATE users SET `password` = 'Qu0kka' WHERE id = 1",
    "UPDATE users SET passwd = 'Qu0kka' WHERE id = 1",
    "UPDATE mysql.user SET authentication_string = PASSWORD('Qu0kka') WHERE User = 'a'",
    "UPDATE mysql.user SET authentication_string = OLD_PASSWORD('Qu0kka') WHERE User = 'a'",
    "INSERT INTO mysql.global_priv VALUES ('%','a','{\"authentication_string\":\"*Qu0kka\"}')",
    "CREATE USER a IDENTIFIED BY /*" + "x" * 300 + "*/ 'Qu0kka'",
    "CREATE USER a IDENTIFIED BY " + "/**/ " * 14 + "'Qu0kka'",
    "CREATE USER a@b IDENTIFIED BY 'Qu0kka'",
    "CREATE USER a IDENTIFIED WITH 'caching_sha2_password' AS 'Qu0''kka' PASSWORD EXPIRE",
    "SET PASSWORD FOR 'a'@'%'='*Qu0kka'",
    "SET PASSWORD = PASSWORD('Qu0kka')",
    'ALTER USER a IDENTIFIED VIA mysql_native_password USING PASSWORD("Qu0kka")',
    "GRANT ALL ON *.* TO a IDENTIFIED BY PASSWORD '*Qu0kka'",
    "CHANGE MASTER TO MASTER_PASSWORD = 'Qu0kka'",
    "CREATE USER a IDENTIFIED BY 'Qu0kka",
    "CREATE USER a IDENTIFIED BY/* */\n  'Qu0kka'",
    "SET PASSWORD FOR 'a'@'%' = /* */ PASSWORD /* */ ('Qu0kka')",
    "CREATE USER a IDENTIFIED BY -- why\n 'Qu0kka'",
    "CREATE USER a IDENTIFIED BY # why\n 'Qu0kka'",
    "CREATE USER a IDENTIFIED BY N'Qu0kka'",
    "ALTER USER a IDENTIFIED BY _utf8mb4 'Qu0kka'",
    "ALTER USER a IDENTIFIED WITH caching_sha2_password AS X'53'",
    "CREATE TABLE t (id INT) ENGINE=FEDERATED CONNECTION='mysql://a:Qu0kka@b:3306/s/t'",
    "CREATE TABLE t (id INT) ENGINE=CONNECT TABLE_TYPE=MYSQL CONNECTION 'mysql://a:Qu0kka@b/s/t'",
    'CREATE TABLE t (id INT) ENGINE=SPIDER REMOTE_PASSWORD="Qu0kka"',
    "CREATE TABLE t (id INT) ENGINE=SPIDER COMMENT='user ''u'', password ''Qu0kka'''",
    "CREATE TABLE t (id INT) ENGINE=SPIDER COMMENT = 'user \\'u\\', Password \\'Qu0kka\\''",
    "CREATE TABLE t (id INT) ENGINE=SPIDER COMMENT/**/\"user 'u', password ''Qu0kka'\"",
    'CREATE TABLE t (id INT) ENGINE=SPIDER COMMENT "user ""u"", password ""Qu0kka',
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", WORDINGS)
def test_no_secret_is_shown(text: str, mode: dict[str, bool]) -> None:
    if "\\'" in text and mode.get("backslash_escapes") is False:
        return  # another statement, which no server took
    said = shown(text, **mode)
    assert "Qu0" not in said and "kka" not in said
    assert HIDDEN in said or "RANDOM" in said
    assert said.split()[0].upper() in text.upper()


@pytest.mark.parametrize("text", [each for each in WORDINGS if '"' not in each and "\\" not in each])
def test_no_part_of_a_statement_that_is_cut_shows_one(text: str) -> None:
    for end in range(len(text)):
        said = shown(text[:end])
        assert "Qu0" not in said and "kka" not in said


def test_the_mode_of_the_event_says_what_a_literal_is() -> None:
    plain = "CREATE USER u4 IDENTIFIED BY 'x\\', u5 IDENTIFIED BY 'Qu0kka'"
    said = shown(plain, ansi_quotes=False, backslash_escapes=False)
    assert said == "CREATE USER u4 IDENTIFIED BY '***', u5 IDENTIFIED BY '***'"
    assert shown(plain) == "CREATE USER u4 IDENTIFIED BY '***'"
    name = "CREATE USER \"it's\" IDENTIFIED BY 'Qu0kka'"
    assert shown(name, ansi_quotes=True, backslash_escapes=True) == "CREATE USER \"it's\" IDENTIFIED BY '***'"
    assert "Qu0kka" not in shown(name)


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE shop.orders",
        "DROP TABLE IF EXISTS `or``ders`, b WAIT 10 /* generated by server */",
        "TRUNCATE TABLE orders",
        "RENAME TABLE orders_new NOWAIT TO orders",
        "ALTER TABLE orders ADD COLUMN state ENUM('new','paid') NOT NULL DEFAULT 'new', ADD INDEX (state)",
        "CREATE TABLE t (a DECIMAL(10,2), b VARCHAR(20) DEFAULT 0x41) ENGINE=InnoDB DEFAULT CHARSET='utf8mb4'",
        "ALTER TABLE t PARTITION BY LIST COLUMNS(a) (PARTITION p VALUES IN ('x',1))",
        "CREATE DATABASE shop COLLATE 'utf8mb4_bin' ENCRYPTION='Y'",
        "XA COMMIT X'0a0b00ff',X'00ff',1096044365",
        "DROP USER 'app'@'10.0.0.%', 'b'",
        "GRANT SELECT ON shop.* TO 'app'@'%'",
        "DROP VIEW v",
    ],
)
def test_a_definition_without_secrets_is_shown_as_it_is(text: str) -> None:
    assert shown(text) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "CREATE USER 'app'@'%' IDENTIFIED WITH 'caching_sha2_password' AS 0x24AB REQUIRE SUBJECT 'Qu0kka'",
            "CREATE USER 'app'@'%' IDENTIFIED WITH '***' AS *** REQUIRE SUBJECT '***'",
        ),
        (
            "ALTER USER 'a' IDENTIFIED BY 'x', 'b'@'c' IDENTIFIED BY 'y'",
            "ALTER USER 'a' IDENTIFIED BY '***', 'b'@'c' IDENTIFIED BY '***'",
        ),
        ("SET PASSWORD FOR 'a'@'%' = 'x'", "SET PASSWORD FOR 'a'@'%' = '***'"),
        (
            "UPDATE users SET ssn = 123456789 WHERE id = 1.5e3",
            "UPDATE users SET ssn = *** WHERE id = ***.***",
        ),
        (
            "CREATE TABLE t (a INT COMMENT 'x') AS SELECT 4711 AS a",
            "CREATE TABLE t (a INT COMMENT '***') AS SELECT *** AS a",
        ),
        ("DROP TABLE t -- Qu0kka", "DROP TABLE t"),
        (
            "CREATE USER a IDENTIFIED BY /*!999999 ' */ 'Qu0kka'",
            "CREATE USER a IDENTIFIED BY /*!999999 '***'",
        ),
        (
            "CREATE FUNCTION f() RETURNS INT LANGUAGE JAVASCRIPT AS $$ // it's Qu0kka",
            "CREATE FUNCTION f() RETURNS INT LANGUAGE JAVASCRIPT AS '***'",
        ),
    ],
)
def test_what_is_left_of_others(text: str, said: str) -> None:
    assert shown(text) == said


SENSITIVE = [
    "CREATE USER u IDENTIFIED BY {}", "ALTER USER 'u'@'h' IDENTIFIED WITH p AS {} REQUIRE NONE",
    "SET PASSWORD FOR 'u'@'h' = {}", "GRANT ALL ON *.* TO u IDENTIFIED BY {} WITH GRANT OPTION",
    "CHANGE MASTER TO MASTER_PASSWORD={}, MASTER_HOST='h'", "START REPLICA USER='u' PASSWORD={}",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (PASSWORD {}, HOST 'h')",
    "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO UPDATE t SET a = {}",
    "CREATE OR REPLACE DEFINER=sequence@h PROCEDURE p() BEGIN DECLARE x TEXT DEFAULT {}; END",
    "EXECUTE IMMEDIATE {}", "PREPARE s FROM {}", "SET GLOBAL x = {}, y = 1",
    "CREATE TABLE t (a INT) ENGINE=CONNECT CONNECTION={} OPTION_LIST={}",
    "CREATE TABLE t (a INT COMMENT {}) COMMENT={}", "CREATE TABLE t AS SELECT {} AS a",
    "CREATE TABLE t (a BLOB AS (AES_ENCRYPT('x', {})))",
    "INSERT INTO mysql.global_priv VALUES ('%', {})", "UPDATE users SET p = {} WHERE a IN ({})",
    "DELETE FROM t WHERE a = {}", "LOAD DATA INFILE {} INTO TABLE t", "CREATE VIEW v AS SELECT {}",
    "/*!50708 CREATE USER u IDENTIFIED BY {} */", "CREATE /*M!100301 OR REPLACE */ USER u IDENTIFIED BY {}",
]  # fmt: skip
MARK = re.compile("[Ωω]")


@given(
    st.sampled_from(SENSITIVE),
    st.text(st.sampled_from("Ωω'\"\\`*/-#$@ \n!M;,()=%"), min_size=1, max_size=30),
    st.sampled_from("'\""),
    st.booleans(),
    st.integers(0, 400),
)
def test_no_literal_of_a_statement_that_may_hold_a_secret_is_shown(
    statement: str, content: str, quote: str, escapes: bool, cut: int
) -> None:
    inner = content.replace(quote, quote * 2)
    if escapes:
        inner = content.replace("\\", "\\\\").replace(quote, f"\\{quote}")
    text = statement.format(*[f"{quote}{inner}{quote}"] * 2)
    for mode in ({"ansi_quotes": False, "backslash_escapes": escapes}, {}):
        for said in (shown(text, **mode), shown(text[:cut], **mode)):
            assert not MARK.search(said)


@given(st.text(), st.sampled_from(MODES))
def test_any_text_is_read(text: str, mode: dict[str, bool]) -> None:
    assert isinstance(shown(text, **mode), str)


@pytest.mark.parametrize(
    "unit",
    ["BY ", "PASSWORD ", "BY/*", "BY/**/", "BY#", "BY-- ", "COMMENT='", "\\'", '\\"', "/*/", "`", "(", "'", "$a", "$$",
     "/*!", "*/", "@", "'a'@"],
)  # fmt: skip
def test_a_long_text_is_read_once(unit: str) -> None:
    """Each would take minutes if any of it were read for every place that it may begin at."""
    began = time.process_time()
    shown("CREATE USER " + unit * (4 * LONGEST // len(unit)))
    assert time.process_time() - began < 2
