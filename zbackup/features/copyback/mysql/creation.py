"""Triggers and views as they were made: the settings of the session that made them belong to them.

A trigger runs with the SQL mode and the character sets that it was made with, a view with its character sets
(both manuals, "SHOW CREATE TRIGGER" and "SHOW CREATE VIEW").
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from zbackup.engines.mysql.production.statements import SETTINGS
from zbackup.engines.mysql.production.tables import quoted_name
from zbackup.engines.mysql.server.connection import RowConnection
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.features.copyback.mysql.stored_text import StoredText
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

# Where the answer has the text, its character set, the collation, and the SQL mode.
_COLUMNS: dict[str, tuple[int, ...]] = {"TRIGGER": (2, 3, 4, 1), "VIEW": (1, 2, 3)}
_WORDS = re.compile(rb"[A-Za-z0-9_,]*")
_AMBIGUOUS = ("big5", "cp932", "gb18030", "gbk", "sjis")
"""Character sets in which the second byte of a letter may be a quote or a backslash."""
_USUAL = "SET SESSION character_set_client = utf8mb4, character_set_connection = utf8mb4"


@dataclass(frozen=True, slots=True)
class Creation:
    """`creation` is in the character set that `settings`, a statement for the session, name."""

    creation: bytes
    settings: str = ""

    @property
    def shown(self) -> str:
        """The statement for people."""
        return self.creation.decode(errors="backslashreplace")


def read_creation(
    sides: Sides, name: TableName, what: Literal["TRIGGER", "VIEW"], changed: Callable[[str, str], StoredText]
) -> Creation:
    """The statement that made it, as `changed` gives it another name: it is called with the text and its
    sql_mode. Raise Refused for none, and for one that may not run as it would."""
    clone = sides.clone_rows
    ask = f"SHOW CREATE {what} {quoted_name(name)}".encode()
    places = _COLUMNS[what]
    charset, collation, *mode = [_word(clone.read(ask)[0][place]) for place in places[1:]]
    if charset in _AMBIGUOUS:
        raise Refused(
            f"the definition of {what.lower()} {name.table} is in {charset}, which cannot be parsed"
        )
    # In its own character set it is what was said: in another, letters might be missing.
    clone.execute(f"SET SESSION character_set_results = {charset}")
    try:
        text = clone.read(ask)[0][places[0]] or b""
    finally:
        clone.execute("SET SESSION character_set_results = NULL")
    codec = "utf-8" if charset.startswith("utf8") else "latin1"
    settings = f"SET SESSION character_set_client = {charset}, collation_connection = {collation}"
    settings += "".join(f", sql_mode = '{words}'" for words in mode)
    stored = changed(text.decode(codec, "surrogateescape"), "".join(mode))
    require_definer(sides, f"{what.lower()} {name.table}", stored)
    try:
        return Creation(stored.creation.encode(codec, "surrogateescape"), settings)
    except UnicodeEncodeError:
        raise Refused(
            f"the definition of {what.lower()} {name.table} is in {charset}, and that character set cannot "
            f"write a name that it needs here"
        ) from None


def require_definer(sides: Sides, subject: str, stored: StoredText) -> None:
    """Raise Refused for what would run as an account of zbackup's, or as one that a stranger has chosen."""
    if stored.user is None:
        return
    account = f"{stored.user}@{stored.host}"
    if stored.user in sides.ours:
        raise Refused(
            f"its {subject} would run in production as {account}, an account of zbackup's: create it by "
            "hand with another DEFINER"
        )
    if sides.given:
        raise Refused(
            f"its {subject} would run in production as {account}, and people have a login in this clone: "
            "copy from a clone without a login (zbackup restore), or create it by hand"
        )


def create(production: RowConnection, creation: Creation) -> None:
    """Make it in the session's default schema."""
    production.execute(creation.settings)
    try:
        production.write(creation.creation)
    finally:
        production.execute(_USUAL)
        production.execute(SETTINGS)


def _word(value: bytes | None) -> str:
    """The clone's server is not believed: what it says becomes part of a statement."""
    if value is None or not _WORDS.fullmatch(value):
        raise Refused(f"the clone's server gave {value!r} for a setting")
    return value.decode()
