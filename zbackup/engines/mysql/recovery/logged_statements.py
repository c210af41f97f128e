"""What a replay has to know of the statements in its log before it begins."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zbackup.engines.mysql.binlog.contents import Contents
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.lexer import tokens

_ARCHIVE: Final = "ARCHIVE"
_UNSAFE: Final = frozenset({"big5", "cp932", "gb18030", "gbk", "shift_jis"})
"""Character sets of which a letter's second byte can be a backslash. A server writes the strings that a
prepared statement was given in these as hexadecimal, and does not say of which set they were
(append_query_string in sql_string.cc): they then are no letters, but bytes."""


@dataclass(slots=True)
class LoggedStatements:
    """`in_order`: transactions have to follow each other. `hexed`: the first statement with a string that may
    have been letters, "" where there is none."""

    in_order: bool = False
    hexed: str = ""

    def take(self, contents: Contents) -> None:
        """Note what one transaction's statements tell."""
        for text, told in contents.said:
            if not self.in_order and _ARCHIVE in text.upper():
                words = {(token.name or token.text.strip("'\"")).upper() for token in tokens(text)}
                self.in_order = {"ENGINE", _ARCHIVE} <= words
            if not self.hexed and told and told.codec in _UNSAFE and contents.by_text and _has_hex(text):
                self.hexed = told.codec

    def doubt(self) -> str:
        """Why rows may differ from what they were; "" if not."""
        if not self.hexed:
            return ""
        return (
            f"a session in the character set {self.hexed} logged a string as X'...': where a prepared "
            "statement was given it for a column of another character set, its letters are lost in the log"
        )


def _has_hex(text: str) -> bool:
    before = ""
    for token in tokens(text):
        if token.kind == "string" and before == "X":
            return True
        before = token.word
    return False


def has_archive(connection: Connection, recorded: Mapping[str, str]) -> bool:
    """Whether a MySQL has tables of the engine ARCHIVE, or makes them where nothing else is said.

    Its appliers work side by side at what was committed together, or has no key in common. Such a table lets
    writers in at the same time and locks no rows, and takes no AUTO_INCREMENT value below its highest
    (ha_archive.cc, store_lock and write_row): each has to come when it came. `recorded` is Record.server.
    """
    there = "SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE ENGINE = 'ARCHIVE'"
    given = recorded.get("default_storage_engine", "")
    return given.upper() == _ARCHIVE or bool(connection.one(there)["n"])
