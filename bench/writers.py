"""Writers that note, for every row, when it was sent and when the server's answer came.

    python -m bench.writers SOCKET FILE THREADS RATE

A process of its own, so that what is measured does not wait for whoever measures. Ends with SIGTERM.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pymysql

from tests.lab.servers.accounts import APP_PASSWORD, APP_USER

TABLE = "workload.bench"


def main(socket: str, file: str, threads: int, rate: float) -> None:
    """Write until told to stop."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with _connection(socket) as setup, setup.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60))"
        )
    sink = os.open(Path(file), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    running = [
        threading.Thread(target=_write, args=(socket, sink, threads / rate, over)) for _ in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def _write(socket: str, sink: int, interval: float, over: threading.Event) -> None:
    due = time.monotonic()
    with _connection(socket) as connection, connection.cursor() as cursor:
        while not over.is_set():
            sent = time.time_ns()
            cursor.execute(f"INSERT INTO {TABLE} (v) VALUES (UUID())")
            os.write(sink, f"{sent},{time.time_ns()}\n".encode())
            # Who was kept waiting does not hurry afterwards.
            due = max(due + interval, time.monotonic())
            over.wait(max(0.0, due - time.monotonic()))


def _connection(socket: str) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
    return pymysql.connect(unix_socket=socket, user=APP_USER, password=APP_PASSWORD, autocommit=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
