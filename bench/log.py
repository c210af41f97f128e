"""Searching a log, measured against what a DBA would run instead: mysqlbinlog -v, and grep.

    python -m bench log [--transactions 40000] [--mib 1024] [--rounds 3]

Both look for the last statement that dropped a table, in the same log of small transactions in eight tables,
in turn, in one run. The log is read as often as it takes to have read that many MiB. Counted are CPU seconds
of all processes: the disk's cache holds the log.
"""

import argparse
import math
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
EASY = ("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0")
MB, MIB = 1_000_000, 1 << 20
HEAD = ("server", "log", "read", "looked for with", "CPU seconds", "MB per CPU second", "in each round")

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
    options.add_argument("--mib", type=int, default=1024, help="default: 1024, which are 1 GiB")
    options.add_argument("--rounds", type=int, default=3)
    return options


def main(argv: Sequence[str] = ()) -> int:
    """Measure, and write the table."""
    given = parser().parse_args(argv)
    asked = (given.transactions, given.mib, given.rounds)
    rows = [row for flavour in FLAVOURS for row in _measured(flavour, *asked)]
    said = f"{circumstances('make bench')}; median of {given.rounds} rounds side by side"
    write("log", f"{said}\n\n{table(HEAD, rows)}")
    return 0


def times_to_read(size: int, mib: int) -> int:
    """Count the readings of a log of `size` bytes that make that many MiB."""
    return math.ceil(mib * MIB / size)


def _measured(flavour: str, transactions: int, mib: int, rounds: int) -> list[Sequence[str]]:
    with tempfile.TemporaryDirectory(prefix="zblog-") as directory:
        place = Path(directory)
        place.chmod(0o755)
        log, kind = _written(flavour, place, transactions)
        tool = servers.path(flavour) / "bin" / TOOLS[kind]
        size = log.stat().st_size
        times = times_to_read(size, mib)
        # One file at a time: mariadb-binlog ends at a GTID that it has seen.
        once = f"{tool} --no-defaults -v --base64-output=DECODE-ROWS {shlex.quote(str(log))}"
        printed = f"for n in $(seq {times}); do {once} || exit 1; done"
        ways = {
            "zbackup, a rare table": (sys.executable, "-c", SEARCH, str(log), str(times), "logged.rare"),
            "zbackup, every transaction": (sys.executable, "-c", SEARCH, str(log), str(times)),
            f"{TOOLS[kind]} -v, grep": (
                "bash",
                "-c",
                f"set -o pipefail; {{ {printed}; }} | grep -c 'DROP TABLE'",
            ),
        }
        # In turn, as the machine may have more to do in one round than in another.
        spent: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, argv in ways.items():
                spent[way].append(_cpu_seconds(argv))
    read = size * times
    known = (flavour, f"{size / MB:.0f} MB", f"{read / MIB:.0f} MiB")
    return [(*known, way, *_told(read, seconds)) for way, seconds in spent.items()]


def _told(read: int, seconds: Sequence[float]) -> tuple[str, str, str]:
    rates = [read / MB / each for each in seconds]
    return f"{median(seconds):.1f}", f"{median(rates):.0f}", ", ".join(f"{rate:.0f}" for rate in rates)


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
