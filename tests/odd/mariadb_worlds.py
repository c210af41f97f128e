"""Worlds of MariaDB servers alone. See worlds."""

from typing import Final

from tests.odd.sql_acts import again, schema, statements
from tests.odd.worlds import World

OF_MARIADB: Final[dict[str, World]] = {
    "history of rows": World(
        setup=(
            schema("versioned"),
            "CREATE TABLE w_versioned.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB WITH SYSTEM VERSIONING",
            (
                "CREATE TABLE w_versioned.p (id INT, v INT) ENGINE=InnoDB WITH SYSTEM VERSIONING PARTITION BY"
                " SYSTEM_TIME (PARTITION old HISTORY, PARTITION cur CURRENT)"
            ),
            (
                "CREATE TABLE w_versioned.x (id INT PRIMARY KEY, v INT, s TIMESTAMP(6) GENERATED ALWAYS AS"
                " ROW START, e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e))"
                " ENGINE=InnoDB WITH SYSTEM VERSIONING"
            ),
            "INSERT INTO w_versioned.t VALUES (1, 1), (2, 2)",
            "INSERT INTO w_versioned.p VALUES (1, 1)",
            "INSERT INTO w_versioned.x (id, v) VALUES (1, 1)",
        ),
        each=(
            "UPDATE w_versioned.t SET v = v + 1",
            "INSERT INTO w_versioned.t (id, v) VALUES (10 + {n}, {n})",
            "UPDATE w_versioned.p SET v = {n} + 10",
            *statements(
                "? UPDATE w_versioned.x SET v = v + 1", "? DELETE FROM w_versioned.t WHERE id = 9 + {n}"
            ),
            "REPLACE INTO w_versioned.t (id, v) VALUES (1, 7)",
        ),
        at={
            2: (
                "DELETE HISTORY FROM w_versioned.x",
                "SET SESSION system_versioning_alter_history = KEEP",
                "ALTER TABLE w_versioned.t ADD COLUMN w INT DEFAULT 3",
                "SET SESSION system_versioning_alter_history = DEFAULT",
            ),
            3: ("ALTER TABLE w_versioned.p REMOVE PARTITIONING",),
        },
        asks=(
            (
                "SELECT *, ROW_START, ROW_END FROM w_versioned.t FOR SYSTEM_TIME ALL ORDER BY ROW_START,"
                " ROW_END, id"
            ),
            "SELECT * FROM w_versioned.x FOR SYSTEM_TIME ALL ORDER BY s, e, id",
        ),
    ),
    "periods": World(
        setup=(
            schema("periods"),
            (
                "CREATE TABLE w_periods.t (id INT, a DATE, b DATE, v INT, PERIOD FOR p (a, b), UNIQUE (id, p"
                " WITHOUT OVERLAPS)) ENGINE=InnoDB"
            ),
            (
                "INSERT INTO w_periods.t VALUES (1, '2000-01-01', '2010-01-01', 1), (2, '2000-01-01',"
                " '2010-01-01', 2)"
            ),
        ),
        each=(
            "UPDATE w_periods.t FOR PORTION OF p FROM '2000-0{n}-01' TO '2000-0{n}-09' SET v = {n}0",
            *statements("DELETE FROM w_periods.t FOR PORTION OF p FROM '2005-0{n}-01' TO '2005-0{n}-09'"),
        ),
    ),
    "sequences": World(
        setup=(
            schema("sequences"),
            "CREATE SEQUENCE w_sequences.s START 5 INCREMENT 3 CACHE 4",
            "CREATE SEQUENCE w_sequences.n NOCACHE",
            (
                "CREATE TABLE w_sequences.t (id INT DEFAULT NEXT VALUE FOR w_sequences.s PRIMARY KEY, v INT)"
                " ENGINE=InnoDB"
            ),
        ),
        each=(
            "INSERT INTO w_sequences.t (v) VALUES ({n}), ({n})",
            "SELECT NEXT VALUE FOR w_sequences.n",
            "SELECT SETVAL(w_sequences.s, {n}00)",
            *statements("? INSERT INTO w_sequences.t (v) VALUES (70 + {n})"),
            "BEGIN",
            "INSERT INTO w_sequences.t (v) VALUES (9)",
            "ROLLBACK",
        ),
        at={
            2: ("ALTER SEQUENCE w_sequences.n MAXVALUE 1000 CYCLE",),
            3: ("RENAME TABLE w_sequences.n TO w_sequences.m",),
        },
        asks=("SELECT * FROM w_sequences.s",),
    ),
    "packages": World(
        setup=(
            schema("packages"),
            "CREATE TABLE w_packages.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB",
        ),
        each=(
            "USE w_packages",
            "SET SESSION sql_mode = 'ORACLE'",
            "CREATE OR REPLACE PACKAGE pack AS PROCEDURE p(x INT); FUNCTION f RETURN INT; END",
            (
                "CREATE OR REPLACE PACKAGE BODY pack AS total INT := {n}; PROCEDURE p(x INT) AS BEGIN INSERT"
                " INTO t (v) VALUES ('p' || x || total); END; FUNCTION f RETURN INT AS BEGIN RETURN {n}; END;"
                " BEGIN total := total + 1; END"
            ),
            "CALL pack.p({n})",
            *statements("INSERT INTO t (v) VALUES ('a' || NULL || 'b')", "CALL pack.p({n})"),
            "BEGIN INSERT INTO t (v) VALUES ('block'); END",
            "SET SESSION sql_mode = DEFAULT",
        ),
        at={
            3: (
                "SET SESSION sql_mode = 'ORACLE'",
                "DROP PACKAGE BODY w_packages.pack",
                "SET SESSION sql_mode = DEFAULT",
            )
        },
    ),
    "aria and compressed": World(
        setup=(
            schema("aria"),
            "CREATE TABLE w_aria.t (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=Aria TRANSACTIONAL=1",
            "CREATE TABLE w_aria.n (id INT, v TEXT) ENGINE=Aria TRANSACTIONAL=0",
            "CREATE TABLE w_aria.c (id INT PRIMARY KEY, v TEXT COMPRESSED, w BLOB COMPRESSED) ENGINE=InnoDB",
        ),
        each=(
            "INSERT INTO w_aria.t VALUES ({n}, 'a')",
            "INSERT INTO w_aria.n SELECT {n}, REPEAT('n', 3000)",
            "INSERT INTO w_aria.c VALUES ({n}, REPEAT('c', 9000), REPEAT('w', 200))",
            "UPDATE w_aria.c SET v = CONCAT(v, '{n}')",
            *statements("DELETE FROM w_aria.n WHERE id = {n} - 1", "UPDATE w_aria.t SET v = '{n}'"),
        ),
        at={3: ("ALTER TABLE w_aria.t ENGINE=InnoDB",)},
    ),
    "replaced tables": World(
        setup=(
            schema("replaced"),
            "CREATE TABLE w_replaced.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO w_replaced.t VALUES (1, 1)",
        ),
        each=(
            (
                "CREATE OR REPLACE TABLE w_replaced.t (id INT PRIMARY KEY, v INT, w{n} INT) ENGINE=InnoDB AS"
                " SELECT {n} AS id, 1 AS v, 2 AS w{n}"
            ),
            (
                "? CREATE OR REPLACE TABLE w_replaced.t (id INT PRIMARY KEY) ENGINE=InnoDB AS SELECT 1 AS id"
                " UNION ALL SELECT 1"
            ),
            "CREATE TABLE IF NOT EXISTS w_replaced.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "CREATE OR REPLACE TABLE w_replaced.u LIKE w_replaced.t",
            "INSERT INTO w_replaced.u SELECT * FROM w_replaced.t",
            "? DROP TABLE w_replaced.t, w_replaced.none_such",
            "CREATE TABLE IF NOT EXISTS w_replaced.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
        ),
        # CREATE OR REPLACE ... LIKE is marked as of one thread, as if what it copies might be temporary.
        warned="older than the base",
    ),
    "domains": World(
        setup=(
            schema("domains"),
            "CREATE TABLE w_domains.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB",
        ),
        each=(
            "SET SESSION gtid_domain_id = 9{n}",
            "INSERT INTO w_domains.t (v) VALUES ({n})",
            "SET SESSION gtid_domain_id = DEFAULT",
            "SET SESSION gtid_seq_no = {n}00000",
            "INSERT INTO w_domains.t (v) VALUES ({n})",
            "SET SESSION server_id = 4{n}",
            "INSERT INTO w_domains.t (v) VALUES (5)",
            "SET SESSION server_id = DEFAULT",
            "SET SESSION skip_replication = 1",
            "INSERT INTO w_domains.t (v) VALUES (80 + {n})",
            "SET SESSION skip_replication = 0",
            "SET SESSION skip_parallel_replication = 1",
            "INSERT INTO w_domains.t (v) VALUES (6)",
            "SET SESSION skip_parallel_replication = 0",
        ),
    ),
    "changes in two phases": World(
        options=("--binlog-alter-two-phase=ON",),
        setup=(
            schema("phases"),
            "CREATE TABLE w_phases.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "INSERT INTO w_phases.t VALUES (1, 1), (2, 1)",
        ),
        each=(
            "ALTER TABLE w_phases.t ADD COLUMN c{n} INT DEFAULT {n}, FORCE",
            "? ALTER TABLE w_phases.t ADD UNIQUE KEY (v)",
            "INSERT INTO w_phases.t (id, v) VALUES (10 + {n}, 5)",
            "ALTER TABLE w_phases.t ADD INDEX i{n} (v), ALGORITHM=COPY",
        ),
    ),
    "types of mariadb": World(
        setup=(
            schema("kinds"),
            (
                "CREATE TABLE w_kinds.t (id UUID PRIMARY KEY DEFAULT UUID(), a INET6, b INET4, j JSON, h INT"
                " INVISIBLE DEFAULT 3, x VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_uca1400_ai_ci,"
                " UNIQUE KEY (x) USING HASH) ENGINE=InnoDB"
            ),
        ),
        each=(
            "SET SESSION binlog_format = 'ROW'",
            (
                "INSERT INTO w_kinds.t (a, b, j, x) VALUES ('2001:db8::{n}', '10.0.0.{n}', '{\"n\": {n}}',"
                " 'Ä{n}') RETURNING id"
            ),
            *statements(
                "? INSERT INTO w_kinds.t (id, a, x) VALUES ('00000000-0000-0000-0000-00000000000{n}', NULL,"
                " 'x{n}')"
            ),
            "UPDATE w_kinds.t SET j = JSON_SET(j, '$.m', {n})",
            "? INSERT INTO w_kinds.t (x, j) VALUES ('y{n}', 'no json')",
        ),
        asks=("SELECT id, a, b, j, h, x FROM w_kinds.t ORDER BY id",),
    ),
    "recursions": World(
        setup=(
            schema("recursion"),
            "CREATE TABLE w_recursion.t (id INT PRIMARY KEY) ENGINE=InnoDB",
        ),
        each=(
            "SET GLOBAL max_recursive_iterations = 5000",
            again,
            *statements(
                "INSERT INTO w_recursion.t WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r"
                " WHERE n < 2000) SELECT n + 10000 * {n} FROM r"
            ),
        ),
        warned="max_recursive_iterations",
    ),
    "memory tables": World(
        setup=(
            schema("memory"),
            "CREATE TABLE w_memory.t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
            "CREATE TABLE w_memory.cache (id INT) ENGINE=MEMORY",
        ),
        each=(
            "INSERT INTO w_memory.cache VALUES ({n})",
            "INSERT INTO w_memory.t SELECT {n}, COUNT(*) FROM w_memory.cache",
            "DELETE FROM w_memory.cache",
        ),
    ),
    "statements for one": World(
        setup=(
            schema("one"),
            "CREATE TABLE w_one.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB",
        ),
        each=(
            (
                "SET STATEMENT binlog_format = 'STATEMENT', time_zone = '+09:00' FOR INSERT INTO w_one.t (v)"
                " VALUES (NOW())"
            ),
            (
                "BEGIN NOT ATOMIC DECLARE i INT DEFAULT 0; WHILE i < 3 DO INSERT INTO w_one.t (v) VALUES (i);"
                " SET i = i + 1; END WHILE; END"
            ),
            "EXECUTE IMMEDIATE 'INSERT INTO w_one.t (v) VALUES (?)' USING {n}",
            "FOR i IN 1..2 DO INSERT INTO w_one.t (v) VALUES (i); END FOR",
        ),
    ),
}
