"""Finding in its log why a server program ended."""

from pathlib import Path

from zbackup.engines.mysql.clone.clone_server import error_log_tail

MARIADB = """\
2026-11-22  1:01:40 0 [Note] Starting MariaDB 10.11.18-MariaDB source revision x as process 77
2026-11-22  1:01:41 0 [ERROR] of an earlier start
2026-11-22  1:01:50 0 [Note] Starting MariaDB 10.11.18-MariaDB source revision x as process 88
2026-11-22  1:01:50 0 [Note] InnoDB: Completed initialization of buffer pool
2026-11-22  1:01:50 0 [ERROR] InnoDB: The file './ibdata1' is of a different size
2026-11-22  1:01:50 0 [Note] InnoDB: Starting shutdown...
2026-11-22  1:01:50 0 [ERROR] Unknown/unsupported storage engine: InnoDB
"""
MYSQL = """\
2026-11-22T01:01:50.123456Z 0 [System] [MY-010116] [Server] mysqld (mysqld 9.7.4) starting as process 88
2026-11-22T01:01:51.123456Z 1 [ERROR] [MY-012574] [InnoDB] Unable to lock ./ibdata1 error: 11
2026-11-22T01:01:52.123456Z 1 [ERROR] [MY-012574] [InnoDB] Unable to lock ./ibdata1 error: 11
"""


def test_the_errors_of_the_last_start_are_why(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(MARIADB)
    assert error_log_tail(log).splitlines() == [
        "[ERROR] InnoDB: The file './ibdata1' is of a different size",
        "[ERROR] Unknown/unsupported storage engine: InnoDB",
    ]
    log.write_text(MARIADB + MYSQL)
    assert error_log_tail(log) == "[ERROR] [MY-012574] [InnoDB] Unable to lock ./ibdata1 error: 11"


def test_of_many_the_first_and_the_last_are_told(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(f"2026-11-22  1:01:50 0 [ERROR] {n}\n" for n in range(9)))
    assert error_log_tail(log).split("\n") == [
        "[ERROR] 0",
        "[ERROR] 1",
        "[ERROR] 2",
        "...",
        "[ERROR] 7",
        "[ERROR] 8",
    ]


def test_one_that_names_none_has_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert error_log_tail(log) == ""
    log.write_text("a secret\nmysqld: Out of memory\n")
    assert error_log_tail(log, without="secret") == "mysqld: Out of memory"
