"""The watchdog's order, as one line of JSON through a pipe: it holds the password."""

import json
from dataclasses import dataclass
from pathlib import Path

from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.watchdog import tls_of


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
        return json.dumps(
            {
                "connect": {"socket": c.socket, "host": c.host, "port": c.port, "user": c.user},
                "password": c.password(),
                "tls": c.tls.model_dump(mode="json") if c.tls else None,
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
                tls=tls_of(said["tls"]),
            ),
            channels=tuple(said["channels"]),
            note=Path(said["note"]),
            limit_s=float(said["limit_s"]),
        )
