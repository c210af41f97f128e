"""The one place that asks what time it is, so that tests can say it."""

import ctypes
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from zbackup.model.clock_reading import Reading

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# adjtimex(2): the kernel's word on whether the clock is kept right. Setting it by hand takes that back.
_STA_UNSYNC = 0x0040
_TIME_ERROR = 5


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, in UTC."""

    def monotonic(self) -> float:
        """Seconds that never jump, for measuring how long something took."""

    def reading(self) -> Reading:
        """What else is known of this moment."""


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def reading(self) -> Reading:
        boot = BOOT_ID.read_text().strip()
        return Reading(boot, round(time.clock_gettime(time.CLOCK_BOOTTIME), 3), _synchronised())


class _Timex(ctypes.Structure):
    """struct timex: its first fields, and room for the rest of it."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def _synchronised() -> bool:
    """False also where the kernel does not let us ask."""
    state = _Timex()  # no modes: nothing is changed, and no privilege needed
    found = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state))
    return found not in (-1, _TIME_ERROR) and not state.status & _STA_UNSYNC
