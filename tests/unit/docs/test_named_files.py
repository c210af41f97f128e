"""Every module and directory that a page or the Makefile names is there: both are renamed together."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.unit.docs.pages import PROJECT

PAGES = [
    *(page for page in sorted(PROJECT.glob("*.md")) if page.name != "CHANGELOG.md"),
    PROJECT / "Makefile",
    *sorted((PROJECT / "docs").rglob("*.md")),
    *sorted((PROJECT / "contrib").rglob("*.md")),
]
CODE = ("tests", "bench", "zbackup", "packaging", "contrib", "docs")
LEAST = 300
"""More are named now: a reader that finds none proves nothing."""

_WITH_DIRECTORY = re.compile(r"(?<![\w./-])(?:tests|bench|zbackup)/[\w./*-]*\w")
_ALONE = re.compile(r"(?<![\w./*{}-])[\w*]+\.py\b")
_BELOW = re.compile(
    r"(?<![\w./*{}-])(?!(?:tests|bench|zbackup|docs|packaging|contrib)/)[\w*]+/[\w./*-]+\.py\b"
)


@cache
def modules() -> tuple[Path, ...]:
    return tuple(path.relative_to(PROJECT) for part in CODE for path in (PROJECT / part).rglob("*.py"))


def named(page: Path) -> set[str]:
    """Paths and patterns of files: from the project's root, from some directory of it, or a name alone."""
    text = page.read_text()
    return {match[0] for pattern in (_WITH_DIRECTORY, _BELOW, _ALONE) for match in pattern.finditer(text)}


def is_there(name: str) -> bool:
    if name.startswith(("tests/", "bench/", "zbackup/")):
        return any(PROJECT.glob(name))
    return any(module.match(name) for module in modules())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_a_page_names_files_that_there_are(page: Path) -> None:
    assert sorted(name for name in named(page) if not is_there(name)) == []


def test_the_reader_finds_what_is_named() -> None:
    assert len({name for page in PAGES for name in named(page)}) >= LEAST
