"""Print what a command says: one JSON document or text for people on stdout, everything else on stderr."""

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from zbackup.cli.options import Options
from zbackup.model.errors import ConfigError, ZbackupError
from zbackup.model.moment import Moment, utc_text
from zbackup.model.printable import json_safe, printable

GREEN, YELLOW, RED = "32", "33", "31"

_RED = re.compile(r"\b(?:CRITICAL|FAILED|GAP)\b|(?<=: )critical(?=$| \()|^ +critical(?=: |  )", re.MULTILINE)
_YELLOW = re.compile(r"\bWARNING\b|(?<=: )warning(?=$| \()|^ +warning(?=: |  )", re.MULTILINE)
_GREEN = re.compile(r"(?<=: )ok(?=$| \()|^  ok(?=  )", re.MULTILINE)
_PICTURE = re.compile(r"^restorable +[#x ]+$", re.MULTILINE)
_RANGE, _MISSING = re.compile("#+"), re.compile("x+")


def wanted() -> bool:
    """Whether stdout is a terminal that shows colours, and NO_COLOR (no-color.org) is not set."""
    terminal = os.environ.get("TERM", "dumb") not in ("", "dumb")
    return sys.stdout.isatty() and terminal and not os.environ.get("NO_COLOR")


def painted(text: str) -> str:
    """The text with colours for how something is: the words for it, and the picture of a recovery window."""
    for words, colour in ((_RED, RED), (_YELLOW, YELLOW), (_GREEN, GREEN)):
        text = words.sub(_in(colour, r"\g<0>"), text)
    return _PICTURE.sub(_picture, text)


def _picture(line: re.Match[str]) -> str:
    label, blanks, drawn = line[0].partition("  ")
    drawn = _MISSING.sub(lambda found: _in(RED, found[0]), drawn)
    return label + blanks + _RANGE.sub(lambda found: _in(GREEN, found[0]), drawn)


def _in(colour: str, text: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"


JSON_VERSION = 2


def emit(
    options: Options,
    command: str,
    data: object,
    text: Callable[[], str],
    *,
    beside: Mapping[str, object] | None = None,
) -> None:
    """Print a command's result: `data` as JSON if asked for, with what is said `beside` it, else what `text`
    makes."""
    if options.json:
        said = {key: plain(value) for key, value in (beside or {}).items()}
        print_document({"command": command, "data": plain(data), **said})
    else:
        say(text())


def emit_incomplete(
    options: Options, command: str, data: object, text: Callable[[], str], failure: ZbackupError | None
) -> None:
    """Print a command's result as `emit` does, and raise `failure`: with --json it stands in the same
    document."""
    if failure is None:
        return emit(options, command, data, text)
    emit(options, command, data, text, beside={"error": describe_error(failure)})
    raise AlreadyPrinted(failure) if options.json else failure


def say(text: str) -> bool:
    """Print a result on stdout; False when a reader has seen enough of it (`| head -1`), which is no error.

    What could harm a terminal is escaped; on one that shows colours, they are added.

    Raises:
        ZbackupError: it cannot be written, by a full disk for example.
    """
    try:
        harmless = printable(text, lines=True)
        print(painted(harmless) if wanted() else harmless, flush=True)
        return True
    except OSError as error:
        # What is left in the buffer would be tried again at the end, and fail there with Python's own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise ZbackupError(f"the result cannot be written to stdout: {error.strerror}") from error
        return False


def tell(line: str) -> None:
    """Print a line on stderr. One that cannot be written is lost, and not the work that it tells of."""
    with contextlib.suppress(OSError):
        print(f"zbackup: {printable(line)}", file=sys.stderr, flush=True)


def print_document(content: dict[str, Any]) -> None:
    """Print a JSON document on stdout; raises what `say` does."""
    say(json_safe(json.dumps({"version": JSON_VERSION} | content, indent=2, ensure_ascii=False)))


def print_line(content: dict[str, Any]) -> bool:
    """Print a JSON document on a line of its own, of which a result has many; returns and raises as `say`."""
    return say(json_safe(json.dumps({"version": JSON_VERSION} | content, ensure_ascii=False)))


def print_error(error: ZbackupError, *, as_json: bool, about: str = "") -> None:
    """One line on stderr (for a configuration: one for each problem), and with --json a document on stdout.

    `about` is the instance it happened to, where that is not clear.
    """
    if as_json:
        with contextlib.suppress(ZbackupError):  # stderr has it, too, and the exit status is this error's
            print_document({"error": describe_error(error)})
    problems = error.problems if isinstance(error, ConfigError) else [" ".join(str(error).split())]
    for line in problems:
        tell(f"{about}{': ' if about else ''}{line}")


def describe_error(error: ZbackupError) -> dict[str, Any]:
    """An error as JSON: its name, message and exit status; a configuration's problems one by one."""
    described: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": " ".join(str(error).split()),
        "exit_status": error.exit_status,
    }
    return described | ({"problems": error.problems} if isinstance(error, ConfigError) else {})


INTERRUPTED = 130


class AlreadyPrinted(Exception):
    """The end of the work, `by`, stands in the JSON document that was printed: there is to be no other."""

    def __init__(self, by: BaseException) -> None:
        super().__init__(str(by))
        self.by = by


def describe_end(end: BaseException) -> dict[str, Any]:
    """Describe an interruption or a defect as `describe_error` does an error."""
    if isinstance(end, KeyboardInterrupt):
        return {"kind": "Interrupted", "message": "interrupted", "exit_status": INTERRUPTED}
    return describe_error(defect(end)) | {"kind": type(end).__name__}


def defect(failure: BaseException) -> ZbackupError:
    """Say of an error that none of zbackup's stands for."""
    return ZbackupError(
        f"unexpected {type(failure).__name__}: {failure} (run again with --debug for the details)"
    )


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
