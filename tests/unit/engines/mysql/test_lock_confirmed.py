"""Whether a lock lasted, and the log stood still under it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.lock import lock
from zbackup.engines.mysql.lock.lock import HeldLock
from zbackup.engines.mysql.server.status import LogStatus
from zbackup.model.errors import LockNotTaken


def status(offset: int, gtid: str, file: str = "binlog.000096") -> LogStatus:
    return LogStatus(position=LogPosition.of(file, offset), gtid=gtid)


def confirm(patch: pytest.MonkeyPatch, version: str, now: LogStatus) -> None:
    session = SimpleNamespace(version=version, execute=lambda *_: None)
    patch.setattr(lock, "_status", lambda *_: now)
    HeldLock(
        session=cast(Any, session),
        kind="ftwrl",
        ceiling_s=1e9,
        lock_wait_ms=0,
        since=0,
        status=status(1873, "0-1-7"),
    ).confirm()


def test_a_note_of_mariadb_is_no_movement(monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes up to where crash recovery has to read, under any lock, soon after each new file."""
    confirm(monkeypatch, "10.11.18-MariaDB", status(1913, "0-1-7"))


@pytest.mark.parametrize(
    ("version", "now"),
    [
        ("10.11.18-MariaDB", status(1913, "0-1-8")),
        ("10.11.18-MariaDB", status(256, "0-1-7", "binlog.000097")),
        ("9.7.4", status(1913, "0-1-7")),
    ],
)
def test_everything_else_is(monkeypatch: pytest.MonkeyPatch, version: str, now: LogStatus) -> None:
    with pytest.raises(LockNotTaken, match="the log moved under the lock"):
        confirm(monkeypatch, version, now)
