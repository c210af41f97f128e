"""Holds a lock until it is killed: `python -m tests.lab.lock_holder SOCKET KIND HOLD RUN_DIR`."""

import sys
import time
from pathlib import Path

from tests.lab.servers.accounts import ZBACKUP_PASSWORD, ZBACKUP_USER
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.options import ConnectOptions, LockOptions
from zbackup.model.record import LockKind


def engine(socket: Path, run_dir: Path, lock: LockOptions) -> MysqlEngine:
    """The engine with the lab's zbackup account."""
    connect = ConnectOptions(socket=str(socket), user=ZBACKUP_USER, password=lambda: ZBACKUP_PASSWORD)
    return MysqlEngine(instance="lab", connect=connect, lock=lock, run_dir=run_dir)


def main(socket: str, kind: LockKind, hold: str, run_dir: str) -> None:
    """Take the lock, say so, and sleep while holding it."""
    lock = LockOptions(kind=kind, wait_s=5, hold_s=float(hold), applier_stop_s=5)
    holder = engine(Path(socket), Path(run_dir), lock)
    with holder.consistent(holder.inspect(), kind):
        print("held", flush=True)
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])  # type: ignore[arg-type]
