"""Options of the MongoDB engine: how to connect. Times are in seconds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # A watchdog, which is started before each lock, does without pydantic.
    from zbackup.config.tls import Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """One mongod: by `uri` if there is one, else by `socket` if it is not "", else by host and port.

    Without `password` and `mechanism` nobody is logged in. `mechanism` "" lets the server choose a SCRAM
    one; MONGODB-X509 logs in by the client's certificate alone, which is in one file with its private key
    (`tls.cert`), as all of MongoDB's tools want it. Secrets are asked only when they are needed.
    """

    socket: str = ""
    host: str = "127.0.0.1"
    port: int = 27017
    user: str = ""
    password: Callable[[], str] | None = field(default=None, repr=False)
    auth_source: str = "admin"
    mechanism: str = ""
    tls: "Tls | None" = None
    uri: Callable[[], str] | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """The server's address, for messages."""
        if self.uri:
            return "the configured uri"
        return f"socket {self.socket}" if self.socket else f"{self.host}:{self.port}"
