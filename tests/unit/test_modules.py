"""Modules stay readable in one go, and each package says what is in it."""

import ast
import re
from pathlib import Path

from tests.unit.parsed import sources

HOUSE = Path(__file__).parents[2]
MOST = 800


def test_every_module_has_at_most_800_lines() -> None:
    modules = [file for part in ("zbackup", "tests", "bench") for file in (HOUSE / part).rglob("*.py")]
    assert len(modules) > 300
    lengths = {str(file.relative_to(HOUSE)): len(file.read_text().splitlines()) for file in modules}
    assert {name: lines for name, lines in lengths.items() if lines > MOST} == {}


PRODUCT = HOUSE / "zbackup"
ROOMS = {
    ".".join(file.parent.relative_to(PRODUCT).parts): ast.get_docstring(ast.parse(file.read_text())) or ""
    for file in sorted(PRODUCT.rglob("__init__.py"))
    if file.parent != PRODUCT
}
"""The docstring of each room, by its name without `zbackup`."""


def _behind(text: str, word: str) -> list[str]:
    """The names behind a word of a room's docstring, up to the end of that sentence."""
    _, found, tail = " ".join(text.split()).partition(word)
    return re.findall(r"[a-z_0-9.]*[a-z_0-9]", re.split(r"\.(?: |$)", tail)[0]) if found else []


def test_each_room_says_in_five_lines_what_is_in_it() -> None:
    assert len(ROOMS) > 50
    lines = {room: [line for line in text.splitlines() if line] for room, text in ROOMS.items()}
    assert {room: len(found) for room, found in lines.items() if not 2 <= len(found) <= 6} == {}


def test_each_room_says_what_to_read_first() -> None:
    missing = []
    for room, text in ROOMS.items():
        first = _behind(text, "Read first: ")[:1] or [""]
        here = PRODUCT.joinpath(*room.split("."), *first[0].split("."))
        if not first[0] or not (here.is_dir() or here.with_suffix(".py").is_file()):
            missing.append(room)
    assert missing == []


def test_a_class_name_stands_once_or_for_one_role_in_both_engines() -> None:
    places: dict[str, list[str]] = {}
    for file, source in sources().items():
        for node in source.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(file)
    assert len(places) > 700
    twice = {name: files for name, files in places.items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if not _of_both_engines(files)} == {}


def _of_both_engines(files: list[str]) -> bool:
    return len(files) == 2 and sorted("mongodb" if "/mongodb/" in f else "mysql" for f in files) == [
        "mongodb",
        "mysql",
    ]


def test_no_module_imports_itself() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == name.removesuffix(".py").replace("/", ".")
    ]
    assert found == []
