"""Worlds of MySQL servers alone. See worlds."""

from typing import Final

from tests.odd.sql_acts import again, schema, statements
from tests.odd.worlds import World

OF_MYSQL: Final[dict[str, World]] = {
    "json in part": World(
        options=("--binlog-row-value-options=PARTIAL_JSON",),
        setup=(
            schema("json"),
            (
                "CREATE TABLE w_json.t (id INT PRIMARY KEY, j JSON, n INT AS (j->'$.n') STORED, KEY many"
                " ((CAST(j->'$.tags' AS UNSIGNED ARRAY)))) ENGINE=InnoDB"
            ),
            (
                "INSERT INTO w_json.t (id, j) VALUES (1, JSON_OBJECT('a', REPEAT('a', 5000), 'n', 1, 'tags',"
                " JSON_ARRAY(1, 2))), (2, JSON_OBJECT('n', 2, 'd', CAST(NOW() AS JSON), 'tags',"
                " JSON_ARRAY(7)))"
            ),
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
            schema("spaces"),
            "CREATE TABLESPACE w_space ADD DATAFILE 'w_space.ibd' ENGINE=InnoDB",
            "CREATE TABLE w_spaces.t (id INT PRIMARY KEY, v INT) TABLESPACE w_space",
            "CREATE TABLE w_spaces.s (id INT PRIMARY KEY) TABLESPACE innodb_system",
        ),
        each=("INSERT INTO w_spaces.t VALUES ({n}, {n})", "INSERT INTO w_spaces.s VALUES ({n})"),
        at={
            1: (
                "CREATE UNDO TABLESPACE w_undo ADD DATAFILE 'w_undo.ibu'",
                "ALTER TABLESPACE w_space RENAME TO w_room",
            ),
            2: (
                "CREATE TABLESPACE w_other ADD DATAFILE 'w_other.ibd'",
                "ALTER TABLE w_spaces.t TABLESPACE w_other",
            ),
            3: (
                "DROP TABLESPACE w_room",
                "ALTER TABLE w_spaces.s TABLESPACE innodb_file_per_table",
                "ALTER UNDO TABLESPACE w_undo SET INACTIVE",
            ),
        },
    ),
    "invisible keys": World(
        setup=(
            schema("invisible"),
            "SET SESSION sql_generate_invisible_primary_key = ON",
            "CREATE TABLE w_invisible.t (a INT, b INT INVISIBLE DEFAULT 4) ENGINE=InnoDB",
            "CREATE TABLE w_invisible.l LIKE w_invisible.t",
        ),
        each=(
            "INSERT INTO w_invisible.t (a) VALUES ({n}), ({n})",
            "INSERT INTO w_invisible.l (a, b) VALUES ({n}, {n})",
            "UPDATE w_invisible.t SET a = a + 1 WHERE my_row_id = {n}",
        ),
        at={
            2: (
                "ALTER TABLE w_invisible.t ALTER COLUMN my_row_id SET VISIBLE",
                "CREATE TABLE w_invisible.c AS SELECT a, b FROM w_invisible.t",
            ),
            3: ("ALTER TABLE w_invisible.t ADD INDEX hidden (a) INVISIBLE",),
        },
        asks=("SELECT my_row_id, a, b FROM w_invisible.t ORDER BY 1",),
    ),
    "gtids in three ways": World(
        setup=(
            schema("gtids"),
            "CREATE TABLE w_gtids.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
        ),
        each=(
            "? SET gtid_next = 'AUTOMATIC:nightly_{n}'",
            "INSERT INTO w_gtids.t (v) VALUES ({n})",
            "? SET gtid_next = 'ffffffff-ffff-ffff-ffff-0080ff7f01fe:{n}'",
            "INSERT INTO w_gtids.t (v) VALUES ({n} + 10)",
            "? SET gtid_next = 'ffffffff-ffff-ffff-ffff-0080ff7f01fe:tag:9{n}'",
            "BEGIN",
            "COMMIT",
            "? SET gtid_next = 'AUTOMATIC'",
            "INSERT INTO w_gtids.t (v) VALUES ({n} + 20)",
        ),
    ),
    "gtid mode changes": World(
        setup=(
            schema("mode"),
            "CREATE TABLE w_mode.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
        ),
        each=("INSERT INTO w_mode.t (v) VALUES ({n})",),
        at={
            1: (
                "SET GLOBAL enforce_gtid_consistency = ON",
                "? SET GLOBAL gtid_mode = ON_PERMISSIVE",
                "INSERT INTO w_mode.t (v) VALUES (71)",
                "? SET GLOBAL gtid_mode = OFF_PERMISSIVE",
                "INSERT INTO w_mode.t (v) VALUES (72)",
            ),
            2: (
                "INSERT INTO w_mode.t (v) VALUES (73)",
                "? SET GLOBAL gtid_mode = OFF",
                "INSERT INTO w_mode.t (v) VALUES (74)",
            ),
            3: (
                "? SET GLOBAL gtid_mode = OFF_PERMISSIVE",
                "? SET GLOBAL gtid_mode = ON_PERMISSIVE",
                "INSERT INTO w_mode.t (v) VALUES (75)",
                "? SET GLOBAL gtid_mode = ON",
                "INSERT INTO w_mode.t (v) VALUES (76)",
            ),
        },
    ),
    "new types": World(
        setup=(
            schema("types"),
            (
                "CREATE TABLE w_types.t (id INT PRIMARY KEY, v VECTOR(4), g GEOMETRY SRID 4326, u BIGINT"
                " UNSIGNED, d DATE DEFAULT (CURRENT_DATE), c CHAR(8) CHARACTER SET utf32 COLLATE utf32_bin,"
                " KEY ((u % 10)), KEY (c DESC)) ENGINE=InnoDB"
            ),
        ),
        each=(
            (
                "INSERT INTO w_types.t (id, v, g, u, c) VALUES ({n}, TO_VECTOR('[1,2,3,{n}]'),"
                " ST_GeomFromText('POINT(1 {n})', 4326), 18446744073709551615, '🐬{n}')"
            ),
            *statements("? INSERT INTO w_types.t (id, u, d) VALUES (100 + {n}, {n}, DEFAULT)"),
            "ANALYZE TABLE w_types.t UPDATE HISTOGRAM ON u WITH 4 BUCKETS",
        ),
        at={2: ("UPDATE w_types.t SET v = TO_VECTOR('[9,9,9,9]') WHERE id = 1",)},
    ),
    "tables made in one": World(
        setup=(
            schema("made"),
            "CREATE TABLE w_made.t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB",
            "INSERT INTO w_made.t VALUES (1, 'a'), (2, 'b')",
        ),
        each=(
            (
                "CREATE TABLE w_made.of{n} (PRIMARY KEY (id)) ENGINE=InnoDB AS SELECT id, CONCAT(v, {n}) AS"
                " v, NOW(6) AS at FROM w_made.t"
            ),
            "? CREATE TABLE w_made.of{n} AS SELECT 1",
            "DROP TABLE IF EXISTS w_made.of0, w_made.nothing",
            "CREATE TEMPORARY TABLE w_made.scratch AS SELECT * FROM w_made.t",
            "INSERT INTO w_made.t SELECT id + {n} * 10, v FROM w_made.scratch WHERE id < 3",
            "DROP TEMPORARY TABLE w_made.scratch",
        ),
        at={3: ("DROP TABLE w_made.of1, w_made.of2", "TRUNCATE TABLE w_made.of3")},
    ),
    "recursion": World(
        setup=(
            schema("recursion"),
            "CREATE TABLE w_recursion.t (id INT PRIMARY KEY) ENGINE=InnoDB",
        ),
        each=(
            "SET GLOBAL cte_max_recursion_depth = 5000",
            again,
            *statements(
                "INSERT INTO w_recursion.t WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r"
                " WHERE n < 2000) SELECT n + 10000 * {n} FROM r"
            ),
        ),
    ),
    "undo log is truncated": World(
        options=(
            "--innodb-undo-log-truncate=ON",
            "--innodb-max-undo-log-size=10485760",
            "--innodb-rollback-segments=1",
        ),
        setup=(
            schema("undo"),
            "CREATE TABLE w_undo.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(500)) ENGINE=InnoDB",
            "INSERT INTO w_undo.t (v) VALUES (REPEAT('x', 400))",
            *("INSERT INTO w_undo.t (v) SELECT v FROM w_undo.t",) * 10,
        ),
        each=(
            "UPDATE w_undo.t SET v = CONCAT('{n}', SUBSTR(v, 2))",
            "DELETE FROM w_undo.t WHERE id % 11 = {n}",
        ),
    ),
    "rewritten and masked": World(
        setup=(
            schema("checks"),
            (
                "CREATE TABLE w_checks.t (id INT PRIMARY KEY, a INT CONSTRAINT positive CHECK (a > 0) NOT"
                " ENFORCED) ENGINE=InnoDB"
            ),
            "INSERT INTO w_checks.t VALUES (1, -1)",
        ),
        each=("INSERT INTO w_checks.t VALUES (10 + {n}, {n})",),
        at={
            2: (
                "UPDATE w_checks.t SET a = 5 WHERE id = 1",
                "ALTER TABLE w_checks.t ALTER CHECK positive ENFORCED",
            ),
            3: (
                "? INSERT INTO w_checks.t VALUES (99, -1)",
                "ALTER TABLE w_checks.t COMMENT='ü', STATS_PERSISTENT=0",
            ),
        },
    ),
    "redo log off": World(
        setup=(
            schema("bulk"),
            "CREATE TABLE w_bulk.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200)) ENGINE=InnoDB",
        ),
        each=(
            "ALTER INSTANCE DISABLE INNODB REDO_LOG",
            "INSERT INTO w_bulk.t (v) VALUES (REPEAT('{n}', 200)), ('x')",
            "INSERT INTO w_bulk.t (v) SELECT v FROM w_bulk.t",
            "ALTER INSTANCE ENABLE INNODB REDO_LOG",
        ),
    ),
}
