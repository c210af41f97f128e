"""Text that others may have written, made harmless for a terminal, a log and whoever reads them."""

import unicodedata
from typing import Final

# Of format characters (Cf) those stay that scripts and emoji need between letters, and that move nothing.
_JOINERS: Final = frozenset("\u00ad\u200c\u200d")
_UNSAFE: Final = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def is_unsafe(character: str) -> bool:
    """Whether it may move the cursor, begin a line, turn the direction of text or hide itself."""
    return (
        not " " <= character <= "~"
        and unicodedata.category(character) in _UNSAFE
        and character not in _JOINERS
    )


def is_plain(text: str) -> bool:
    """Whether it is printable() as it is, on one line."""
    return text.isprintable() or not any(map(is_unsafe, text))


def printable(text: str, *, lines: bool = False) -> str:
    """The text with escapes such as \\x1b in place of what is unsafe. `lines`: it may have several."""
    if text.isprintable():
        return text
    return "".join(_escaped(c) if is_unsafe(c) and not (lines and c == "\n") else c for c in text)


def json_safe(document: str) -> str:
    """The same of a JSON document, by JSON's own escapes: it says what it said."""
    if document.isascii() and "\x7f" not in document:
        return document
    return "".join(_in_json(c) if is_unsafe(c) and c != "\n" else c for c in document)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _in_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
