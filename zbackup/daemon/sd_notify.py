"""Telling systemd how the service is: sd_notify(3), which is one datagram to a socket."""

import os
import socket
import time
from collections.abc import Mapping

from zbackup.model.event_log import log

PATIENCE_S = 5.0
"""Seconds that a message may wait for systemd to read those before it: the kernel keeps only some."""


class Notifier:
    """Says nothing when nobody listens, as outside systemd."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        # An address that begins with @ is in the abstract namespace, where it begins with a NUL.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self.watchdog_s = _watchdog(environment)

    def ready(self) -> None:
        self._say("READY=1")

    def reloading(self) -> None:
        """The time is what tells systemd that this reload is the one it asked for (Type=notify-reload)."""
        self._say("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._say("STOPPING=1")

    def alive(self) -> None:
        """The watchdog's sign of life. Those that systemd has not read yet say the same."""
        self._say("WATCHDOG=1", patience_s=0)

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._say(f"STATUS={' '.join(text.split())}", patience_s=0)

    def _say(self, *lines: str, patience_s: float = PATIENCE_S) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(patience_s)
                out.connect(self._address)
                out.sendall("\n".join(lines).encode())
        except OSError as failure:
            log.warning("systemd.not_told", lines=lines, reason=str(failure))


def _watchdog(environment: Mapping[str, str]) -> float | None:
    """Seconds between two signs of life, half of what systemd allows; None when it does not ask for any."""
    microseconds = environment.get("WATCHDOG_USEC", "")
    mine = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(microseconds) / 2e6 if mine and microseconds.isdigit() and int(microseconds) else None
