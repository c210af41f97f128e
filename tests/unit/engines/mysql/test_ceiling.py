"""The ceiling of a lock: it ends with its session, and the server ends a silent session by itself."""

import re
from typing import Any, cast

import pytest

from zbackup.config.lock import Lock
from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.lock import lock
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.status import LogStatus

CONNECT = ConnectOptions(user="zbackup", password=lambda: "")


class Session:
    """A connection that remembers what was said, and for how long the server would wait for it."""

    version = "9.7.4"

    def __init__(self, number: int) -> None:
        self.id, self.said, self.closed = number, list[str](), False
        self.silence = 28_800

    def execute(self, statement: str, arguments: tuple[object, ...] = ()) -> None:
        self.said.append(statement)
        if re.fullmatch(r"SET SESSION wait_timeout = %s", statement):
            self.silence = int(cast(int, arguments[0]))

    def keep_for(self, seconds: float) -> None:
        self.silence = int(seconds)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        return []

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.mark.parametrize("kind", ["ftwrl", "backup-lock"])
def test_a_session_with_a_lock_is_ended_by_the_server(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From before the lock is asked for until it is released, whatever becomes of us."""
    sessions: list[Session] = []

    def connect(_: ConnectOptions) -> Session:
        sessions.append(Session(len(sessions) + 1))
        return sessions[-1]

    monkeypatch.setattr(lock, "connect", connect)
    monkeypatch.setattr(lock, "settle_long_queries", lambda *_: None)
    standing = LogStatus(position=LogPosition.of("binlog.000001", 4), gtid="")
    monkeypatch.setattr(lock, "_status", lambda *_: standing)
    with lock.hold(CONNECT, Lock.model_construct(hold=10.0), kind) as held:
        session = sessions[-1]
        taken = session.said.index(lock.TAKE[kind][0])
        assert "SET SESSION wait_timeout = %s" in session.said[:taken]
        assert session.silence <= 10
        held.since -= 6
        held.confirm()
        assert session.silence <= 4, "each statement restarts the server's count"
    assert session.closed
