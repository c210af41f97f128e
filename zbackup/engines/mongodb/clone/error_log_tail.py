"""Tell what a mongod wrote about itself: one JSON document a line (MongoDB manual, "Log Messages")."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bson.timestamp import Timestamp

from zbackup.proc import secure_files

# The message "WiredTiger recoveryTimestamp"; ids are there to be relied on ("Log Messages", id).
RECOVERY_TIMESTAMP = 23987

LINES = 10
LENGTH = 300
TAIL = 256 * 1024

ENDING = "terminating"
"""The end of a message with which a server gives up at its start, such as 20557, about its directories."""

# Their lines are long and help only those who know mongod's sources.
_NOISE = ("BACKTRACE", "Frame", "/proc/self/maps")

LogLine = dict[str, Any]


def error_log_tail(output: Path) -> str:
    """The end of a server's output, for a message: why it gave up if it said so, else its last lines.

    What is not a log line, such as the complaint about an option, counts as a reason.
    """
    lines = [line for line in _tail(output).splitlines() if line.strip()]
    read = [(line, _parsed(line)) for line in lines]
    told = [_text(line, parsed) for line, parsed in read if not _is_noise(parsed)]
    reasons = [_text(line, parsed) for line, parsed in read if _is_reason(line, parsed)]
    return "\n".join((reasons or told)[-LINES:])


def stable_checkpoint(output: Path, since: int) -> Timestamp | None:
    """Where the recovery of the start that wrote from the byte `since` on began: what the tables then
    held.

    None without such a point.
    """
    found = None
    for line in _lines(output, since):
        if line.get("id") == RECOVERY_TIMESTAMP:
            stamp = line["attr"]["recoveryTimestamp"]["$timestamp"]
            found = Timestamp(stamp["t"], stamp["i"])
    return found if found and found.time else None


def _lines(output: Path, since: int) -> Iterator[LogLine]:
    with secure_files.open_regular(output) as source:
        source.seek(since)
        for line in source:
            if parsed := _parsed(line.decode(errors="replace")):
                yield parsed


def _tail(output: Path) -> str:
    return secure_files.read_end(output, TAIL).decode(errors="replace")


def _parsed(line: str) -> LogLine | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_reason(line: str, parsed: LogLine | None) -> bool:
    # A server that is killed may leave half a log line behind, which complains of nothing. Of severity E are
    # also complaints that stop no server, such as what its kernel lacks, but for the one it ends with; F is
    # fatal.
    if parsed is None:
        return not line.startswith("{")
    ends = parsed.get("s") == "E" and str(parsed.get("msg", "")).endswith(ENDING)
    return (parsed.get("s") == "F" or ends) and not _is_noise(parsed)


def _is_noise(parsed: LogLine | None) -> bool:
    return parsed is not None and str(parsed.get("msg", "")).strip().startswith(_NOISE)


def _text(line: str, parsed: LogLine | None) -> str:
    if parsed is None:
        return line[:LENGTH]
    attributes = json.dumps(parsed["attr"]) if parsed.get("attr") else ""
    return " ".join(f"{parsed.get('msg', '')} {attributes}".split())[:LENGTH]
