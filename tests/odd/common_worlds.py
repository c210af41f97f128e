"""Worlds of MySQL and MariaDB servers. See worlds."""

from typing import Final

from tests.odd.sql_acts import (
    again,
    flush_imported,
    import_tablespace,
    large_transaction,
    load_data,
    no_text_runs,
    odd_bytes,
    outside_table,
    schema,
    second,
    statements,
    xa_in_doubt,
)
from tests.odd.worlds import World

_SETTINGS: Final = (
    "SET GLOBAL group_concat_max_len = 7",
    "SET GLOBAL div_precision_increment = 9",
    "SET GLOBAL max_allowed_packet = 4194304",
    again,
)

COMMON: Final[dict[str, World]] = {
    "partitions": World(
        setup=(
            schema("partitions"),
            (
                "CREATE TABLE w_partitions.t (id INT NOT NULL, v VARCHAR(20), KEY (v)) ENGINE=InnoDB"
                " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN"
                " (20), PARTITION p2 VALUES LESS THAN (30), PARTITION rest VALUES LESS THAN MAXVALUE)"
            ),
            (
                "CREATE TABLE w_partitions.h (id INT PRIMARY KEY, v INT) ENGINE=InnoDB PARTITION BY HASH (id)"
                " PARTITIONS 3"
            ),
            "CREATE TABLE w_partitions.x (id INT NOT NULL, v VARCHAR(20), KEY (v)) ENGINE=InnoDB",
            "INSERT INTO w_partitions.t VALUES (1, 'a'), (11, 'b'), (21, 'c'), (99, 'd')",
            "INSERT INTO w_partitions.x VALUES (12, 'exchanged')",
            "INSERT INTO w_partitions.h VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
        ),
        each=(
            # Not where all tables are in one file.
            "? ALTER TABLE w_partitions.t EXCHANGE PARTITION p1 WITH TABLE w_partitions.x",
            "INSERT INTO w_partitions.x VALUES (13 + {n}, 'x{n}')",
            "INSERT INTO w_partitions.t VALUES ({n}, 'low'), (1{n}, 'mid'), (20 + {n}, 'high')",
            "UPDATE w_partitions.t SET id = id + 10 WHERE id = {n}",
            "ALTER TABLE w_partitions.h ADD PARTITION PARTITIONS 1",
            "DELETE FROM w_partitions.h WHERE id = {n}",
        ),
        at={
            1: (
                (
                    "ALTER TABLE w_partitions.t REORGANIZE PARTITION rest INTO (PARTITION p3 VALUES LESS THAN"
                    " (40), PARTITION rest VALUES LESS THAN MAXVALUE)"
                ),
            ),
            2: (
                "ALTER TABLE w_partitions.t TRUNCATE PARTITION p0",
                "ALTER TABLE w_partitions.h COALESCE PARTITION 2",
            ),
            3: (
                "ALTER TABLE w_partitions.t DROP PARTITION p2",
                "ALTER TABLE w_partitions.h REMOVE PARTITIONING",
            ),
        },
    ),
    "generated columns": World(
        setup=(
            schema("generated"),
            (
                "CREATE TABLE w_generated.t (a INT PRIMARY KEY, b INT, c INT AS (a + b) STORED, d VARCHAR(30)"
                " AS (CONCAT('v', b)) VIRTUAL, e INT DEFAULT (b * 2), UNIQUE KEY (c), KEY (d), CHECK (b <"
                " 1000)) ENGINE=InnoDB"
            ),
            (
                "CREATE TABLE w_generated.child (a INT, FOREIGN KEY (a) REFERENCES w_generated.t (a) ON"
                " DELETE CASCADE ON UPDATE CASCADE) ENGINE=InnoDB"
            ),
            "INSERT INTO w_generated.t (a, b) VALUES (1, 2), (10, 20), (100, 200), (101, 202)",
            "INSERT INTO w_generated.child VALUES (1), (1), (10), (100), (101)",
        ),
        each=(
            "INSERT INTO w_generated.t (a, b) VALUES (1000 * {n}, {n})",
            "INSERT INTO w_generated.child VALUES (1000 * {n})",
            "UPDATE w_generated.t SET a = a + 1, b = b + 1 WHERE a = 100 + {n}",
            "? INSERT INTO w_generated.t (a, b) VALUES (5, 5000)",
        ),
        at={
            1: ("DELETE FROM w_generated.t WHERE a = 1",),
            2: ("ALTER TABLE w_generated.t ADD COLUMN f INT AS (b + 1) VIRTUAL, ADD KEY (f)",),
            3: ("ALTER TABLE w_generated.t DROP COLUMN d, ADD COLUMN g INT NOT NULL DEFAULT 7 FIRST",),
        },
    ),
    "triggers": World(
        setup=(
            schema("triggers"),
            "CREATE TABLE w_triggers.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
            (
                "CREATE TABLE w_triggers.log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(60), who"
                " VARCHAR(90)) ENGINE=InnoDB"
            ),
            (
                "CREATE TRIGGER w_triggers.one BEFORE INSERT ON w_triggers.t FOR EACH ROW SET NEW.v = NEW.v +"
                " @@auto_increment_increment"
            ),
            (
                "CREATE TRIGGER w_triggers.two AFTER INSERT ON w_triggers.t FOR EACH ROW INSERT INTO"
                " w_triggers.log (what, who) VALUES (CONCAT('in ', NEW.id), CURRENT_USER())"
            ),
            (
                "CREATE TRIGGER w_triggers.three AFTER INSERT ON w_triggers.t FOR EACH ROW FOLLOWS two SET"
                " @seen = NEW.id"
            ),
        ),
        each=(
            "INSERT INTO w_triggers.t (v) VALUES ({n}), ({n} * 2)",
            *statements(
                "? INSERT INTO w_triggers.t (v) VALUES (70 + {n})",
                "? DELETE FROM w_triggers.t WHERE id = {n}",
            ),
            "DELETE FROM w_triggers.t ORDER BY id LIMIT 1",
        ),
        at={
            2: ("DROP TRIGGER w_triggers.one",),
            3: (
                (
                    "CREATE TRIGGER w_triggers.five BEFORE UPDATE ON w_triggers.t FOR EACH ROW SET NEW.v ="
                    " OLD.v * 10"
                ),
                "UPDATE w_triggers.t SET v = 1",
            ),
        },
    ),
    "events": World(
        options=("--event-scheduler=ON",),
        setup=(
            schema("events"),
            "CREATE TABLE w_events.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB",
            (
                "CREATE EVENT w_events.ticks ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO w_events.t (v)"
                " VALUES ('tick')"
            ),
            "CREATE EVENT w_events.later ON SCHEDULE AT '2037-01-01 00:00:00' DO DELETE FROM w_events.t",
        ),
        each=(
            "ALTER EVENT w_events.ticks ENABLE",
            second,
            "ALTER EVENT w_events.ticks DISABLE",
            second,
            (
                "CREATE EVENT w_events.of{n} ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 00:00:00' COMMENT 'ü'"
                " DO SET @x = {n}"
            ),
        ),
        at={3: ("ALTER EVENT w_events.of1 RENAME TO w_events.renamed", "DROP EVENT w_events.later")},
    ),
    "renamed schemas": World(
        setup=(
            schema("old"),
            "CREATE DATABASE `w_数据 库` CHARACTER SET utf8mb4",
            "CREATE TABLE w_old.t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB",
            "CREATE TABLE `w_数据 库`.`таблица.1` (`č` INT PRIMARY KEY, `v``w` TEXT) ENGINE=InnoDB",
            "INSERT INTO w_old.t VALUES (1, 'a')",
        ),
        each=("INSERT INTO `w_数据 库`.`таблица.1` VALUES ({n}, '数据')",),
        at={
            1: (
                schema("new"),
                "RENAME TABLE w_old.t TO w_new.t",
                "DROP DATABASE w_old",
                "INSERT INTO w_new.t VALUES (2, 'b')",
            ),
            2: (
                schema("old"),
                "CREATE TABLE w_old.t (id INT PRIMARY KEY, v VARCHAR(20), w INT) ENGINE=InnoDB",
                "INSERT INTO w_old.t VALUES (9, 'other', 9)",
                "RENAME TABLE w_old.t TO w_old.x, w_new.t TO w_old.t, w_old.x TO w_new.t",
            ),
            3: (
                "INSERT INTO w_old.t VALUES (3, 'c')",
                "INSERT INTO w_new.t VALUES (8, 'other', 8)",
                "ALTER DATABASE w_new CHARACTER SET latin1",
                "DROP TABLE w_new.t",
                "CREATE TABLE w_new.t AS SELECT id, v FROM w_old.t",
            ),
        },
    ),
    "savepoints": World(
        setup=(
            schema("savepoints"),
            "CREATE TABLE w_savepoints.t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB",
            "CREATE TABLE w_savepoints.m (id INT, v VARCHAR(20)) ENGINE=MyISAM",
        ),
        each=(
            "BEGIN",
            "INSERT INTO w_savepoints.t VALUES (10 * {n}, 'kept')",
            "SAVEPOINT `a b`",
            "INSERT INTO w_savepoints.t VALUES (10 * {n} + 1, 'gone')",
            "SAVEPOINT c",
            "INSERT INTO w_savepoints.t VALUES (10 * {n} + 2, 'gone')",
            "RELEASE SAVEPOINT c",
            "ROLLBACK TO SAVEPOINT `a b`",
            "INSERT INTO w_savepoints.t VALUES (10 * {n} + 3, 'kept')",
            "COMMIT",
            "BEGIN",
            "INSERT INTO w_savepoints.t VALUES (10 * {n} + 4, 'gone')",
            "? INSERT INTO w_savepoints.m VALUES ({n}, 'stays')",
            "ROLLBACK",
            "BEGIN",
            "? INSERT INTO w_savepoints.m VALUES ({n} + 100, 'first')",
            "INSERT INTO w_savepoints.t VALUES (10 * {n} + 5, 'kept')",
            "COMMIT",
            "? INSERT INTO w_savepoints.m VALUES ({n} + 200, 'alone')",
            "? INSERT INTO w_savepoints.t VALUES (10 * {n} + 6, 'twice'), (10 * {n} + 6, 'twice')",
            "? INSERT INTO w_savepoints.m SELECT id, v FROM w_savepoints.t",
        ),
    ),
    "xa in doubt": World(
        setup=(
            schema("xa"),
            "CREATE TABLE w_xa.t (id INT AUTO_INCREMENT PRIMARY KEY, stage INT, v VARCHAR(20)) ENGINE=InnoDB",
            xa_in_doubt,
        ),
        each=(xa_in_doubt, "INSERT INTO w_xa.t (stage, v) VALUES ({n}, 'usual')"),
    ),
    "bytes": World(
        setup=(
            schema("bytes"),
            (
                "CREATE TABLE w_bytes.t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(60) CHARACTER SET"
                " utf8mb4, b VARBINARY(60), at TIMESTAMP NULL DEFAULT NULL) ENGINE=InnoDB"
            ),
        ),
        each=(odd_bytes,),
        at={0: (no_text_runs,), 2: (no_text_runs,)},
        warned="cp932",
    ),
    "large transactions": World(
        setup=(
            schema("large"),
            "CREATE TABLE w_large.t (id INT AUTO_INCREMENT PRIMARY KEY, n INT, v LONGBLOB) ENGINE=InnoDB",
            "CREATE TABLE w_large.five (x INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO w_large.five VALUES (1), (2)",
        ),
        each=(large_transaction,),
    ),
    "load data": World(
        options=("--secure-file-priv={outside}",),
        setup=(
            schema("loaded"),
            (
                "CREATE TABLE w_loaded.t (id INT PRIMARY KEY, v VARCHAR(60) CHARACTER SET latin1, w TEXT, at"
                " DATETIME(6)) ENGINE=InnoDB"
            ),
        ),
        each=(load_data, *statements(load_data)),
    ),
    "self references": World(
        setup=(
            schema("keys"),
            (
                "CREATE TABLE w_keys.t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES w_keys.t (id)"
                " ON DELETE CASCADE) ENGINE=InnoDB"
            ),
            (
                "CREATE TABLE w_keys.u (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES w_keys.t (id)"
                " ON DELETE SET NULL) ENGINE=InnoDB"
            ),
            (
                "INSERT INTO w_keys.t VALUES (1, NULL), (2, 1), (3, 2), (4, NULL), (5, 4), (6, NULL), (7, 6),"
                " (8, NULL)"
            ),
            "INSERT INTO w_keys.u VALUES (1, 3), (2, 5), (3, 8)",
        ),
        each=(
            "SET FOREIGN_KEY_CHECKS = 0",
            *statements("? INSERT INTO w_keys.t VALUES (100 + {n}, 200 + {n})"),
            "INSERT INTO w_keys.t VALUES (300 + {n}, 400 + {n})",
            "SET FOREIGN_KEY_CHECKS = 1",
            "INSERT INTO w_keys.t VALUES (20 + {n}, 8)",
        ),
        at={
            1: ("DELETE FROM w_keys.t WHERE id = 1",),
            2: statements("? DELETE FROM w_keys.t WHERE id = 4"),
            3: ("DELETE FROM w_keys.t WHERE id = 8", "ALTER TABLE w_keys.u DROP FOREIGN KEY u_ibfk_1"),
        },
    ),
    "times and zones": World(
        setup=(
            schema("times"),
            (
                "CREATE TABLE w_times.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, made TIMESTAMP(6) NULL"
                " DEFAULT CURRENT_TIMESTAMP(6), changed TIMESTAMP NULL DEFAULT NULL ON UPDATE"
                " CURRENT_TIMESTAMP, d DATETIME(3), t TIME(4), y YEAR) ENGINE=InnoDB"
            ),
        ),
        each=(
            *statements(
                "SET SESSION time_zone = '+05:45'",
                "INSERT INTO w_times.t (v, d, t, y) VALUES ({n}, NOW(3), '-838:59:59.0000', 2155)",
                "SET SESSION time_zone = '-11:00'",
                "INSERT INTO w_times.t (v, d, made) VALUES ({n} * 2, '2024-03-31 02:30:00.123',"
                " FROM_UNIXTIME(1711846800))",
                "INSERT INTO w_times.t (v, d) VALUES (WEEK('2008-02-20'), UTC_TIMESTAMP(3))",
                "SET SESSION time_zone = DEFAULT",
                "SET SESSION lc_time_names = 'de_DE'",
                "INSERT INTO w_times.t (v, d) VALUES (WEEK('2008-02-20') +"
                " CHAR_LENGTH(DATE_FORMAT('2024-05-01', '%M')), '2008-02-20')",
                "SET SESSION lc_time_names = DEFAULT",
                "UPDATE w_times.t SET v = v + 1 ORDER BY id DESC LIMIT 1",
            ),
            "SET timestamp = UNIX_TIMESTAMP() - 2",
            "INSERT INTO w_times.t (v) VALUES (SECOND(NOW()))",
            "SET timestamp = DEFAULT",
        ),
    ),
    "auto increments": World(
        setup=(
            schema("numbers"),
            (
                "CREATE TABLE w_numbers.t (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(90))"
                " ENGINE=InnoDB"
            ),
            "CREATE TABLE w_numbers.m (a INT, id INT AUTO_INCREMENT, PRIMARY KEY (a, id)) ENGINE=MyISAM",
        ),
        each=(
            *statements(
                "SET SESSION auto_increment_increment = 10, auto_increment_offset = 3",
                "INSERT INTO w_numbers.t (u, v) VALUES ({n}, 'x'), ({n} + 10, 'y')",
                "SET SESSION auto_increment_increment = DEFAULT, auto_increment_offset = DEFAULT",
                "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')",
                "INSERT IGNORE INTO w_numbers.t (id, u, v) VALUES (0, {n} + 20, LAST_INSERT_ID())",
                "SET SESSION sql_mode = DEFAULT",
                "INSERT INTO w_numbers.t (u, v) VALUES ({n} + 10, 'z') ON DUPLICATE KEY UPDATE v = CONCAT(v,"
                " '+', LAST_INSERT_ID())",
                "REPLACE INTO w_numbers.t (u, v) VALUES ({n}, 'replaced')",
                "SET INSERT_ID = 500 + 50 * {n}",
                "INSERT INTO w_numbers.t (u, v) VALUES (NULL, RAND(3))",
                "SET @a := {n}, @b := 'ü', @c := x'ff', @d := 1.5, @e := NULL",
                "INSERT INTO w_numbers.t (u, v) VALUES (@a + 900, CONCAT_WS('-', @b, HEX(@c), @d, @e))",
                "INSERT INTO w_numbers.m (a) VALUES ({n}), ({n}), (1)",
            ),
            "ALTER TABLE w_numbers.t AUTO_INCREMENT = {n}0000",
            "INSERT INTO w_numbers.t (u, v) VALUES (NULL, 'after')",
        ),
    ),
    "accounts": World(
        setup=(
            schema("accounts"),
            "CREATE TABLE w_accounts.t (a INT, b INT)",
            "CREATE ROLE w_reader",
            "CREATE USER 'w_o''dd'@'10.0.0.0/255.0.0.0' IDENTIFIED BY 'a''b'",
            "GRANT SELECT (a) ON w_accounts.t TO w_reader",
        ),
        each=(
            "CREATE USER 'w_u{n}'@'%' IDENTIFIED BY 'secret {n}'",
            "GRANT w_reader TO 'w_u{n}'@'%'",
            "GRANT INSERT, UPDATE ON `w\\_accounts`.* TO 'w_u{n}'@'%'",
        ),
        at={
            2: ("RENAME USER 'w_u1'@'%' TO 'w_renamed'@'%'", "ALTER USER 'w_u2'@'%' ACCOUNT LOCK"),
            3: ("REVOKE w_reader FROM 'w_renamed'@'%'", "DROP USER 'w_o''dd'@'10.0.0.0/255.0.0.0'"),
        },
        asks=(
            "SHOW GRANTS FOR w_reader",
            "SELECT User, Host, Db, Insert_priv FROM mysql.db WHERE User LIKE 'w_%' ORDER BY 1, 2, 3",
        ),
    ),
    "views and routines": World(
        setup=(
            schema("views"),
            "SET GLOBAL log_bin_trust_function_creators = ON",
            "CREATE TABLE w_views.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB",
            "CREATE USER w_definer@localhost",
            (
                "CREATE DEFINER=w_definer@localhost SQL SECURITY INVOKER VIEW w_views.v AS SELECT id,"
                " UPPER(v) AS v FROM w_views.t WITH CHECK OPTION"
            ),
            (
                "CREATE FUNCTION w_views.f(x INT) RETURNS INT BEGIN INSERT INTO w_views.t (v) VALUES"
                " (CONCAT('f', x)); RETURN x * 2; END"
            ),
        ),
        each=(
            # A server that was started again knows it no more.
            "SET GLOBAL log_bin_trust_function_creators = ON",
            "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
            (
                'CREATE PROCEDURE "w_views"."p{n}"() COMMENT \'ü\' INSERT INTO "w_views".t (v) VALUES'
                " ('a' || 'b{n}')"
            ),
            "SET SESSION sql_mode = DEFAULT",
            "CALL w_views.p{n}()",
            *statements("? INSERT INTO w_views.t (v) SELECT w_views.f({n})", "? CALL w_views.p{n}()"),
            "SELECT w_views.f({n} + 10)",
            "CREATE OR REPLACE VIEW w_views.w AS SELECT {n} AS n FROM w_views.t",
        ),
        at={
            2: ("DROP USER w_definer@localhost",),
            3: ("DROP PROCEDURE w_views.p1", "ALTER PROCEDURE w_views.p2 COMMENT 'changed'"),
        },
    ),
    "flushed logs": World(
        setup=(
            schema("flushed"),
            "CREATE TABLE w_flushed.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
        ),
        each=tuple(
            each
            for k in range(4)
            for each in ("FLUSH BINARY LOGS", f"INSERT INTO w_flushed.t (v) VALUES ({{n}}{k})")
        ),
    ),
    "row images": World(
        setup=(
            schema("images"),
            (
                "CREATE TABLE w_images.t (id INT PRIMARY KEY, a VARCHAR(90), b LONGBLOB, c BIT(13), d"
                " DECIMAL(30, 9), e ENUM('x', 'ü', ''), f SET('p', 'q', 'r'), g DOUBLE, UNIQUE KEY (a))"
                " ENGINE=InnoDB"
            ),
            "CREATE TABLE w_images.nokey (a VARCHAR(90), b LONGBLOB, g FLOAT) ENGINE=InnoDB",
            (
                "INSERT INTO w_images.t VALUES (1, 'one', REPEAT('b', 70000), b'1010101', 1.5, 'ü', 'p,r',"
                " -0.0), (2, 'two', NULL, 0, -99999999999999.123456789, '', '', 1e308), (3, NULL, x'00ff',"
                " NULL, NULL, NULL, NULL, NULL)"
            ),
            (
                "INSERT INTO w_images.nokey VALUES ('same', 'x', 0.1), ('same', 'x', 0.1), (NULL, NULL,"
                " NULL), ('a ', 'x', -0.0)"
            ),
        ),
        each=(
            "SET SESSION binlog_row_image = 'MINIMAL'",
            "UPDATE w_images.t SET g = {n}.5 WHERE id = 1",
            "UPDATE w_images.t SET a = CONCAT(a, '{n}'), f = 'q' WHERE id = 2",
            "UPDATE w_images.nokey SET g = 0.{n} WHERE a = 'same' LIMIT 1",
            "SET SESSION binlog_row_image = 'NOBLOB'",
            "UPDATE w_images.t SET c = {n}, d = d + 1 WHERE id < 3",
            "DELETE FROM w_images.nokey WHERE a = 'same' LIMIT 1",
            "INSERT INTO w_images.nokey VALUES ('same', 'y{n}', 7), ('same', 'x', 0.1)",
            "SET SESSION binlog_row_image = 'FULL'",
            "INSERT INTO w_images.t (id, a, e) VALUES (10 + {n}, 'n{n}', 2)",
        ),
        at={
            2: (
                "ALTER TABLE w_images.t MODIFY e ENUM('', 'ü', 'x', 'new')",
                "UPDATE w_images.t SET e = 'new' WHERE id = 1",
            ),
            3: (
                "ALTER TABLE w_images.t DROP INDEX a, MODIFY a TEXT",
                "ALTER TABLE w_images.nokey ADD COLUMN id INT AUTO_INCREMENT UNIQUE",
            ),
        },
    ),
    "odd engines": World(
        setup=(
            schema("engines"),
            "? CREATE TABLE w_engines.arch (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20)) ENGINE=ARCHIVE",
            "CREATE TABLE w_engines.csv (id INT NOT NULL, v VARCHAR(20) NOT NULL) ENGINE=CSV",
            "? CREATE TABLE w_engines.hole (id INT, v VARCHAR(20)) ENGINE=BLACKHOLE",
            "CREATE TABLE w_engines.a (id INT, v INT) ENGINE=MyISAM",
            "CREATE TABLE w_engines.b (id INT, v INT) ENGINE=MyISAM",
            (
                "CREATE TABLE w_engines.both_ (id INT, v INT) ENGINE=MERGE UNION=(w_engines.a, w_engines.b)"
                " INSERT_METHOD=LAST"
            ),
        ),
        each=(
            "? INSERT INTO w_engines.arch (v) VALUES ('{n}'), ('{n}')",
            "INSERT INTO w_engines.csv VALUES ({n}, 'a,''{n}')",
            "? INSERT INTO w_engines.hole VALUES ({n}, 'gone')",
            "INSERT INTO w_engines.both_ VALUES ({n}, 1)",
            *statements(
                "? INSERT INTO w_engines.hole VALUES ({n}, 'gone')",
                "? INSERT INTO w_engines.arch (v) SELECT v FROM w_engines.arch LIMIT 1",
                "? INSERT INTO w_engines.csv VALUES (100 + {n}, 'text')",
                "? UPDATE w_engines.both_ SET v = v + 1",
            ),
        ),
        at={
            2: ("ALTER TABLE w_engines.both_ UNION=(w_engines.b)", "ALTER TABLE w_engines.a ENGINE=InnoDB"),
            3: ("ALTER TABLE w_engines.csv ENGINE=InnoDB", "? ALTER TABLE w_engines.arch ADD COLUMN w INT"),
        },
    ),
    "settings of statements": World(
        setup=(
            schema("settings"),
            "CREATE TABLE w_settings.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT) ENGINE=InnoDB",
            *_SETTINGS,
        ),
        each=(
            *_SETTINGS,
            *statements(
                "SET SESSION sql_mode = ''",
                "INSERT INTO w_settings.t (v) VALUES (REPEAT('x', 5000000))",
                "INSERT INTO w_settings.t (v) SELECT GROUP_CONCAT(TABLE_NAME) FROM (SELECT 'abcdef' AS"
                " TABLE_NAME UNION SELECT 'ghijkl') AS x",
                "INSERT INTO w_settings.t (v) VALUES (1 / 7), (CONCAT(1e0 / 3)), (SHA2('x', 256)), (0.1 +"
                " 0.2)",
                "SET SESSION sql_mode = DEFAULT",
            ),
        ),
    ),
    "columns in place": World(
        setup=(
            schema("instant"),
            (
                "CREATE TABLE w_instant.t (id INT PRIMARY KEY, a INT, b VARCHAR(50) NOT NULL DEFAULT 'b')"
                " ENGINE=InnoDB"
            ),
            "INSERT INTO w_instant.t (id, a) VALUES (1, 1), (2, 2), (3, 3)",
        ),
        each=(
            "ALTER TABLE w_instant.t ADD COLUMN c{n} VARCHAR(20) DEFAULT 'old{n}', ALGORITHM=INSTANT",
            "INSERT INTO w_instant.t (id) VALUES (10 * {n})",
            "UPDATE w_instant.t SET c{n} = 'set' WHERE id = {n}",
            "ALTER TABLE w_instant.t ALTER COLUMN c{n} SET DEFAULT 'new{n}'",
            "INSERT INTO w_instant.t (id) VALUES (10 * {n} + 1)",
        ),
        at={
            2: ("ALTER TABLE w_instant.t DROP COLUMN a", "ALTER TABLE w_instant.t RENAME COLUMN b TO bee"),
            3: (
                "ALTER TABLE w_instant.t MODIFY c1 VARCHAR(30) FIRST",
                "? ALTER TABLE w_instant.t ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4",
            ),
        },
    ),
    "text and places": World(
        setup=(
            schema("search"),
            (
                "CREATE TABLE w_search.t (id INT PRIMARY KEY, body TEXT, p POINT NOT NULL, FULLTEXT KEY"
                " (body), SPATIAL KEY (p)) ENGINE=InnoDB"
            ),
            "INSERT INTO w_search.t VALUES (1, 'the quick brown fox', ST_GeomFromText('POINT(1 1)'))",
        ),
        each=(
            "INSERT INTO w_search.t VALUES (10 + {n}, 'lazy dog number{n}', ST_GeomFromText('POINT({n} 2)'))",
            "UPDATE w_search.t SET body = CONCAT(body, ' jumps{n}') WHERE id = 1",
            "DELETE FROM w_search.t WHERE id = 9 + {n}",
        ),
        asks=(
            "SELECT id FROM w_search.t WHERE MATCH (body) AGAINST ('+jumps1' IN BOOLEAN MODE) ORDER BY 1",
            (
                "SELECT id FROM w_search.t WHERE MBRContains(ST_GeomFromText('POLYGON((0 0, 0 9, 9 9, 9 0, 0"
                " 0))'), p) ORDER BY 1"
            ),
        ),
    ),
    # what may be refused
    "temporary tables of triggers": World(
        setup=(
            schema("scratch"),
            "CREATE TABLE w_scratch.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "CREATE TABLE w_scratch.log (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO w_scratch.t (v) VALUES (1), (2), (3), (4), (5), (6)",
            (
                "CREATE TRIGGER w_scratch.sums BEFORE DELETE ON w_scratch.t FOR EACH ROW BEGIN "
                "CREATE TEMPORARY TABLE IF NOT EXISTS w_scratch.kept (v INT); "
                "INSERT INTO w_scratch.kept VALUES (OLD.v); "
                "INSERT INTO w_scratch.log (v) SELECT SUM(v) FROM w_scratch.kept; END"
            ),
            "? SET SESSION binlog_format = 'STATEMENT'",
            "? DELETE FROM w_scratch.t ORDER BY id LIMIT 1",
        ),
        each=("? DELETE FROM w_scratch.t ORDER BY id LIMIT 1",),
        refusal="temporary table",
    ),
    "temporary tables across a base": World(
        setup=(
            schema("temporary"),
            "CREATE TABLE w_temporary.t (id INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO w_temporary.t VALUES (1), (2), (3)",
            "SET SESSION binlog_format = 'STATEMENT'",
            "CREATE TEMPORARY TABLE w_temporary.t (id INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO w_temporary.t VALUES (7)",
        ),
        each=("DELETE FROM w_temporary.t", "INSERT INTO w_temporary.t VALUES ({n})"),
        refusal="temporary table",
    ),
    "columns that were not logged": World(
        setup=(
            schema("unlogged"),
            "CREATE TABLE w_unlogged.t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB",
        ),
        each=("INSERT INTO w_unlogged.t (id, a) VALUES ({n}, {n})",),
        at={
            1: (
                "SET SESSION sql_log_bin = 0",
                "ALTER TABLE w_unlogged.t ADD COLUMN b INT DEFAULT 5",
                "SET SESSION sql_log_bin = 1",
                "INSERT INTO w_unlogged.t VALUES (100, 1, 2)",
            ),
            3: ("INSERT INTO w_unlogged.t VALUES (101, 1, 2)",),
        },
        refusal="w_unlogged",
    ),
    "engine of new tables": World(
        setup=(schema("engine"), "CREATE TABLE w_engine.t (id INT PRIMARY KEY)"),
        at={
            1: (
                "SET GLOBAL default_storage_engine = 'MyISAM'",
                again,
                "CREATE TABLE w_engine.other (id INT PRIMARY KEY)",
            ),
            3: ("SET GLOBAL default_storage_engine = 'InnoDB'", again),
        },
        each=("CREATE TABLE w_engine.of{n} (id INT PRIMARY KEY)",),
        refusal="default_storage_engine",
    ),
    "tables outside of the datasets": World(
        options=("--innodb-directories={outside}",),
        kinds=("mysql",),
        setup=(schema("outside"), "CREATE TABLE w_outside.t (id INT PRIMARY KEY) ENGINE=InnoDB"),
        at={
            # `snapshot` refuses it as long as it is there.
            1: (outside_table,),
            2: ("INSERT INTO w_outside.t1 VALUES (3, 'three')", "DROP TABLE w_outside.t1"),
        },
        refusal="DATA DIRECTORY",
    ),
    "imported files": World(
        setup=(
            schema("imported"),
            "CREATE TABLE w_imported.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "CREATE TABLE w_imported.source (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO w_imported.source VALUES (1, 1), (2, 2)",
        ),
        each=("INSERT INTO w_imported.source VALUES (10 + {n}, 1)",),
        at={2: (import_tablespace, "INSERT INTO w_imported.t VALUES (99, 99)", flush_imported)},
        refusal="IMPORT TABLESPACE",
    ),
    "the log is reset": World(
        setup=(schema("reset"), "CREATE TABLE w_reset.t (id INT PRIMARY KEY) ENGINE=InnoDB"),
        each=("INSERT INTO w_reset.t VALUES ({n})",),
        at={
            1: (
                lambda stage: stage.run(
                    "RESET BINARY LOGS AND GTIDS" if stage.server.settings.kind == "mysql" else "RESET MASTER"
                ),
            )
        },
        refusal="reset",
    ),
}
