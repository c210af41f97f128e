"""The texts of views and triggers under another name, and the accounts they run as. Pure.

What stands before the name is read token by token, and what stands behind it is kept as it is (both manuals,
"CREATE VIEW", "CREATE TRIGGER").
"""

from collections.abc import Sequence
from dataclasses import dataclass

from zbackup.engines.mysql.production.tables import quoted_name
from zbackup.engines.mysql.sql.lexer import Token, string_value, tokens
from zbackup.features.copyback.mysql.definition import checked
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

_TIMES = ("BEFORE", "AFTER")
_EVENTS = ("INSERT", "UPDATE", "DELETE")
_WHOEVER = ("CURRENT_USER", "CURRENT_ROLE")
"""Whoever makes it: for a copy, its own account. Servers print that account's name."""


@dataclass(frozen=True, slots=True)
class StoredText:
    """The statement that makes it, and the account that it runs as: `user` is None for the one that uses it,
    `host` "" for a role."""

    creation: str
    user: str | None
    host: str


def view_named(text: str, name: TableName, *, replace: bool) -> StoredText:
    """SHOW CREATE VIEW's text, for a view of another name. Raise Refused if it is not understood."""
    reader = _TokenReader(text, tuple(tokens(text, comments=True)))
    reader.take("CREATE")
    if reader.is_next("ALGORITHM"):
        reader.take("ALGORITHM", "=")
        reader.skip()
    user, host = reader.definer()
    reader.take("SQL", "SECURITY")
    security = reader.one_of("DEFINER", "INVOKER")
    reader.take("VIEW")
    begins = reader.at
    reader.name()
    made = reader.exchanged(begins, quoted_name(name))
    if reader.is_next("("):
        while not reader.is_next("AS"):
            reader.skip()
    reader.take("AS")
    if replace:
        made = made.replace("CREATE ", "CREATE OR REPLACE ", 1)
        checked(made, ["CREATE", "OR", "REPLACE", *reader.meant[1:]])
    return StoredText(made, user, host) if security == "DEFINER" else StoredText(made, None, "")


def trigger_on(
    text: str, table: TableName, *, ansi_quotes: bool = False, backslash_escapes: bool = True
) -> StoredText:
    """SHOW CREATE TRIGGER's text, for another table. Raise Refused if it is not understood.

    It is as it was written, in the sql_mode of the session that made it.
    """
    mode = {"ansi_quotes": ansi_quotes, "backslash_escapes": backslash_escapes}
    reader = _TokenReader(text, tuple(tokens(text, comments=True, **mode)), mode)
    reader.take("CREATE")
    user, host = reader.definer()
    reader.take("TRIGGER")
    if reader.is_next("IF"):
        reader.take("IF", "NOT", "EXISTS")
    reader.name()
    reader.one_of(*_TIMES)
    reader.one_of(*_EVENTS)
    reader.take("ON")
    begins = reader.at
    reader.name()
    made = reader.exchanged(begins, quoted_name(table))
    reader.take("FOR", "EACH", "ROW")
    return StoredText(made, user, host)


class _TokenReader:
    """Tokens read one after the other. Raises Refused where another comes than is meant."""

    def __init__(self, text: str, found: Sequence[Token], mode: dict[str, bool] | None = None) -> None:
        self.text, self.tokens, self.mode, self.at = text, found, mode or {}, 0
        self.meant: list[str] = []

    def is_next(self, word: str) -> bool:
        return self._next().word == word

    def take(self, *words: str) -> None:
        for word in words:
            self.one_of(word)

    def one_of(self, *words: str) -> str:
        token = self._next()
        if token.word not in words:
            raise self._refused(token)
        self.at += 1
        return token.word

    def skip(self) -> None:
        if self._next().kind not in ("word", "name", "symbol"):
            raise self._refused(self._next())
        self.at += 1

    def name(self) -> None:
        """Read a name, with its schema or without."""
        for again in (True, False):
            if self._next().kind not in ("word", "name"):
                raise self._refused(self._next())
            self.at += 1
            if not (again and self.is_next(".")):
                return
            self.at += 1

    def definer(self) -> tuple[str, str]:
        """Read an account's user and host. Without one it would be the account that copies."""
        self.take("DEFINER", "=")
        user = self._part_of_account()
        if not self.is_next("@"):
            return user, ""  # a role of MariaDB's
        self.at += 1
        return user, self._part_of_account()

    def exchanged(self, begins: int, name: str) -> str:
        """The text with another name in the place of that which begins at an index and ends here."""
        found = self.tokens
        said = [token.text for token in found]
        new = [token.text for token in tokens(name)]
        self.meant = [*said[:begins], *new, *said[self.at :]]
        made = self.text[: found[begins].at] + name + self.text[found[self.at - 1].end :]
        return checked(made, self.meant, **self.mode)

    def _part_of_account(self) -> str:
        token = self._next()
        if token.kind not in ("word", "name", "string") or token.word in _WHOEVER:
            raise self._refused(token)
        self.at += 1
        return string_value(token, **self._escapes()) if token.kind == "string" else token.name

    def _escapes(self) -> dict[str, bool]:
        return {key: value for key, value in self.mode.items() if key == "backslash_escapes"}

    def _next(self) -> Token:
        if self.at >= len(self.tokens):
            raise Refused(f"cannot parse SHOW CREATE output: {self.text[:80]}")
        return self.tokens[self.at]

    def _refused(self, token: Token) -> Refused:
        return Refused(f"cannot parse SHOW CREATE output: {self.text[:80]}, at {token.text[:40]!r}")
