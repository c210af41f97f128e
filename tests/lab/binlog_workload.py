"""Everything a server can write into its binlog, and what its own tool says is in there."""

import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pymysql.err import OperationalError


class Session(Protocol):
    """A connection that commits by itself."""

    def cursor(self) -> Any: ...


COMMON = (
    "CREATE DATABASE w",
    "CREATE TABLE w.t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b LONGBLOB)",
    "CREATE TABLE w.u (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(300))",
    "INSERT INTO w.t (a) VALUES (1), (2), (3)",
    "BEGIN; INSERT INTO w.t (a) VALUES (4); UPDATE w.t SET a = a + 1; DELETE FROM w.t WHERE a = 2; COMMIT",
    "BEGIN; INSERT INTO w.t (a) VALUES (5); SAVEPOINT commit_; INSERT INTO w.t (a) VALUES (6); "
    "ROLLBACK TO commit_; INSERT INTO w.t (a) VALUES (7); COMMIT",
    "BEGIN; INSERT INTO w.t (a) VALUES (50); ROLLBACK",
    "INSERT INTO w.t (a, b) VALUES (8, REPEAT('x', 3000000))",
    "CREATE TABLE w.m (a INT) ENGINE=MyISAM",
    "INSERT INTO w.m VALUES (1)",
    "BEGIN; INSERT INTO w.t (a) VALUES (9); INSERT INTO w.m VALUES (2); ROLLBACK",
    "BEGIN; INSERT INTO w.m VALUES (3); INSERT INTO w.t (a) VALUES (10); COMMIT",
    "CREATE TABLE w.copied AS SELECT a FROM w.t",
    "ALTER TABLE w.copied ADD COLUMN c INT",
    "FLUSH BINARY LOGS",
    "CREATE TEMPORARY TABLE w.tmp (a INT); INSERT INTO w.tmp VALUES (1); "
    "INSERT INTO w.t (a) SELECT a FROM w.tmp; DROP TEMPORARY TABLE w.tmp",
    "CREATE PROCEDURE w.p() BEGIN INSERT INTO w.t (a) VALUES (11); INSERT INTO w.t (a) VALUES (12); END",
    "CALL w.p()",
    "CREATE TRIGGER w.tr AFTER INSERT ON w.u FOR EACH ROW INSERT INTO w.m VALUES (NEW.id)",
    "INSERT INTO w.u (a) VALUES ('COMMIT'), ('ROLLBACK'), ('XA COMMIT')",
    "XA START 'x1'; INSERT INTO w.t (a) VALUES (13); XA END 'x1'; XA PREPARE 'x1'; XA COMMIT 'x1'",
    "XA START 'x2'; INSERT INTO w.t (a) VALUES (14); XA END 'x2'; XA PREPARE 'x2'; XA ROLLBACK 'x2'",
    "XA START 'x3'; INSERT INTO w.t (a) VALUES (15); XA END 'x3'; XA COMMIT 'x3' ONE PHASE",
    "SET SESSION binlog_format = 'STATEMENT'",
    "SET @v = 5; INSERT INTO w.t (a) VALUES (@v); INSERT INTO w.u (a) VALUES (RAND())",
    "INSERT INTO w.u (a) VALUES (LAST_INSERT_ID())",
    "BEGIN; UPDATE w.t SET a = a + @v; INSERT INTO w.u (a) VALUES ('BEGIN'); COMMIT",
    "INSERT INTO w.m VALUES (RAND() * 10); INSERT INTO w.m VALUES (@v)",
    "CREATE TABLE w.stated AS SELECT @v AS v",
    "LOAD DATA LOCAL INFILE '{csv}' INTO TABLE w.u (a)",
    "LOAD DATA LOCAL INFILE '{csv}' INTO TABLE w.m (a)",
    "SET SESSION binlog_format = 'ROW'",
    "LOAD DATA LOCAL INFILE '{csv}' INTO TABLE w.u (a)",
    "TRUNCATE TABLE w.copied",
    "DROP TABLE w.copied, w.stated",
    "ANALYZE TABLE w.t; OPTIMIZE TABLE w.m",
    "CREATE DATABASE gone; CREATE TABLE gone.`a``b` (id INT); INSERT INTO gone.`a``b` VALUES (1); "
    "RENAME TABLE gone.`a``b` TO gone.c; DELETE FROM gone.c; DROP DATABASE gone",
    "SET SESSION binlog_format = 'MIXED'",
    "UPDATE w.t SET a = a + 1 WHERE id = 1; INSERT INTO w.u (a) VALUES (UUID())",
    "SET SESSION binlog_format = 'ROW'",
    "CREATE USER someone@localhost IDENTIFIED BY 'secret'; GRANT SELECT ON w.* TO someone@localhost",
    "FLUSH BINARY LOGS",
)

MYSQL = (
    "SET SESSION binlog_transaction_compression = ON",
    "INSERT INTO w.t (a, b) VALUES (21, REPEAT('y', 100000))",
    "BEGIN; INSERT INTO w.t (a) VALUES (22); UPDATE w.t SET a = a + 1; COMMIT",
    "SET SESSION binlog_transaction_compression = OFF",
    "INSERT INTO w.t (a) VALUES (23)",
    "CREATE TABLE w.j (id INT PRIMARY KEY, j JSON)",
    "INSERT INTO w.j VALUES (1, JSON_OBJECT('a', REPEAT('a', 90), 'b', 2))",
    "SET SESSION binlog_row_value_options = 'PARTIAL_JSON'",
    "UPDATE w.j SET j = JSON_SET(j, '$.b', 3)",
    "SET SESSION binlog_rows_query_log_events = ON",
    "DELETE FROM w.j WHERE id = 1",
    "SET SESSION binlog_rows_query_log_events = OFF",
)

MYSQL_GTID = (
    "SET gtid_next = 'AUTOMATIC:nightly'",
    "INSERT INTO w.t (a) VALUES (31)",
    "BEGIN; INSERT INTO w.t (a, b) VALUES (32, REPEAT('z', 90000)); COMMIT",
    "SET gtid_next = 'AUTOMATIC:a'",
    "CREATE TABLE w.tagged (a INT)",
    "SET gtid_next = 'ffffffff-ffff-ffff-ffff-0080ff7f01fe:averyveryveryveryverylongtag1234:987654321098'",
    "INSERT INTO w.t (a) VALUES (33)",
    "SET gtid_next = '{uuid}:900000000000'",
    "INSERT INTO w.t (a) VALUES (34)",
    "SET gtid_next = '{uuid}:900000000001'",
    "BEGIN; COMMIT",
    "SET gtid_next = 'AUTOMATIC'",
)

MARIADB = (
    "SET SESSION gtid_domain_id = 5",
    "INSERT INTO w.t (a) VALUES (41)",
    "BEGIN; INSERT INTO w.t (a) VALUES (42); INSERT INTO w.m VALUES (43); COMMIT",
    "SET SESSION gtid_domain_id = 0",
    "CREATE OR REPLACE TABLE w.replaced AS SELECT a FROM w.t",
    "CREATE SEQUENCE w.s; SELECT NEXT VALUE FOR w.s",
    "CREATE TABLE w.aria (a INT) ENGINE=Aria TRANSACTIONAL=1; INSERT INTO w.aria VALUES (1)",
    "BEGIN NOT ATOMIC INSERT INTO w.t (a) VALUES (44); INSERT INTO w.t (a) VALUES (45); END",
    "SET STATEMENT binlog_format = 'STATEMENT' FOR INSERT INTO w.t (a) VALUES (46)",
    "ALTER TABLE w.t ADD COLUMN later INT",
    "DROP TABLE w.replaced",
)


_UNSAFE_WITH_GTIDS = {1785, 1786, 1787}


def run(session: Session, statements: tuple[str, ...], **values: str) -> None:
    """Execute each line's statements one after the other on one connection.

    What enforce_gtid_consistency forbids is left out by the server, and so by this.
    """
    cursor = session.cursor()
    for line in statements:
        # A procedure's body has semicolons of its own.
        parts = [line] if "BEGIN NOT" in line or "PROCEDURE" in line else line.split("; ")
        for statement in parts:
            for name, value in values.items():
                statement = statement.replace(f"{{{name}}}", value)
            try:
                cursor.execute(statement)
                cursor.fetchall()
            except OperationalError as refused:
                if refused.args[0] not in _UNSAFE_WITH_GTIDS:
                    raise


@dataclass(kw_only=True)
class Printed:
    """A transaction as the server's own tool prints it."""

    start: int
    end: int
    gtid: str
    seconds: int
    micros: int | None


_AT = re.compile(r"^# at (\d+)$")
_EVENT = re.compile(
    r"^#(\d{6} +\d{1,2}:\d\d:\d\d) server id (\d+) +end_log_pos (\d+) (?:CRC32 0x[0-9a-f]+ )?\t?(.*)$"
)
_BETWEEN = re.compile(
    r"Rotate|Stop|Start: binlog|Previous-GTIDs|Gtid list|Binlog checkpoint|Incident|Ignorable"
)
_NEXT = re.compile(r"SESSION\.GTID_NEXT= *'([^']*)'")


def printed(tool: Path, log: Path) -> list[Printed]:
    """Ask mysqlbinlog or mariadb-binlog: a transaction reaches from its GTID event to the next thing."""
    text = subprocess.run(
        [tool, "--no-defaults", "--base64-output=DECODE-ROWS", str(log)],
        capture_output=True,
        check=True,
        env={"TZ": "UTC", "PATH": "/usr/bin:/bin"},
    ).stdout.decode("utf-8", "replace")
    found: list[Printed] = []
    current: Printed | None = None
    at = 0
    for line in text.splitlines():
        if place := _AT.match(line):
            at = int(place[1])
        elif event := _EVENT.match(line):
            current = _event(event, at, current, found)
        elif (name := _NEXT.search(line)) and current is not None and not current.gtid:
            # The tool ends with a word of its own, AUTOMATIC, that belongs to no transaction.
            current.gtid = "" if name[1] in ("ANONYMOUS", "AUTOMATIC") else name[1]
        elif current is not None and line.startswith("# original_commit_timestamp="):
            current.micros = int(line.split("=")[1].split()[0])
    return found


def _event(event: re.Match[str], at: int, current: Printed | None, found: list[Printed]) -> Printed | None:
    when = datetime.strptime(event[1], "%y%m%d %H:%M:%S").replace(tzinfo=UTC)
    end = int(event[3])
    what = event[4]
    if "GTID" in what and not what.startswith("Previous"):
        maria = re.search(r"GTID (\d+-\d+-\d+)", what)
        current = Printed(
            start=at, end=end, gtid=maria[1] if maria else "", seconds=int(when.timestamp()), micros=None
        )
        found.append(current)
        return current
    if _BETWEEN.match(what):
        return None
    if current is not None and end > current.end:
        current.end = end
    return current
