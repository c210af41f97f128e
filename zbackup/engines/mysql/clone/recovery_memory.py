"""The buffer pool of a server that goes through a redo log."""

from collections.abc import Mapping

from zbackup.proc.memory import available

SHARE = 4
"""The divisor of the free memory: no more than that part of it is taken.

What is free is asked at each start. A pool takes its memory as it fills, so recoveries that start within the
same seconds see the same memory as free. No count is kept: drills come one at a time, a pool has no more than
twice the redo log, and where that is too much after all, Linux ends one of them before production's server.
"""

_DIGITS = 19
"""Digits of an exabyte."""


def for_crash_recovery(memory: int, flavor: str, recorded: Mapping[str, str]) -> int:
    """Bytes: `memory`, or more where MariaDB recovers sooner with that. `recorded` is Record.server.

    It keeps what it reads of the redo log in the pool, beside the pages that it changes. Where these find no
    room it writes pages to their files meanwhile, and where the log finds none, it is read in parts: of
    180 MiB with a pool of 256 MiB all pages were written, in 160 syncs, and with 512 MiB none.
    """
    if flavor != "mariadb":
        return memory
    size = recorded.get("innodb_log_file_size", "")
    # A record that came from elsewhere may say anything.
    wanted = 2 * int(size) if len(size) < _DIGITS and size.isdecimal() else 0
    return max(memory, min(wanted, (available() or 0) // SHARE))
