"""Writers that note, for every row, when it was sent and when the server's answer came.

    python -m bench.writers KIND SOCKET FILE THREADS RATE

A process of its own, so that what is measured does not wait for whoever measures. Ends with SIGTERM.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pymysql

from tests.lab import mongo_fixture
from tests.lab.load_model import SCHEMA
from tests.lab.servers.accounts import APP_PASSWORD, APP_USER

TABLE = "workload.bench"

Insert = Callable[[], object]
Connect = Callable[[str], AbstractContextManager[Insert]]


def main(kind: str, socket: str, file: str, threads: int, rate: float) -> None:
    """Write until told to stop."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    connect = documents if kind == "mongodb" else table_rows
    with connect(socket) as insert:
        insert()
    sink = os.open(Path(file), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    running = [
        threading.Thread(target=_write, args=(connect, socket, sink, threads / rate, over))
        for _ in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def _write(connect: Connect, socket: str, sink: int, interval: float, over: threading.Event) -> None:
    due = time.monotonic()
    with connect(socket) as insert:
        while not over.is_set():
            sent = time.time_ns()
            insert()
            os.write(sink, f"{sent},{time.time_ns()}\n".encode())
            # Who was kept waiting does not hurry afterwards.
            due = max(due + interval, time.monotonic())
            over.wait(max(0.0, due - time.monotonic()))


@contextmanager
def table_rows(socket: str) -> Iterator[Insert]:
    """Inserts into a MySQL or MariaDB."""
    with (
        pymysql.connect(
            unix_socket=socket, user=APP_USER, password=APP_PASSWORD, autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60))"
        )
        yield lambda: cursor.execute(f"INSERT INTO {TABLE} (v) VALUES (UUID())")


@contextmanager
def documents(socket: str) -> Iterator[Insert]:
    """Inserts into a MongoDB, each acknowledged by a majority."""
    login = {"username": mongo_fixture.APP_USER, "password": mongo_fixture.APP_PASSWORD}
    with mongo_fixture.connect(Path(socket), w="majority", **login) as client:
        yield lambda: client[SCHEMA].bench.insert_one({"v": os.urandom(30)})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
