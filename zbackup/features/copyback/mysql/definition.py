"""A table's definition as SHOW CREATE TABLE prints it, under another name. Pure.

It is the token stream that the server printed: a name is exchanged, and whole items between the outermost
parentheses are left out and added. What is made is read again, and must be the tokens that were meant.
Anything else than what servers print is refused (both manuals, "SHOW CREATE TABLE").
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zbackup.engines.mysql.production.tables import quoted_name
from zbackup.engines.mysql.sql.lexer import Token, tokens
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

_KINDS_OF_KEY: Final = frozenset({"UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR"})
_OF_ITEMS: Final = frozenset({"PRIMARY", "KEY", "CONSTRAINT", "CHECK", "PERIOD"}) | _KINDS_OF_KEY
_IN_NO_DEFINITION: Final = frozenset({"SELECT", "TABLE", ";", "@"})
"""Behind CREATE TABLE. MySQL's TABLE is a query, also in parentheses."""
_IN_NO_OPTIONS: Final = frozenset({"AS", "LIKE", "VALUES", "WITH", "UNION", "IGNORE", "REPLACE"})
_ELSEWHERE: Final = frozenset({"DIRECTORY", "TABLESPACE"})
ENGINES: Final = ("innodb", "myisam", "aria", "rocksdb")
_KEPT_BY: Final = frozenset(("=", engine.upper()) for engine in ENGINES)
_EVERYWHERE: Final = frozenset({"/*!50100", "/*!50500"})
"""What begins executable comments that no server skips. A server that skips one ends it at the first `*/`, in
quotes or not."""


@dataclass(frozen=True, slots=True)
class DefinitionPiece:
    """A part of a definition: `printed` as the server printed it, and its tokens."""

    printed: str
    tokens: tuple[Token, ...]

    @property
    def said(self) -> tuple[str, ...]:
        """The tokens' texts, by which two pieces are compared."""
        return tuple(token.text for token in self.tokens)

    @property
    def words(self) -> tuple[str, ...]:
        """Its words and symbols in capitals, "" for what is in quotes."""
        return tuple(token.word for token in self.tokens)

    @property
    def is_column(self) -> bool:
        """Whether it is a column's definition: all others begin with a word."""
        return self.tokens[0].kind == "name"

    def since(self, at: int) -> "DefinitionPiece":
        """The piece from a token on."""
        return DefinitionPiece(self.printed[self.tokens[at].at - self.tokens[0].at :], self.tokens[at:])

    def find(self, word: str) -> int:
        """The index of a word outside of parentheses, -1 if it is not there."""
        return next((at for at, depth in _depths(self.tokens) if not depth and self.words[at] == word), -1)


@dataclass(frozen=True, slots=True)
class Key:
    """An ordinary index, UNIQUE or not."""

    name: str
    piece: DefinitionPiece


@dataclass(frozen=True, slots=True)
class Constraint:
    """A foreign key: `rest` begins with FOREIGN KEY."""

    name: str
    rest: DefinitionPiece


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A table's definition without its name and without its foreign keys. `tail` are the options and the
    partitions."""

    items: tuple[DefinitionPiece, ...]
    foreign: tuple[Constraint, ...]
    tail: DefinitionPiece

    def create(self, name: TableName) -> str:
        """The statement that makes an empty table of that name."""
        body = ",\n  ".join(piece.printed for piece in self.items)
        meant = [*_said("CREATE TABLE"), *_said(quoted_name(name)), "("]
        for number, piece in enumerate(self.items):
            meant += [*([","] if number else []), *piece.said]
        meant += [")", *self.tail.said]
        return checked(f"CREATE TABLE {quoted_name(name)} (\n  {body}\n) {self.tail.printed}", meant)

    def without_check_names(self) -> "Definition":
        """MySQL's names of CHECK constraints are those of a schema: a second table gets others."""
        return replace(self, items=tuple(_without_check_name(piece) for piece in self.items))

    def without_keys(self) -> tuple["Definition", tuple[Key, ...]]:
        """The definition without its ordinary indexes, and these, by their names: built in one go, they take
        a fraction of what they take row by row.

        None is left out where one may be what AUTO_INCREMENT needs.
        """
        for piece in self.items:
            counted = piece.is_column and piece.find("AUTO_INCREMENT") > 0
            if counted and not self._begins_primary(piece.tokens[0].text):
                return self, ()
        keys = [(piece, key) for piece in self.items if (key := _key(piece))]
        out = {id(piece) for piece, _ in keys}
        rest = tuple(piece for piece in self.items if id(piece) not in out)
        return replace(self, items=rest), tuple(key for _, key in keys)

    def _begins_primary(self, name: str) -> bool:
        for piece in self.items:
            if piece.words[:2] == ("PRIMARY", "KEY") and "(" in piece.words:
                return piece.tokens[piece.words.index("(") + 1].text == name
        return False


def parse_definition(text: str) -> Definition:
    """Take SHOW CREATE TABLE's text apart. Raise Refused for a table that is kept elsewhere, or no table."""
    found = _read(text)
    at = _name_end(found, _begins(found, text, "CREATE", "TABLE"), text)
    if at >= len(found) or found[at].word != "(":
        raise _not_understood(text)
    pieces, end = _items(text, found, at + 1)
    tail = _piece(text, found[end:])
    _require_options(tail)
    items: list[DefinitionPiece] = []
    foreign: list[Constraint] = []
    for piece in pieces:
        _require_item(piece)
        if piece.words[0] == "CONSTRAINT" and piece.words[2:4] == ("FOREIGN", "KEY"):
            foreign.append(Constraint(piece.tokens[1].name, piece.since(2)))
        else:
            items.append(piece)
    return Definition(items=tuple(items), foreign=tuple(foreign), tail=tail)


def counter(text: str) -> int:
    """The number that AUTO_INCREMENT gives next, of SHOW CREATE TABLE's text; 1 where it has none."""
    found = list(tokens(text))
    options = [token.word for token, (_, depth) in zip(found, _depths(found), strict=True) if not depth]
    if "AUTO_INCREMENT" not in options:
        return 1
    number = "".join(options[options.index("AUTO_INCREMENT") + 1 :][1:2])
    return int(number) if number.isdecimal() else 1


def built_at_once(keys: Sequence[Key]) -> list[list[Key]]:
    """Groups of the indexes that `without_keys` took out: a server reads the rows once for each statement.

    One of an expression is built alone: MySQL makes a hidden column for it, and copies the table where that
    comes with anything else (manual, "Online DDL Operations").
    """
    plain = [key for key in keys if not _of_expression(key.piece)]
    return [group for group in (plain, *([key] for key in keys if key not in plain)) if group]


def add_keys(table: TableName, keys: Sequence[Key]) -> str:
    """The statement for a group of them."""
    meant = [*_said("ALTER TABLE"), *_said(quoted_name(table))]
    for number, key in enumerate(keys):
        meant += [*([","] if number else []), "ADD", *key.piece.said]
    added = ", ".join(f"ADD {key.piece.printed}" for key in keys)
    return checked(f"ALTER TABLE {quoted_name(table)} {added}", meant)


def add_foreign_key(table: TableName, name: str, rest: DefinitionPiece) -> str:
    """The statement for one that `parse_definition` took out."""
    head = f"ALTER TABLE {quoted_name(table)} ADD CONSTRAINT {identifier(name)}"
    return checked(f"{head} {rest.printed}", [*_said(head), *rest.said])


def referring_to(rest: DefinitionPiece, parent: TableName) -> DefinitionPiece:
    """A foreign key that refers to another table."""
    at = rest.find("REFERENCES") + 1
    end = _name_end(rest.tokens, at, rest.printed)
    if not at or rest.tokens[end].word != "(":
        raise _not_understood(rest.printed)
    begins = rest.tokens[0].at
    before, behind = rest.printed[: rest.tokens[at].at - begins], rest.printed[rest.tokens[end].at - begins :]
    meant = [*rest.said[:at], *_said(quoted_name(parent)), *rest.said[end:]]
    text = checked(f"{before}{quoted_name(parent)} {behind}", meant)
    return DefinitionPiece(text, _read(text))


def qualified_reference(rest: DefinitionPiece, schema: str) -> DefinitionPiece:
    """The same foreign key, with the schema of the table that it refers to: `schema`, if it says none."""
    at = rest.find("REFERENCES") + 1
    if not at or rest.words[at + 1] == ".":
        return rest
    return referring_to(rest, TableName(schema, rest.tokens[at].name))


def schema_named(text: str, schema: str) -> str:
    """SHOW CREATE DATABASE's text, for a schema of another name. Raise Refused if it is not understood."""
    found = _read(text)
    at = _begins(found, text, "CREATE", "DATABASE")
    if found[at].kind != "name" or any(token.kind == "name" for token in found[at + 1 :]):
        raise _not_understood(text)
    made = f"{text[: found[at].at]}{identifier(schema)}{text[found[at].end :]}"
    return checked(made, [*_said("CREATE DATABASE"), identifier(schema), *(t.text for t in found[at + 1 :])])


def checked(text: str, meant: Sequence[str], **mode: bool) -> str:
    """A statement that was put together. Raise Refused unless it is the tokens that were meant, in this
    sql_mode (see `tokens`)."""
    if [token.text for token in tokens(text, comments=True, **mode)] != list(meant):
        raise Refused(f"zbackup cannot reproduce its definition: {text[:80]!r}")
    return text


def _read(text: str) -> tuple[Token, ...]:
    """The tokens of what a server printed. Raise Refused for any that no definition of a table has."""
    found = tuple(tokens(text, comments=True))
    begun = ""
    for at, token in enumerate(found):
        if token.kind in ("comment", "unclosed") or (at > 1 and token.word in _IN_NO_DEFINITION):
            raise _not_understood(text, token)
        if token.kind in ("open", "close"):
            begun = token.text if token.kind == "open" else ""
        elif begun and begun not in _EVERYWHERE and ("*/" in token.text or "/*" in token.text):
            raise _not_understood(text, token)
    if begun:
        raise _not_understood(text)
    return found


def _not_understood(text: str, token: Token | None = None) -> Refused:
    where = f", at {token.text[:40]!r}" if token else ""
    return Refused(f"cannot parse SHOW CREATE output: {text[:80]}{where}")


def _begins(found: Sequence[Token], text: str, *words: str) -> int:
    if tuple(token.word for token in found[: len(words)]) != words or len(found) == len(words):
        raise _not_understood(text)
    return len(words)


def _name_end(found: Sequence[Token], at: int, text: str) -> int:
    """The index behind a table's name, with its schema or without."""
    kinds = [token.text if token.text == "." else token.kind for token in found[at : at + 3]]
    if kinds == ["name", ".", "name"]:
        return at + 3
    if kinds[:1] != ["name"]:
        raise _not_understood(text)
    return at + 1


def _depths(found: Iterable[Token]) -> Iterator[tuple[int, int]]:
    """The index of each token and how many parentheses it is in; those themselves are outside of theirs."""
    depth = 0
    for at, token in enumerate(found):
        depth -= token.word == ")"
        yield at, depth
        depth += token.word == "("


def _items(text: str, found: Sequence[Token], at: int) -> tuple[list[DefinitionPiece], int]:
    """The parts with commas between them up to the parenthesis that closes, and the index behind that."""
    pieces: list[DefinitionPiece] = []
    begun = at
    for index, depth in _depths(found[at:]):
        word = found[at + index].word
        if (word == "," and depth == 0) or depth < 0:
            pieces.append(_piece(text, found[begun : at + index]))
            begun = at + index + 1
        if depth < 0:
            return pieces, begun
    raise _not_understood(text)


def _piece(text: str, found: Sequence[Token]) -> DefinitionPiece:
    """One whole part, in which whatever is opened is closed."""
    depths = [depth for _, depth in _depths(found)]
    level = sum((token.word == "(") - (token.word == ")") for token in found)
    inside = False
    for token in found:
        if token.kind in ("open", "close"):
            if inside == (token.kind == "open"):
                raise _not_understood(text, token)
            inside = not inside
    if not found or level or min(depths) < 0 or inside:
        raise _not_understood(text)
    return DefinitionPiece(text[found[0].at : found[-1].end], tuple(found))


def _require_item(piece: DefinitionPiece) -> None:
    """Raise Refused for what is neither a column nor a key or constraint that servers print."""
    first, words = piece.tokens[0], piece.words
    known = first.kind == "name" or words[0] in _OF_ITEMS
    if words[0] == "CONSTRAINT":
        known = piece.tokens[1].kind == "name" and words[2:3] in (("FOREIGN",), ("CHECK",))
    if not known:
        raise _not_understood(piece.printed)


def _require_options(tail: DefinitionPiece) -> None:
    """Raise Refused for options that make more than an empty table, or keep it elsewhere."""
    outside = [tail.words[at] for at, depth in _depths(tail.tokens) if not depth]
    if _ELSEWHERE.intersection(tail.words):
        raise Refused(
            "it is kept in a directory or tablespace of its own (DATA DIRECTORY, TABLESPACE), which a copy "
            "would share with it"
        )
    if "ENGINE" not in outside or _IN_NO_OPTIONS.intersection(outside):
        raise _not_understood(tail.printed)
    # The list of tables, asked before, is no proof: others may have altered this one since.
    for at, word in enumerate(tail.words):
        if word == "ENGINE" and tail.words[at + 1 : at + 3] not in _KEPT_BY:
            engine = " ".join(tail.said[at + 1 : at + 3]).removeprefix("= ")
            raise Refused(f"zbackup copies no tables of the engine {engine}")


def _key(piece: DefinitionPiece) -> Key | None:
    at = 1 if piece.words[0] == "UNIQUE" else 0
    if piece.words[at : at + 1] != ("KEY",) or piece.tokens[at + 1].kind != "name":
        return None
    return Key(piece.tokens[at + 1].name, piece)


def _of_expression(piece: DefinitionPiece) -> bool:
    """Whether a part of the index begins with a parenthesis of its own."""
    return any(
        depth == 1 and piece.words[at] == "(" and piece.words[at - 1] in ("(", ",")
        for at, depth in _depths(piece.tokens)
    )


def _without_check_name(piece: DefinitionPiece) -> DefinitionPiece:
    return piece.since(2) if piece.words[0] == "CONSTRAINT" and piece.words[2] == "CHECK" else piece


def _said(text: str) -> list[str]:
    return [token.text for token in tokens(text)]
