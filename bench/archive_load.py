"""A server that commits so often a second, and how long a client that commits beside that waits.

    python -m bench.archive_load SOCKET FILE RATE

The commits are made by a procedure in the server, each a transaction of its own: the clients would need more
of the machine than the server. A further client inserts a row a hundred times a second, and its waits are
written to FILE, in seconds, a line each. Ends with SIGTERM.
"""

import signal
import sys
import threading
import time
from pathlib import Path

import pymysql

from tests.lab.servers.accounts import APP_PASSWORD, APP_USER

THREADS, BURSTS = 50, 10
"""Connections, and how many calls each makes a second: enough of them for the server to commit in groups."""
PROBES = 100
TABLE = "CREATE TABLE IF NOT EXISTS workload.bench (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(60))"
PROCEDURE = """
CREATE PROCEDURE workload.commits(IN n INT)
BEGIN
  WHILE n > 0 DO
    INSERT INTO workload.bench (v) VALUES (UUID());
    SET n = n - 1;
  END WHILE;
END
"""


def main(socket: str, file: str, rate: int) -> None:
    """Write until told to stop."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with connect(socket) as connection, connection.cursor() as cursor:
        cursor.execute("DROP PROCEDURE IF EXISTS workload.commits")
        cursor.execute("DROP TABLE IF EXISTS workload.bench")
        cursor.execute(TABLE)
        cursor.execute(PROCEDURE)
    burst = f"CALL workload.commits({rate // (THREADS * BURSTS)})"
    waits: list[float] = []
    clients = [
        *(threading.Thread(target=repeat, args=(socket, burst, BURSTS, over, [])) for _ in range(THREADS)),
        threading.Thread(
            target=repeat,
            args=(socket, "INSERT INTO workload.bench (v) VALUES (UUID())", PROBES, over, waits),
        ),
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    Path(file).write_text("".join(f"{wait}\n" for wait in waits))


def repeat(socket: str, statement: str, rate: int, over: threading.Event, waits: list[float]) -> None:
    """Run the statement so often a second; note how long each took."""
    due = time.monotonic()
    with connect(socket) as connection, connection.cursor() as cursor:
        while not over.is_set():
            began = time.monotonic()
            cursor.execute(statement)
            waits.append(time.monotonic() - began)
            # Who was kept waiting hurries a little: the rate is that of the server.
            due = max(due + 1 / rate, time.monotonic() - 0.5)
            over.wait(max(0.0, due - time.monotonic()))


def connect(socket: str) -> "pymysql.connections.Connection[pymysql.cursors.Cursor]":
    """As the application."""
    return pymysql.connect(unix_socket=socket, user=APP_USER, password=APP_PASSWORD, autocommit=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
