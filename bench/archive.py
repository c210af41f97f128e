"""A log archived off the host while it is written, beside mysqlbinlog.

    python -m bench archive [--seconds 20]

The same server commits a thousand and five thousand times a second, and every 1 and every 5 seconds what it
wrote goes into a bucket of an S3 server on the same machine: by zbackup, encrypted, and by `mysqlbinlog
--read-from-remote-server --raw --stop-never` with `rclone copy`. Twenty times a second it is written down
where the server's log ends; from then to when a listing of the bucket shows that place stored, that much
would have been lost with the host. CPU time is that of what is run, not of the servers.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from bench.report import circumstances, percentile, table, write
from bench.s3 import environment, memory
from bench.s3_end import BUCKET
from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.s3_server import S3Server, client, s3_server
from tests.lab.servers.accounts import REPLICATION_PASSWORD, REPLICATION_USER
from zbackup.model.archive import Chunk, LogFileId

FLAVOUR = "mysql-9.7"
RATES, EVERY = (1000, 5000), (1, 5)
SYNCED = {1000: 1, 5000: 0}
"""By the rate: the disk of a small machine does not sync 5,000 commits a second."""
SETTLE_S = 3
PROBES, LISTINGS = 20, 10
"""A second."""
NOTHING, OURS, PEER = "nothing", "zbackup", "mysqlbinlog, rclone"
HEAD = (
    "commits/s",
    "every",
    "archived by",
    "exposed s p50",
    "p99",
    "max",
    "of a CPU",
    "requests/min",
    "a commit, ms p50",
    "p99",
)

Place = tuple[int, int]
"""The number of a log file, and an offset in it."""


@dataclass(frozen=True, slots=True)
class Way:
    """`name` is one of WAYS; `every` in seconds, 0 for none."""

    name: str
    every: int
    rate: int


@dataclass(slots=True)
class Found:
    """The figures of one way: the commits a second, where the log ended when, up to where it was stored when,
    the part of a CPU and the requests a minute that it took, and a client's waits."""

    commits: float = 0.0
    ends: list[tuple[float, Place]] = field(default_factory=list)
    stored: list[tuple[float, Place]] = field(default_factory=list)
    cpu: float = 0.0
    requests: float = 0.0
    waits: list[float] = field(default_factory=list)

    def exposed(self) -> list[float]:
        """Seconds from when the log ended somewhere to when that was stored, for each such moment.

        Raise ValueError where what was written last is not stored.
        """
        found, stored = list[float](), iter(self.stored)
        now = next(stored, None)
        for at, place in self.ends:
            while now and (now[1] < place or now[0] < at):
                now = next(stored, None)
            if now is None:
                raise ValueError(f"{place} was never stored, but {self.stored[-1:]}")
            found.append(now[0] - at)
        return found


@dataclass(frozen=True, slots=True)
class Bench:
    """The server, the bucket, and what programs need to reach it."""

    server: DatabaseServer
    s3: S3Server
    environ: Mapping[str, str]
    home: Path
    seconds: int

    def measure(self, way: Way) -> Found:
        """Let it write, archive that way, and watch both."""
        found, writing, watching = Found(), threading.Event(), threading.Event()
        self.server.sql(f"SET GLOBAL sync_binlog = {SYNCED[way.rate]}")
        self.server.sql(f"SET GLOBAL innodb_flush_log_at_trx_commit = {2 - SYNCED[way.rate]}")
        self.server.sql("FLUSH BINARY LOGS")
        prefix = f"{way.name.split()[0]}-{way.every}-{way.rate}"
        waits, count = self.home / "waits", self.home / "count"
        count.unlink(missing_ok=True)
        load = [sys.executable, "-m", "bench.archive_load", str(self.server.settings.socket), str(waits)]
        with _running([*load, str(way.rate)]) as writer, self._archiver(way, prefix, count) as archiver:
            time.sleep(SETTLE_S)
            watchers = [
                threading.Thread(target=self._watch_log, args=(found, writing)),
                threading.Thread(target=self._watch_bucket, args=(found, watching, prefix)),
            ]
            began, commits, cpu = time.monotonic(), self._commits(), _cpu(archiver)
            for watcher in watchers:
                watcher.start()
            time.sleep(self.seconds)
            writing.set()
            took = time.monotonic() - began
            found.commits = (self._commits() - commits) / took
            found.cpu = (_cpu(archiver) - cpu) / took
            watchers[0].join()
            _end(writer)
            # What was written last is to be stored, too.
            time.sleep(2 * way.every + SETTLE_S if archiver else 0)
            watching.set()
            watchers[1].join()
            ran = time.monotonic() - began + SETTLE_S
        found.waits = [float(line) for line in waits.read_text().split()]
        found.requests = int(count.read_text()) / ran * 60 if archiver else 0
        return found

    def _watch_log(self, found: Found, over: threading.Event) -> None:
        with self._connected() as cursor:
            while not over.wait(1 / PROBES):
                now = time.monotonic()
                found.ends.append((now, self._end(cursor)))

    def _watch_bucket(self, found: Found, over: threading.Event, prefix: str) -> None:
        s3 = client(self.s3)
        while not over.wait(1 / LISTINGS):
            if reached := max(_places(s3, prefix), default=None):
                found.stored.append((time.monotonic(), reached))

    @contextmanager
    def _archiver(self, way: Way, prefix: str, count: Path) -> "Iterator[subprocess.Popen[bytes] | None]":
        settings = self.server.settings
        with self._connected() as cursor:
            file, _ = self._end(cursor)
        name = f"binlog.{file:06}"
        if way.name == NOTHING:
            yield None
            return
        if way.name == OURS:
            uuid = str(self.server.sql("SELECT @@server_uuid")[0][0])
            where = [self.s3.endpoint, prefix, str(way.every), str(settings.datadir), uuid, f"{name}:4"]
            argv = [sys.executable, "-m", "bench.archive_end", *where, str(count)]
        else:
            directory = self.home / prefix
            directory.mkdir()
            tool = str(servers.path(FLAVOUR) / "bin" / "mysqlbinlog")
            login = [f"--socket={settings.socket}", f"--user={REPLICATION_USER}"]
            login += [f"--password={REPLICATION_PASSWORD}"]
            reading = [
                tool,
                "--no-defaults",
                "--read-from-remote-server",
                "--raw",
                "--stop-never",
                *login,
                name,
            ]
            words = [str(way.every), str(directory), f"bench:{BUCKET}/{prefix}", str(count), "--", *reading]
            argv = [sys.executable, "-m", "bench.archive_peer", *words]
        with _running(argv, self.environ) as archiver:
            yield archiver
            _end(archiver)

    @contextmanager
    def _connected(self) -> "Iterator[pymysql.cursors.Cursor]":
        socket = str(self.server.settings.socket)
        with pymysql.connect(unix_socket=socket, user="root", autocommit=True) as connection:
            yield connection.cursor()

    def _end(self, cursor: "pymysql.cursors.Cursor") -> Place:
        cursor.execute("SHOW BINARY LOG STATUS")
        file, offset, *_ = cursor.fetchone() or ("binlog.0", 0)
        return int(file.rpartition(".")[2]), int(offset)

    def _commits(self) -> int:
        ((rows,),) = self.server.sql("SELECT COALESCE(MAX(id), 0) FROM workload.bench")
        return int(rows)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m bench archive")
    options.add_argument("--seconds", type=int, default=20, help="for which each way is watched")
    return options


def main(argv: Sequence[str] = ()) -> int:
    """Measure, and put the table into the page."""
    seconds = parser().parse_args(argv).seconds
    tempfile.tempdir = memory(3 << 30)
    with s3_server() as s3:
        tempfile.tempdir = None
        client(s3).create_bucket(Bucket=BUCKET)
        with tempfile.TemporaryDirectory(prefix="zbench-") as directory:
            home = Path(directory)
            home.chmod(0o755)
            settings = Settings(flavour=FLAVOUR, datadir=home / "data", run_dir=home)
            with DatabaseServer(settings) as server:
                rows = _rows(Bench(server, s3, environment(s3, home), home, seconds))
    synced = "at 1,000 commits/s sync_binlog=1, at 5,000 sync_binlog=0 and innodb_flush_log_at_trx_commit=2"
    about = f"{FLAVOUR}; {synced}; {seconds} s each, one after the other; SeaweedFS on the same machine"
    text = f"{circumstances('python -m bench archive')}; {about}\n\n{table(HEAD, rows)}"
    write("archive", text)
    return 0


def _rows(bench: Bench) -> list[list[str]]:
    rows = []
    for rate in RATES:
        nothing = [Way(NOTHING, 0, rate)]
        for way in [*nothing, *(Way(name, every, rate) for every in EVERY for name in (OURS, PEER))]:
            found = bench.measure(way)
            rows.append(_row(way, found))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def _row(way: Way, found: Found) -> list[str]:
    exposed = found.exposed() if way.every else []
    cells = [f"{percentile(exposed, part):.2f}" for part in (0.5, 0.99, 1)] if exposed else ["-"] * 3
    costs = [f"{found.cpu:.1%}", f"{found.requests:.0f}"] if exposed else ["-", "-"]
    waits = [f"{1000 * percentile(found.waits, part):.1f}" for part in (0.5, 0.99)]
    every = f"{way.every} s" if way.every else "-"
    return [f"{found.commits:.0f}", every, way.name, *cells, *costs, *waits]


def _places(s3: Any, prefix: str) -> Iterator[Place]:
    """Up to where each log file is stored, by a listing."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/"):
        for each in page.get("Contents", ()):
            *_, above, name = each["Key"].split("/")
            if name.startswith("binlog."):
                yield int(name.rpartition(".")[2]), each["Size"]
                continue
            with contextlib.suppress(ValueError):
                yield LogFileId.parse("bench", above).number, Chunk.parse(name).end


@contextmanager
def _running(
    argv: Sequence[str], environ: Mapping[str, str] = os.environ
) -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(argv, env=dict(environ), start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    if status := process.wait():
        raise RuntimeError(f"{process.args!r} ended with {status}")


def _cpu(process: "subprocess.Popen[bytes] | None") -> float:
    """CPU seconds of a program so far, and of all that it started."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat") if process else ():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = file.read_text().rpartition(")")[2].split()
            if process and int(fields[2]) == process.pid:
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
