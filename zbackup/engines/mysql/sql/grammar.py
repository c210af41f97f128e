"""Tell what a statement does to which tables, by its text. Pure.

The servers write every change of definitions as text, and all changes with binlog_format=STATEMENT. A text is
no proof of what rows it changed: triggers and functions change others that it does not name.
Sources: MySQL 9.7 reference manual, "SQL Statements"; MariaDB 11.8's, "SQL Statements"; sql_yacc.yy of both.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from zbackup.engines.mysql.sql.lexer import Token, tokens
from zbackup.model.log_entry import Kind
from zbackup.model.table_name import EVERY_TABLE, joined

Kinds = tuple[Kind, ...]

DDL: Final[Kinds] = ("ddl",)
DROP: Final[Kinds] = ("ddl", "drop")
TRUNCATE: Final[Kinds] = ("ddl", "truncate")
PARTITION: Final[Kinds] = ("ddl", "partition")
UPKEEP: Final[Kinds] = ()
"""It changes nothing of a table that a session can see."""

_TABLE, _VIEW, _SEQUENCE, _SCHEMA, _ON_TABLE = "TABLE", "VIEW", "SEQUENCE", "SCHEMA", "INDEX"

_OBJECTS: Final = {
    "TABLE": _TABLE, "TABLES": _TABLE, "VIEW": _VIEW, "SEQUENCE": _SEQUENCE,
    "DATABASE": _SCHEMA, "SCHEMA": _SCHEMA, "INDEX": _ON_TABLE, "TRIGGER": _ON_TABLE,
    **{word: word for word in (
        "PROCEDURE", "FUNCTION", "PACKAGE", "EVENT", "USER", "ROLE", "SERVER", "TABLESPACE", "LOGFILE",
        "REFERENCE", "RESOURCE", "LIBRARY", "INSTANCE", "CATALOG")},
}  # fmt: skip
"""The words for what a statement defines. Tables, views and sequences share their names; an index and a
trigger belong to the table behind ON."""

_IS_TOLD: Final = frozenset({"=", "@", "."})
"""What stands behind these before such a word is a name, as in DEFINER = view@localhost."""

_ONE, _LIST, _PAIRS = "one", "list", "pairs"


class _Rule(NamedTuple):
    kinds: Kinds
    names: str = _ONE


_RULES: Final = {
    ("CREATE", _TABLE): _Rule(DDL),
    ("CREATE", _VIEW): _Rule(DDL),
    ("CREATE", _SEQUENCE): _Rule(DDL),
    ("CREATE", _SCHEMA): _Rule(DDL),
    ("CREATE", _ON_TABLE): _Rule(DDL),
    ("ALTER", _TABLE): _Rule(DDL),
    ("ALTER", _VIEW): _Rule(DDL),
    ("ALTER", _SEQUENCE): _Rule(DDL),
    ("ALTER", _SCHEMA): _Rule(DDL),
    ("ALTER", _ON_TABLE): _Rule(DDL),
    ("DROP", _TABLE): _Rule(DROP, _LIST),
    ("DROP", _VIEW): _Rule(DROP, _LIST),
    ("DROP", _SEQUENCE): _Rule(DROP, _LIST),
    ("DROP", _SCHEMA): _Rule(DROP),
    ("DROP", _ON_TABLE): _Rule(DDL),
    ("RENAME", _TABLE): _Rule(DDL, _PAIRS),
    ("TRUNCATE", _TABLE): _Rule(TRUNCATE),
    **{
        (verb, kind): _Rule(UPKEEP, _LIST)
        for verb in ("ANALYZE", "OPTIMIZE", "REPAIR", "CHECK", "FLUSH")
        for kind in (_TABLE, _VIEW)
    },
}  # fmt: skip
"""What is done to the tables, views and sequences that a definition names, and how it names them."""

_CLAUSES: Final = {
    ("DROP", "PARTITION"): PARTITION,
    ("TRUNCATE", "PARTITION"): TRUNCATE,
    ("EXCHANGE", "PARTITION"): PARTITION,
    ("CONVERT", "PARTITION"): PARTITION,
    ("CONVERT", "TABLE"): DDL,
}
"""Clauses of ALTER TABLE that take rows out of the table, or in, by their first two words."""

_OTHER_TABLE: Final = {
    ("EXCHANGE", "PARTITION"): PARTITION,
    ("CONVERT", "PARTITION"): DDL,
    ("CONVERT", "TABLE"): PARTITION,
}
"""What those do to the table that they name."""

_NO_NEW_NAME: Final = frozenset({"COLUMN", "INDEX", "KEY"})
_DEFINITIONS: Final = frozenset({verb for verb, _ in _RULES})
_ELSEWHERE: Final = frozenset({"GRANT", "REVOKE", "INSTALL", "UNINSTALL", "IMPORT"})
"""Definitions that name no table, or in another file."""

_ROWS: Final[dict[str, Kinds]] = {
    "INSERT": ("insert",),
    "REPLACE": ("insert",),
    "LOAD": ("insert",),
    "UPDATE": ("update",),
    "DELETE": ("delete",),
}
_MODIFIERS: Final = frozenset({"LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE"})
_JOINS: Final = frozenset({"JOIN", "STRAIGHT_JOIN"})
_JOINS_TABLES: Final = _JOINS | {","}
_BEFORE_TABLE: Final = frozenset({"{", "OJ", "LATERAL", "ONLY"})
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES"})
_BEHIND_TABLES: Final = frozenset({"SET", "WHERE", "ORDER", "LIMIT", "RETURNING"})
_NO_ALIAS: Final = _JOINS | _BEHIND_TABLES | frozenset(
    {"INNER", "LEFT", "RIGHT", "CROSS", "NATURAL", "ON", "USING", "USE", "FORCE", "IGNORE", "PARTITION",
     "FOR", "FROM"}
)  # fmt: skip

_ENDS_OF_COMMENT: Final = ("open", "close")
_END: Final = Token("symbol", "", 0)


class CutOff(Exception):
    """The text ends before it is told what the statement does."""


class _Tokens:
    """The tokens of a statement, taken apart as far as they are looked at. Behind the last are empty ones."""

    def __init__(self, source: Iterator[Token], text: str) -> None:
        self.seen: list[Token] = []
        self.text = text
        self._source = source

    def __getitem__(self, at: int) -> Token:
        seen = self.seen
        while at >= len(seen):
            token = next(self._source, None)
            if token is None:
                return _END
            seen.append(token)
        return seen[at]

    def __iter__(self) -> Iterator[Token]:
        at = 0
        while (token := self[at]) is not _END:
            yield token
            at += 1

    def all(self) -> list[Token]:
        self.seen.extend(self._source)
        return self.seen


@dataclass(slots=True)
class Statement:
    """`verb` is its first word, `kind` the word for what it defines: TABLE, VIEW, SEQUENCE, SCHEMA, INDEX.

    `tables` as in model.log_entry.Touched: also views and sequences where it is of one (`of_tables` is False
    then), and temporary tables where it says TEMPORARY. `rows`: it changes rows, by text. `renames` are pairs
    of a table's name and its next one, in their order. `replaces`: it makes anew what it drops.
    """

    verb: str = ""
    kind: str = ""
    temporary: bool = False
    rows: bool = False
    replaces: bool = False
    of_tables: bool = True
    tables: dict[str, Kinds] = field(default_factory=dict)
    renames: list[tuple[str, str]] = field(default_factory=list)
    source: _Tokens | None = None

    @property
    def tokens(self) -> Sequence[Token]:
        """All of it. Raise CutOff where the text is but the beginning."""
        return self.source.all() if self.source else ()

    @property
    def words(self) -> list[str]:
        """Its words and symbols, "" for what is in quotes."""
        return [token.word for token in self.tokens]

    def says(self, word: str) -> bool:
        """Whether a word in capitals is one of its words. Most texts have it nowhere: that is seen faster."""
        return bool(self.source and word in self.source.text.upper()) and word in self.words

    def add(self, name: str, kinds: Kinds) -> None:
        """Note what is done to a table, in addition to what is known of it."""
        self.tables[name] = tuple(dict.fromkeys((*self.tables.get(name, ()), *kinds)))


def read_statement(
    text: str,
    schema: str,
    *,
    ansi_quotes: bool = False,
    backslash_escapes: bool = True,
    mysql: bool = False,
    cut: bool = False,
) -> Statement:
    """What a statement does; `schema` is the one it was in.

    By sql_mode: with `ansi_quotes` "..." is a name, and with `backslash_escapes` a backslash in a string is
    more than itself. `mysql`: its server was no MariaDB. `cut`: the text is but the beginning; raise CutOff
    where that is not enough.
    """
    source = tokens(
        text,
        ansi_quotes=ansi_quotes,
        backslash_escapes=backslash_escapes,
        dollar_quotes=mysql,
        m_comments=not mysql,
    )
    executed = (token for token in source if token.kind not in _ENDS_OF_COMMENT)
    return _Reader(_Tokens(_uncut(executed, len(text)) if cut else executed, text), text, schema).read()


def _uncut(source: Iterable[Token], end: int) -> Iterator[Token]:
    """Raise CutOff at `end`, where a token may go on."""
    for token in source:
        if token.end == end:
            raise CutOff
        yield token
    raise CutOff


class _Reader:
    def __init__(self, source: _Tokens, text: str, schema: str) -> None:
        self._tokens, self._text, self._schema = source, text, schema
        self._found = Statement(source=source)
        self._common: frozenset[str] = frozenset()
        """The names of common table expressions."""

    def read(self) -> Statement:
        found, at = self._found, 0
        while self._word(at) == "(":
            at += 1
        if self._word(at) == "SET" and self._word(at + 1) == "STATEMENT":
            at = self._behind("FOR", at)
        if self._word(at) == "WITH":
            at = self._behind_expressions(at + 1)
        found.verb = verb = self._word(at)
        if verb in _ROWS:
            found.rows = True
            self._rows(verb, at + 1)
        elif verb in _DEFINITIONS:
            self._tokens.all()
            self._definition(verb, at + 1)
        elif verb in _ELSEWHERE:
            found.add("", DDL)
        return found

    def _word(self, at: int) -> str:
        return self._tokens[at].word

    def _behind(self, word: str, at: int) -> int:
        """The index behind the next such word; that of no token where there is none."""
        while (token := self._tokens[at]) is not _END:
            at += 1
            if token.word == word:
                return at
        return at

    def _name(self, at: int) -> tuple[str, int]:
        """A table's name with its schema, "" if there is none at `at`; and the index behind it."""
        schema, name, behind = self._parts(at)
        return (joined(schema or self._schema, name) if name else ""), behind

    def _parts(self, at: int) -> tuple[str, str, int]:
        """Schema, "" if it is not named, and name, "" if there is none; and the index behind."""
        first = self._tokens[at]
        if first.text == ".":
            return "", self._tokens[at + 1].name, at + 2
        if first.name and self._tokens[at + 1].text == "." and (name := self._tokens[at + 2].name):
            return first.name, name, at + 3
        return "", first.name, at + 1 if first.name else at

    def _definition(self, verb: str, at: int) -> None:
        """What a statement changes of definitions."""
        found = self._found
        said, at = self._before_object(at) if verb != "TRUNCATE" else (set(), at)
        found.kind = _OBJECTS.get(self._word(at), "")
        if verb == "TRUNCATE":
            # The word may be left out, and TABLES is a name there.
            found.kind, at = _TABLE, at - (self._word(at) != "TABLE")
        at += 1
        found.temporary = "TEMPORARY" in said
        rule = _RULES.get((verb, found.kind))
        if rule is None:
            if verb != "FLUSH":
                found.add("", DDL)
            return
        kinds = rule.kinds
        if verb == "CREATE" and "REPLACE" in said and found.kind in (_TABLE, _SCHEMA, _SEQUENCE):
            # Of MariaDB. A sequence takes a table's place as well.
            kinds, found.replaces = DROP, found.kind != _SEQUENCE
        found.of_tables = found.kind not in (_VIEW, _SEQUENCE) or (verb == "CREATE" and kinds == DROP)
        at = self._behind_options(at)
        if (verb, found.kind) == ("CREATE", _TABLE) and self._makes_sequence(at):
            found.kind, found.replaces, found.of_tables = _SEQUENCE, False, kinds == DROP
        if found.kind == _SCHEMA:
            found.add(joined(self._tokens[at].name or self._schema, EVERY_TABLE), kinds)
        elif found.kind == _ON_TABLE:
            found.add(self._name(self._behind("ON", at))[0], kinds)
        else:
            self._named(verb, rule.names, kinds, at)

    def _before_object(self, at: int) -> tuple[set[str], int]:
        """The words in front of that for what is defined, and its index."""
        said: set[str] = set()
        while (token := self._tokens[at]) is not _END:
            if token.word in _OBJECTS and self._tokens[at - 1].text not in _IS_TOLD:
                break
            said.add(token.word)
            at += 1
        return said, at

    def _behind_options(self, at: int) -> int:
        """Behind IF EXISTS and IF NOT EXISTS: all else that can stand there is a name.

        MariaDB 11.8.9 logs DROP with IF EXISTS twice where it was in an executable comment.
        """
        while self._word(at) == "IF":
            if self._word(at + 1) == "EXISTS":
                at += 2
            elif self._word(at + 1) == "NOT" and self._word(at + 2) == "EXISTS":
                at += 3
            else:
                break
        return at

    def _behind_wait(self, at: int) -> int:
        """Behind WAIT n and NOWAIT."""
        word = self._word(at)
        return at + 2 if word == "WAIT" else at + 1 if word == "NOWAIT" else at

    def _makes_sequence(self, at: int) -> bool:
        """Whether SEQUENCE = 1 is among a table's options, as of one that is made LIKE a sequence."""
        if "SEQUENCE" not in self._text.upper():
            return False
        depth = 0
        while (token := self._tokens[at]) is not _END:
            depth += (token.text == "(") - (token.text == ")")
            at += 1
            if depth == 0 and token.word == "SEQUENCE" and self._tokens[at].text == "=":
                return self._tokens[at + 1].text == "1"
        return False

    def _named(self, verb: str, names: str, kinds: Kinds, at: int) -> None:
        """Read the names behind the word for what is defined: one, a list, or pairs with TO between them."""
        found = self._found
        name, at = self._name(at)
        while name:
            found.add(name, kinds)
            if names == _PAIRS:
                at = self._behind_wait(at)
                new, at = self._name(at + 1) if self._word(at) == "TO" else ("", at)
                if not new:
                    return
                found.add(new, kinds)
                found.renames.append((name, new))
            if names == _ONE or self._word(at) != ",":
                break
            name, at = self._name(at + 1)
        if name and verb == "ALTER" and found.kind == _TABLE:
            self._alteration(name, self._behind_wait(at))

    def _alteration(self, table: str, at: int) -> None:
        """What else ALTER TABLE does: a new name, and partitions that lose their rows."""
        found = self._found
        for begin in self._clauses(at):
            first, second = self._word(begin), self._word(begin + 1)
            if first == "RENAME" and second not in _NO_NEW_NAME:
                new = self._name(begin + 1 + (second in ("TO", "AS", "=")))[0]
                found.add(new, DDL)
                found.renames.append((table, new))
            elif kinds := _CLAUSES.get((first, second)):
                found.add(table, kinds)
                if (first, second) in _OTHER_TABLE:
                    # ... PARTITION p WITH TABLE name, ... PARTITION p TO TABLE name, CONVERT TABLE name
                    other = self._name(begin + (2 if second == "TABLE" else 5))[0]
                    found.add(other, _OTHER_TABLE[first, second])
                    if second == "TABLE":
                        found.renames.append((other, table))

    def _clauses(self, at: int) -> Iterator[int]:
        """Where each clause begins: behind the commas that are in no parentheses."""
        yield at
        depth = 0
        while (token := self._tokens[at]) is not _END:
            at += 1
            depth += (token.text == "(") - (token.text == ")")
            if token.text == "," and depth == 0:
                yield at

    def _rows(self, verb: str, at: int) -> None:
        """The tables that a statement names as those whose rows it changes."""
        found, kinds = self._found, _ROWS[verb]
        if verb == "LOAD":
            while self._tokens[at] is not _END and self._word(at + 1) != "TABLE":
                at += 1
            found.add(self._name(at + 2)[0], kinds)
            return
        while self._word(at) in _MODIFIERS:
            at += 1
        if verb == "DELETE":
            names: Iterable[str] = self._deleted(at)
        elif verb == "UPDATE":
            names = [name for _, name in self._references(at)]
        else:
            names = [self._name(at + (self._word(at) == "INTO"))[0]]
        for name in filter(None, names):
            found.add(name, kinds)

    def _deleted(self, at: int) -> list[str]:
        """DELETE FROM table ..., DELETE tables FROM references, DELETE FROM tables USING references."""
        from_first = self._word(at) == "FROM"
        targets, at = self._targets(at + from_first)
        if self._word(at) != ("USING" if from_first else "FROM"):
            return [self._full(*each) for each in targets[:1]] if from_first else []
        known: dict[str, str] = {}
        for alias, name in self._references(at + 1):
            known.setdefault(alias, name)
        if not from_first and self._word(at - 1) == "HISTORY" and targets[-1][1] not in known:
            # Of MariaDB: DELETE HISTORY FROM table.
            return list(known.values())[:1]
        return [
            known.get(table, self._full(schema, table)) if not schema else self._full(schema, table)
            for schema, table in targets
        ]

    def _full(self, schema: str, table: str) -> str:
        return joined(schema or self._schema, table)

    def _targets(self, at: int) -> tuple[list[tuple[str, str]], int]:
        """Names with commas between them, perhaps with `.*` behind each."""
        found: list[tuple[str, str]] = []
        while True:
            schema, name, at = self._parts(at)
            if name:
                found.append((schema, name))
            if self._tokens[at].text == "." and self._tokens[at + 1].text == "*":
                at += 2
            if not name or self._tokens[at].text != ",":
                return found, at
            at += 1

    def _references(self, at: int) -> Iterator[tuple[str, str]]:
        """The tables of a join, each with the name that it has in the statement."""
        # Parentheses that are open, and how many of them since one that holds an expression or a query.
        depth = others = 0
        expected = True
        while (token := self._tokens[at]) is not _END:
            text, word = token.text, token.word
            behind = at + 1 + (text == ".")
            if text == "(":
                depth += 1
                others += others > 0 or not expected
            elif text == ")":
                expected = False
                depth, others = max(depth - 1, 0), max(others - 1, 0)
            elif others:
                pass
            elif expected and word in _QUERIES:
                expected, others = False, 1 if depth else 0
            elif expected and word not in _BEFORE_TABLE:
                expected = False
                schema, name, behind = self._parts(at)
                if name and self._tokens[behind].text != "(":
                    alias, behind = self._alias(name, behind)
                    if schema or name not in self._common:
                        yield alias, self._full(schema, name)
            elif word in _JOINS_TABLES:
                expected = True
            elif not depth and word in _BEHIND_TABLES:
                return
            at = max(behind, at + 1)

    def _alias(self, name: str, at: int) -> tuple[str, int]:
        """The name that a table has in a statement, and the index behind that."""
        if self._word(at) == "PARTITION":
            while self._tokens[at] is not _END and self._tokens[at].text != ")":
                at += 1
            at += 1
        if self._word(at) == "AS":
            return self._tokens[at + 1].name or name, at + 2
        token = self._tokens[at]
        if token.name and token.word not in _NO_ALIAS:
            return token.name, at + 1
        return name, at

    def _behind_expressions(self, at: int) -> int:
        """Behind the common table expressions of WITH, whose names are kept."""
        names, depth = set(), 0
        named = True
        while (token := self._tokens[at]) is not _END:
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                if token.word in _ROWS or token.word == "SELECT":
                    break
                if named and token.name and token.word != "RECURSIVE":
                    names.add(token.name)
                    named = False
                named = named or token.text == ","
            at += 1
        self._common = frozenset(names)
        return at
