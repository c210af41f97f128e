"""Find what a statement needs of the server that replays it: plugins by name, and files of functions. Pure.

INSTALL PLUGIN, INSTALL SONAME and INSTALL COMPONENT are in no log (manuals, "INSTALL PLUGIN Statement"), and
what uses a plugin is: a server without it stops there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from zbackup.engines.mysql.sql.grammar import Statement
from zbackup.engines.mysql.sql.lexer import Token, string_value

LIBRARY: Final = "library"
DIRECTORY: Final = "directory"
Kind = Literal["storage engine", "authentication plugin", "full-text parser", "library", "directory"]

WORDS: Final = (b"soname", b"engine", b"identified", b"parser", b"directory")
"""One of them is in every such statement, in letters of any case."""

_EVERYWHERE: Final = frozenset({"innodb", "myisam", "mrg_myisam", "memory", "csv", "aria"})
"""Engines that each server has, those that the other kind of server knows too: they do no harm."""

_OTHER_NAMES: Final = frozenset({"innobase", "merge", "heap", "maria", "default"})
"""Other names of those; the last is the server's own default (sql/handler.cc, ha_resolve_by_name)."""

_ALIASES: Final = {"ndb": "ndbcluster"}
"""Other names of engines that not each server has (sys_table_aliases there)."""

_QUERY: Final = frozenset({"SELECT", "AS"})


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a server must have: a plugin of that name, in small letters, a file in its plugin
    directory, or a directory to make a table in, by its absolute path."""

    what: Kind
    name: str


def needs_of(statement: Statement, *, substitutes: bool) -> tuple[Need, ...]:
    """What it needs. `substitutes`: where an engine is not there, the server takes its own default."""
    if statement.verb not in ("CREATE", "ALTER", "GRANT"):
        return ()
    tokens, words = statement.tokens, statement.words
    if statement.kind == "FUNCTION":
        return tuple(_libraries(tokens, words))
    if statement.kind == "USER" or statement.verb == "GRANT":
        return tuple(_logins(tokens, words))
    found = list(_parsers(tokens, words)) if statement.kind in ("TABLE", "INDEX") else []
    if statement.kind in ("TABLE", "SEQUENCE") and not substitutes:
        found += _engines(tokens, words)
    if statement.kind == "TABLE":
        found += _directories(tokens, words)
    return tuple(found)


def _directories(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[Need]:
    """Of the table, and of its partitions."""
    for at in range(1, len(words)):
        if words[at] == "DIRECTORY" and words[at - 1] in ("DATA", "INDEX"):
            behind = [token for token in tokens[at + 1 : at + 3] if token.text != "="][:1]
            if behind and behind[0].kind == "string" and (path := string_value(behind[0])).startswith("/"):
                yield Need(DIRECTORY, path)


def _libraries(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[Need]:
    for at in range(2, len(words) - 1):
        if words[at] == "SONAME" and words[at - 2] == "RETURNS" and tokens[at + 1].kind == "string":
            yield Need(LIBRARY, string_value(tokens[at + 1]))
            return


def _logins(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[Need]:
    """Behind IDENTIFIED WITH; behind IDENTIFIED VIA there may be several, with OR between them."""
    several = False
    for at, word in enumerate(words[:-1]):
        begins = word in ("WITH", "VIA") and words[at - 1] == "IDENTIFIED"
        if word == ",":
            several = False
        elif (begins or (several and word == "OR")) and (name := _name(tokens[at + 1])):
            several = word != "WITH"
            yield Need("authentication plugin", name)


def _parsers(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[Need]:
    for at in range(1, len(words) - 1):
        if words[at - 1 : at + 1] == ["WITH", "PARSER"] and (name := _name(tokens[at + 1])):
            yield Need("full-text parser", name)


def _engines(tokens: Sequence[Token], words: Sequence[str]) -> Iterator[Need]:
    """Among the options of the table, which stand in no parentheses, and in front of any query."""
    depth = 0
    for at in range(len(words) - 2):
        depth += (words[at] == "(") - (words[at] == ")")
        if depth == 0 and words[at] in _QUERY:
            return
        if depth == 0 and words[at : at + 2] == ["ENGINE", "="]:
            name = _name(tokens[at + 2])
            if name and name not in _EVERYWHERE | _OTHER_NAMES:
                yield Need("storage engine", _ALIASES.get(name, name))


def _name(token: Token) -> str:
    """A plugin's name, as an identifier or in quotes."""
    return (string_value(token) if token.kind == "string" else token.name).lower()
