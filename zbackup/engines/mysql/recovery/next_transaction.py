"""Keep the first transaction after the target, to apply it on a second clone: see plan.recovery.proof.

A replay may cut off its log at the target, so the transaction is copied to the clone's home before.
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
"""The size limit of such a transaction, in bytes."""


def take_out(log: Sequence[Path], transaction: Transaction, home: Path, flavor: str) -> None:
    """Copy the transaction's log to a clone's home, unless it is too large."""
    start, stop = _ends(transaction)
    if stop.offset - start.offset > LARGEST:
        return
    file, owner = next(f for f in log if f.name == start.file), secure_files.stat(home)
    secure_files.make_directory(home / NEXT, mode=0o700)
    copy_part(
        file,
        home / NEXT / file.name,
        (start.offset, stop.offset),
        # MySQL reads the file itself. MariaDB is sent events, which say where they stood.
        in_place=flavor == "mariadb",
        owner=(owner.st_uid, owner.st_gid),
        mode=0o600,
    )


def taken_out(transaction: Transaction, home: Path) -> LogRange:
    """Return the range that take_out() kept, the end of its file. Raise Refused if it kept none."""
    start, stop = _ends(transaction)
    file = home / NEXT / start.file
    if not secure_files.exists(file):
        raise Refused(f"the transaction is larger than {LARGEST >> 20} MiB")
    end = secure_files.size(file)
    begin = LogPosition.of(file.name, end - (stop.offset - start.offset))
    return LogRange(files=(file,), start=begin, stop=LogPosition.of(file.name, end), ends_file=True)


def _ends(transaction: Transaction) -> tuple[LogPosition, LogPosition]:
    return LogPosition.parse(transaction.start), LogPosition.parse(transaction.end)
