"""The ceiling of a lock: it ends with its session, and the server ends a silent session by itself."""

from collections.abc import Callable

import pytest

from tests.unit.engines.mysql.lock_server import CONNECT, Server, locked, serving
from zbackup.config.lock import Lock
from zbackup.model.errors import LockNotTaken
from zbackup.model.record import LockKind

__all__ = ["serving"]
Serve = Callable[..., Server]

LIMITS = Lock.model_construct(hold=10.0)
ALL = [("9.7.4", "ftwrl"), ("9.7.4", "backup-lock"), ("10.11.18-MariaDB", "backup-stage")]


@pytest.mark.parametrize(("version", "kind"), ALL)
def test_the_server_knows_the_ceiling_before_it_grants_the_lock(
    version: str, kind: LockKind, serving: Serve
) -> None:
    """It knows how long to wait as well: who is killed meanwhile can tell it nothing any more."""
    server = serving(version=version)
    with locked(CONNECT, LIMITS, kind):
        assert server.asked
        assert all(session.silence <= 10 and session.patience <= 30 for session in server.asked)


@pytest.mark.parametrize(("version", "kind"), ALL)
@pytest.mark.parametrize("flush_s", [0.0, 8.5])
def test_one_that_is_stopped_under_the_lock_loses_it_at_the_ceiling(
    version: str, kind: LockKind, flush_s: float, serving: Serve
) -> None:
    """However long the flush under the lock took: each statement restarts the server's count."""
    server = serving(version=version, flush_s=flush_s)
    with locked(CONNECT, LIMITS, kind) as lock:
        assert server.holder
        server.clock.sleep(1000)
        assert not server.holder
        with pytest.raises(LockNotTaken, match=r"did not last to the end \(its ceiling is 10 s\)"):
            lock.confirm()
    assert max(server.held_for) <= 10


def test_one_that_is_stopped_when_it_has_confirmed_loses_it_at_the_ceiling(serving: Serve) -> None:
    server = serving()
    with locked(CONNECT, LIMITS, "ftwrl") as lock:
        server.clock.sleep(6)
        lock.confirm()
        assert server.holder
        server.clock.sleep(1000)
    assert max(server.held_for) <= 10


@pytest.mark.parametrize(("version", "kind"), ALL)
def test_a_flush_that_hangs_does_not_stretch_it(version: str, kind: LockKind, serving: Serve) -> None:
    server = serving(version=version, flush_s=500)
    if kind == "backup-lock":  # nothing has to be flushed: the log goes on
        with locked(CONNECT, LIMITS, kind):
            assert server.holder
        return
    said = "under the lock .* did not answer .* within 10 s"
    with pytest.raises(LockNotTaken, match=said), locked(CONNECT, LIMITS, kind):
        pytest.fail("the log was not flushed")
    assert max(server.held_for) <= 10 and server.holder is None


@pytest.mark.parametrize("hold_s", [1.0, 2.0, 10.0])
def test_zfs_is_given_up_in_time_to_confirm(hold_s: float, serving: Serve) -> None:
    server = serving()
    with locked(CONNECT, Lock.model_construct(hold=hold_s), "ftwrl") as lock:
        assert 0 < lock.seconds_left() < hold_s
        assert lock.seconds_left() > hold_s / 2
        server.clock.sleep(lock.seconds_left())
        lock.confirm()
        assert lock.seconds_left() > 0, "a command is given some time to fail in"


@pytest.mark.parametrize("version", ["9.7.4", "10.11.18-MariaDB"])
def test_without_a_lock_there_is_none(version: str, serving: Serve) -> None:
    server = serving(version=version)
    with locked(CONNECT, LIMITS, "none") as lock:
        assert not server.holder and lock.seconds_left() == 600
        server.clock.sleep(500)
        server.commit()
        lock.confirm()
        assert server.sessions[0].alive
    assert not server.asked and not server.sessions[1:]


def test_without_a_lock_no_session_has_to_last(serving: Serve) -> None:
    server = serving(silence=60)
    with locked(CONNECT, LIMITS, "none") as lock:
        server.clock.sleep(500)
        assert not server.sessions
        lock.confirm()
