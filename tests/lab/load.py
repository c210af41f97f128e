"""A write load for a real server: a process of its own that journals what the server acknowledged.

`Load.start(server)` runs it, `stop()` ends it, `verify(connection, journal, at)` judges a recovered state.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    # No login over a socket needs it, and to import it takes a fifth of this program's start.
    sys.modules["cryptography"] = None  # type: ignore[assignment]

import pymysql
import pymysql.connections

from tests.lab.load_journal import Entry, JournalFile, Summary, Verdict, judge, read, summarise, true_ns
from tests.lab.load_model import SCHEMA, TABLES, Content, Transaction, contents, transaction

if TYPE_CHECKING:
    from tests.lab.mysql_fixture import DatabaseServer

Connection = pymysql.connections.Connection

_PASSWORD_VARIABLE = "LAB_LOAD_PASSWORD"
_NO_SUCH_TABLE = 1146
_UNKNOWN_DATABASE = 1049


class LoadFailed(Exception):
    """The load did not start, or ended before it was told to; with what it said."""


class Load:
    """A running write load; as a context manager it stops at the end."""

    def __init__(self, process: "subprocess.Popen[bytes]", journal: Path) -> None:
        self._process = process
        self.journal = journal

    @classmethod
    def start(
        cls,
        server: "DatabaseServer",
        threads: int = 4,
        rate: float | None = None,
        journal: Path | None = None,
        timeout: float = 30,
        *,
        durable: bool = False,
    ) -> "Load":
        """Write with `threads` connections, `rate` transactions a second in all (None: as fast as it goes).

        Returns when every thread had its first answer. A second load on the same server goes on with the
        numbers of the first: give it the same `journal`. With `durable` a thread goes on only when its line
        is on the journal's disk, which should be one that outlives the machine. Raises LoadFailed.
        """
        from tests.lab.servers.accounts import APP_USER

        where = [f"--socket={server.settings.socket}", f"--threads={threads}", f"--rate={rate or 0}"]
        where += [f"--user={APP_USER}"]
        where += ["--durable"] if durable else []
        return cls.of_program("tests.lab.load", where, threads, journal, timeout)

    @classmethod
    def of_program(
        cls, module: str, options: Sequence[str], threads: int, journal: Path | None, timeout: float
    ) -> "Load":
        """Run `python -m module` with `options` as the load, and return when it writes. Raises LoadFailed."""
        from tests.lab.servers.accounts import APP_PASSWORD

        if journal is None:
            journal = Path(tempfile.mkdtemp(prefix="load-")) / "journal.csv"
        known = len(read(journal)) if journal.exists() else 0
        argv = [sys.executable, "-m", module, *options, f"--journal={journal}"]
        with _messages(journal).open("wb") as sink:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=Path(__file__).resolve().parents[2],
                env={**os.environ, _PASSWORD_VARIABLE: APP_PASSWORD},
                start_new_session=True,
            )
        load = cls(process, journal)
        load._await_answers(threads, known, time.monotonic() + timeout)
        return load

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.stop()

    @property
    def running(self) -> bool:
        """Whether it still writes. It ends by itself when the server is gone."""
        return self._process.poll() is None

    def stop(self, timeout: float = 30) -> Summary:
        """Let every thread finish its transaction, and return how it went.

        A load that ended by itself, for its server was killed, is no error here: see `messages`.
        """
        self._process.terminate()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        return self.summary()

    def kill(self) -> None:
        """End it at once; transactions under way stay without an answer in the journal."""
        self._process.kill()
        self._process.wait()

    def summary(self) -> Summary:
        """Rate and stalls so far."""
        return summarise(read(self.journal))

    @property
    def messages(self) -> str:
        """What the load said: the errors that ended its threads."""
        return _messages(self.journal).read_text()

    def _await_answers(self, threads: int, known: int, limit: float) -> None:
        while time.monotonic() < limit and self.running:
            new = read(self.journal)[known:] if self.journal.exists() else []
            if len({entry.thread for entry in new if entry.acked is not None}) == threads:
                return
            time.sleep(0.05)
        self.kill()
        raise LoadFailed(f"the write load does not run\n{self.messages}")


def verify(
    connection: "Connection[Any]", journal: Path, at: datetime | None = None, by: datetime | None = None
) -> Verdict:
    """Judge what `connection` shows by the journal: a state as of `at`, or the end when None (see judge).

    Raises AssertionError that lists lost, surplus and wrong rows. Without the load's tables the state is
    taken as one from before its first transaction.
    """
    return judge(rows(connection), read(journal), at, by)


def rows(connection: "Connection[Any]") -> dict[int, Content]:
    """All rows of the load's tables by thread, of one moment."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            tables = []
            for name in ("progress", "ledger", "balance"):
                cursor.execute(f"SELECT * FROM {SCHEMA}.{name}")
                tables.append(cursor.fetchall())
            cursor.execute("COMMIT")
    except pymysql.err.MySQLError as failed:
        if failed.args[0] in (_NO_SUCH_TABLE, _UNKNOWN_DATABASE):
            return {}
        raise
    return contents(*tables)


class _Writer(threading.Thread):
    """One connection that writes its transactions one after the other until told to stop."""

    def __init__(
        self, number: int, given: argparse.Namespace, journal: JournalFile, stop: threading.Event
    ) -> None:
        super().__init__(name=f"writer-{number}")
        self._number, self._given, self._journal, self._stop_asked = number, given, journal, stop
        self.failure: str | None = None

    def run(self) -> None:
        try:
            self._write(_connect(self._given))
        except (pymysql.err.MySQLError, OSError) as failed:
            self.failure = f"thread {self._number}: {failed}"

    def _write(self, connection: "Connection[Any]") -> None:
        seq = rows(connection).get(self._number, Content()).last
        interval = self._given.threads / self._given.rate if self._given.rate else 0.0
        due = time.monotonic()
        while not self._stop_asked.is_set():
            seq += 1
            self._commit(connection, transaction(self._number, seq))
            due = max(due + interval, time.monotonic() - interval)
            self._stop_asked.wait(max(0.0, due - time.monotonic()))

    def _commit(self, connection: "Connection[Any]", wanted: Transaction) -> None:
        sent = acked = None
        try:
            with connection.cursor() as cursor:
                if wanted.single:
                    sent = true_ns()
                    cursor.execute(*wanted.statements()[0])
                else:
                    connection.begin()
                    for statement, arguments in wanted.statements():
                        cursor.execute(statement, arguments)
                    sent = true_ns()
                    connection.commit()
            acked = true_ns()
        finally:
            if sent is not None:
                self._journal.write(Entry(wanted.thread, wanted.seq, sent, acked))


def _messages(journal: Path) -> Path:
    return journal.with_name(journal.name + ".messages")


def _connect(given: argparse.Namespace) -> "Connection[Any]":
    return pymysql.connect(
        unix_socket=given.socket,
        user=given.user,
        password=os.environ[_PASSWORD_VARIABLE],
        database=SCHEMA,
        autocommit=True,
        connect_timeout=10,
        ssl_disabled=True,
    )


def main(arguments: list[str]) -> int:
    """Write until SIGTERM or until every thread has failed; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.lab.load", description=__doc__)
    parser.add_argument("--socket", required=True, help="the server's Unix socket")
    parser.add_argument("--user", required=True, help=f"who logs in, by the password in {_PASSWORD_VARIABLE}")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rate", type=float, default=0, help="transactions a second in all; 0: no limit")
    parser.add_argument("--journal", type=Path, required=True, help="file that gets a line a transaction")
    parser.add_argument("--durable", action="store_true", help="wait until each line is on its disk")
    given = parser.parse_args(arguments)

    stop = threading.Event()

    def asked(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, asked)
    signal.signal(signal.SIGINT, asked)
    setup = _connect(given)
    with setup.cursor() as cursor:
        for statement in TABLES:
            cursor.execute(statement)
    setup.close()
    journal = JournalFile(given.journal, durable=given.durable)
    writers = [_Writer(number, given, journal, stop) for number in range(1, given.threads + 1)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    failures = [writer.failure for writer in writers if writer.failure]
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
