"""A docstring, or what is said below a constant or a field, begins with a verb or a noun phrase: not with a
bare relative ("What a server says ..."), and not with half a phrase ("Of each entry ...", "So many ...")."""

import ast
from collections.abc import Iterator

from tests.unit.parsed import sources

RELATIVES = frozenset(
    ["what", "how", "where", "why", "whether", "when", "which", "who", "whose", "whom", "whoever", "whatever"]
)
HALVES = frozenset(["of", "those", "as", "that", "so"])


def first_words(source: ast.Module) -> Iterator[tuple[int, str]]:
    """Give the line and the first word of each docstring of a module, and of each text below a constant."""
    for node in ast.walk(source):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            match each:
                case ast.Expr(value=ast.Constant(value=str(text))) if text:
                    yield each.lineno, text.split()[0].strip(",.:;").lower()


def test_no_docstring_begins_with_a_bare_relative_or_half_a_phrase() -> None:
    words = [(m, line, word) for m, source in sources().items() for line, word in first_words(source)]
    assert len(words) > 5000
    found = [f"{m}:{line}: {word}" for m, line, word in words if word in RELATIVES | HALVES]
    assert found == []


def test_a_bare_relative_is_seen() -> None:
    source = '"""How it is."""\n\nN = 1\n"""Where it is."""\n\ndef f() -> int:\n    """Return what."""\n'
    assert [word in RELATIVES for _, word in first_words(ast.parse(source))] == [True, True, False]
