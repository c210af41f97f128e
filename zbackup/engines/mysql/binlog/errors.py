"""Errors that a binlog's files may lead to."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed


class BinlogDamaged(VerificationFailed):
    """A binlog file is corrupt before its end; what follows the damage must not be replayed."""


class BinlogEncrypted(Refused):
    """A binlog file is encrypted, so its transactions cannot be told apart without the server's keys."""


class BinlogTooOld(Refused):
    """A binlog file was written by a server whose log zbackup does not know."""


class GapError(NotRecoverable):
    """The log does not reach without a break from where replay must start to where it should end."""


class DifferentLog(NotRecoverable):
    """Two files of the same name are not the same log: it was reset, or belongs to another server."""


@contextmanager
def damage_typed(name: str) -> Iterator[None]:
    """Raise BinlogDamaged for whatever reading bytes that make no sense raises."""
    try:
        yield
    except (LookupError, ValueError, ArithmeticError, struct.error) as wrong:
        raise BinlogDamaged(f"{name} is damaged: it cannot be read ({wrong!r:.200})") from wrong
