"""Options of the MongoDB engine: how to connect. Times are in seconds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """Encryption of a TCP connection; paths of PEM files, "" for none.

    `cert` holds the client's certificate and its private key, as all of MongoDB's tools want it.
    """

    ca: str = ""
    cert: str = ""
    verify: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectOptions:
    """One mongod: by `uri` if there is one, else by `socket` if it is not "", else by host and port.

    Without `password` and `mechanism` nobody is logged in. `mechanism` "" lets the server choose a SCRAM
    one; MONGODB-X509 logs in by the client's certificate alone. Secrets are asked only when they are needed.
    """

    socket: str = ""
    host: str = "127.0.0.1"
    port: int = 27017
    user: str = ""
    password: Callable[[], str] | None = field(default=None, repr=False)
    auth_source: str = "admin"
    mechanism: str = ""
    tls: TlsOptions | None = None
    uri: Callable[[], str] | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """The server's address, for messages."""
        if self.uri:
            return "the configured uri"
        return f"socket {self.socket}" if self.socket else f"{self.host}:{self.port}"


Login = Literal["original", "always", "never"]
"""See the configuration reference, recovery.login."""
