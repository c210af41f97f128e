"""Messages when fsyncLock is not granted: that it took too long, or that the server is gone."""

from collections.abc import Mapping
from typing import Any, cast

import pytest
from pymongo.errors import AutoReconnect, NetworkTimeout, NotPrimaryError, OperationFailure, PyMongoError

from zbackup.config.lock import Lock
from zbackup.engines.mongodb.lock.lock import _NotOurs, _take
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import Connection, _named
from zbackup.model.errors import LockNotTaken

LIMITS = Lock.model_construct(wait=30)
WHERE = "127.0.0.1:27017"


class Session:
    """A server that answers fsync with a failure."""

    where = WHERE

    def __init__(self, failure: PyMongoError) -> None:
        self._failure = failure

    def command(self, command: Mapping[str, Any], *, limit_s: float = 0) -> Any:
        raise _named(self._failure, ConnectOptions(), WHERE, next(iter(command)))


def refusal(failure: PyMongoError) -> LockNotTaken:
    with pytest.raises(LockNotTaken) as raised:
        _take(cast(Connection, Session(failure)), LIMITS, 30)
    return raised.value


@pytest.mark.parametrize(
    "failure",
    [
        AutoReconnect("connection closed"),
        AutoReconnect("[Errno 104] Connection reset by peer"),
        NotPrimaryError("interrupted at shutdown", {"code": 11600}),
    ],
)
def test_a_server_that_is_killed_meanwhile_did_not_let_time_pass(failure: PyMongoError) -> None:
    said = refusal(failure)
    assert str(said).startswith(f"the server at {WHERE} went away while it was to be locked: ")
    assert "30 s" not in str(said) and str(failure).partition(", full error")[0] in str(said)
    # It may come back with the lock taken: the watchdog looks.
    assert not isinstance(said, _NotOurs)


def test_a_server_that_does_not_answer_in_time() -> None:
    assert "the lock fsync was not granted within 30 s" in str(refusal(NetworkTimeout("timed out")))


def test_a_server_that_gives_up_by_itself() -> None:
    late = OperationFailure("Fsync lock timed out", 24, {"errmsg": "Fsync lock timed out"})
    said = refusal(late)
    assert "not granted within 30 s" in str(said) and isinstance(said, _NotOurs)
