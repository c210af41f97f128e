"""Tell what a server writes beside a statement: who ran it, and in which SQL mode.

Sources: MySQL source documentation of Query_event ("Status variables"); MariaDB source, log_event.h. The
variables stand in any order, each with a length of its own, and newer servers add some: reading ends at the
first that is not known.
"""

from dataclasses import dataclass
from struct import Struct
from typing import Final

_LENGTHS: Final = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1,
                   128: 3, 129: 8}  # fmt: skip
_SQL_MODE, _CATALOG, _TIME_ZONE, _CATALOG_PLAIN, _INVOKER, _UPDATED = 1, 2, 5, 6, 11, 12
_ANSI_QUOTES: Final = 4
_MANY_SCHEMAS: Final = 254
_MODE: Final = Struct("<Q")


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """`user` is user@host, "" where it was not logged."""

    user: str = ""
    ansi_quotes: bool = False


def read_status(variables: bytes) -> QueryStatus:
    """Read a query event's status variables. Raise IndexError or struct.error if they end too early."""
    user, mode, at = "", 0, 0
    while at < len(variables):
        code, at = variables[at], at + 1
        if code in _LENGTHS:
            if code == _SQL_MODE:
                (mode,) = _MODE.unpack_from(variables, at)
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
    return QueryStatus(user=user, ansi_quotes=bool(mode & _ANSI_QUOTES))


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
