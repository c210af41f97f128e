"""A docstring begins with a verb or a noun phrase: not with a bare relative ("What a server says ..."), and
not with half a phrase ("Of each entry ...", "As to_text", "Those of one server")."""

import ast
from collections.abc import Iterator
from pathlib import Path

HOUSE = Path(__file__).parents[2]
RELATIVES = frozenset(["what", "how", "where", "why", "whether", "when", "which", "who", "whose", "whom"])
HALVES = frozenset(["of", "those", "as", "that", "so"])


def first_words(source: str) -> Iterator[tuple[int, str]]:
    """Give the line and the first word of each docstring of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text.split()[0].strip(",.:;").lower()


def test_no_docstring_begins_with_a_bare_relative_or_half_a_phrase() -> None:
    modules = sorted((HOUSE / "zbackup").rglob("*.py"))
    words = [(m, line, word) for m in modules for line, word in first_words(m.read_text())]
    assert len(words) > 2000
    found = [
        f"{m.relative_to(HOUSE)}:{line}: {word}" for m, line, word in words if word in RELATIVES | HALVES
    ]
    assert found == []


def test_a_bare_relative_is_seen() -> None:
    source = '"""How it is."""\n\ndef f() -> int:\n    """Return what."""\n    return 1\n'
    assert [word in RELATIVES for _, word in first_words(source)] == [True, False]
