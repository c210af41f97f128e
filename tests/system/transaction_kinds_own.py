"""Statements that only one kind of server knows, to be replayed later: see transaction_kinds.

Each kind of them runs once, in a schema of its own.
"""

from tests.system.transaction_kinds import Kinds

MYSQL: Kinds = {
    "invisible primary keys": (
        "SET SESSION sql_generate_invisible_primary_key = ON",
        "CREATE TABLE i (a INT) ENGINE=InnoDB",
        "INSERT INTO i VALUES (1), (1), (2)",
        "DELETE FROM i WHERE a = 1 LIMIT 1",
        "SET SESSION sql_generate_invisible_primary_key = DEFAULT",
        "CREATE TABLE no_key (a INT, b INT INVISIBLE DEFAULT 5) ENGINE=InnoDB",
        "INSERT INTO no_key VALUES (1), (1), (2)",
        "UPDATE no_key SET a = 3 WHERE a = 1 LIMIT 1",
    ),
    "compressed transactions": (
        "SET SESSION binlog_transaction_compression = ON",
        "CREATE TABLE cz (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB) ENGINE=InnoDB",
        "INSERT INTO cz (b) VALUES (REPEAT('y', 2000000))",
        "BEGIN",
        "INSERT INTO cz (b) VALUES ('a'), ('b')",
        "UPDATE cz SET b = 'c' WHERE b = 'b'",
        "COMMIT",
        "SET SESSION binlog_transaction_compression = OFF",
    ),
    "parts of rows": (
        "CREATE TABLE im (id INT PRIMARY KEY, a INT, b LONGBLOB, j JSON) ENGINE=InnoDB",
        "SET SESSION binlog_row_image = 'MINIMAL', binlog_row_value_options = 'PARTIAL_JSON'",
        "SET SESSION binlog_rows_query_log_events = ON",
        'INSERT INTO im VALUES (1, 1, REPEAT(\'b\', 100000), \'{{"k": "v", "n": [1, 2, 3]}}\')',
        "UPDATE im SET j = JSON_REPLACE(j, '$.n[1]', 'two')",
        "UPDATE im SET a = 2",
        "SET SESSION binlog_row_image = 'NOBLOB'",
        "UPDATE im SET a = 3",
        "SET SESSION binlog_row_image = DEFAULT, binlog_row_value_options = ''",
        "SET SESSION binlog_rows_query_log_events = OFF",
    ),
    "tablespaces": (
        "CREATE TABLESPACE {schema}_space ADD DATAFILE '{schema}_space.ibd'",
        "CREATE TABLE sp (a INT PRIMARY KEY) TABLESPACE {schema}_space",
        "INSERT INTO sp VALUES (1), (2)",
        "CREATE TABLE fi (a VARCHAR(30), KEY f ((UPPER(a)))) ENGINE=InnoDB",
        "INSERT INTO fi VALUES ('x'), ('y')",
        "CREATE TABLE mv (id INT PRIMARY KEY, j JSON, KEY m ((CAST(j AS UNSIGNED ARRAY)))) ENGINE=InnoDB",
        "INSERT INTO mv VALUES (1, '[1, 2]'), (2, '[]')",
    ),
}

MYSQL_GTIDS: Kinds = {
    "tagged GTIDs": (
        "CREATE TABLE tagged (a INT PRIMARY KEY) ENGINE=InnoDB",
        "SET gtid_next = 'AUTOMATIC:nightly'",
        "INSERT INTO tagged VALUES (1)",
        "CREATE TABLE by_tag (a INT) ENGINE=InnoDB",
        "SET gtid_next = 'ffffffff-ffff-ffff-ffff-0080ff7f01fe:a_long_tag_1234:987654321098'",
        "INSERT INTO tagged VALUES (2)",
        "SET gtid_next = '{uuid}:900000000'",
        "INSERT INTO tagged VALUES (3)",
        "SET gtid_next = '{uuid}:900000005'",
        "BEGIN",
        "COMMIT",
        "SET gtid_next = 'AUTOMATIC'",
    ),
}

# One transaction on both kinds of engines, which GTIDs on MySQL forbid.
MIXED_ENGINES: tuple[str, ...] = (
    "CREATE TABLE both_i (a INT PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TABLE both_m (a INT) ENGINE=MyISAM",
    "BEGIN",
    "INSERT INTO both_i VALUES (1)",
    "INSERT INTO both_m VALUES (1)",
    "COMMIT",
    "BEGIN",
    "INSERT INTO both_m VALUES (2)",
    "INSERT INTO both_i VALUES (2)",
    "ROLLBACK",
)

MARIADB: Kinds = {
    "both engines": MIXED_ENGINES,
    "sequences": (
        "CREATE SEQUENCE s START WITH 100 CACHE 5",
        "CREATE TABLE from_s (id INT PRIMARY KEY DEFAULT NEXTVAL(s), a INT) ENGINE=InnoDB",
        "INSERT INTO from_s (a) VALUES (1), (2), (3)",
        "DO NEXTVAL(s)",
        "ALTER SEQUENCE s INCREMENT 10",
        "DO SETVAL(s, 5000)",
    ),
    "system versions": (
        "CREATE TABLE versioned (id INT PRIMARY KEY, a INT) ENGINE=InnoDB WITH SYSTEM VERSIONING",
        "INSERT INTO versioned VALUES (1, 1), (2, 2)",
        "UPDATE versioned SET a = 3 WHERE id = 1",
        "DELETE FROM versioned WHERE id = 2",
    ),
    "its own DDL": (
        "CREATE TABLE replaced (a INT) ENGINE=InnoDB",
        "INSERT INTO replaced VALUES (1)",
        "CREATE TABLE another AS SELECT a FROM replaced",
        "CREATE OR REPLACE TABLE replaced AS SELECT a + 1 AS b FROM another",
        "CREATE TABLE aria (a INT PRIMARY KEY, v VARCHAR(20), KEY (v)) ENGINE=Aria TRANSACTIONAL=1",
        "INSERT INTO aria VALUES (1, 'x'), (2, 'y')",
        "UPDATE aria SET v = 'z' WHERE a = 2",
        "CREATE TABLE inv (a INT, h INT INVISIBLE DEFAULT 3) ENGINE=InnoDB",
        "INSERT INTO inv (a) VALUES (1)",
        "BEGIN NOT ATOMIC INSERT INTO inv (a) VALUES (2); INSERT INTO inv (a) VALUES (3); END",
        "INSERT INTO inv (a) VALUES (4) RETURNING a",
        "CREATE TABLE lived (id INT, s DATE, e DATE, PERIOD FOR life (s, e)) ENGINE=InnoDB",
        "INSERT INTO lived VALUES (1, '2024-01-01', '2024-12-31')",
        "DELETE FROM lived FOR PORTION OF life FROM '2024-03-01' TO '2024-04-01'",
    ),
    "its own types": (
        "CREATE TABLE special (u UUID, i INET6) ENGINE=InnoDB",
        "INSERT INTO special VALUES ('123e4567-e89b-12d3-a456-426655440000', '::1')",
    ),
    "domains": (
        "CREATE TABLE dom (a INT PRIMARY KEY) ENGINE=InnoDB",
        "SET SESSION gtid_domain_id = 5",
        "INSERT INTO dom VALUES (1)",
        "SET SESSION server_id = 4711",
        "INSERT INTO dom VALUES (2)",
        "SET SESSION server_id = DEFAULT, gtid_domain_id = DEFAULT",
        "SET SESSION skip_parallel_replication = 1",
        "INSERT INTO dom VALUES (3)",
        "SET SESSION skip_parallel_replication = 0",
    ),
    "compressed events": (
        "CREATE TABLE ce (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB) ENGINE=InnoDB",
        "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10",
        "INSERT INTO ce (b) VALUES (REPEAT('y', 2000000)), ('a')",
        "UPDATE ce SET b = CONCAT(b, 'b') WHERE id = 2",
        "SET SESSION binlog_format = 'STATEMENT'",
        "INSERT INTO ce (b) VALUES (CONCAT('{long}', '{long}'))",
        "SET SESSION binlog_format = DEFAULT",
        "SET GLOBAL log_bin_compress = OFF",
        "SET SESSION binlog_row_image = 'MINIMAL'",
        "UPDATE ce SET b = CONCAT(b, 'c') WHERE id = 2",
        "SET SESSION binlog_row_image = DEFAULT",
    ),
}

SINCE: dict[str, tuple[int, ...]] = {
    "invisible primary keys": (8, 0, 30),
    "tagged GTIDs": (8, 3),
    "its own types": (10, 7),
}
"""The first version that knows some of these, where not all that zbackup takes do."""
