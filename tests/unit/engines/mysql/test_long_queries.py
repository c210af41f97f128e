"""Statements that run for long are waited for, or ended, before ftwrl is asked for, as configured."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.engines.mysql.lock_server import CONNECT, Server, Session, locked, serving
from zbackup.config.lock import Lock
from zbackup.engines.mysql.lock.long_queries import settle_long_queries
from zbackup.engines.mysql.server.connection import StatementFailed
from zbackup.model.errors import DatabaseError, LockNotTaken

__all__ = ["serving"]
Serve = Callable[..., Server]


def statement(number: int = 900, seconds: int | None = 60, **changed: Any) -> dict[str, Any]:
    row = {"Id": number, "User": "app", "Time": seconds, "Command": "Query", "State": "executing"}
    return row | {"Info": "SELECT COUNT(*) FROM orders"} | changed


def taken(server: Server, **limits: Any) -> None:
    with locked(CONNECT, Lock.model_construct(**limits), "ftwrl") as lock:
        lock.confirm()


def refused(server: Server, match: str, **limits: Any) -> str:
    with pytest.raises(LockNotTaken, match=match) as raised:
        taken(server, **limits)
    assert "FLUSH TABLES WITH READ LOCK" not in server.texts
    return str(raised.value)


def test_one_that_ends_in_time_is_waited_for(serving: Serve) -> None:
    server = serving(running=[statement()])
    began = server.clock.now

    def end(_: int, session: Session) -> None:
        if server.clock.now - began > 20:
            server.running = []

    server.before = end
    taken(server)
    assert 20 < server.clock.now - began < 22 and not any("KILL" in text for text in server.texts)


def test_one_that_does_not_end_is_named_and_left_alone(serving: Serve) -> None:
    server = serving(running=[statement(901, 70, Info="UPDATE\n  orders SET a = 1"), statement()])
    began = server.clock.now
    refused(server, r"still runs after 30 s: connection 901 of app, 70 s: UPDATE orders SET a = \*\*\*$")
    assert 30 <= server.clock.now - began < 31 and len(server.running) == 2


@pytest.mark.parametrize("rule", ["wait", "abort"])
def test_a_commit_that_waits_for_a_replica_is_named_as_such(serving: Serve, rule: str) -> None:
    waits = statement(902, 70, Info="COMMIT", State="Waiting for semi-sync ACK from replica")
    said = r"connection 902 of app.*; commits waiting for a semi-sync replica: 1\. Start a replica"
    refused(serving(running=[waits]), said, on_long_query=rule)


def test_none_is_waited_for_where_one_is_to_give_up_at_once(serving: Serve) -> None:
    server = serving(running=[statement()])
    began = server.clock.now
    refused(server, "not locking while a long statement runs: connection 900", on_long_query="abort")
    assert server.clock.now - began < 1 and server.running


def test_a_statement_that_only_reads_is_ended_once(serving: Serve) -> None:
    """It may take its time to end: nobody ends what comes next on that connection."""
    server = serving(running=[statement(), statement(901, 6)], query_ends_s=3.0)
    taken(server, on_long_query="kill")
    assert sorted(text for text in server.texts if "KILL" in text) == ["KILL QUERY 900", "KILL QUERY 901"]


def test_one_that_writes_is_ended_only_where_all_may_be(serving: Serve) -> None:
    server = serving(running=[statement(Info="UPDATE orders SET a = 1")])
    refused(server, "still runs", on_long_query="kill")
    assert not any("KILL" in text for text in server.texts)
    server = serving(running=[statement(Info="UPDATE orders SET a = 1")])
    taken(server, on_long_query="kill", kill="all")
    assert server.texts.count("KILL QUERY 900") == 1


def test_one_that_ended_just_then_is_none_the_worse(serving: Serve) -> None:
    server = serving(running=[statement()])

    def end(_: int, session: Session) -> None:
        if "KILL" in server.texts[-1]:
            server.running = []

    server.before = end
    taken(server, on_long_query="kill")


def test_that_it_may_not_be_ended_is_told(serving: Serve) -> None:
    server = serving(running=[statement()])

    def refuse(_: int, session: Session) -> None:
        if "KILL" in server.texts[-1]:
            raise StatementFailed("not the owner", 1095)

    server.before = refuse
    with pytest.raises(DatabaseError, match="not the owner"):
        taken(server, on_long_query="kill")


@pytest.mark.parametrize(
    "changed",
    [
        {"seconds": 4},
        {"seconds": None},
        {"Command": "Sleep"},
        {"Command": "Binlog Dump"},
        {"Info": None},
        {"Info": ""},
        {"User": "system user"},
        {"User": "event_scheduler"},
        {"number": 1},
        {"State": "Waiting for table flush"},
    ],
)
def test_what_holds_up_no_lock(changed: dict[str, Any], serving: Serve) -> None:
    server = serving(running=[statement(**changed)])
    taken(server, on_long_query="abort")


@pytest.mark.parametrize(
    "changed", [{"seconds": 5}, {"Command": "Execute"}, {"State": None}, {"User": "root"}]
)
def test_what_does(changed: dict[str, Any], serving: Serve) -> None:
    refused(serving(running=[statement(**changed)]), "a long statement runs", on_long_query="abort")


@pytest.mark.parametrize("length", [60, 61])
def test_a_long_text_is_cut(length: int, serving: Serve) -> None:
    server = serving(running=[statement(Info="SELECT " + "x" * (length - 7))])
    said = refused(server, "a long statement runs", on_long_query="abort")
    assert said.endswith("x") == (length == 60) and said.endswith("x...") == (length == 61)


def test_the_deadline_is_whose_who_asks(serving: Serve) -> None:
    server = serving(running=[statement()])
    control, began = server.connect(), server.clock.now
    with pytest.raises(LockNotTaken):
        settle_long_queries(control, Lock.model_construct(), began + 7)  # type: ignore[arg-type]
    assert 7 <= server.clock.now - began < 8
