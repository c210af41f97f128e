"""Pages, texts and docstrings use the words of the field: address, position, cache, sign, resume."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.docs.pages import PROJECT, pages
from tests.unit.parsed import sources

INSTEAD = {
    r"anew": "again, from the start",
    r"besides": "also",
    r"(go|goes|going|gone|went) on with": "resume, continue",
    r"lets? go( of)?|letting go": "release",
    r"(put|puts|putting) (\w+ ){0,4}aside": "set aside",
    r"shel(f|ves)": "cache",
    r"strays?|keeper|sweeps?|swept": "orphans, garbage collection",
    r"seal(s|ed|ing)?|unsealed": "encrypt, sign",
    r"bell|teller|agenda|news": "waker, notifier, job table, notifications",
    r"last_words|held_there|in_place|clone_(login|handover)": "remote holds, connection URL",
    r"legs?": "stream step",
    r"place (in|of) (a|an|the|one|its) (bin)?(op)?log|no place in": "position",
    r"held (still|by all|there by all)|hold (a|the|that|this) moment": "locked, covered",
    r"so many|as befits|nothing to be said against": "say the number, or what is so",
    r"nothing from it on|wanted no more|is gone on|one to each|each to one": "plain words",
    r"who prunes|who ships|who restores": "the credentials that prune",
    r"same place|to that place|place to ship": "address",
}
"""What is not said, as a regular expression of whole words, and what is said instead."""

MEANT = {
    "docs/reference/s3-layout.md": r"`seal`",
    "docs/reference/json.md": r"`strays`",
    "CHANGELOG.md": r"`strays`",
    "zbackup/destinations/s3/manifest_schema.py": r"\"seal\" in the page",
}
"""What one has to name all the same: a field of a format that is written, or read by scripts, already."""

FOLDERS = sorted(path.parent.name for path in (PROJECT / "zbackup").glob("*/__init__.py"))
FORBIDDEN = re.compile(rf"\b({'|'.join(INSTEAD)})\b", re.I)


def found_in(text: str) -> list[str]:
    return [text[max(0, m.start() - 40) : m.end() + 40].replace("\n", " ") for m in FORBIDDEN.finditer(text)]


@pytest.mark.parametrize(
    "page",
    [
        *pages(),
        PROJECT / "CHANGELOG.md",
        PROJECT / "config.example.toml",
        *PROJECT.glob("docs/reference/*.md"),
    ],
    ids=lambda page: str(page.relative_to(PROJECT)),
)
def test_a_page_has_none_of_them(page: Path) -> None:
    name = str(page.relative_to(PROJECT))
    text = page.read_text()
    assert found_in(re.sub(MEANT[name], "", text) if name in MEANT else text) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_message_and_no_help_text_has_one(folder: str) -> None:
    """The man pages are made of the help texts."""
    said = {
        f"{name}: {text}": found_in(text)
        for name, source in of_folder(folder).items()
        for text in spoken(source)
    }
    assert {where: found for where, found in said.items() if found} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_docstring_has_one(folder: str) -> None:
    """That of a module, a class or a function."""
    said = {}
    for name, source in of_folder(folder).items():
        for text in documented(source):
            said[f"{name}: {text}"] = found_in(re.sub(MEANT[name], "", text) if name in MEANT else text)
    assert {where: found for where, found in said.items() if found} == {}


def of_folder(folder: str) -> dict[str, ast.Module]:
    """The modules in a folder of the product and below it."""
    found = {name: tree for name, tree in sources().items() if name.startswith(f"zbackup/{folder}/")}
    assert found
    return found


def documented(tree: ast.Module) -> Iterator[str]:
    """The docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def spoken(tree: ast.Module) -> Iterator[str]:
    """Texts of more than one word that are not docstrings."""
    silent = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in silent else None
        if isinstance(text, str) and " " in text.strip():
            yield text


def test_what_is_forbidden_is_found() -> None:
    for text in (
        "It goes on with the next.",
        "put the copies aside",
        "the place in a log",
        "Besides, so many",
    ):
        assert found_in(text), text
