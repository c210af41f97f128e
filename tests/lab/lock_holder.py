"""Holds a lock until it is killed: `python -m tests.lab.lock_holder SOCKET KIND HOLD RUN_DIR [WAIT]`."""

import sys
import time
from pathlib import Path

from tests.lab.servers.accounts import ZBACKUP_PASSWORD, ZBACKUP_USER
from zbackup.config.lock import Lock
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.model.record import LockKind


def engine(socket: Path, run_dir: Path, lock: Lock) -> MysqlEngine:
    """The engine with the lab's zbackup account."""
    connect = ConnectOptions(socket=str(socket), user=ZBACKUP_USER, password=lambda: ZBACKUP_PASSWORD)
    return MysqlEngine(instance="lab", connect=connect, lock=lock, run_dir=run_dir)


def main(socket: str, kind: LockKind, hold: str, run_dir: str, wait: str = "5") -> None:
    """Take the lock, say so, and sleep while holding it."""
    seconds = float(wait)
    give_way = 2.0 if seconds == 5 else seconds
    lock = Lock.model_construct(kind=kind, wait=seconds, hold=float(hold), applier_stop=5, give_way=give_way)
    holder = engine(Path(socket), Path(run_dir), lock)
    with holder.consistent(holder.inspect(), kind):
        print("held", flush=True)
        time.sleep(3600)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
