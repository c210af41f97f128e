"""The map of the code leads somewhere: every file and directory that it names is there."""

import ast
import re
from pathlib import Path

import pytest

from tests.unit.docs.pages import PROJECT

PAGE = PROJECT / "docs" / "explanation" / "architecture.md"
ROOTS = ("zbackup", "", "zbackup/engines/mysql", "zbackup/engines/mongodb", "zbackup/destinations")
NAMED = re.compile(r"`((?:[\w.]+/)*[\w]+\.py|(?:\w+/)+)`")
NEWCOMERS = (
    ("backups a prune keeps", "plan/retention/retention.py"),
    ("stream from a bucket is proven", "destinations/s3/fetching.py"),
    ("when zbackup is killed", "engines/mongodb/lock/watchdog.py"),
    ("pid file", "proc/secure_files.py"),
    ("where a replay stops", "engines/mongodb/oplog/find_stop.py"),
    ("list of drops", "features/webpage/overview/reader.py"),
    ("dev clone expires", "plan/clones/lease.py"),
    ("removed from a bucket", "destinations/s3/garbage_collection.py"),
    ("applier is stopped", "engines/mysql/lock/applier.py"),
    ("metrics", "daemon/metrics.py"),
)
"""Words of somebody's who looks for something, and the file in whose row of the map they stand."""


def rows() -> list[str]:
    text = PAGE.read_text()
    table = text[text.index("## Where to look") : text.index("### Tests")]
    return [line for line in table.splitlines() if line.startswith("| ")][1:]


def names(text: str) -> list[str]:
    return NAMED.findall(text)


def is_there(name: str) -> bool:
    if "/" in name:
        return any((PROJECT / root / name).exists() for root in ROOTS)
    return any((PROJECT / "zbackup").rglob(name))


def test_every_file_of_the_map_is_there() -> None:
    found = [name for row in rows() for name in names(row)]
    assert len(found) > 120
    assert [name for name in found if not is_there(name)] == []


def test_what_is_nowhere_is_seen() -> None:
    assert names("`jobs/nowhere.py`, then `lock/`") == ["jobs/nowhere.py", "lock/"]
    assert not is_there("jobs/nowhere.py")


@pytest.mark.parametrize(("words", "file"), NEWCOMERS)
def test_the_first_look_is_at_the_file(words: str, file: str) -> None:
    assert [file in row for row in rows() if words in row.partition(" | ")[0]] == [True]


ROOMS = sorted((PROJECT / "zbackup").rglob("__init__.py"))


def read_first(docstring: str) -> list[str]:
    """The modules that the docstring of a package tells to read first: words that stand alone in the list."""
    _, _, text = docstring.partition("Read first: ")
    words = re.split(
        r"; then |[;,:.]\s|\.$| and |\s+then ", re.sub(r"\s+", " ", re.sub(r"\([^)]*\)", "", text))
    )
    return [word.strip() for word in words if re.fullmatch(r"[a-z0-9_.]+", word.strip())]


@pytest.mark.parametrize("room", ROOMS, ids=lambda path: str(path.parent.relative_to(PROJECT)))
def test_what_a_room_tells_to_read_first_is_there(room: Path) -> None:
    found = read_first(ast.get_docstring(ast.parse(room.read_text())) or "")
    there = {name: room.parent / name.replace(".", "/") for name in found}
    assert [
        n for n, path in there.items() if not path.is_dir() and not path.with_suffix(".py").exists()
    ] == []


def test_the_list_of_what_to_read_first_is_read() -> None:
    told = "Look.\n\nRead first: lock, which says who; then wait_limit (how long) and gone.\n"
    assert read_first(told) == ["lock", "wait_limit", "gone"]
    assert sum(len(read_first(ast.get_docstring(ast.parse(r.read_text())) or "")) for r in ROOMS) > 80
