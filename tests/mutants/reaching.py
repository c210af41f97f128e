"""Which functions of the product each quick test runs: a change is shown to those tests alone that run it."""

import ast
import json
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

from tests.mutants.__main__ import fails

Place = tuple[str, int]
"""A file of the product, and the line that a function in it begins with; 1 where the module does."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What the tests of a file ran, and how long they took."""

    seconds: float
    places: frozenset[Place]


def measured(home: Path, tests: Iterable[str]) -> dict[str, Ran]:
    """By files of tests. Raise SystemExit when one fails before anything is changed."""
    found = {}
    for test in tests:
        noted = home / "ran.json"
        begun = time.monotonic()
        if fails(home, [test], before=partial(_watch, home), after=partial(_tell, noted)):
            raise SystemExit(f"{test} fails before anything is changed")
        seconds = time.monotonic() - begun
        found[test] = Ran(seconds, frozenset((file, line) for file, line in json.loads(noted.read_text())))
    return found


def reaching(ran: Mapping[str, Ran], file: str, source: str, line: int) -> list[str]:
    """The tests that run the function which the line is in, the quickest first."""
    first, last = _function(ast.parse(source), line)
    fitting = [
        test
        for test, each in ran.items()
        if any(where == file and first <= begin <= last for where, begin in each.places)
    ]
    return sorted(fitting, key=lambda test: ran[test].seconds)


def _function(tree: ast.Module, line: int) -> tuple[int, int]:
    """The lines of the function around a line; all there are where it is in none, and is run by an import."""
    around = [
        (_begin(node), node.end_lineno or 0)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and _begin(node) <= line <= (node.end_lineno or 0)
    ]
    return max(around, default=(0, sys.maxsize))


def _begin(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


_codes: set[CodeType] = set()
_home = ""


def _watch(home: Path) -> None:
    """From now on, in this process, each function of the product that is called is noted."""
    global _home
    _home = str(home / "zbackup")
    sys.settrace(_called)
    threading.settrace(_called)


def _called(frame: FrameType, event: str, arg: object) -> None:
    _codes.add(frame.f_code)


def _tell(to: Path) -> None:
    sys.settrace(None)
    root = Path(_home).parent
    places = [
        (str(Path(code.co_filename).relative_to(root)), code.co_firstlineno)
        for code in frozenset(_codes)
        if code.co_filename.startswith(_home)
    ]
    to.write_text(json.dumps(places))
