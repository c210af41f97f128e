"""The next rows of a copy are made while some are loaded; nobody waits for them who gives up."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from socket import socketpair
from threading import Event, Lock
from types import SimpleNamespace

import pytest

from zbackup.engines.mysql.server.connection import ConnectionLost, RowConnection
from zbackup.features.copyback.mysql.load_rows import Portion, _ahead

FIRST, SECOND = (Portion(None, None, rows, b"") for rows in (1, 2))


def test_all_portions_come_in_their_order_and_nothing_is_given_up() -> None:
    given_up = Event()
    assert list(_ahead(iter((FIRST, SECOND)), Lock(), give_up=given_up.set)) == [FIRST, SECOND]
    assert not given_up.is_set()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, GeneratorExit])
def test_who_stops_does_not_wait_for_a_server_that_never_answers(stop: type[BaseException]) -> None:
    given_up = Event()

    def portions() -> Iterator[Portion]:
        yield FIRST
        assert given_up.wait(60), "the answer comes when the session is cut, and not before"
        raise OSError("cut")

    ahead = _ahead(portions(), Lock(), give_up=given_up.set)
    assert next(ahead) == FIRST
    with pytest.raises(stop):
        ahead.throw(stop)
    assert given_up.is_set()


def test_the_error_of_a_read_comes_behind_the_portions_before_it() -> None:
    def portions() -> Iterator[Portion]:
        yield FIRST
        raise OSError("gone")

    ahead = _ahead(portions(), Lock(), give_up=lambda: None)
    assert next(ahead) == FIRST
    with pytest.raises(OSError, match="gone"):
        next(ahead)


def test_a_session_that_has_ended_can_be_given_up() -> None:
    """Its own error is what is told then, and not another."""
    ended = object.__new__(RowConnection)
    ended._raw = SimpleNamespace(_sock=None)  # type: ignore[assignment]  # as PyMySQL leaves it
    ended.abort()

    def portions() -> Iterator[Portion]:
        yield FIRST
        raise ConnectionLost("gone")

    ahead = _ahead(portions(), Lock(), give_up=ended.abort)
    assert next(ahead) == FIRST
    with pytest.raises(ConnectionLost, match="gone"):
        next(ahead)


def test_who_waits_for_an_answer_has_an_error_when_the_session_is_given_up() -> None:
    ours, theirs = socketpair()
    session = object.__new__(RowConnection)
    session._raw = SimpleNamespace(_sock=ours)  # type: ignore[assignment]
    with ours, theirs, ThreadPoolExecutor(max_workers=1) as other:
        answer = other.submit(ours.recv, 1)
        session.abort()
        assert answer.result(60) == b""
