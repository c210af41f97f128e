"""What a command says: one JSON document or text for people on stdout, everything else on stderr."""

import json
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from zbackup.cli.options import Options
from zbackup.model.errors import ConfigError, ZbackupError
from zbackup.model.moment import Moment, utc_text

JSON_VERSION = 1


def emit(options: Options, command: str, data: object, text: Callable[[], str]) -> None:
    """Print a command's result: `data` as JSON if asked for, else what `text` makes."""
    if options.json:
        print_document({"command": command, "data": plain(data)})
    else:
        print(text(), flush=True)


def print_document(content: dict[str, Any]) -> None:
    print(json.dumps({"version": JSON_VERSION} | content, indent=2, ensure_ascii=False), flush=True)


def print_error(error: ZbackupError, *, as_json: bool, about: str = "") -> None:
    """One line on stderr (for a configuration: one for each problem), and with --json a document on stdout.

    `about` is the instance it happened to, where that is not clear.
    """
    if as_json:
        print_document({"error": describe_error(error)})
    problems = error.problems if isinstance(error, ConfigError) else [" ".join(str(error).split())]
    for line in problems:
        print(f"zbackup: {about}{': ' if about else ''}{line}", file=sys.stderr, flush=True)


def describe_error(error: ZbackupError) -> dict[str, Any]:
    """An error as JSON: its name, message and exit status; a configuration's problems one by one."""
    described: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": " ".join(str(error).split()),
        "exit_status": error.exit_status,
    }
    return described | ({"problems": error.problems} if isinstance(error, ConfigError) else {})


def plain(value: object) -> Any:
    """`value` in JSON's own types: times in UTC, durations in their unit."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return utc_text(value)
        case Path():
            return str(value)
        case Moment():
            return {"at": utc_text(value.at), "asked": value.text, "zone": value.zone.key}
        case dict():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in value]
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    raise TypeError(f"{type(value).__name__} has no JSON shape")
