"""Tell what a server writes beside a statement: who ran it, in which SQL mode and which character set.

Sources: MySQL source documentation of Query_event ("Status variables"); MariaDB source, log_event.h. The
variables stand in any order, each with a length of its own, and newer servers add some: reading ends at the
first that is not known.
"""

from codecs import getincrementaldecoder
from dataclasses import dataclass
from struct import Struct
from typing import Final

from zbackup.engines.mysql.sql.grammar import Statement, read_statement

_LENGTHS: Final = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1,
                   128: 3, 129: 8}  # fmt: skip
_CLIENT: Final = 4
_UTF_8: Final = getincrementaldecoder("utf-8")
_SQL_MODE, _CATALOG, _TIME_ZONE, _CATALOG_PLAIN, _INVOKER, _UPDATED = 1, 2, 5, 6, 11, 12
_ANSI_QUOTES: Final = 4
_NO_BACKSLASH_ESCAPES: Final = 1 << 20
_NO_ENGINE_SUBSTITUTION: Final = 1 << 30
_MANY_SCHEMAS: Final = 254
_MODE: Final = Struct("<Q")
_COLLATION: Final = Struct("<H")

_CODECS: Final[dict[str, tuple[int, ...]]] = {
    "cp1252": (5, 8, 15, 31, 47, 48, 49, 94),  # latin1 is that in these servers
    "iso8859_2": (2, 9, 21, 27, 77),
    "iso8859_7": (25, 70),
    "iso8859_8": (16, 71),
    "iso8859_9": (30, 78),
    "iso8859_13": (20, 41, 42, 79),
    "cp1250": (26, 34, 44, 66, 99),
    "cp1251": (14, 23, 50, 51, 52),
    "cp1256": (57, 67),
    "cp1257": (29, 58, 59),
    "cp850": (4, 80),
    "cp852": (40, 81),
    "cp866": (36, 68),
    "koi8_r": (7, 74),
    "koi8_u": (22, 75),
    "mac_roman": (39, 53),
    "mac_latin2": (38, 43),
    "tis_620": (18, 89),
    "big5": (1, 84),
    "gb2312": (24, 86),
    "gbk": (28, 87),
    "gb18030": (248, 249, 250),
    "euc_kr": (19, 85),
    "euc_jp": (12, 91, 97, 98),
    "shift_jis": (13, 88),
    "cp932": (95, 96),
}
"""Python's names of the servers' character sets, each with the numbers of its collations
(information_schema.COLLATIONS). Those of UTF-8 are not among them."""

_CODEC_OF: Final = {number: codec for codec, numbers in _CODECS.items() for number in numbers}
_NO_PAD: Final = 1024
"""MariaDB adds it to the number of a collation for the one that heeds blanks at the end."""


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """`user` is user@host, "" where it was not logged; `codec` is of the session's character set, "" for
    UTF-8 and where it is not known. `substitutes`: an engine that is not there is replaced by the default.
    `client_at` is where the number of that character set's collation stands; -1 where it does not."""

    user: str = ""
    ansi_quotes: bool = False
    backslash_escapes: bool = True
    codec: str = ""
    substitutes: bool = True
    client_at: int = -1

    def decode(self, said: bytes, *, cut: bool = False) -> str:
        """The text of a statement. A server may write one of its own in UTF-8, whatever the session's is.

        `cut`: it is but the beginning, which may end within a letter.
        """
        try:
            return _UTF_8().decode(said, final=not cut)
        except UnicodeDecodeError:
            return getincrementaldecoder(self.codec or "utf-8")("replace").decode(said, final=not cut)

    def read(self, text: str, schema: str, *, mysql: bool, cut: bool = False) -> Statement:
        return read_statement(
            text,
            schema,
            ansi_quotes=self.ansi_quotes,
            backslash_escapes=self.backslash_escapes,
            mysql=mysql,
            cut=cut,
        )


def read_status(variables: bytes) -> QueryStatus:
    """Read a query event's status variables. Raise IndexError or struct.error if they end too early."""
    user, mode, client, client_at, at = "", 0, 0, -1, 0
    while at < len(variables):
        code, at = variables[at], at + 1
        if code in _LENGTHS:
            if code == _SQL_MODE:
                (mode,) = _MODE.unpack_from(variables, at)
            elif code == _CLIENT:
                (client,), client_at = _COLLATION.unpack_from(variables, at), at
            at += _LENGTHS[code]
        elif code in (_TIME_ZONE, _CATALOG_PLAIN):
            at += 1 + variables[at]
        elif code == _CATALOG:
            at += 2 + variables[at]
        elif code == _INVOKER:
            user, at = _account(variables, at)
        elif code == _UPDATED:
            at = _behind_schemas(variables, at)
        else:
            break
    return QueryStatus(
        user=user,
        ansi_quotes=bool(mode & _ANSI_QUOTES),
        backslash_escapes=not mode & _NO_BACKSLASH_ESCAPES,
        codec=_CODEC_OF.get(client % _NO_PAD, ""),
        substitutes=not mode & _NO_ENGINE_SUBSTITUTION,
        client_at=client_at,
    )


def _account(variables: bytes, at: int) -> tuple[str, int]:
    parts = []
    for _ in range(2):
        length = variables[at]
        parts.append(variables[at + 1 : at + 1 + length].decode("utf-8", "replace"))
        at += 1 + length
    return "@".join(parts), at


def _behind_schemas(variables: bytes, at: int) -> int:
    count, at = variables[at], at + 1
    if count == _MANY_SCHEMAS:
        return at
    for _ in range(count):
        at = variables.index(0, at) + 1
    return at
