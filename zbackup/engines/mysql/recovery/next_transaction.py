"""Go one transaction beyond the target, on a clone of what was recovered: see plan.recovery.proof.

A replay may cut its log off at the target, so the transaction is taken out before, into the clone's own home.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.copy_part import copy_part
from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.model.errors import Refused
from zbackup.model.log import Transaction
from zbackup.model.proof import NEXT
from zbackup.proc import secure_files

LARGEST: Final = 64 << 20
"""Bytes of a transaction that is replayed to see what it does."""


def take_out(log: Sequence[Path], transaction: Transaction, home: Path) -> None:
    """Keep the transaction's log in a clone's home, unless it is too large."""
    span = _span(transaction, home)
    if span.stop.offset - span.start.offset > LARGEST:
        return
    file = next(f for f in log if f.name == span.start.file)
    owner = secure_files.stat(home)
    secure_files.make_directory(home / NEXT, mode=0o700)
    copy_part(
        file,
        span.files[0],
        span.start.offset,
        span.stop.offset,
        owner=(owner.st_uid, owner.st_gid),
        mode=0o600,
    )


def taken_out(transaction: Transaction, home: Path) -> LogRange:
    """The log that take_out() kept. Raise Refused where it kept none."""
    span = _span(transaction, home)
    if not secure_files.exists(span.files[0]):
        raise Refused(f"it is larger than {LARGEST >> 20} MiB")
    return span


def _span(transaction: Transaction, home: Path) -> LogRange:
    start, stop = LogPosition.parse(transaction.start), LogPosition.parse(transaction.end)
    return LogRange(files=(home / NEXT / start.file,), start=start, stop=stop, ends_file=True)
