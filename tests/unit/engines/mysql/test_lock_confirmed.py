"""Confirming that a lock lasted, and that the log stood still under it."""

from collections.abc import Callable

import pytest

from tests.unit.engines.mysql.lock_server import CONNECT, Server, locked, serving
from zbackup.config.lock import Lock
from zbackup.model.errors import LockNotTaken
from zbackup.model.record import LockKind

__all__ = ["serving"]
Serve = Callable[..., Server]
MARIADB, MYSQL = "10.11.18-MariaDB", "9.7.4"
LIMITS = Lock.model_construct(hold=10.0)


def confirm(server: Server, kind: LockKind, **now: object) -> None:
    with locked(CONNECT, LIMITS, kind) as lock:
        for what, value in now.items():
            setattr(server, what, value)
        lock.confirm()


@pytest.mark.parametrize("kind", ["ftwrl", "backup-stage"])
def test_a_note_of_mariadb_is_no_movement(kind: LockKind, serving: Serve) -> None:
    """It writes up to where crash recovery has to read, under any lock, soon after each new file."""
    confirm(serving(version=MARIADB), kind, offset=44)


@pytest.mark.parametrize(
    ("version", "kind", "now"),
    [
        (MARIADB, "ftwrl", {"offset": 44, "gtid": "a:1-4"}),
        (MARIADB, "backup-stage", {"offset": 44, "gtid": "a:1-4"}),
        (MARIADB, "ftwrl", {"offset": 4, "file": "binlog.000002"}),
        (MARIADB, "ftwrl", {"logs": False, "gtid": ""}),
        (MYSQL, "ftwrl", {"offset": 44}),
        (MYSQL, "ftwrl", {"gtid": "a:1-4"}),
        (MYSQL, "ftwrl", {"file": "binlog.000002"}),
        (MYSQL, "ftwrl", {"logs": False}),
    ],
)
def test_everything_else_is(version: str, kind: LockKind, now: dict[str, object], serving: Serve) -> None:
    server = serving(version=version)
    with pytest.raises(LockNotTaken, match=r"the log moved under the lock, from binlog\.000001:4 to"):
        confirm(server, kind, **now)
    assert not server.sessions[1:] and server.held_for


def test_a_mariadb_without_gtids_cannot_say_that_nothing_is_new(serving: Serve) -> None:
    with pytest.raises(LockNotTaken, match="the log moved under the lock"):
        confirm(serving(version=MARIADB, gtid=""), "ftwrl", offset=44)


@pytest.mark.parametrize(("version", "kind"), [(MYSQL, "backup-lock"), (MYSQL, "none"), (MARIADB, "none")])
def test_a_log_that_goes_on_may_move(version: str, kind: LockKind, serving: Serve) -> None:
    server = serving(version=version)
    with locked(CONNECT, LIMITS, kind) as lock:
        server.commit()
        lock.confirm()
        assert lock.position == "binlog.000001:4", "what was read when it was granted"


def test_a_server_without_a_log_has_nothing_that_moves(serving: Serve) -> None:
    server = serving(version=MARIADB, logs=False, gtid="")
    with locked(CONNECT, LIMITS, "backup-stage") as lock:
        assert (lock.position, lock.gtid) == ("", "")
        lock.confirm()
    assert not server.sessions[1:]


@pytest.mark.parametrize(
    ("version", "kind"), [(MYSQL, "ftwrl"), (MYSQL, "backup-lock"), (MARIADB, "backup-stage")]
)
def test_a_lock_that_was_lost_is_not_confirmed(version: str, kind: LockKind, serving: Serve) -> None:
    server = serving(version=version)
    with locked(CONNECT, LIMITS, kind) as lock:
        server.sessions[1].end(0)
        with pytest.raises(LockNotTaken, match="did not last to the end"):
            lock.confirm()
