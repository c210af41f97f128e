"""What worlds of MySQL and MariaDB servers do that is more than a statement."""

import contextlib
import os
import threading
import time

import pymysql

from tests.odd.worlds import Stage


def schema(name: str) -> str:
    return f"CREATE DATABASE `w_{name}`"


def again(stage: Stage) -> None:
    """The session ends, and another one begins, as that of an application that was started again."""
    stage.session.close()
    stage.session.connect()


def second(_: Stage) -> None:
    time.sleep(1.1)


def import_tablespace(stage: Stage) -> None:
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
        os.chown(wanted, owner.st_uid, owner.st_gid)
    stage.run("UNLOCK TABLES")
    stage.run("ALTER TABLE w_imported.t IMPORT TABLESPACE")


def flush_imported(stage: Stage) -> None:
    """Until this, or its next checkpoint, a MariaDB that crashes loses what was written to the table."""
    if stage.server.settings.kind == "mariadb":
        stage.run("FLUSH TABLES w_imported.t FOR EXPORT")
        stage.run("UNLOCK TABLES")


def outside_table(stage: Stage) -> None:
    name = f"t{stage.number}"
    stage.run(
        f"CREATE TABLE w_outside.{name} (id INT PRIMARY KEY, v VARCHAR(20)) ENGINE=InnoDB "
        f"DATA DIRECTORY='{stage.outside}'"
    )
    stage.run(f"INSERT INTO w_outside.{name} VALUES (1, 'one'), (2, 'two')")


def load_data(stage: Stage) -> None:
    file = stage.outside / f"some{stage.number}.csv"
    file.write_bytes(b"1;\xff\xfe;x\n2;'quoted';y\n")
    file.chmod(0o644)
    stage.run(
        # Refused where an option file names the directory: the lab's programs are started with another.
        f"? LOAD DATA INFILE '{file}' REPLACE INTO TABLE w_loaded.t CHARACTER SET latin1 FIELDS TERMINATED BY"
        f" ';' (id, @v, w) SET id = id + {10 * stage.number}, v = CONCAT(@v, '-', {stage.number}), at ="
        " NOW(6)"
    )


def large_transaction(stage: Stage) -> None:
    stage.run("BEGIN")
    for n in range(6):
        stage.run(
            f"INSERT INTO w_large.t SELECT NULL, {stage.number}, REPEAT('{n}', 700000) FROM w_large.five"
        )
    stage.run("DELETE FROM w_large.t WHERE n < {n} AND id % 2".replace("{n}", str(stage.number)))
    stage.run("COMMIT")


def xa_in_doubt(stage: Stage) -> None:
    """An XA transaction of a Java transaction manager that is in doubt for two stages."""
    gtrid, bqual = f"0x0a0b00ff80c{stage.number}", "0x00ff01"
    name = f"{gtrid},{bqual},1096044365"
    stage.run(f"XA START {name}")
    stage.run(f"INSERT INTO w_xa.t (stage, v) VALUES ({stage.number}, 'in doubt')")
    stage.run(f"XA END {name}")
    stage.run(f"XA PREPARE {name}")
    # Its session ends: else it takes nothing else.
    again(stage)
    before = stage.kept.get("xa", "")
    stage.kept["xa"] = name
    if before:
        for _ in range(50):
            try:
                stage.run(f"XA {'COMMIT' if stage.number % 2 else 'ROLLBACK'} {before}")
                return
            except pymysql.MySQLError as refused:  # it is still being detached
                if refused.args[0] not in (1397, 1399):
                    raise
                time.sleep(0.1)


def odd_bytes(stage: Stage) -> None:
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


def no_text_runs(stage: Stage) -> None:
    """A client whose statements are no text is always at one, while the next backup is taken."""
    connection, until = stage.server.connect(), time.monotonic() + 40

    def run() -> None:
        with contextlib.suppress(pymysql.MySQLError):
            while time.monotonic() < until:
                connection.query(b"SELECT SLEEP(1), _binary'\xff\xfe\xc3'")

    threading.Thread(target=run, daemon=True).start()


def statements(*more: str) -> tuple[str, ...]:
    """Statements that are logged as text where the server's format lets them be."""
    return ("? SET SESSION binlog_format = 'STATEMENT'", *more, "? SET SESSION binlog_format = DEFAULT")
