"""The watchdog's order, as one line of JSON through a pipe: it holds the password."""

import json
from dataclasses import dataclass
from pathlib import Path

from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.watchdog import tls_of

ASKING = "asking"
"""The word to the watchdog before the lock is asked for: until then a lock is somebody else's."""

LOCKED = "locked"
"""The word to the watchdog when the lock was granted: from now on the ceiling counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOrder:
    """Release the lock, then remove the note, if the maker dies, or does not get the lock `wait_s` seconds
    after it began to ask for it, or has not released it `hold_s` seconds after it was granted."""

    connect: ConnectOptions
    note: Path
    wait_s: float
    hold_s: float

    def to_line(self) -> str:
        """Resolves the secrets."""
        c = self.connect
        return json.dumps(
            {
                "connect": {
                    "socket": c.socket,
                    "host": c.host,
                    "port": c.port,
                    "user": c.user,
                    "auth_source": c.auth_source,
                    "mechanism": c.mechanism,
                },
                "password": c.password() if c.password else None,
                "uri": c.uri() if c.uri else None,
                "tls": c.tls.model_dump(mode="json") if c.tls else None,
                "note": str(self.note),
                "wait_s": self.wait_s,
                "hold_s": self.hold_s,
            }
        )

    @classmethod
    def from_line(cls, line: str) -> "WatchOrder":
        """What to_line wrote."""
        said = json.loads(line)
        password, uri = said["password"], said["uri"]
        return cls(
            connect=ConnectOptions(
                **said["connect"],
                password=None if password is None else lambda: str(password),
                uri=None if uri is None else lambda: str(uri),
                tls=tls_of(said["tls"]),
            ),
            note=Path(said["note"]),
            wait_s=float(said["wait_s"]),
            hold_s=float(said["hold_s"]),
        )
