"""Statements of every kind that a server writes into its log, to be replayed later.

Those of COMMON and UNREPEATABLE run in a schema of their own once for each binlog_format, the others once. A
line that begins with "!" is a statement that the server refuses, perhaps half-way.
"""

from collections.abc import Iterable
from typing import Any

import pymysql

Kinds = dict[str, tuple[str, ...]]

COMMON: Kinds = {
    "ddl": (
        "CREATE TABLE d1 (id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(40)) ENGINE=InnoDB",
        "INSERT INTO d1 (a, b) VALUES (1, 'one'), (2, 'two'), (3, NULL)",
        "ALTER TABLE d1 ADD COLUMN c INT NOT NULL DEFAULT 7",
        "ALTER TABLE d1 ADD COLUMN z INT FIRST, ADD INDEX by_a (a)",
        "INSERT INTO d1 (a, b) VALUES (4, 'four')",
        "ALTER TABLE d1 MODIFY b VARCHAR(300) CHARACTER SET utf8mb4, ALGORITHM=COPY",
        "ALTER TABLE d1 RENAME COLUMN a TO aa",
        "ALTER TABLE d1 DROP COLUMN z",
        "CREATE TABLE d2 LIKE d1",
        "INSERT INTO d2 SELECT * FROM d1",
        "CREATE TABLE d3 AS SELECT aa, b FROM d1",
        "RENAME TABLE d1 TO dx, d2 TO d1, dx TO d2",
        "UPDATE d1 SET c = id + c",
        "CREATE UNIQUE INDEX unique_b ON d1 (b)",
        "DROP INDEX by_a ON d2",
        "CREATE TABLE kept (a INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE dropped (a INT PRIMARY KEY) ENGINE=InnoDB",
        "!DROP TABLE dropped, never_there",
        "DROP TABLE IF EXISTS never_there, d3",
        "CREATE TABLE IF NOT EXISTS kept (b INT)",
        "TRUNCATE TABLE d2",
        "INSERT INTO d2 (aa) VALUES (9)",
        "CREATE VIEW v AS SELECT id, aa FROM d1 WHERE c > 1",
        "CREATE OR REPLACE VIEW v AS SELECT id FROM d1",
        "ALTER TABLE d2 ENGINE=InnoDB, COMMENT='rebuilt'",
        "ANALYZE TABLE d1",
        "OPTIMIZE TABLE d2",
    ),
    "engines without transactions": (
        "CREATE TABLE m (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60), KEY (v)) ENGINE=MyISAM",
        "INSERT INTO m (v) VALUES ('a'), ('b'), ('c')",
        "UPDATE m SET v = CONCAT(v, id)",
        "DELETE FROM m WHERE id = 2",
        "!INSERT INTO m (id, v) VALUES (10, 'stays'), (1, 'twice')",
        "CREATE TABLE mm (a INT PRIMARY KEY) ENGINE=MEMORY",
        "INSERT INTO mm VALUES (1), (2), (3)",
        "DELETE FROM mm WHERE a = 2",
        "CREATE TABLE m2 (a INT) ENGINE=MyISAM",
        "ALTER TABLE m2 ENGINE=InnoDB",
        "INSERT INTO m2 VALUES (5)",
        "ALTER TABLE m2 ENGINE=MyISAM",
        "REPAIR TABLE m",
    ),
    "transactions": (
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, UNIQUE KEY (a)) ENGINE=InnoDB",
        "BEGIN",
        "INSERT INTO t (a) VALUES (1), (2)",
        "SAVEPOINT one",
        "INSERT INTO t (a) VALUES (3)",
        "ROLLBACK TO one",
        "INSERT INTO t (a) VALUES (4)",
        "COMMIT",
        "BEGIN",
        "DELETE FROM t",
        "ROLLBACK",
        "REPLACE INTO t (a) VALUES (4)",
        "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 100",
        "INSERT IGNORE INTO t (a) VALUES (2), (200)",
        "!INSERT INTO t (a) VALUES (300), (200)",
        "CREATE TABLE tt (id INT PRIMARY KEY, b INT) ENGINE=InnoDB",
        "INSERT INTO tt SELECT id, a FROM t",
        "UPDATE t, tt SET t.a = t.a + 1000, tt.b = tt.b + 1 WHERE t.id = tt.id",
        "DELETE t, tt FROM t JOIN tt USING (id) WHERE tt.b = 101",
        "SET @v = 5",
        "INSERT INTO t (a) VALUES (@v), (@v * 100)",
        "INSERT INTO tt VALUES (LAST_INSERT_ID() + 1000, @v)",
        "SET SESSION auto_increment_increment = 10, auto_increment_offset = 3",
        "INSERT INTO t (a) VALUES (31), (32)",
        "SET SESSION auto_increment_increment = 1, auto_increment_offset = 1",
        "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        "INSERT INTO tt SELECT id + 2000, LENGTH('\\\\n') FROM t",
        "SET SESSION sql_mode = DEFAULT",
    ),
    "temporary tables": (
        "CREATE TABLE from_temporary (a INT) ENGINE=InnoDB",
        "CREATE TEMPORARY TABLE passing (a INT) ENGINE=InnoDB",
        "INSERT INTO passing VALUES (1), (2)",
        "INSERT INTO from_temporary SELECT a FROM passing",
        "ALTER TABLE passing ADD COLUMN b INT",
        "UPDATE from_temporary, passing SET from_temporary.a = 10 WHERE from_temporary.a = passing.a",
        "CREATE TEMPORARY TABLE second LIKE from_temporary",
        "INSERT INTO second VALUES (7)",
        "BEGIN",
        "INSERT INTO from_temporary SELECT a FROM second",
        "COMMIT",
        "DROP TEMPORARY TABLE passing, second",
    ),
    "load data": (
        "CREATE TABLE l (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200), n INT) CHARACTER SET utf8mb4",
        "LOAD DATA LOCAL INFILE '{csv}' INTO TABLE l CHARACTER SET utf8mb4 (v)",
        "LOAD DATA LOCAL INFILE '{csv}' IGNORE INTO TABLE l CHARACTER SET utf8mb4 (@t) "
        "SET v = CONCAT('<', @t, '>'), n = LENGTH(@t)",
    ),
    "routines and triggers": (
        "CREATE TABLE r (id INT PRIMARY KEY AUTO_INCREMENT, a INT) ENGINE=InnoDB",
        "CREATE TABLE r_log (id INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(60)) ENGINE=InnoDB",
        "CREATE TRIGGER r_before BEFORE INSERT ON r FOR EACH ROW SET NEW.a = NEW.a * 2",
        "CREATE TRIGGER r_after AFTER UPDATE ON r FOR EACH ROW "
        "INSERT INTO r_log (what) VALUES (CONCAT(OLD.a, ' to ', NEW.a))",
        "CREATE TRIGGER r_gone AFTER DELETE ON r FOR EACH ROW INSERT INTO r_log (what) VALUES ('gone')",
        "INSERT INTO r (a) VALUES (1), (2), (3)",
        "UPDATE r SET a = a + 1",
        "DELETE FROM r WHERE id = 2",
        "DROP TRIGGER r_gone",
        "CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN n * 2",
        "CREATE PROCEDURE fill(IN most INT) MODIFIES SQL DATA BEGIN DECLARE i INT DEFAULT 0; "
        "WHILE i < most DO INSERT INTO r (a) VALUES (twice(i)); SET i = i + 1; END WHILE; END",
        "CALL fill(5)",
        "UPDATE r SET a = twice(a) WHERE id > 4",
        "ALTER PROCEDURE fill COMMENT 'fills'",
    ),
    "foreign keys": (
        "CREATE TABLE parent (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) "
        "ON DELETE CASCADE ON UPDATE CASCADE) ENGINE=InnoDB",
        "CREATE TABLE orphan (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) "
        "ON DELETE SET NULL) ENGINE=InnoDB",
        "INSERT INTO parent VALUES (1), (2), (3), (4)",
        "INSERT INTO child VALUES (1, 1), (2, 2), (3, 3)",
        "INSERT INTO orphan VALUES (1, 1), (2, 4)",
        "UPDATE parent SET id = 30 WHERE id = 3",
        "DELETE FROM parent WHERE id IN (1, 4)",
        "SET SESSION foreign_key_checks = 0",
        "INSERT INTO child VALUES (9, 999)",
        "SET SESSION foreign_key_checks = 1",
        "!INSERT INTO child VALUES (10, 999)",
    ),
    "partitions": (
        "CREATE TABLE p (id INT, y INT, v VARCHAR(20), PRIMARY KEY (id, y)) ENGINE=InnoDB "
        "PARTITION BY RANGE (y) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), "
        "PARTITION rest VALUES LESS THAN MAXVALUE)",
        "INSERT INTO p VALUES (1, 5, 'a'), (2, 15, 'b'), (3, 25, 'c'), (4, 35, 'd')",
        "ALTER TABLE p REORGANIZE PARTITION rest INTO (PARTITION p2 VALUES LESS THAN (30), "
        "PARTITION rest VALUES LESS THAN MAXVALUE)",
        "CREATE TABLE swapped (id INT, y INT, v VARCHAR(20), PRIMARY KEY (id, y)) ENGINE=InnoDB",
        "INSERT INTO swapped VALUES (11, 11, 'in')",
        "ALTER TABLE p EXCHANGE PARTITION p1 WITH TABLE swapped",
        "ALTER TABLE p TRUNCATE PARTITION p0",
        "ALTER TABLE p DROP PARTITION p2",
        "UPDATE p SET y = 5 WHERE id = 4",
        "CREATE TABLE ph (id INT PRIMARY KEY) ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS 3",
        "INSERT INTO ph VALUES (1), (2), (3), (4), (5)",
        "ALTER TABLE ph COALESCE PARTITION 1",
    ),
    "generated columns": (
        "CREATE TABLE g (id INT PRIMARY KEY, a INT, s INT GENERATED ALWAYS AS (a + 1) STORED, "
        "w INT GENERATED ALWAYS AS (a * 2) VIRTUAL, d INT DEFAULT (3 + 4), KEY by_w (w)) ENGINE=InnoDB",
        "INSERT INTO g (id, a) VALUES (1, 10), (2, 20)",
        "UPDATE g SET a = 11 WHERE w = 20",
        "ALTER TABLE g ADD COLUMN later VARCHAR(30) GENERATED ALWAYS AS (CONCAT('n', a)) VIRTUAL",
        "DELETE FROM g WHERE s = 21",
        "CREATE TABLE checked (a INT CHECK (a > 0)) ENGINE=InnoDB",
        "INSERT INTO checked VALUES (1)",
        "!INSERT INTO checked VALUES (-1)",
    ),
    "types": (
        "CREATE TABLE y (id INT PRIMARY KEY, bi BIT(9), dc DECIMAL(30,10), f FLOAT, db DOUBLE, "
        "e ENUM('a','b'), st SET('x','y','z'), yr YEAR, t TIME(6), dt DATETIME(6), ts TIMESTAMP(6) NULL, "
        "vb VARBINARY(40), j JSON, ge GEOMETRY, lb LONGBLOB, lt LONGTEXT CHARACTER SET utf8mb4)",
        "INSERT INTO y VALUES (1, b'101010101', -12345678901234567890.0123456789, 1.5, 2.25e100, 'b', 'x,z', "
        "1999, '-838:59:58.999999', '1000-01-01 00:00:00.000001', '2024-06-01 12:00:00.123456', "
        "X'00ff5c27220a0d1a', '{{\"a\": [1, 2, {{\"b\": null}}]}}', ST_GeomFromText('POINT(1 2)'), "
        "REPEAT(X'00ff', 1500000), REPEAT('\U0001f600\u00e4', 50000))",
        "INSERT INTO y (id, lb, lt) VALUES (2, '', NULL)",
        "UPDATE y SET j = JSON_SET(j, '$.a[1]', 20), lt = CONCAT(lt, '\U0001f680') WHERE id = 1",
        "UPDATE y SET lb = CONCAT(lb, 'tail') WHERE id = 1",
        "CREATE TABLE compressed (id INT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB ROW_FORMAT=COMPRESSED",
        "INSERT INTO compressed VALUES (1, REPEAT('c', 100000))",
    ),
    "text": (
        "CREATE TABLE `tab le \u00fc \u8868` (`c\u00f6l` VARCHAR(50) CHARACTER SET utf8mb4 "
        "COLLATE utf8mb4_bin, u VARCHAR(50) CHARACTER SET utf16, l VARCHAR(50) CHARACTER SET latin1)",
        "INSERT INTO `tab le \u00fc \u8868` VALUES "
        "('\U0001f4be \u8868 \\' \\\\ \\0', '\U0001f4be', '\u00e4\u00f6')",
        "CREATE TABLE narrow (l VARCHAR(50) CHARACTER SET latin1, u VARCHAR(50) CHARACTER SET utf8mb4)",
        "SET NAMES latin1",
        "INSERT INTO narrow VALUES ('\u00e4', '\u00f6')",
        "SET NAMES utf8mb4",
        "UPDATE `tab le \u00fc \u8868` SET l = '\u00df' WHERE `c\u00f6l` LIKE '\U0001f4be%%'",
    ),
    "time": (
        "CREATE TABLE z (id INT PRIMARY KEY AUTO_INCREMENT, ts TIMESTAMP(3) NULL, dt DATETIME(3))",
        "INSERT INTO z (ts, dt) VALUES (NOW(3), NOW(3))",
        "SET SESSION time_zone = '+05:30'",
        "INSERT INTO z (ts, dt) VALUES ('2024-01-15 12:00:00', '2024-01-15 12:00:00'), (NOW(3), NOW(3))",
        "SET SESSION time_zone = 'Lab/Summer'",
        "INSERT INTO z (ts, dt) VALUES ('2024-01-15 12:00:00', NOW(3)), ('2024-07-15 12:00:00', NOW())",
        "SET SESSION time_zone = DEFAULT",
        "SET SESSION timestamp = 1717236000.5",
        "INSERT INTO z (ts, dt) VALUES (NOW(3), FROM_UNIXTIME(1717236000))",
        "SET SESSION timestamp = DEFAULT",
        "UPDATE z SET dt = CONVERT_TZ(dt, '+00:00', 'Lab/Summer') WHERE id = 3",
    ),
    "XA": (
        "CREATE TABLE x (a INT PRIMARY KEY) ENGINE=InnoDB",
        "XA START 'one'",
        "INSERT INTO x VALUES (1)",
        "XA END 'one'",
        "XA PREPARE 'one'",
        "XA COMMIT 'one'",
        "XA START 'two', 'branch', 7",
        "INSERT INTO x VALUES (2)",
        "XA END 'two', 'branch', 7",
        "XA PREPARE 'two', 'branch', 7",
        "XA ROLLBACK 'two', 'branch', 7",
        "XA START 'three'",
        "INSERT INTO x VALUES (3)",
        "XA END 'three'",
        "XA COMMIT 'three' ONE PHASE",
        "XA START 'nothing'",
        "XA END 'nothing'",
        "XA PREPARE 'nothing'",
        "XA COMMIT 'nothing'",
    ),
    "accounts": (
        "CREATE USER '{schema} user'@'%%' IDENTIFIED BY 'Secret-1'",
        "CREATE ROLE `{schema} role`",
        "GRANT SELECT, INSERT ON {schema}.* TO `{schema} role`",
        "GRANT UPDATE (a) ON {schema}.t TO '{schema} user'@'%%'",
        "GRANT `{schema} role` TO '{schema} user'@'%%'",
        "ALTER USER '{schema} user'@'%%' IDENTIFIED BY 'Other-2'",
        "CREATE USER '{schema} gone'@localhost",
        "RENAME USER '{schema} gone'@localhost TO '{schema} renamed'@localhost",
        "DROP USER '{schema} renamed'@localhost",
    ),
    "events": (
        "CREATE TABLE ev (a INT) ENGINE=InnoDB",
        "CREATE EVENT once ON SCHEDULE AT CURRENT_TIMESTAMP ON COMPLETION PRESERVE "
        "DO INSERT INTO ev VALUES (1)",
        "CREATE EVENT yearly ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DO DELETE FROM ev",
        "CREATE EVENT asleep ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DISABLE DO DELETE FROM ev",
        "CREATE EVENT woken ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DISABLE DO DELETE FROM ev",
        "ALTER EVENT woken ENABLE",
        "CREATE EVENT renamed ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DO DELETE FROM ev",
        "ALTER EVENT renamed RENAME TO `re-named`",
        "CREATE EVENT gone ON SCHEDULE EVERY 1 YEAR STARTS '2030-01-01 00:00:00' DO DELETE FROM ev",
        "DROP EVENT gone",
    ),
}

# Statements that give other rows when they are repeated: logged as rows unless the format is STATEMENT.
UNREPEATABLE: tuple[str, ...] = (
    "CREATE TABLE n (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(80)) ENGINE=InnoDB",
    "INSERT INTO n (v) VALUES (UUID()), (RAND()), (SYSDATE(6)), (CONNECTION_ID())",
    "UPDATE n SET v = CONCAT(v, UUID()) LIMIT 2",
    "INSERT INTO n (v) SELECT RAND() FROM l LIMIT 50",
)

# A zone of its own, one hour ahead of UTC in winter and two in summer.
ZONE: tuple[str, ...] = (
    "INSERT INTO mysql.time_zone VALUES (4711, 'N')",
    "INSERT INTO mysql.time_zone_name VALUES ('Lab/Summer', 4711)",
    "INSERT INTO mysql.time_zone_transition VALUES "
    "(4711, 1679792400, 1), (4711, 1698541200, 0), (4711, 1711846800, 1), (4711, 1729990800, 0), "
    "(4711, 1743296400, 1)",
    "INSERT INTO mysql.time_zone_transition_type VALUES (4711, 0, 3600, 0, 'LW'), (4711, 1, 7200, 1, 'LS')",
)


def play(session: "pymysql.connections.Connection[Any]", statements: Iterable[str], **values: str) -> None:
    """Run the statements one after the other; an AssertionError names the one that went otherwise."""
    with session.cursor() as cursor:
        for line in statements:
            wanted = line.removeprefix("!").format(**values).replace("%%", "%")
            try:
                cursor.execute(wanted)
                cursor.fetchall()
                refused = None
            except pymysql.MySQLError as error:
                refused = error
            assert bool(refused) == line.startswith("!"), f"{wanted[:300]}: {refused or 'was not refused'}"
