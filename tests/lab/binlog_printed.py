"""Read of a server's own tool what each transaction did to which tables, to compare a reader with."""

import re
import subprocess
from collections import defaultdict
from pathlib import Path

_AT = re.compile(r"^# at (\d+)$")
_EVENT = re.compile(
    r"^#\d{6} +\d{1,2}:\d\d:\d\d server id \d+ +end_log_pos \d+ (?:CRC32 0x[0-9a-f]+ )?\t?(.*)$"
)
_CHANGE = re.compile(r"^### (INSERT INTO|UPDATE|DELETE FROM) `((?:[^`]|``)+)`\.`((?:[^`]|``)+)`")
_KINDS = {"INSERT INTO": "insert", "UPDATE": "update", "DELETE FROM": "delete"}

Changes = dict[str, set[str]]


def printed_changes(tool: Path, log: Path) -> dict[int, Changes]:
    """Of each transaction, by where it starts, which tables' rows it changed, and how (mysqlbinlog -v)."""
    text = subprocess.run(
        [tool, "--no-defaults", "-v", "--base64-output=DECODE-ROWS", str(log)],
        capture_output=True,
        check=True,
        env={"TZ": "UTC", "PATH": "/usr/bin:/bin"},
    ).stdout.decode("utf-8", "replace")
    found: dict[int, Changes] = {}
    at, current = 0, None
    for line in text.splitlines():
        if place := _AT.match(line):
            at = int(place[1])
        elif event := _EVENT.match(line):
            if "GTID" in event[1] and not event[1].startswith("Previous"):
                current = found[at] = defaultdict(set)
        elif (change := _CHANGE.match(line)) and current is not None:
            schema, table = (name.replace("``", "`") for name in change.groups()[1:])
            current[f"{schema}.{table}"].add(_KINDS[change[1]])
    return found
