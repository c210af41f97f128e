"""Tell what a statement does to which tables, by its text. Pure.

The servers write every change of definitions as text, and all changes with binlog_format=STATEMENT. A text is
no proof of what rows it changed: triggers and functions change others that it does not name.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from zbackup.model.log_entry import Kind
from zbackup.model.table_name import EVERY_TABLE, joined

LONGEST: Final = 1 << 16
"""Bytes of a statement that are looked at: its tables are named at its beginning."""

_TOKENS: Final = r"""
    (?P<space> \s++ | --(?=\s|$)[^\n]*+ | \#[^\n]*+ | /\*(?!M?!)(?:[^*]++|\*(?!/))*+(?:\*/)?+ )
  | (?P<hint> /\*M?!\d*+ | \*/ )
  | (?P<quoted> `(?:[^`]++|``)*+`?+ )
  | (?P<double> "(?:[^"\\]++|""|\\.)*+"?+ )
  | (?P<string> '(?:[^'\\]++|''|\\.)*+'?+ )
  | (?P<word> [\w$@\u0080-\uffff]++ )
  | (?P<symbol> . )
    """
"""The tokens of a statement. One that is not closed takes the rest, and nothing is given back: a text of
anybody's is read once."""

_FLAGS: Final = re.VERBOSE | re.DOTALL
_TOKEN: Final = re.compile(_TOKENS, _FLAGS)
_TOKEN_PLAIN: Final = re.compile(_TOKENS.replace(r"|\\.", "|\\\\"), _FLAGS)
"""The same with backslashes that escape nothing (sql_mode NO_BACKSLASH_ESCAPES)."""

DDL: Final[tuple[Kind, ...]] = ("ddl",)
DROP: Final[tuple[Kind, ...]] = ("ddl", "drop")
TRUNCATE: Final[tuple[Kind, ...]] = ("ddl", "truncate")
PARTITION: Final[tuple[Kind, ...]] = ("ddl", "partition")
_DDL_VERBS: Final = frozenset(
    {"CREATE", "ALTER", "DROP", "TRUNCATE", "RENAME", "GRANT", "REVOKE", "INSTALL", "UNINSTALL", "SET",
     "ANALYZE", "OPTIMIZE", "REPAIR", "FLUSH", "CHECK"}
)  # fmt: skip
_UPKEEP: Final = frozenset({"ANALYZE", "OPTIMIZE", "REPAIR", "CHECK"})
"""They change nothing of a table that anybody can see."""
_ROWS: Final[dict[str, Kind]] = {
    "INSERT": "insert",
    "REPLACE": "insert",
    "LOAD": "insert",
    "UPDATE": "update",
    "DELETE": "delete",
}
_BEFORE_TABLES: Final = frozenset({"INTO", "UPDATE", "FROM", "JOIN", "TABLE", "USING"})
_MODIFIERS: Final = frozenset(
    {"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE", "ONLY", "LATERAL", "CONCURRENT"}
)
_BEFORE_OBJECT: Final = frozenset(
    {"OR", "REPLACE", "IF", "NOT", "EXISTS", "ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL",
     "VECTOR", "TEMPORARY"}
)  # fmt: skip
_ATTRIBUTES: Final = frozenset({"DEFINER", "ALGORITHM", "SQL", "AGGREGATE"})
_MADE_BY: Final = frozenset({"VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "PACKAGE"})
_TABLES: Final = frozenset({"TABLE", "TABLES", "VIEW", "SEQUENCE"})
_SCHEMAS: Final = frozenset({"DATABASE", "SCHEMA"})
_ON_TABLE: Final = frozenset({"INDEX", "TRIGGER", "KEY"})


@dataclass(frozen=True, slots=True)
class Token:
    """A word in capitals as `word`, its name as it stands there; "" for what it cannot be. `text` is what a
    string holds, as far as nothing in it is escaped."""

    word: str
    name: str
    text: str = ""


@dataclass(slots=True)
class Statement:
    """`verb` is its first word; `tables` as in model.log_entry.Touched; `rows`: it changes rows, by text;
    `renames` are pairs of a table's name and its next one, in their order."""

    verb: str = ""
    tables: dict[str, tuple[Kind, ...]] = field(default_factory=dict)
    rows: bool = False
    tokens: Sequence[Token] = ()
    renames: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, kinds: tuple[Kind, ...]) -> None:
        """Note what is done to a table, in addition to what is known of it."""
        self.tables[name] = tuple(dict.fromkeys((*self.tables.get(name, ()), *kinds)))


def read_statement(
    text: str, schema: str, *, ansi_quotes: bool = False, backslash_escapes: bool = True
) -> Statement:
    """Tell what a statement does; `schema` is the one it was in.

    By sql_mode: with `ansi_quotes` "..." is a name, and with `backslash_escapes` a backslash in a string is
    more than itself.
    """
    token = _TOKEN if backslash_escapes else _TOKEN_PLAIN
    tokens = list(_tokens(token.finditer(text[:LONGEST]), ansi_quotes=ansi_quotes))
    first = (n for n, token in enumerate(tokens) if token.word not in ("(", "BINLOG"))
    tokens = tokens[next(first, len(tokens)) :]
    if tokens and tokens[0].word == "SET" and len(tokens) > 1 and tokens[1].word == "STATEMENT":
        tokens = _behind(tokens, "FOR")
    if not tokens:
        return Statement()
    verb = _verb(tokens)
    found = Statement(verb=verb, tokens=tokens)
    if verb in _ROWS:
        found.rows = True
        for name in _named_tables(tokens, schema):
            found.add(name, (_ROWS[verb],))
    elif verb in _DDL_VERBS:
        _definition(found, tokens, schema)
    return found


def _tokens(matches: Iterator[re.Match[str]], *, ansi_quotes: bool) -> Iterator[Token]:
    for match in matches:
        kind, said = match.lastgroup, match[0]
        if kind == "word":
            yield Token(said.upper(), said)
        elif kind == "quoted":
            yield Token("", _inner(said).replace("``", "`"))
        elif kind == "double" and ansi_quotes:
            yield Token("", _inner(said).replace('""', '"'))
        elif kind == "symbol":
            yield Token(said, "")
        elif kind in ("string", "double"):
            yield Token("'", "", _inner(said))


def _inner(said: str) -> str:
    """Return what is between quotes, of which the second may be missing."""
    return said[1:].removesuffix(said[0])


def _verb(tokens: Sequence[Token]) -> str:
    """The first word, but of WITH ... that which follows the common table expressions."""
    if tokens[0].word != "WITH":
        return tokens[0].word
    depth = 0
    for token in tokens:
        depth += (token.word == "(") - (token.word == ")")
        if depth == 0 and token.word in ("UPDATE", "DELETE", "INSERT", "REPLACE", "SELECT"):
            return token.word
    return ""


def _behind(tokens: Sequence[Token], word: str) -> list[Token]:
    for index, token in enumerate(tokens):
        if token.word == word:
            return list(tokens[index + 1 :])
    return []


def _named_tables(tokens: Sequence[Token], schema: str) -> Iterator[str]:
    """The tables that stand where tables do: behind INTO, FROM, JOIN and the like, and the commas there."""
    at, verb = 0, tokens[0].word
    while at < len(tokens):
        word = tokens[at].word
        at += 1
        begins = word in _BEFORE_TABLES or (at == 1 and verb in ("INSERT", "REPLACE", "DELETE"))
        if begins or (verb == "UPDATE" and word == ","):
            before = at
            at = yield from _table_list(tokens, at, schema)
            # Where rows come from is behind where they go.
            if at > before and verb in ("INSERT", "REPLACE", "LOAD"):
                return
        elif verb == "UPDATE" and word == "SET":
            return


def _table_list(tokens: Sequence[Token], at: int, schema: str) -> Generator[str, None, int]:
    """Tables with commas between them, with their aliases; returns the index behind."""
    while True:
        while at < len(tokens) and tokens[at].word in _MODIFIERS | {"("}:
            at += 1
        name, behind = _qualified(tokens, at, schema)
        if not name or tokens[at].word in _BEFORE_TABLES | {"SELECT", "SET"}:
            return at
        yield name
        at = behind
        while at < len(tokens) and tokens[at].name and tokens[at].word not in _STOPS:
            at += 1
        if at >= len(tokens) or tokens[at].word != ",":
            return at
        at += 1


_STOPS: Final = _BEFORE_TABLES | frozenset(
    {"SET", "WHERE", "ON", "VALUES", "VALUE", "SELECT", "ORDER", "GROUP", "LIMIT", "INNER", "LEFT", "RIGHT",
     "CROSS", "STRAIGHT_JOIN", "NATURAL", "PARTITION", "HAVING", "UNION", "FOR"}
)  # fmt: skip


def _qualified(tokens: Sequence[Token], at: int, schema: str) -> tuple[str, int]:
    """A table's name with its schema, "" if there is none at `at`; and the index behind it."""
    if at >= len(tokens) or not tokens[at].name:
        return "", at
    if at + 2 < len(tokens) and tokens[at + 1].word == "." and (table := tokens[at + 2].name):
        return joined(tokens[at].name, table), at + 3
    return joined(schema, tokens[at].name), at + 1


def _definition(found: Statement, tokens: Sequence[Token], schema: str) -> None:
    """Tell what a statement changes of definitions."""
    at, verb = 1, found.verb
    while at < len(tokens) and tokens[at].word in _BEFORE_OBJECT:
        at += 1
    said = {token.word for token in tokens[1:at]}
    if at < len(tokens) and tokens[at].word in _ATTRIBUTES:
        at = next((n for n in range(at, len(tokens)) if tokens[n].word in _MADE_BY), at)
    kind = tokens[at].word if at < len(tokens) else ""
    if "TEMPORARY" in said:
        return
    # Of MariaDB: it drops what is there.
    gone = verb == "DROP" or (verb == "CREATE" and "REPLACE" in said and kind != "VIEW")
    if verb == "TRUNCATE":
        at = 1 + (len(tokens) > 2 and tokens[1].word == "TABLE" and tokens[2].word != ".")
        found.add(_qualified(tokens, at, schema)[0], TRUNCATE)
    elif kind in _SCHEMAS:
        _schema(found, tokens, at + 1, (schema, gone))
    elif kind in _TABLES:
        _tables(found, tokens, at + 1, (schema, gone))
    elif verb not in ("SET", "FLUSH"):
        on = _behind(tokens, "ON") if kind in _ON_TABLE else []
        found.add(_qualified(on, 0, schema)[0], DDL)


def _behind_options(tokens: Sequence[Token], at: int) -> int:
    """Behind IF EXISTS and IF NOT EXISTS: all else that can stand there is a name, if it is no keyword."""
    words = [token.word for token in tokens[at : at + 3]]
    if words[:2] == ["IF", "EXISTS"]:
        return at + 2
    return at + 3 if words == ["IF", "NOT", "EXISTS"] else at


def _schema(found: Statement, tokens: Sequence[Token], at: int, what: tuple[str, bool]) -> None:
    schema, gone = what
    at = _behind_options(tokens, at)
    name = tokens[at].name if at < len(tokens) else ""
    found.add(joined(name or schema, EVERY_TABLE), DROP if gone else DDL)


def _tables(found: Statement, tokens: Sequence[Token], at: int, what: tuple[str, bool]) -> None:
    """Read a list of tables, or two with TO between them."""
    schema, gone = what
    at = _behind_options(tokens, at)
    kinds = DROP if gone else () if found.verb in _UPKEEP else DDL
    listed = found.verb in ("DROP", "RENAME", *_UPKEEP)
    name, at = _qualified(tokens, at, schema)
    while name:
        found.add(name, kinds)
        if not listed or at >= len(tokens) or tokens[at].word not in (",", "TO", "WAIT", "NOWAIT"):
            break
        renamed = name if tokens[at].word == "TO" else ""
        name, at = _qualified(tokens, at + 1, schema)
        if renamed and name:
            found.renames.append((renamed, name))
    if found.verb == "ALTER" and name:
        _alteration(found, name, tokens[at:], schema)


def _alteration(found: Statement, name: str, rest: Sequence[Token], schema: str) -> None:
    """Tell what else ALTER TABLE does: a new name, and partitions that lose their rows."""
    words = [token.word for token in rest]
    for at, word in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        if word == "TRUNCATE" and following == "PARTITION":
            found.add(name, TRUNCATE)
        if word in _MOVES and following == "PARTITION":
            found.add(name, PARTITION)
        if word == "EXCHANGE" and "TABLE" in words[at:]:
            found.add(_qualified(rest, words.index("TABLE", at) + 1, schema)[0], PARTITION)
        if word == "RENAME" and following not in ("COLUMN", "INDEX", "KEY"):
            to = at + 1 + (following in ("TO", "AS", "="))
            renamed = _qualified(rest, to, schema)[0]
            found.add(renamed, DDL)
            found.renames.append((name, renamed))


_MOVES: Final = frozenset({"DROP", "EXCHANGE", "CONVERT"})
"""The words of ALTER TABLE that take a partition's rows out of the table."""
