"""Searching a log, measured against what a DBA would run instead: mysqlbinlog -v, and grep.

    python -m bench log [--transactions 40000] [--rounds 3]

Both look for the last statement that dropped a table, in the same log of small transactions in eight tables,
in turn, in one run. Counted are CPU seconds of all processes: the disk's cache holds the log.
"""

import argparse
import resource
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from bench.report import circumstances, median, table, write
from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer, Settings

FLAVOURS = ("mysql-9.7", "mariadb-11.8")
TOOLS = {"mysql": "mysqlbinlog", "mariadb": "mariadb-binlog"}
THREADS = 8
TIMES = 12
"""The log is read as often in one run, so that starting Python or the tool counts for little."""
EASY = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0")
MB = 1_000_000

SEARCH = """
import sys
from pathlib import Path
from zbackup.engines.mysql.binlog import reader
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.model.log_entry import LogEntry, LogFilter
reader.SETTLED_S = float("inf")  # each time anew: nothing is remembered
wanted = LogFilter(tables=tuple(sys.argv[3:]), kinds=frozenset({"drop"}))
assert sum(isinstance(each, LogEntry) for each in search([Path(sys.argv[1])] * int(sys.argv[2]), wanted))
"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m bench log")
    options.add_argument("--transactions", type=int, default=40_000)
    options.add_argument("--rounds", type=int, default=3)
    return options


def main(argv: Sequence[str] = ()) -> int:
    """Measure, and write the table."""
    given = parser().parse_args(argv)
    rows = [row for flavour in FLAVOURS for row in _measured(flavour, given.transactions, given.rounds)]
    head = ("server", "log", "looked for with", "MB per CPU second", "in each round")
    said = f"{circumstances('make bench')}; median of {given.rounds} rounds side by side"
    write("log", f"{said}\n\n{table(head, rows)}")
    return 0


def _measured(flavour: str, transactions: int, rounds: int) -> list[Sequence[str]]:
    with tempfile.TemporaryDirectory(prefix="zblog-") as directory:
        place = Path(directory)
        place.chmod(0o755)
        log, kind = _written(flavour, place, transactions)
        tool = servers.path(flavour) / "bin" / TOOLS[kind]
        # One file at a time: mariadb-binlog ends at a GTID that it has seen.
        once = f"{tool} --no-defaults -v --base64-output=DECODE-ROWS {shlex.quote(str(log))}"
        printed = f"for n in $(seq {TIMES}); do {once} || exit 1; done"
        ways = {
            "zbackup, a rare table": (sys.executable, "-c", SEARCH, str(log), str(TIMES), "logged.rare"),
            "zbackup, every transaction": (sys.executable, "-c", SEARCH, str(log), str(TIMES)),
            f"{TOOLS[kind]} -v, grep": (
                "bash",
                "-c",
                f"set -o pipefail; {{ {printed}; }} | grep -c 'DROP TABLE'",
            ),
        }
        size = log.stat().st_size / MB
        rates = {way: [size * TIMES / _cpu_seconds(argv) for argv in (ways[way],) * rounds] for way in ways}
    return [
        (flavour, f"{size:.0f} MB", way, f"{median(found):.0f}", ", ".join(f"{r:.0f}" for r in found))
        for way, found in rates.items()
    ]


def _cpu_seconds(argv: Sequence[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _written(flavour: str, place: Path, transactions: int) -> tuple[Path, str]:
    """A log file of a server that is gone, and its kind."""
    settings = Settings(flavour=flavour, datadir=place / "data", run_dir=place, options=EASY)
    with DatabaseServer(settings) as server:
        server.sql("CREATE DATABASE logged")
        server.sql("CREATE TABLE logged.rare (id INT PRIMARY KEY)")
        for number in range(THREADS):
            server.sql(f"CREATE TABLE logged.t{number} (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b TEXT)")
        writers = [
            threading.Thread(target=_write, args=(server, number, transactions // THREADS))
            for number in range(THREADS)
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        server.sql("DROP TABLE logged.rare")
    return max(settings.datadir.glob("binlog.0*"), key=lambda file: file.stat().st_size), settings.kind


def _write(server: DatabaseServer, number: int, rows: int) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for row in range(rows):
            cursor.execute(
                f"INSERT INTO logged.t{number} (a, b) VALUES ({row}, REPEAT('some text ', {row % 30}))"
            )
            if row % 7 == 0:
                cursor.execute(f"UPDATE logged.t{number} SET a = a + 1 WHERE id BETWEEN {row} AND {row + 5}")
