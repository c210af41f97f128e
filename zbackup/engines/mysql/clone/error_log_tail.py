"""Tell what a server that ended says of why (MySQL reference manual, "The Error Log"; MariaDB, "Error Log").

Among its last lines the reason is one of many; the others say how the rest of it was shut down.
"""

import re
from pathlib import Path

from zbackup.proc.detached import last_lines

TAIL = 200
FIRST, LAST = 3, 2

# Each start announces itself, in a log that is appended to.
_BEGUN = re.compile(r"\bstarting as process\b|\] Starting MariaDB ", re.IGNORECASE)
_REASON = re.compile(r"\[ERROR\]|\[FATAL\]|\bgot signal \d+|\bgot exception\b|Assertion failure")
_CLOCK = re.compile(r"^\d{4}-\d\d-\d\d[T ]+\S+ +\d+ ")


def error_log_tail(output: Path, *, without: str = "") -> str:
    """The errors of the last start, without the time: the first of them, and the last. If it named none, its
    last lines. Lines that hold `without` are left out."""
    lines = last_lines(output, TAIL, without=without).splitlines()
    begun = max((n for n, line in enumerate(lines) if _BEGUN.search(line)), default=0)
    said = dict.fromkeys(_CLOCK.sub("", line) for line in lines[begun:] if _REASON.search(line))
    reasons = list(said)
    if not reasons:
        return last_lines(output, without=without)
    return "\n".join(reasons if len(reasons) <= FIRST + LAST else [*reasons[:FIRST], "...", *reasons[-LAST:]])
