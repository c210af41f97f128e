"""Orders to the watchdogs, each one line of JSON through a pipe: it holds the password."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
        return json.dumps(
            {
                **_login(self.connect),
                "channels": list(self.channels),
                "note": str(self.note),
                "limit_s": self.limit_s,
            }
        )

    @classmethod
    def from_line(cls, line: str) -> "WatchOrder":
        """What to_line wrote."""
        said = json.loads(line)
        return cls(
            connect=_options(said),
            channels=tuple(said["channels"]),
            note=Path(said["note"]),
            limit_s=float(said["limit_s"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOrder:
    """End a session that may have the lock: which, and after how many seconds, is told by EndWithin."""

    connect: ConnectOptions

    def to_line(self) -> str:
        """Resolves the password."""
        return json.dumps(_login(self.connect))

    @classmethod
    def from_line(cls, line: str) -> "LockOrder":
        """What to_line wrote."""
        return cls(connect=_options(json.loads(line)))


@dataclass(frozen=True, slots=True)
class EndWithin:
    """A word to the watchdog of a lock: end this session if nothing else is heard for so many seconds."""

    session: int
    seconds: float

    def to_word(self) -> str:
        """One line."""
        return f"{self.session} {self.seconds}"

    @classmethod
    def from_word(cls, word: str) -> "EndWithin":
        """What to_word wrote."""
        session, seconds = word.split()
        return cls(int(session), float(seconds))


def _login(connect: ConnectOptions) -> dict[str, Any]:
    return {
        "connect": {
            "socket": connect.socket,
            "host": connect.host,
            "port": connect.port,
            "user": connect.user,
        },
        "password": connect.password(),
        "tls": connect.tls.model_dump(mode="json") if connect.tls else None,
    }


def _options(said: dict[str, Any]) -> ConnectOptions:
    password = str(said["password"])
    return ConnectOptions(**said["connect"], password=lambda: password, tls=tls_of(said["tls"]))
