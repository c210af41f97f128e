"""Errors that a binlog's files may lead to."""

from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed


class BinlogDamaged(VerificationFailed):
    """A binlog file is corrupt before its end; what follows the damage must not be replayed."""


class BinlogEncrypted(Refused):
    """A binlog file is encrypted, so its transactions cannot be told apart without the server's keys."""


class GapError(NotRecoverable):
    """The log does not reach without a break from where replay must start to where it should end."""


class DifferentLog(NotRecoverable):
    """Two files of the same name are not the same log: it was reset, or belongs to another server."""
