"""Worlds of MySQL and MariaDB servers. See worlds."""

import time
from typing import Final

from tests.odd.worlds import Stage, World

MYSQL: Final = ("mysql",)
MARIADB: Final = ("mariadb",)


def _schema(name: str) -> str:
    return f"CREATE DATABASE `w_{name}`"


def _again(stage: Stage) -> None:
    """The session ends, and another one begins, as that of an application that was started again."""
    stage.session.close()
    stage.session.connect()


def _second(_: Stage) -> None:
    time.sleep(1.1)


def _import_tablespace(stage: Stage) -> None:
    """A table comes from another one's files, as people do after a `FLUSH TABLES … FOR EXPORT`."""
    schema = stage.server.settings.datadir / "w_imported"
    if not (schema / "source.ibd").exists():
        return  # all tables are in one file
    stage.run("ALTER TABLE w_imported.t DISCARD TABLESPACE")
    stage.run("FLUSH TABLES w_imported.source FOR EXPORT")
    for end in ("ibd", "cfg"):
        source = schema / f"source.{end}"
        wanted = schema / f"t.{end}"
        wanted.write_bytes(source.read_bytes())
        owner = source.stat()
        import os

        os.chown(wanted, owner.st_uid, owner.st_gid)
    stage.run("UNLOCK TABLES")
    stage.run("ALTER TABLE w_imported.t IMPORT TABLESPACE")


def _outside_table(stage: Stage) -> None:
    name = f"t{stage.number}"
    stage.run(
        f"CREATE TABLE w_outside.{name} (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB "
        f"DATA DIRECTORY='{stage.outside}'"
    )
    stage.run(f"INSERT INTO w_outside.{name} VALUES (1, 'one'), (2, 'two')")


def _load(stage: Stage) -> None:
    file = stage.outside / f"some{stage.number}.csv"
    file.write_bytes(b"1;\xff\xfe;x\n2;'quoted';y\n")
    file.chmod(0o644)
    stage.run(
        f"LOAD DATA INFILE '{file}' REPLACE INTO TABLE w_loaded.t CHARACTER SET latin1 FIELDS TERMINATED BY ';' "
        f"(id, @v, w) SET id = id + {10 * stage.number}, v = CONCAT(@v, '-', {stage.number}), at = NOW(6)"
    )


def _large(stage: Stage) -> None:
    stage.run("BEGIN")
    for n in range(6):
        stage.run(
            f"INSERT INTO w_large.t SELECT NULL, {stage.number}, REPEAT('{n}', 700000) FROM w_large.five"
        )
    stage.run("DELETE FROM w_large.t WHERE n < {n} AND id % 2".replace("{n}", str(stage.number)))
    stage.run("COMMIT")


def _xa(stage: Stage) -> None:
    """An XA transaction of a Java transaction manager that is in doubt for two stages."""
    gtrid, bqual = f"0x0a0b00ff80c{stage.number}", "0x00ff01"
    name = f"{gtrid},{bqual},1096044365"
    stage.run(f"XA START {name}")
    stage.run(f"INSERT INTO w_xa.t (stage, v) VALUES ({stage.number}, 'in doubt')")
    stage.run(f"XA END {name}")
    stage.run(f"XA PREPARE {name}")
    # Its session ends: else it takes nothing else.
    _again(stage)
    before = stage.kept.get("xa", "")
    stage.kept["xa"] = name
    if before:
        for _ in range(50):
            try:
                stage.run(f"XA {'COMMIT' if stage.number % 2 else 'ROLLBACK'} {before}")
                return
            except Exception as refused:  # noqa: BLE001  the server is still detaching it
                if refused.args[0] not in (1397, 1399):
                    raise
                time.sleep(0.1)


def _bytes(stage: Stage) -> None:
    """Statements in bytes that are no UTF-8."""
    n = str(stage.number).encode()
    stage.run("SET SESSION binlog_format = 'STATEMENT'")
    stage.run("SET NAMES latin1")
    stage.run(b"INSERT INTO w_bytes.t (a, b) VALUES ('latin \xe4\xf6\xfc " + n + b"', _binary'\xff\xfe\x01')")
    stage.run("SET NAMES binary")
    stage.run(b"INSERT INTO w_bytes.t (a, b) /* \xff\xfe */ VALUES ('binary', '\x80\x81 " + n + b"')")
    stage.run("SET NAMES utf8mb4")
    stage.run("INSERT INTO w_bytes.t (a, b) VALUES ('ümläut 🐬', 'x')")
    stage.run("SET NAMES cp932")
    stage.run(b"INSERT INTO w_bytes.t (a, b) VALUES ('\x83\x5c\x83\x7e', x'83')")
    stage.run(b"CREATE TABLE w_bytes.`\x83\x5c" + n + b"` (`\x95\x5c` INT) COMMENT='\x83\x5c'")
    stage.run("SET NAMES utf8mb4")
    stage.run("SET SESSION binlog_format = DEFAULT")


def _statements(*more: str) -> tuple[str, ...]:
    """Statements that are logged as text where the server's format lets them be."""
    return ("? SET SESSION binlog_format = 'STATEMENT'", *more, "? SET SESSION binlog_format = DEFAULT")


COMMON: dict[str, World] = {
    "partitions": World(
        setup=(
            _schema("partitions"),
            "CREATE TABLE w_partitions.t (id INT NOT NULL, v VARCHAR(20), KEY (v)) ENGINE=InnoDB PARTITION BY RANGE (id) "
            "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20), PARTITION p2 VALUES LESS THAN (30), "
            "PARTITION rest VALUES LESS THAN MAXVALUE)",
            "CREATE TABLE w_partitions.h (id INT PRIMARY KEY, v INT) ENGINE=InnoDB PARTITION BY HASH (id) PARTITIONS 3",
            "CREATE TABLE w_partitions.x (id INT NOT NULL, v VARCHAR(20), KEY (v)) ENGINE=InnoDB",
            "INSERT INTO w_partitions.t VALUES (1, 'a'), (11, 'b'), (21, 'c'), (99, 'd')",
            "INSERT INTO w_partitions.x VALUES (12, 'exchanged')",
            "INSERT INTO w_partitions.h VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
        ),
        each=(
            "ALTER TABLE w_partitions.t EXCHANGE PARTITION p1 WITH TABLE w_partitions.x",
            "INSERT INTO w_partitions.x VALUES (13 + {n}, 'x{n}')",
            "INSERT INTO w_partitions.t VALUES ({n}, 'low'), (1{n}, 'mid'), (20 + {n}, 'high')",
            "UPDATE w_partitions.t SET id = id + 10 WHERE id = {n}",
            "ALTER TABLE w_partitions.h ADD PARTITION PARTITIONS 1",
            "DELETE FROM w_partitions.h WHERE id = {n}",
        ),
        at={
            1: ("ALTER TABLE w_partitions.t REORGANIZE PARTITION rest INTO (PARTITION p3 VALUES LESS THAN (40), "
                "PARTITION rest VALUES LESS THAN MAXVALUE)",),
            2: ("ALTER TABLE w_partitions.t TRUNCATE PARTITION p0", "ALTER TABLE w_partitions.h COALESCE PARTITION 2"),
            3: ("ALTER TABLE w_partitions.t DROP PARTITION p2", "ALTER TABLE w_partitions.h REMOVE PARTITIONING"),
        },
    ),
    "generated columns": World(
        setup=(
            _schema("generated"),
            "CREATE TABLE w_generated.t (a INT PRIMARY KEY, b INT, c INT AS (a + b) STORED, d VARCHAR(30) AS "
            "(CONCAT('v', b)) VIRTUAL, e INT DEFAULT (b * 2), UNIQUE KEY (c), KEY (d), CHECK (b < 1000)) ENGINE=InnoDB",
            "CREATE TABLE w_generated.child (a INT, FOREIGN KEY (a) REFERENCES w_generated.t (a) ON DELETE CASCADE "
            "ON UPDATE CASCADE) ENGINE=InnoDB",
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
            _schema("triggers"),
            "CREATE TABLE w_triggers.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "CREATE TABLE w_triggers.log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(60), who VARCHAR(90)) ENGINE=InnoDB",
            "CREATE TRIGGER w_triggers.one BEFORE INSERT ON w_triggers.t FOR EACH ROW SET NEW.v = NEW.v + @@auto_increment_increment",
            "CREATE TRIGGER w_triggers.two AFTER INSERT ON w_triggers.t FOR EACH ROW INSERT INTO w_triggers.log (what, who) "
            "VALUES (CONCAT('in ', NEW.id), CURRENT_USER())",
            "CREATE TRIGGER w_triggers.three AFTER INSERT ON w_triggers.t FOR EACH ROW FOLLOWS two SET @seen = NEW.id",
        ),
        each=(
            "INSERT INTO w_triggers.t (v) VALUES ({n}), ({n} * 2)",
            *_statements("? INSERT INTO w_triggers.t (v) VALUES (70 + {n})", "? DELETE FROM w_triggers.t WHERE id = {n}"),
            "DELETE FROM w_triggers.t ORDER BY id LIMIT 1",
        ),
        at={
            2: ("DROP TRIGGER w_triggers.one",),
            3: ("CREATE TRIGGER w_triggers.five BEFORE UPDATE ON w_triggers.t FOR EACH ROW SET NEW.v = OLD.v * 10",
                "UPDATE w_triggers.t SET v = 1"),
        },
    ),
    "events": World(
        options=("--event-scheduler=ON",),
        setup=(
            _schema("events"),
            "CREATE TABLE w_events.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB",
            "CREATE EVENT w_events.ticks ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO w_events.t (v) VALUES ('tick')",
            "CREATE EVENT w_events.later ON SCHEDULE AT '2037-01-01 00:00:00' DO DELETE FROM w_events.t",
        ),
        each=(
            "ALTER EVENT w_events.ticks ENABLE",
            _second,
            "ALTER EVENT w_events.ticks DISABLE",
            _second,
            "CREATE EVENT w_events.of{n} ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01 00:00:00' COMMENT 'ü' DO SET @x = {n}",
        ),
        at={3: ("ALTER EVENT w_events.of1 RENAME TO w_events.renamed", "DROP EVENT w_events.later")},
    ),
    "renamed schemas": World(
        setup=(
            _schema("old"),
            "CREATE DATABASE `w_数据 库` CHARACTER SET utf8mb4",
            "CREATE TABLE w_old.t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB",
            "CREATE TABLE `w_数据 库`.`таблица.1` (`č` INT PRIMARY KEY, `v``w` TEXT) ENGINE=InnoDB",
            "INSERT INTO w_old.t VALUES (1, 'a')",
        ),
        each=("INSERT INTO `w_数据 库`.`таблица.1` VALUES ({n}, '数据')",),
        at={
            1: (_schema("new"), "RENAME TABLE w_old.t TO w_new.t", "DROP DATABASE w_old", "INSERT INTO w_new.t VALUES (2, 'b')"),
            2: (_schema("old"), "CREATE TABLE w_old.t (id INT PRIMARY KEY, v VARCHAR(20), w INT) ENGINE=InnoDB",
                "INSERT INTO w_old.t VALUES (9, 'other', 9)",
                "RENAME TABLE w_old.t TO w_old.x, w_new.t TO w_old.t, w_old.x TO w_new.t"),
            3: ("INSERT INTO w_old.t VALUES (3, 'c')", "INSERT INTO w_new.t VALUES (8, 'other', 8)",
                "ALTER DATABASE w_new CHARACTER SET latin1", "DROP TABLE w_new.t",
                "CREATE TABLE w_new.t AS SELECT id, v FROM w_old.t"),
        },
    ),
    "savepoints": World(
        setup=(
            _schema("savepoints"),
            "CREATE TABLE w_savepoints.t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB",
            "CREATE TABLE w_savepoints.m (id INT, v VARCHAR(20)) ENGINE=MyISAM",
        ),
        each=(
            "BEGIN", "INSERT INTO w_savepoints.t VALUES (10 * {n}, 'kept')", "SAVEPOINT `a b`",
            "INSERT INTO w_savepoints.t VALUES (10 * {n} + 1, 'gone')", "SAVEPOINT c",
            "INSERT INTO w_savepoints.t VALUES (10 * {n} + 2, 'gone')", "RELEASE SAVEPOINT c",
            "ROLLBACK TO SAVEPOINT `a b`", "INSERT INTO w_savepoints.t VALUES (10 * {n} + 3, 'kept')", "COMMIT",
            "BEGIN", "INSERT INTO w_savepoints.t VALUES (10 * {n} + 4, 'gone')", "? INSERT INTO w_savepoints.m VALUES ({n}, 'stays')",
            "ROLLBACK",
            "BEGIN", "? INSERT INTO w_savepoints.m VALUES ({n} + 100, 'first')", "INSERT INTO w_savepoints.t VALUES (10 * {n} + 5, 'kept')",
            "COMMIT", "? INSERT INTO w_savepoints.m VALUES ({n} + 200, 'alone')",
            "? INSERT INTO w_savepoints.t VALUES (10 * {n} + 6, 'twice'), (10 * {n} + 6, 'twice')",
            "? INSERT INTO w_savepoints.m SELECT id, v FROM w_savepoints.t",
        ),
    ),
    "xa in doubt": World(
        setup=(_schema("xa"), "CREATE TABLE w_xa.t (id INT AUTO_INCREMENT PRIMARY KEY, stage INT, v VARCHAR(20)) ENGINE=InnoDB", _xa),
        each=(_xa, "INSERT INTO w_xa.t (stage, v) VALUES ({n}, 'usual')"),
    ),
    "bytes": World(
        setup=(
            _schema("bytes"),
            "CREATE TABLE w_bytes.t (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(60) CHARACTER SET utf8mb4, b VARBINARY(60), "
            "at TIMESTAMP NULL DEFAULT NULL) ENGINE=InnoDB",
        ),
        each=(_bytes,),
    ),
    "large transactions": World(
        setup=(
            _schema("large"),
            "CREATE TABLE w_large.t (id INT AUTO_INCREMENT PRIMARY KEY, n INT, v LONGBLOB) ENGINE=InnoDB",
            "CREATE TABLE w_large.five (x INT PRIMARY KEY) ENGINE=InnoDB",
            "INSERT INTO w_large.five VALUES (1), (2)",
        ),
        each=(_large,),
    ),
    "load data": World(
        options=("--secure-file-priv=",),
        setup=(
            _schema("loaded"),
            "CREATE TABLE w_loaded.t (id INT PRIMARY KEY, v VARCHAR(60) CHARACTER SET latin1, w TEXT, at DATETIME(6)) ENGINE=InnoDB",
        ),
        each=(_load, *_statements(_load)),
    ),
    "self references": World(
        setup=(
            _schema("keys"),
            "CREATE TABLE w_keys.t (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES w_keys.t (id) ON DELETE CASCADE) "
            "ENGINE=InnoDB",
            "CREATE TABLE w_keys.u (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES w_keys.t (id) ON DELETE SET NULL) "
            "ENGINE=InnoDB",
            "INSERT INTO w_keys.t VALUES (1, NULL), (2, 1), (3, 2), (4, NULL), (5, 4), (6, NULL), (7, 6), (8, NULL)",
            "INSERT INTO w_keys.u VALUES (1, 3), (2, 5), (3, 8)",
        ),
        each=(
            "SET FOREIGN_KEY_CHECKS = 0",
            *_statements("? INSERT INTO w_keys.t VALUES (100 + {n}, 200 + {n})"),
            "INSERT INTO w_keys.t VALUES (300 + {n}, 400 + {n})",
            "SET FOREIGN_KEY_CHECKS = 1",
            "INSERT INTO w_keys.t VALUES (20 + {n}, 8)",
        ),
        at={
            1: ("DELETE FROM w_keys.t WHERE id = 1",),
            2: _statements("? DELETE FROM w_keys.t WHERE id = 4"),
            3: ("DELETE FROM w_keys.t WHERE id = 8", "ALTER TABLE w_keys.u DROP FOREIGN KEY u_ibfk_1"),
        },
    ),
    "times and zones": World(
        setup=(
            _schema("times"),
            "CREATE TABLE w_times.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT, made TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6), "
            "changed TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP, d DATETIME(3), t TIME(4), y YEAR) ENGINE=InnoDB",
        ),
        each=(
            *_statements(
                "SET SESSION time_zone = '+05:45'",
                "INSERT INTO w_times.t (v, d, t, y) VALUES ({n}, NOW(3), '-838:59:59.0000', 2155)",
                "SET SESSION time_zone = '-11:00'",
                "INSERT INTO w_times.t (v, d, made) VALUES ({n} * 2, '2024-03-31 02:30:00.123', FROM_UNIXTIME(1711846800))",
                "INSERT INTO w_times.t (v, d) VALUES (WEEK('2008-02-20'), UTC_TIMESTAMP(3))",
                "SET SESSION time_zone = DEFAULT",
                "SET SESSION lc_time_names = 'de_DE'",
                "INSERT INTO w_times.t (v, d) VALUES (WEEK('2008-02-20') + CHAR_LENGTH(DATE_FORMAT('2024-05-01', '%M')), '2008-02-20')",
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
            _schema("numbers"),
            "CREATE TABLE w_numbers.t (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(90)) ENGINE=InnoDB",
            "CREATE TABLE w_numbers.m (a INT, id INT AUTO_INCREMENT, PRIMARY KEY (a, id)) ENGINE=MyISAM",
        ),
        each=(
            *_statements(
                "SET SESSION auto_increment_increment = 10, auto_increment_offset = 3",
                "INSERT INTO w_numbers.t (u, v) VALUES ({n}, 'x'), ({n} + 10, 'y')",
                "SET SESSION auto_increment_increment = DEFAULT, auto_increment_offset = DEFAULT",
                "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO')",
                "INSERT IGNORE INTO w_numbers.t (id, u, v) VALUES (0, {n} + 20, LAST_INSERT_ID())",
                "SET SESSION sql_mode = DEFAULT",
                "INSERT INTO w_numbers.t (u, v) VALUES ({n} + 10, 'z') ON DUPLICATE KEY UPDATE v = CONCAT(v, '+', LAST_INSERT_ID())",
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
        setup=(_schema("accounts"), "CREATE TABLE w_accounts.t (a INT, b INT)", "CREATE ROLE w_reader",
               "CREATE USER 'w_o''dd'@'10.0.0.0/255.0.0.0' IDENTIFIED BY 'a''b'", "GRANT SELECT (a) ON w_accounts.t TO w_reader"),
        each=("CREATE USER 'w_u{n}'@'%' IDENTIFIED BY 'secret {n}'", "GRANT w_reader TO 'w_u{n}'@'%'",
              "GRANT INSERT, UPDATE ON `w\\_accounts`.* TO 'w_u{n}'@'%'"),
        at={2: ("RENAME USER 'w_u1'@'%' TO 'w_renamed'@'%'", "ALTER USER 'w_u2'@'%' ACCOUNT LOCK"),
            3: ("REVOKE w_reader FROM 'w_renamed'@'%'", "DROP USER 'w_o''dd'@'10.0.0.0/255.0.0.0'")},
        asks=("SHOW GRANTS FOR w_reader", "SELECT User, Host, Db, Insert_priv FROM mysql.db WHERE User LIKE 'w_%' ORDER BY 1, 2, 3"),
    ),
    "views and routines": World(
        setup=(
            _schema("views"),
            "SET GLOBAL log_bin_trust_function_creators = ON",
            "CREATE TABLE w_views.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB",
            "CREATE USER w_definer@localhost",
            "CREATE DEFINER=w_definer@localhost SQL SECURITY INVOKER VIEW w_views.v AS SELECT id, UPPER(v) AS v FROM w_views.t WITH CHECK OPTION",
            "CREATE FUNCTION w_views.f(x INT) RETURNS INT BEGIN INSERT INTO w_views.t (v) VALUES (CONCAT('f', x)); RETURN x * 2; END",
        ),
        each=(
            "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
            'CREATE PROCEDURE "w_views"."p{n}"() COMMENT \'ü\' INSERT INTO "w_views".t (v) VALUES (\'a\' || \'b{n}\')',
            "SET SESSION sql_mode = DEFAULT",
            "CALL w_views.p{n}()",
            *_statements("? INSERT INTO w_views.t (v) SELECT w_views.f({n})", "? CALL w_views.p{n}()"),
            "SELECT w_views.f({n} + 10)",
            "CREATE OR REPLACE VIEW w_views.w AS SELECT {n} AS n FROM w_views.t",
        ),
        at={2: ("DROP USER w_definer@localhost",), 3: ("DROP PROCEDURE w_views.p1", "ALTER PROCEDURE w_views.p2 COMMENT 'changed'")},
    ),
    "flushed logs": World(
        setup=(_schema("flushed"), "CREATE TABLE w_flushed.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB"),
        each=tuple(each for k in range(4) for each in ("FLUSH BINARY LOGS", f"INSERT INTO w_flushed.t (v) VALUES ({{n}}{k})")),
    ),
    "row images": World(
        setup=(
            _schema("images"),
            "CREATE TABLE w_images.t (id INT PRIMARY KEY, a VARCHAR(90), b LONGBLOB, c BIT(13), d DECIMAL(30, 9), e ENUM('x', 'ü', ''), "
            "f SET('p', 'q', 'r'), g DOUBLE, UNIQUE KEY (a)) ENGINE=InnoDB",
            "CREATE TABLE w_images.nokey (a VARCHAR(90), b LONGBLOB, g FLOAT) ENGINE=InnoDB",
            "INSERT INTO w_images.t VALUES (1, 'one', REPEAT('b', 70000), b'1010101', 1.5, 'ü', 'p,r', -0.0), "
            "(2, 'two', NULL, 0, -99999999999999.123456789, '', '', 1e308), (3, NULL, x'00ff', NULL, NULL, NULL, NULL, NULL)",
            "INSERT INTO w_images.nokey VALUES ('same', 'x', 0.1), ('same', 'x', 0.1), (NULL, NULL, NULL), ('a ', 'x', -0.0)",
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
        at={2: ("ALTER TABLE w_images.t MODIFY e ENUM('', 'ü', 'x', 'new')", "UPDATE w_images.t SET e = 'new' WHERE id = 1"),
            3: ("ALTER TABLE w_images.t DROP INDEX a, MODIFY a TEXT", "ALTER TABLE w_images.nokey ADD COLUMN id INT AUTO_INCREMENT UNIQUE")},
    ),
    "odd engines": World(
        setup=(
            _schema("engines"),
            "? CREATE TABLE w_engines.arch (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20)) ENGINE=ARCHIVE",
            "CREATE TABLE w_engines.csv (id INT NOT NULL, v VARCHAR(20) NOT NULL) ENGINE=CSV",
            "? CREATE TABLE w_engines.hole (id INT, v VARCHAR(20)) ENGINE=BLACKHOLE",
            "CREATE TABLE w_engines.a (id INT, v INT) ENGINE=MyISAM",
            "CREATE TABLE w_engines.b (id INT, v INT) ENGINE=MyISAM",
            "CREATE TABLE w_engines.both_ (id INT, v INT) ENGINE=MERGE UNION=(w_engines.a, w_engines.b) INSERT_METHOD=LAST",
        ),
        each=(
            "? INSERT INTO w_engines.arch (v) VALUES ('{n}'), ('{n}')",
            "INSERT INTO w_engines.csv VALUES ({n}, 'a,''{n}')",
            "? INSERT INTO w_engines.hole VALUES ({n}, 'gone')",
            "INSERT INTO w_engines.both_ VALUES ({n}, 1)",
            *_statements(
                "? INSERT INTO w_engines.hole VALUES ({n}, 'gone')",
                "? INSERT INTO w_engines.arch (v) SELECT v FROM w_engines.arch LIMIT 1",
                "? INSERT INTO w_engines.csv VALUES (100 + {n}, 'text')",
                "? UPDATE w_engines.both_ SET v = v + 1",
            ),
        ),
        at={2: ("ALTER TABLE w_engines.both_ UNION=(w_engines.b)", "ALTER TABLE w_engines.a ENGINE=InnoDB"),
            3: ("ALTER TABLE w_engines.csv ENGINE=InnoDB", "? ALTER TABLE w_engines.arch ADD COLUMN w INT")},
    ),
    "settings of statements": World(
        setup=(
            _schema("settings"),
            "CREATE TABLE w_settings.t (id INT AUTO_INCREMENT PRIMARY KEY, v LONGTEXT) ENGINE=InnoDB",
            "SET GLOBAL group_concat_max_len = 7", "SET GLOBAL div_precision_increment = 9", "SET GLOBAL max_allowed_packet = 4194304",
            _again,
        ),
        each=(
            *_statements(
                "SET SESSION sql_mode = ''",
                "INSERT INTO w_settings.t (v) VALUES (REPEAT('x', 5000000))",
                "INSERT INTO w_settings.t (v) SELECT GROUP_CONCAT(TABLE_NAME) FROM (SELECT 'abcdef' AS TABLE_NAME UNION SELECT 'ghijkl') AS x",
                "INSERT INTO w_settings.t (v) VALUES (1 / 7), (CONCAT(1e0 / 3)), (SHA2('x', 256)), (0.1 + 0.2)",
                "SET SESSION sql_mode = DEFAULT",
            ),
        ),
    ),
    "columns in place": World(
        setup=(
            _schema("instant"),
            "CREATE TABLE w_instant.t (id INT PRIMARY KEY, a INT, b VARCHAR(50) NOT NULL DEFAULT 'b') ENGINE=InnoDB",
            "INSERT INTO w_instant.t (id, a) VALUES (1, 1), (2, 2), (3, 3)",
        ),
        each=(
            "ALTER TABLE w_instant.t ADD COLUMN c{n} VARCHAR(20) DEFAULT 'old{n}', ALGORITHM=INSTANT",
            "INSERT INTO w_instant.t (id) VALUES (10 * {n})",
            "UPDATE w_instant.t SET c{n} = 'set' WHERE id = {n}",
            "ALTER TABLE w_instant.t ALTER COLUMN c{n} SET DEFAULT 'new{n}'",
            "INSERT INTO w_instant.t (id) VALUES (10 * {n} + 1)",
        ),
        at={2: ("ALTER TABLE w_instant.t DROP COLUMN a", "ALTER TABLE w_instant.t RENAME COLUMN b TO bee"),
            3: ("ALTER TABLE w_instant.t MODIFY c1 VARCHAR(30) FIRST", "ALTER TABLE w_instant.t ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4")},
    ),
    "text and places": World(
        setup=(
            _schema("search"),
            "CREATE TABLE w_search.t (id INT PRIMARY KEY, body TEXT, p POINT NOT NULL, FULLTEXT KEY (body), SPATIAL KEY (p)) ENGINE=InnoDB",
            "INSERT INTO w_search.t VALUES (1, 'the quick brown fox', ST_GeomFromText('POINT(1 1)'))",
        ),
        each=("INSERT INTO w_search.t VALUES (10 + {n}, 'lazy dog number{n}', ST_GeomFromText('POINT({n} 2)'))",
              "UPDATE w_search.t SET body = CONCAT(body, ' jumps{n}') WHERE id = 1", "DELETE FROM w_search.t WHERE id = 9 + {n}"),
        asks=("SELECT id FROM w_search.t WHERE MATCH (body) AGAINST ('+jumps1' IN BOOLEAN MODE) ORDER BY 1",
              "SELECT id FROM w_search.t WHERE MBRContains(ST_GeomFromText('POLYGON((0 0, 0 9, 9 9, 9 0, 0 0))'), p) ORDER BY 1"),
    ),
    # what may be refused
    "temporary tables of triggers": World(
        setup=(
            _schema("scratch"),
            "CREATE TABLE w_scratch.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "CREATE TABLE w_scratch.log (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO w_scratch.t (v) VALUES (1), (2), (3), (4), (5), (6)",
            "CREATE TRIGGER w_scratch.sums BEFORE DELETE ON w_scratch.t FOR EACH ROW BEGIN "
            "CREATE TEMPORARY TABLE IF NOT EXISTS w_scratch.kept (v INT); "
            "INSERT INTO w_scratch.kept VALUES (OLD.v); "
            "INSERT INTO w_scratch.log (v) SELECT SUM(v) FROM w_scratch.kept; END",
            "? SET SESSION binlog_format = 'STATEMENT'",
            "? DELETE FROM w_scratch.t ORDER BY id LIMIT 1",
        ),
        each=("? DELETE FROM w_scratch.t ORDER BY id LIMIT 1",),
        refusal="temporary table",
    ),
    "temporary tables across a base": World(
        setup=(
            _schema("temporary"),
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
            _schema("unlogged"),
            "CREATE TABLE w_unlogged.t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB",
        ),
        each=("INSERT INTO w_unlogged.t (id, a) VALUES ({n}, {n})",),
        at={1: ("SET SESSION sql_log_bin = 0", "ALTER TABLE w_unlogged.t ADD COLUMN b INT DEFAULT 5", "SET SESSION sql_log_bin = 1",
                "INSERT INTO w_unlogged.t VALUES (100, 1, 2)"),
            3: ("INSERT INTO w_unlogged.t VALUES (101, 1, 2)",)},
        refusal="w_unlogged",
    ),
    "engine of new tables": World(
        setup=(_schema("engine"), "CREATE TABLE w_engine.t (id INT PRIMARY KEY)"),
        each=(
            "SET SESSION default_storage_engine = 'MyISAM'",
            "CREATE TABLE w_engine.of{n} (id INT PRIMARY KEY)",
            "SET SESSION default_storage_engine = DEFAULT",
            "SET GLOBAL default_storage_engine = 'MyISAM'",
            _again,
            "CREATE TABLE w_engine.globally{n} (id INT PRIMARY KEY)",
            "SET GLOBAL default_storage_engine = 'InnoDB'",
            _again,
        ),
        refusal="default_storage_engine",
    ),
    "tables outside of the datasets": World(
        options=("--innodb-directories={outside}",),
        kinds=MYSQL,
        setup=(_schema("outside"), "CREATE TABLE w_outside.t (id INT PRIMARY KEY) ENGINE=InnoDB"),
        at={
            # `snapshot` refuses it as long as it is there.
            1: (_outside_table,),
            2: ("INSERT INTO w_outside.t1 VALUES (3, 'three')", "DROP TABLE w_outside.t1"),
        },
        refusal="DATA DIRECTORY",
    ),
    "imported files": World(
        setup=(
            _schema("imported"),
            "CREATE TABLE w_imported.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "CREATE TABLE w_imported.source (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO w_imported.source VALUES (1, 1), (2, 2)",
        ),
        each=("INSERT INTO w_imported.source VALUES (10 + {n}, 1)",),
        at={2: (_import_tablespace, "INSERT INTO w_imported.t VALUES (99, 99)")},
        refusal="IMPORT TABLESPACE",
    ),
    "the log is reset": World(
        setup=(_schema("reset"), "CREATE TABLE w_reset.t (id INT PRIMARY KEY) ENGINE=InnoDB"),
        each=("INSERT INTO w_reset.t VALUES ({n})",),
        at={1: (lambda stage: stage.run("RESET BINARY LOGS AND GTIDS" if stage.server.settings.kind == "mysql" else "RESET MASTER"),)},
        refusal="reset",
    ),
}  # fmt: skip

OF_MYSQL: dict[str, World] = {
    "json in part": World(
        options=("--binlog-row-value-options=PARTIAL_JSON",),
        setup=(
            _schema("json"),
            "CREATE TABLE w_json.t (id INT PRIMARY KEY, j JSON, n INT AS (j->'$.n') STORED, KEY many ((CAST(j->'$.tags' AS UNSIGNED ARRAY)))) ENGINE=InnoDB",
            "INSERT INTO w_json.t (id, j) VALUES (1, JSON_OBJECT('a', REPEAT('a', 5000), 'n', 1, 'tags', JSON_ARRAY(1, 2))), "
            "(2, JSON_OBJECT('n', 2, 'd', CAST(NOW() AS JSON), 'tags', JSON_ARRAY(7)))",
        ),
        each=(
            "UPDATE w_json.t SET j = JSON_SET(j, '$.n', {n} * 100) WHERE id = 1",
            "UPDATE w_json.t SET j = JSON_REPLACE(j, '$.tags', JSON_ARRAY({n}, 5)) WHERE id = 2",
            "UPDATE w_json.t SET j = JSON_REMOVE(j, '$.d') WHERE id = 2",
            "UPDATE w_json.t SET j = JSON_ARRAY_APPEND(j, '$.tags', {n}) WHERE id = 1",
            "INSERT INTO w_json.t (id, j) VALUES (10 + {n}, JSON_OBJECT('ü', '€'))",
        ),
        asks=("SELECT id FROM w_json.t WHERE 5 MEMBER OF (j->'$.tags') ORDER BY 1",),
    ),
    "tablespaces": World(
        setup=(
            _schema("spaces"),
            "CREATE TABLESPACE w_space ADD DATAFILE 'w_space.ibd' ENGINE=InnoDB",
            "CREATE TABLE w_spaces.t (id INT PRIMARY KEY, v INT) TABLESPACE w_space",
            "CREATE TABLE w_spaces.s (id INT PRIMARY KEY) TABLESPACE innodb_system",
        ),
        each=("INSERT INTO w_spaces.t VALUES ({n}, {n})", "INSERT INTO w_spaces.s VALUES ({n})"),
        at={
            1: ("CREATE UNDO TABLESPACE w_undo ADD DATAFILE 'w_undo.ibu'", "ALTER TABLESPACE w_space RENAME TO w_room"),
            2: ("CREATE TABLESPACE w_other ADD DATAFILE 'w_other.ibd'", "ALTER TABLE w_spaces.t TABLESPACE w_other"),
            3: ("DROP TABLESPACE w_room", "ALTER TABLE w_spaces.s TABLESPACE innodb_file_per_table",
                "ALTER UNDO TABLESPACE w_undo SET INACTIVE"),
        },
    ),
    "invisible keys": World(
        setup=(
            _schema("invisible"),
            "SET SESSION sql_generate_invisible_primary_key = ON",
            "CREATE TABLE w_invisible.t (a INT, b INT INVISIBLE DEFAULT 4) ENGINE=InnoDB",
            "CREATE TABLE w_invisible.l LIKE w_invisible.t",
        ),
        each=("INSERT INTO w_invisible.t (a) VALUES ({n}), ({n})", "INSERT INTO w_invisible.l (a, b) VALUES ({n}, {n})",
              "UPDATE w_invisible.t SET a = a + 1 WHERE my_row_id = {n}"),
        at={2: ("ALTER TABLE w_invisible.t ALTER COLUMN my_row_id SET VISIBLE", "CREATE TABLE w_invisible.c AS SELECT a, b FROM w_invisible.t"),
            3: ("ALTER TABLE w_invisible.t ADD INDEX hidden (a) INVISIBLE",)},
        asks=("SELECT my_row_id, a, b FROM w_invisible.t ORDER BY 1",),
    ),
    "gtids in three ways": World(
        setup=(_schema("gtids"), "CREATE TABLE w_gtids.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB"),
        each=(
            "? SET gtid_next = 'AUTOMATIC:nightly_{n}'", "INSERT INTO w_gtids.t (v) VALUES ({n})",
            "? SET gtid_next = 'ffffffff-ffff-ffff-ffff-0080ff7f01fe:{n}'", "INSERT INTO w_gtids.t (v) VALUES ({n} + 10)",
            "? SET gtid_next = 'ffffffff-ffff-ffff-ffff-0080ff7f01fe:tag:9{n}'", "BEGIN", "COMMIT",
            "? SET gtid_next = 'AUTOMATIC'", "INSERT INTO w_gtids.t (v) VALUES ({n} + 20)",
        ),
    ),
    "gtid mode changes": World(
        setup=(_schema("mode"), "CREATE TABLE w_mode.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB"),
        each=("INSERT INTO w_mode.t (v) VALUES ({n})",),
        at={
            1: ("SET GLOBAL enforce_gtid_consistency = ON", "? SET GLOBAL gtid_mode = ON_PERMISSIVE", "INSERT INTO w_mode.t (v) VALUES (71)",
                "? SET GLOBAL gtid_mode = OFF_PERMISSIVE", "INSERT INTO w_mode.t (v) VALUES (72)"),
            2: ("INSERT INTO w_mode.t (v) VALUES (73)", "? SET GLOBAL gtid_mode = OFF", "INSERT INTO w_mode.t (v) VALUES (74)"),
            3: ("? SET GLOBAL gtid_mode = OFF_PERMISSIVE", "? SET GLOBAL gtid_mode = ON_PERMISSIVE", "INSERT INTO w_mode.t (v) VALUES (75)",
                "? SET GLOBAL gtid_mode = ON", "INSERT INTO w_mode.t (v) VALUES (76)"),
        },
    ),
    "new types": World(
        setup=(
            _schema("types"),
            "CREATE TABLE w_types.t (id INT PRIMARY KEY, v VECTOR(4), g GEOMETRY SRID 4326, u BIGINT UNSIGNED, d DATE DEFAULT (CURRENT_DATE), "
            "c CHAR(8) CHARACTER SET utf32 COLLATE utf32_bin, KEY ((u % 10)), KEY (c DESC)) ENGINE=InnoDB",
        ),
        each=(
            "INSERT INTO w_types.t (id, v, g, u, c) VALUES ({n}, TO_VECTOR('[1,2,3,{n}]'), ST_GeomFromText('POINT(1 {n})', 4326), "
            "18446744073709551615, '🐬{n}')",
            *_statements("? INSERT INTO w_types.t (id, u, d) VALUES (100 + {n}, {n}, DEFAULT)"),
            "ANALYZE TABLE w_types.t UPDATE HISTOGRAM ON u WITH 4 BUCKETS",
        ),
        at={2: ("UPDATE w_types.t SET v = TO_VECTOR('[9,9,9,9]') WHERE id = 1",)},
    ),
    "tables made in one": World(
        setup=(_schema("made"), "CREATE TABLE w_made.t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB", "INSERT INTO w_made.t VALUES (1, 'a'), (2, 'b')"),
        each=(
            "CREATE TABLE w_made.of{n} (PRIMARY KEY (id)) ENGINE=InnoDB AS SELECT id, CONCAT(v, {n}) AS v, NOW(6) AS at FROM w_made.t",
            "? CREATE TABLE w_made.of{n} AS SELECT 1", "DROP TABLE IF EXISTS w_made.of0, w_made.nothing",
            "CREATE TEMPORARY TABLE w_made.scratch AS SELECT * FROM w_made.t", "INSERT INTO w_made.t SELECT id + {n} * 10, v FROM w_made.scratch WHERE id < 3",
            "DROP TEMPORARY TABLE w_made.scratch",
        ),
        at={3: ("DROP TABLE w_made.of1, w_made.of2", "TRUNCATE TABLE w_made.of3")},
    ),
    "recursion": World(
        setup=(_schema("recursion"), "CREATE TABLE w_recursion.t (id INT PRIMARY KEY) ENGINE=InnoDB", "SET GLOBAL cte_max_recursion_depth = 5000", _again),
        each=_statements("INSERT INTO w_recursion.t WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 2000) SELECT n + 10000 * {n} FROM r"),
    ),
    "undo log is truncated": World(
        options=("--innodb-undo-log-truncate=ON", "--innodb-max-undo-log-size=10485760", "--innodb-rollback-segments=1"),
        setup=(_schema("undo"), "CREATE TABLE w_undo.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(500)) ENGINE=InnoDB",
               "INSERT INTO w_undo.t (v) VALUES (REPEAT('x', 400))", *("INSERT INTO w_undo.t (v) SELECT v FROM w_undo.t",) * 10),
        each=("UPDATE w_undo.t SET v = CONCAT('{n}', SUBSTR(v, 2))", "DELETE FROM w_undo.t WHERE id % 11 = {n}"),
    ),
    "rewritten and masked": World(
        setup=(_schema("checks"), "CREATE TABLE w_checks.t (id INT PRIMARY KEY, a INT CONSTRAINT positive CHECK (a > 0) NOT ENFORCED) ENGINE=InnoDB",
               "INSERT INTO w_checks.t VALUES (1, -1)"),
        each=("INSERT INTO w_checks.t VALUES (10 + {n}, {n})",),
        at={2: ("UPDATE w_checks.t SET a = 5 WHERE id = 1", "ALTER TABLE w_checks.t ALTER CHECK positive ENFORCED"),
            3: ("? INSERT INTO w_checks.t VALUES (99, -1)", "ALTER TABLE w_checks.t COMMENT='ü', STATS_PERSISTENT=0")},
    ),
    "redo log off": World(
        setup=(_schema("bulk"), "CREATE TABLE w_bulk.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB"),
        each=("ALTER INSTANCE DISABLE INNODB REDO_LOG", "INSERT INTO w_bulk.t (v) VALUES (REPEAT('{n}', 200)), ('x')",
              "INSERT INTO w_bulk.t (v) SELECT v FROM w_bulk.t", "ALTER INSTANCE ENABLE INNODB REDO_LOG"),
    ),
}  # fmt: skip

OF_MARIADB: dict[str, World] = {
    "history of rows": World(
        setup=(
            _schema("versioned"),
            "CREATE TABLE w_versioned.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB WITH SYSTEM VERSIONING",
            "CREATE TABLE w_versioned.p (id INT, v INT) ENGINE=InnoDB WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME (PARTITION old HISTORY, PARTITION cur CURRENT)",
            "CREATE TABLE w_versioned.x (id INT PRIMARY KEY, v INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, "
            "PERIOD FOR SYSTEM_TIME (s, e)) ENGINE=InnoDB WITH SYSTEM VERSIONING",
            "INSERT INTO w_versioned.t VALUES (1, 1), (2, 2)", "INSERT INTO w_versioned.p VALUES (1, 1)", "INSERT INTO w_versioned.x (id, v) VALUES (1, 1)",
        ),
        each=(
            "UPDATE w_versioned.t SET v = v + 1", "INSERT INTO w_versioned.t (id, v) VALUES (10 + {n}, {n})", "UPDATE w_versioned.p SET v = {n} + 10",
            *_statements("? UPDATE w_versioned.x SET v = v + 1", "? DELETE FROM w_versioned.t WHERE id = 9 + {n}"),
            "REPLACE INTO w_versioned.t (id, v) VALUES (1, 7)",
        ),
        at={2: ("DELETE HISTORY FROM w_versioned.x", "SET SESSION system_versioning_alter_history = KEEP", "ALTER TABLE w_versioned.t ADD COLUMN w INT DEFAULT 3",
                "SET SESSION system_versioning_alter_history = DEFAULT"),
            3: ("ALTER TABLE w_versioned.p REMOVE PARTITIONING",)},
        asks=("SELECT *, ROW_START, ROW_END FROM w_versioned.t FOR SYSTEM_TIME ALL ORDER BY ROW_START, ROW_END, id",
              "SELECT * FROM w_versioned.x FOR SYSTEM_TIME ALL ORDER BY s, e, id"),
        kinds=MARIADB,
    ),
    "periods": World(
        setup=(_schema("periods"), "CREATE TABLE w_periods.t (id INT, a DATE, b DATE, v INT, PERIOD FOR p (a, b), UNIQUE (id, p WITHOUT OVERLAPS)) ENGINE=InnoDB",
               "INSERT INTO w_periods.t VALUES (1, '2000-01-01', '2010-01-01', 1), (2, '2000-01-01', '2010-01-01', 2)"),
        each=("UPDATE w_periods.t FOR PORTION OF p FROM '2000-0{n}-01' TO '2000-0{n}-09' SET v = {n}0",
              *_statements("DELETE FROM w_periods.t FOR PORTION OF p FROM '2005-0{n}-01' TO '2005-0{n}-09'")),
    ),
    "sequences": World(
        setup=(_schema("sequences"), "CREATE SEQUENCE w_sequences.s START 5 INCREMENT 3 CACHE 4", "CREATE SEQUENCE w_sequences.n NOCACHE",
               "CREATE TABLE w_sequences.t (id INT DEFAULT NEXT VALUE FOR w_sequences.s PRIMARY KEY, v INT) ENGINE=InnoDB"),
        each=("INSERT INTO w_sequences.t (v) VALUES ({n}), ({n})", "SELECT NEXT VALUE FOR w_sequences.n", "SELECT SETVAL(w_sequences.s, {n}00)",
              *_statements("? INSERT INTO w_sequences.t (v) VALUES (70 + {n})"), "BEGIN", "INSERT INTO w_sequences.t (v) VALUES (9)", "ROLLBACK"),
        at={2: ("ALTER SEQUENCE w_sequences.n MAXVALUE 1000 CYCLE",), 3: ("RENAME TABLE w_sequences.n TO w_sequences.m",)},
        asks=("SELECT * FROM w_sequences.s",),
    ),
    "packages": World(
        setup=(_schema("packages"), "CREATE TABLE w_packages.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB"),
        each=(
            "USE w_packages", "SET SESSION sql_mode = 'ORACLE'",
            "CREATE OR REPLACE PACKAGE pack AS PROCEDURE p(x INT); FUNCTION f RETURN INT; END",
            "CREATE OR REPLACE PACKAGE BODY pack AS total INT := {n}; PROCEDURE p(x INT) AS BEGIN INSERT INTO t (v) VALUES ('p' || x || total); END; "
            "FUNCTION f RETURN INT AS BEGIN RETURN {n}; END; BEGIN total := total + 1; END",
            "CALL pack.p({n})", *_statements("INSERT INTO t (v) VALUES ('a' || NULL || 'b')", "CALL pack.p({n})"),
            "BEGIN INSERT INTO t (v) VALUES ('block'); END", "SET SESSION sql_mode = DEFAULT",
        ),
        at={3: ("DROP PACKAGE BODY w_packages.pack",)},
    ),
    "aria and compressed": World(
        setup=(_schema("aria"), "CREATE TABLE w_aria.t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=Aria TRANSACTIONAL=1",
               "CREATE TABLE w_aria.n (id INT, v TEXT) ENGINE=Aria TRANSACTIONAL=0", "CREATE TABLE w_aria.c (id INT PRIMARY KEY, v TEXT COMPRESSED, w BLOB COMPRESSED) ENGINE=InnoDB"),
        each=("INSERT INTO w_aria.t VALUES ({n}, 'a')", "INSERT INTO w_aria.n SELECT {n}, REPEAT('n', 3000)", "INSERT INTO w_aria.c VALUES ({n}, REPEAT('c', 9000), REPEAT('w', 200))",
              "UPDATE w_aria.c SET v = CONCAT(v, '{n}')", *_statements("DELETE FROM w_aria.n WHERE id = {n} - 1", "UPDATE w_aria.t SET v = '{n}'")),
        at={3: ("ALTER TABLE w_aria.t ENGINE=InnoDB",)},
    ),
    "replaced tables": World(
        setup=(_schema("replaced"), "CREATE TABLE w_replaced.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB", "INSERT INTO w_replaced.t VALUES (1, 1)"),
        each=("CREATE OR REPLACE TABLE w_replaced.t (id INT PRIMARY KEY, v INT, w{n} INT) ENGINE=InnoDB AS SELECT {n} AS id, 1 AS v, 2 AS w{n}",
              "? CREATE OR REPLACE TABLE w_replaced.t (id INT PRIMARY KEY) ENGINE=InnoDB AS SELECT 1 AS id UNION ALL SELECT 1",
              "CREATE TABLE IF NOT EXISTS w_replaced.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
              "CREATE OR REPLACE TABLE w_replaced.u LIKE w_replaced.t", "INSERT INTO w_replaced.u SELECT * FROM w_replaced.t",
              "? DROP TABLE w_replaced.t, w_replaced.none_such", "CREATE TABLE IF NOT EXISTS w_replaced.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB"),
    ),
    "domains": World(
        setup=(_schema("domains"), "CREATE TABLE w_domains.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB"),
        each=("SET SESSION gtid_domain_id = 9{n}", "INSERT INTO w_domains.t (v) VALUES ({n})", "SET SESSION gtid_domain_id = DEFAULT",
              "SET SESSION gtid_seq_no = {n}00000", "INSERT INTO w_domains.t (v) VALUES ({n})",
              "SET SESSION server_id = 4{n}", "INSERT INTO w_domains.t (v) VALUES (5)", "SET SESSION server_id = DEFAULT",
              "SET SESSION skip_replication = 1", "INSERT INTO w_domains.t (v) VALUES (80 + {n})", "SET SESSION skip_replication = 0",
              "SET SESSION skip_parallel_replication = 1", "INSERT INTO w_domains.t (v) VALUES (6)", "SET SESSION skip_parallel_replication = 0"),
    ),
    "changes in two phases": World(
        options=("--binlog-alter-two-phase=ON",),
        setup=(_schema("phases"), "CREATE TABLE w_phases.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB", "INSERT INTO w_phases.t VALUES (1, 1), (2, 1)"),
        each=("ALTER TABLE w_phases.t ADD COLUMN c{n} INT DEFAULT {n}, FORCE", "? ALTER TABLE w_phases.t ADD UNIQUE KEY (v)",
              "INSERT INTO w_phases.t (id, v) VALUES (10 + {n}, 5)", "ALTER TABLE w_phases.t ADD INDEX i{n} (v), ALGORITHM=COPY"),
    ),
    "types of mariadb": World(
        setup=(_schema("kinds"), "CREATE TABLE w_kinds.t (id UUID PRIMARY KEY DEFAULT UUID(), a INET6, b INET4, j JSON, h INT INVISIBLE DEFAULT 3, "
               "x VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci, UNIQUE KEY (x) USING HASH) ENGINE=InnoDB"),
        each=("INSERT INTO w_kinds.t (a, b, j, x) VALUES ('2001:db8::{n}', '10.0.0.{n}', '{\"n\": {n}}', 'Ä{n}') RETURNING id",
              *_statements("? INSERT INTO w_kinds.t (id, a, x) VALUES ('00000000-0000-0000-0000-00000000000{n}', NULL, 'x{n}')"),
              "UPDATE w_kinds.t SET j = JSON_SET(j, '$.m', {n})", "? INSERT INTO w_kinds.t (x, j) VALUES ('y{n}', 'no json')"),
        asks=("SELECT id, a, b, j, h, x FROM w_kinds.t ORDER BY id",),
    ),
    "recursions": World(
        setup=(_schema("recursion"), "CREATE TABLE w_recursion.t (id INT PRIMARY KEY) ENGINE=InnoDB", "SET GLOBAL max_recursive_iterations = 5000", _again),
        each=_statements("INSERT INTO w_recursion.t WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 2000) SELECT n + 10000 * {n} FROM r"),
    ),
    "memory tables": World(
        setup=(_schema("memory"), "CREATE TABLE w_memory.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB", "CREATE TABLE w_memory.cache (id INT) ENGINE=MEMORY"),
        each=("INSERT INTO w_memory.cache VALUES ({n})", "INSERT INTO w_memory.t SELECT {n}, COUNT(*) FROM w_memory.cache", "DELETE FROM w_memory.cache"),
    ),
    "statements for one": World(
        setup=(_schema("one"), "CREATE TABLE w_one.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB"),
        each=("SET STATEMENT binlog_format = 'STATEMENT', time_zone = '+09:00' FOR INSERT INTO w_one.t (v) VALUES (NOW())",
              "BEGIN NOT ATOMIC DECLARE i INT DEFAULT 0; WHILE i < 3 DO INSERT INTO w_one.t (v) VALUES (i); SET i = i + 1; END WHILE; END",
              "EXECUTE IMMEDIATE 'INSERT INTO w_one.t (v) VALUES (?)' USING {n}", "FOR i IN 1..2 DO INSERT INTO w_one.t (v) VALUES (i); END FOR"),
    ),
}  # fmt: skip


def _only(kinds: tuple[str, ...], worlds: dict[str, World]) -> dict[str, World]:
    from dataclasses import replace

    return {name: replace(world, kinds=kinds) for name, world in worlds.items()}


SQL_WORLDS: Final = {**COMMON, **_only(MYSQL, OF_MYSQL), **_only(MARIADB, OF_MARIADB)}
