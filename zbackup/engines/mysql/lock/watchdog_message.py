"""The watchdog's order, as one line of JSON through a pipe: it holds the password."""

import json
from dataclasses import dataclass
from pathlib import Path

from zbackup.engines.mysql.options import ConnectOptions, TlsOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOrder:
    """Start the applier on `channels`, then remove the note, if the maker dies or `limit_s` seconds pass."""

    connect: ConnectOptions
    channels: tuple[str, ...]
    note: Path
    limit_s: float

    def to_line(self) -> str:
        """Resolves the password."""
        c = self.connect
        tls = (
            {"ca": c.tls.ca, "cert": c.tls.cert, "key": c.tls.key, "verify": c.tls.verify} if c.tls else None
        )
        return json.dumps(
            {
                "connect": {"socket": c.socket, "host": c.host, "port": c.port, "user": c.user},
                "password": c.password(),
                "tls": tls,
                "channels": list(self.channels),
                "note": str(self.note),
                "limit_s": self.limit_s,
            }
        )

    @classmethod
    def from_line(cls, line: str) -> "WatchOrder":
        """Tell what to_line wrote."""
        said = json.loads(line)
        password = str(said["password"])
        return cls(
            connect=ConnectOptions(
                **said["connect"],
                password=lambda: password,
                tls=TlsOptions(**said["tls"]) if said["tls"] else None,
            ),
            channels=tuple(said["channels"]),
            note=Path(said["note"]),
            limit_s=float(said["limit_s"]),
        )
