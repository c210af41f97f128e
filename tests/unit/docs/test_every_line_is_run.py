"""Every line that README and the how-tos have people type is accounted for: who runs it, or why nobody does.

A test types it as it stands (tests/unit/docs/typed.py, tests/system/test_tutorial.py), or there is a reason:
it is another program's, or how tests are begun. So is every block of another kind: settings, statements, and
what is only shown. That the program understands each of its commands is tests/unit/docs/test_pages.py's.
"""

import ast
import shlex
from collections.abc import Iterator
from functools import cache

import pytest

from tests.system.test_tutorial import of_how_tos
from tests.unit.docs.pages import PROJECT, blocks
from tests.unit.docs.typed import HOW_TO, lines, page_of, shell

PAGES = ("README.md", *sorted(page.name for page in HOW_TO.glob("*.md")))
READERS = ("typed", "shell")
LEAST = 180
"""More lines are taken by tests now: a search that finds none proves nothing."""

BY_HAND = "an editor, in which a reader types"
THE_LAB = "it is how tests are run: each that is named here is run by it"
ENGINE = "it is how the tests with an engine for containers are run, where there is one"
NO_MONGOSH = "MongoDB's client programs, which the lab has not: the tests do the same by MongoDB's driver"

NOT_RUN = {
    "make test": THE_LAB,
    "tests/lab/lab test tests/platform": THE_LAB,
    "tests/lab/lab test --keep tests/platform": THE_LAB,
    "make test-containers": ENGINE,
    ".venv/bin/python -m tests.containers -k encrypted": ENGINE,
    "editor /etc/zbackup/shop.password": BY_HAND,
    "mongodump --port 27018 ": NO_MONGOSH,
    "mongorestore -u root ": NO_MONGOSH,
    "mongosh --port 27018 ": NO_MONGOSH,
    "zbackup restore --to-timestamp 1795240140,0 ": "tests/slow/test_cluster_by_hosts.py: three hosts",
    "zbackup restore --cluster shop --from ": "tests/slow/test_cluster_elsewhere.py: to a cluster time",
    "zfs create -o mountpoint=/srv/shop-log ": "it asks for a passphrase; a dataset is at hand in tests",
    "systemctl edit zbackup": "systemd's own: an editor for what a unit says more",
    "ssh -L ": "OpenSSH's own: a way to the page from another machine",
    "dpkg-deb -x ": "dpkg's own: the lab unpacks the packages of its servers so (tests/lab/servers)",
}
"""Lines, or beginnings that end in a space, and why no test types them."""

OTHER_KINDS = {
    "toml": "tests/unit/docs/test_pages.py",
    "sql": "tests/unit/docs/test_docs.py",
    "javascript": "tests/unit/docs/test_docs.py",
    "ini": "tests/unit/docs/test_pages.py",
    "nginx": "",
    "python": "",
    "text": "",
    "": "",
}
"""Blocks that nobody types, and what loads or compares them; "" for what is only shown."""


@cache
def calls() -> dict[tuple[str, str], str]:
    """Map each line that a test takes from a page, as (page, beginning), to the test's file."""
    found = {}
    for folder in ("tests", "packaging"):
        for file in sorted((PROJECT / folder).rglob("*.py")):
            text = file.read_text()
            if "tests.unit.docs.typed" in text and file.name != "test_every_line_is_run.py":
                for page, begins in _of(ast.parse(text)):
                    found[page, begins] = str(file.relative_to(PROJECT))
    return found


def _of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS:
            page, begins = (getattr(argument, "value", None) for argument in node.args[:2])
            if isinstance(page, str) and isinstance(begins, str):
                yield page, begins


def written() -> list[tuple[str, str]]:
    """Every line of every page, with the page."""
    return [(page, line) for page in PAGES for block in blocks(page_of(page)) for line in lines(block)]


@cache
def taken() -> frozenset[str]:
    """The lines that a test types, wherever they stand: one line is one command."""
    return frozenset(shell(page, begins) for page, begins in calls())


@cache
def guided() -> frozenset[tuple[str, ...]]:
    """The words of the commands that tests/system/test_tutorial.py runs."""
    return frozenset(command.words for command in of_how_tos())


def is_run(line: str) -> bool:
    words = shlex.split(line.partition(" | ")[0].partition(";")[0])
    return line in taken() or (words[0] == "zbackup" and tuple(words[1:]) in guided())


def is_meant(begins: str, line: str) -> bool:
    return line == begins or (begins.endswith(" ") and line.startswith(begins))


@pytest.mark.parametrize(("page", "line"), [(p, line) for p, line in written() if not is_run(line)])
def test_what_no_test_types_has_a_reason(page: str, line: str) -> None:
    known = any(is_meant(begins, line) for begins in NOT_RUN)
    assert known, f"{page}: no test runs {line!r}"


@pytest.mark.parametrize("begins", NOT_RUN)
def test_every_reason_is_of_a_line_that_is_there_and_is_not_run(begins: str) -> None:
    assert any(is_meant(begins, line) and not is_run(line) for _, line in written()), begins


@pytest.mark.parametrize("page", PAGES)
def test_every_other_block_is_of_a_kind_that_somebody_checks(page: str) -> None:
    kinds = {block.kind for block in blocks(page_of(page))} - {"console"}
    assert kinds <= set(OTHER_KINDS), kinds
    assert all((PROJECT / OTHER_KINDS[kind]).exists() for kind in kinds)


def test_the_search_finds_what_is_there() -> None:
    assert len({line for _, line in written() if is_run(line)}) >= LEAST
