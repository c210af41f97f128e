"""Lines of keys and tables in a configuration file, and what its syntax errors mean."""

import re
import tomllib
from typing import Any

Path_ = tuple[str | int, ...]
Problem = tuple[Path_, str]
"""The path of a key, and what is wrong with its value."""

_AT_LINE = re.compile(r"(?: \(at line ([0-9]+), column [0-9]+\))$")
_SETTING = re.compile(r"\s*(?P<key>[A-Za-z0-9_.\"-]+)\s*=\s*(?P<value>[^\s\"'\[{#][^#]*?)\s*(?:#.*)?")
_SECRET = re.compile("pass|uri|secret|token|key|url|ping", re.IGNORECASE)
_TWICE = re.compile(r"Cannot (?:overwrite|declare|define|mutate)|Duplicate")


def line_numbers(text: str) -> dict[Path_, int]:
    """The line each key and table header stands on. Good enough to help, never relied upon.

    Tables of a list (`[[...]]`) are counted from 0, as the paths of problems count them.
    """
    lines: dict[Path_, int] = {}
    lists: dict[Path_, int] = {}
    table: Path_ = ()
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            if path := _key_path(stripped):
                table = _counted(path, lists, begins=stripped.startswith("[["))
                _put(lines, table, number)
        elif "=" in stripped and (key := _key_path(stripped.partition("=")[0] + "= 0")):
            lines.setdefault(table + key, number)
    return lines


def line_of(path: Path_, lines: dict[Path_, int]) -> int:
    """The line of the key, or of the nearest table around it; 0 if not even that is known."""
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), 0)


def syntax_error(text: str, said: str) -> tuple[int, str]:
    """The line that is not TOML (0 if it is not known), and what to write there; `said` is the parser's.

    What may be a secret is not repeated.
    """
    found = _AT_LINE.search(said)
    lines = text.splitlines()
    if found is None and not (lines and _TWICE.search(said)):
        return 0, f"not valid TOML: {said}"
    number = min(int(found[1]) if found else len(lines), len(lines))
    line = lines[number - 1].strip()
    why = _without_quotes(line) or _said_twice(text, number, line, said)
    return number, why or f"not valid TOML: {_AT_LINE.sub('', said)}"


def _put(lines: dict[Path_, int], table: Path_, number: int) -> None:
    """A header opens the tables around its own, too, where they have none."""
    for length in range(1, len(table) + 1):
        lines.setdefault(table[:length], number)


def _counted(path: Path_, lists: dict[Path_, int], *, begins: bool) -> Path_:
    """The path with the number of each list's table in it."""
    counted: Path_ = ()
    for part in path[:-1]:
        counted += (part,)
        if counted in lists:
            counted += (lists[counted],)
    counted += path[-1:]
    if begins:
        lists[counted] = lists.get(counted, -1) + 1
    return (*counted, lists[counted]) if begins else counted


def _without_quotes(line: str) -> str:
    """The setting as it should be written, where its value wants quotes."""
    match = _SETTING.fullmatch(line)
    if match is None:
        return ""
    try:
        tomllib.loads(f"a = {match['value']}")
    except tomllib.TOMLDecodeError:
        value = "..." if _SECRET.search(match["key"]) else _short(match["value"])
        return f'{match["key"]}: a text stands in quotes: {match["key"]} = "{value}"'
    return ""


def _said_twice(text: str, number: int, line: str, said: str) -> str:
    """Which key or table there is twice, and where it was first."""
    if not _TWICE.search(said):
        return ""
    lines = text.splitlines()
    before = line_numbers("\n".join(lines[: number - 1]))
    header = next((each.strip() for each in reversed(lines[:number]) if each.strip().startswith("[")), "")
    if line.startswith("["):
        path = _key_path(line)
    else:
        path = (_key_path(header) if header else ()) + _key_path(line.partition("=")[0] + "= 0")
    first = line_of(path, {known: at for known, at in before.items() if known == path})
    name = ".".join(str(part) for part in path) or line
    return f"{name}: is there twice" + (f", first in line {first}: leave one of them out" if first else "")


def _key_path(toml: str) -> Path_:
    """The path a line of TOML opens, () if the line is not TOML by itself."""
    try:
        node: Any = tomllib.loads(toml)
    except tomllib.TOMLDecodeError:
        return ()
    path: list[str] = []
    while isinstance(node, dict) and node:
        ((key, node),) = node.items()
        path.append(key)
    return tuple(path)


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
