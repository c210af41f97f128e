"""Options of the MySQL engine: how to connect. Times are in seconds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A watchdog, which is started while writers wait, does without pydantic.
    from zbackup.config.tls import Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """`socket` if it is not "", else TCP to host and port. `password` is asked only when it is needed.

    `peer` is the process (pid, uid) that has to answer at the socket, before anything is sent to it; None:
    whoever answers there. `limit_s` is how long it may be silent, None: as long as a statement takes.
    """

    socket: str = ""
    host: str = "127.0.0.1"
    port: int = 3306
    user: str
    password: Callable[[], str] = field(repr=False)
    tls: "Tls | None" = None
    peer: tuple[int, int] | None = None
    limit_s: float | None = None

    @property
    def where(self) -> str:
        """The server's address, for messages."""
        return f"socket {self.socket}" if self.socket else f"{self.host}:{self.port}"
