"""Holds a mongod until it is killed: `python -m tests.lab.mongo_lock_holder SOCKET HOLD RUN_DIR [LONG]`.

Transactions that are open for LONG seconds are waited for before the lock is asked for.
"""

import signal
import sys
import time
from pathlib import Path

from tests.lab.mongo_fixture import ZBACKUP_PASSWORD, ZBACKUP_USER
from zbackup.config.lock import Lock
from zbackup.engines.mongodb.engine import MongoEngine
from zbackup.engines.mongodb.options import ConnectOptions


def engine(
    socket: Path, run_dir: Path, lock: Lock, user: str = ZBACKUP_USER, password: str = ZBACKUP_PASSWORD
) -> MongoEngine:
    """The engine with the lab's zbackup account."""
    connect = ConnectOptions(socket=str(socket), user=user, password=lambda: password)
    return MongoEngine(instance="lab", connect=connect, lock=lock, run_dir=run_dir)


def main(socket: str, hold: str, run_dir: str, long: str = "1") -> None:
    """Take the lock, say so, and sleep while holding it."""
    limits = Lock.model_construct(kind="fsync", wait=5, hold=float(hold), long_query=float(long))
    holder = engine(Path(socket), Path(run_dir), limits)
    # Who runs in the background of a shell without job control ignores Ctrl-C, and so do all its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with holder.consistent(holder.inspect(), "fsync") as held:
        print("held", flush=True)
        time.sleep(3600)
        held.confirm()


if __name__ == "__main__":
    main(*sys.argv[1:])
