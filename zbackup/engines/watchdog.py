"""The common part of both engines' watchdogs: processes that outlive zbackup to put a server in order.

See proc.guardian for how they are started and told things. Each lock waits until its watchdog is up, so this
imports little, and above all no pydantic.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from zbackup.model.errors import DatabaseError
from zbackup.proc import secure_files
from zbackup.proc.guardian import answer

if TYPE_CHECKING:
    from zbackup.config.tls import Tls

RETRY_S = 1.0
TRY_FOR_S = 300.0


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


def ignore_signals() -> None:
    """Survive what ends zbackup. Whoever asks us to end asks zbackup too, and its end is what we wait for."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)


def log_in(connect: Callable[[], C]) -> C | None:
    """Connect, and tell the maker "ready", or why that cannot be: None then."""
    try:
        connection = connect()
    except DatabaseError as failure:
        answer(str(failure))
        return None
    answer("ready")
    return connection


def insist(act: Callable[[C], None], connection: C, connect: Callable[[], C], note: Path) -> bool:
    """Act until it succeeds, then remove the marker file `note`. Return False after five minutes in vain.

    A server that is busy, cut off or being restarted answers later.
    """
    deadline = time.monotonic() + TRY_FOR_S
    while time.monotonic() < deadline:
        try:
            act(connection)
        except DatabaseError:
            time.sleep(RETRY_S)
            connection = _reconnected(connection, connect)
        else:
            secure_files.unlink(note)
            return True
    return False


def _reconnected(connection: C, connect: Callable[[], C]) -> C:
    """Keep the old connection until there is a new one: the server may let nobody log in for now."""
    try:
        fresh = connect()
    except DatabaseError:
        return connection
    connection.close()
    return fresh


def tls_of(said: dict[str, object] | None) -> "Tls | None":
    """Read the TLS settings of an order."""
    if said is None:
        return None
    from zbackup.config.tls import Tls

    # A daemon that runs on while another version is installed says nothing as "".
    return Tls.model_validate({name: value for name, value in said.items() if value not in ("", None)})
