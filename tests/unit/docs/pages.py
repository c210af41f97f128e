"""Commands and settings that README and the pages of docs tell people to type."""

import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[3]
MADE = {"commands.md", "exit-status.md", "configuration.md"}
"""Pages that are made from the code."""
TOP = {"daemon", "notify", "clones", "web", "timezone", "run_dir"}
"""What stands in no instance's table."""
NO_COMMANDS = {"s3-layout.md"}
"""Pages that quote other texts which begin with the program's name."""

_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```", re.M | re.S)
_INLINE = re.compile(r"`(zbackup [^`\n]+)`")
_PROMPT = re.compile(r"^\s*[$#]\s+")
# Where a command begins: at a line's start, behind a shell's sign, a quote or a unit's "=", or behind sudo.
_BEGINS = re.compile(
    r"""(?:^\s*|[;&|(="']\s*|\bsudo\s+|\broot\s+)(?:/usr/(?:local/)?s?bin/)?zbackup(?=[\s;|&)"']|$)"""
)
_ENDS = frozenset("|&;<>()")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a page, `line` being its first one's number."""

    page: Path
    line: int
    kind: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(PROJECT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Command:
    """A zbackup command as a page has it: its words behind `zbackup`. `whole`: it stands in a block, and
    not in the running text, which may leave out what does not matter there."""

    where: str
    words: tuple[str, ...]
    whole: bool = True

    def __str__(self) -> str:
        return f"{self.where} zbackup {shlex.join(self.words)}"


def pages() -> list[Path]:
    """README and all pages that people write."""
    found = [PROJECT / "README.md", PROJECT / "SECURITY.md", PROJECT / "CONTRIBUTING.md"]
    found += sorted((PROJECT / "docs").rglob("*.md"))
    found += sorted((PROJECT / "contrib").rglob("*.md"))
    return [page for page in found if page.name not in MADE]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text()
    return [
        Block(page, text.count("\n", 0, found.start()) + 2, found["kind"], textwrap.dedent(found["text"]))
        for found in _FENCE.finditer(text)
    ]


def commands() -> Iterator[Command]:
    """Every zbackup command of every page: in blocks, and in the running text."""
    for page in pages():
        for block in blocks(page):
            if block.kind not in ("toml", "json", "sql", "javascript", "python"):
                yield from _in_block(block)
        text = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), page.read_text())
        for found in _INLINE.finditer(text) if page.name not in NO_COMMANDS else ():
            where = f"{page.relative_to(PROJECT)}:{text.count(chr(10), 0, found.start()) + 1}"
            yield Command(where, _words(found[1].removeprefix("zbackup")), whole=False)


def _in_block(block: Block) -> Iterator[Command]:
    lines = re.sub(r"\\\n\s*", " ", block.text).splitlines()
    prompted = any(_PROMPT.match(line) for line in lines)
    for line in lines:
        if prompted and not _PROMPT.match(line):
            continue  # what a command printed
        bare = _PROMPT.sub("", line) if prompted else line
        for found in _BEGINS.finditer(bare):
            quote = next((sign for sign in "\"'" if sign in found[0]), "")
            rest = bare[found.end() :]
            words = _words(rest.partition(quote)[0] if quote else rest)
            if block.kind != "text" or words:
                yield Command(block.where, words)


def _words(rest: str) -> tuple[str, ...]:
    """The words behind `zbackup`, up to where the shell takes over."""
    lexer = shlex.shlex(rest, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if not word or word[0] in _ENDS:
            break
        words.append(word)
    return tuple(words[:-1] if words and word[0] in _ENDS and words[-1] == "2" else words)


def settings() -> Iterator[tuple[Block, dict[str, Any]]]:
    """Every block of settings, as a whole file: what a page shows apart is read with what stands above it."""
    for page in pages():
        above: dict[str, Any] = {}
        for block in blocks(page):
            if block.kind != "toml":
                continue
            raw = tomllib.loads(block.text)
            if "instance" not in raw and not set(raw) & TOP:
                raw = {"instance": {_only(above): raw}}
            whole = any("engine" in table for table in raw.get("instance", {}).values())
            above = raw if whole else _merged(above or _USUAL, raw)
            yield block, above


_USUAL = {"instance": {"shop": {"engine": "mysql", "datasets": ["tank/mysql"]}}}


def _only(above: Mapping[str, Any]) -> str:
    return str(next(iter(above.get("instance", _USUAL["instance"]))))


def _merged(above: Any, below: Any) -> Any:
    """A table with more in it; of a list of tables, the first is gone on with unless a new one is begun."""
    if isinstance(above, list) and isinstance(below, dict):
        return [_merged(above[0], below), *above[1:]]
    if isinstance(above, list) and isinstance(below, list) and above and isinstance(below[0], dict):
        return below if "to" in below[0] else [_merged(above[0], below[0]), *above[1:], *below[1:]]
    if isinstance(above, dict) and isinstance(below, dict):
        return above | {k: _merged(above[k], v) if k in above else v for k, v in below.items()}
    return below
