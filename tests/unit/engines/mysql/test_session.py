"""Settings that a session of zbackup makes for itself before anything else."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pymysql
import pytest

from zbackup.config.tls import Tls
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import Connection, LoginRefused, _named
from zbackup.model.errors import DatabaseError


def test_limits_on_statements_are_not_meant_for_it() -> None:
    """With a global max_execution_time of 200 ms, a look at the tables was cut off and no backup taken."""
    said: list[str] = []
    row = {"id": 1, "account": "zbackup@localhost", "version": "9.7.4"}
    cursor = SimpleNamespace(
        execute=lambda statement, _: said.append(statement), fetchall=lambda: [row], fetchone=lambda: row
    )
    raw = SimpleNamespace(cursor=lambda: nullcontext(cursor))
    Connection(cast(Any, raw), ConnectOptions(user="zbackup", password=lambda: ""))
    assert "/*!50708 , max_execution_time = 0 */" in said[0]
    assert "/*M!100101 , max_statement_time = 0 */" in said[0]


class _Endless:
    """A server's side of a session, by which an event never ends: PyMySQL puts its parts together."""

    def __init__(self) -> None:
        self.raw = pymysql.connections.Connection(defer_connect=True)
        self.raw._sock = self.raw._rfile = cast(
            Any, SimpleNamespace(close=lambda: None, settimeout=lambda _: 0)
        )
        self.sent, self.number = 0, 0
        raw = cast(Any, self.raw)
        raw._current_timeout, raw._next_seq_id = raw._read_timeout, 0
        raw._execute_command = lambda *_: None
        raw._read_bytes = self.read
        raw._force_close = lambda: None

    def read(self, count: int) -> bytes:
        self.sent += count
        if count == 4:
            self.number += 1
            return b"\xff\xff\xff" + bytes(((self.number - 1) % 256,))
        return bytes(count)


def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the server's files may send anything, and it is held as a whole."""
    monkeypatch.setattr("zbackup.engines.mysql.server.connection.MOST_EVENT", 40 << 20)
    endless = _Endless()
    session = object.__new__(Connection)
    session._raw = cast(Any, endless.raw)
    session._options = ConnectOptions(user="z", password=lambda: "")
    with pytest.raises(DatabaseError, match="an event without end"):
        list(session.binlog("binlog.000001", 4, annotated=False))
    assert endless.sent <= 40 << 20


DENIED = pymysql.OperationalError(1045, "Access denied for user 'z'@'localhost' (using password: YES)")


@pytest.mark.parametrize(
    ("how", "hint"),
    [
        ({"socket": "/run/sql.sock"}, "set host, port and tls instead of socket"),
        ({"host": "127.0.0.1"}, "REQUIRE SSL): then set the instance's tls"),
        ({"host": "127.0.0.1", "tls": Tls()}, "check user and password"),
    ],
)
def test_a_refused_login_may_be_for_want_of_tls(how: dict[str, Any], hint: str) -> None:
    """A server says no more than that access is denied when an account requires TLS."""
    said = _named(DENIED, ConnectOptions(user="z", password=lambda: "", **how), "connecting")
    assert isinstance(said, LoginRefused) and hint in str(said)
    assert ("REQUIRE SSL" in str(said)) == ("tls" not in how)


def test_a_server_that_takes_nobody_without_tls() -> None:
    refused = pymysql.OperationalError(3159, "Connections using insecure transport are prohibited")
    said = _named(refused, ConnectOptions(user="z", password=lambda: ""), "connecting")
    assert "without TLS" in str(said) and "set the instance's tls" in str(said)
