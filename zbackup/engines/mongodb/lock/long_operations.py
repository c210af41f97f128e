"""Tell what would make fsyncLock wait, and with it everybody who writes: transactions that are open for long.

Ordinary statements release the server's lock many times a second; a multi-document transaction that has
written keeps it until it ends. Once asked for, the lock cannot be taken back, so it is looked for before.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zbackup.config.lock import Lock
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.engines.mongodb.server.status import operations
from zbackup.model.errors import LockNotTaken
from zbackup.model.event_log import log

POLL_S = 0.2
WRITES = ("w", "W")


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that keeps the server's lock: whose it is, and for how long it has been open."""

    client: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.client}, open for {self.seconds:.1f} s"


def settle_long_operations(connection: Connection, limits: Lock) -> None:
    """Return when no writing transaction has been open for `long_query`. Raise LockNotTaken if one is."""
    deadline = time.monotonic() + limits.wait
    while found := long_transactions(connection, limits.long_query):
        listed = "; ".join(map(str, found))
        if limits.on_long_query == "abort":
            raise LockNotTaken(f"transactions that would make everybody wait for the lock are open: {listed}")
        if time.monotonic() > deadline:
            raise LockNotTaken(
                f"transactions did not end within {limits.wait:g} s, and everybody would wait for the lock "
                f"behind them: {listed}"
            )
        log.info("lock.waits_for_transactions", transactions=listed)
        time.sleep(POLL_S)


def long_transactions(connection: Connection, seconds: float) -> list[OpenTransaction]:
    """The transactions that have written and are open for at least `seconds`."""
    found = operations(connection, {"transaction": {"$exists": True}})["inprog"]
    open_now = [_open(operation) for operation in found if _keeps_lock(operation)]
    return [transaction for transaction in open_now if transaction.seconds >= seconds]


def _keeps_lock(operation: Mapping[str, Any]) -> bool:
    return operation.get("locks", {}).get("Global") in WRITES


def _open(operation: Mapping[str, Any]) -> OpenTransaction:
    users = ", ".join(str(user.get("user")) for user in operation.get("effectiveUsers", []))
    where = str(operation.get("client") or operation.get("appName") or "a client")
    return OpenTransaction(
        client=f"{users or 'somebody'} at {where}",
        seconds=float(operation["transaction"].get("timeOpenMicros", 0)) / 1e6,
    )
