"""Naming who kept a lock from being granted."""

from types import SimpleNamespace
from typing import Any, cast

from zbackup.engines.mysql.lock.long_queries import FLUSH_AWAITED, blockers_of, long_queries
from zbackup.engines.mysql.server.connection import Connection, ConnectionLost

OURS = 7


def session(*statements: tuple[int, int, str], lost: bool = False) -> Connection:
    """One that sees these: number, seconds, and what the server does with it."""

    def rows(_: str) -> list[dict[str, Any]]:
        if lost:
            raise ConnectionLost("the server ended the connection")
        return [
            {"Id": number, "User": "app", "Time": seconds, "Info": "SELECT 1", "State": state}
            | {"Command": "Query"}
            for number, seconds, state in statements
        ]

    return cast(Connection, SimpleNamespace(id=OURS, rows=rows))


def test_the_longest_statement_is_named_and_how_many_wait_for_it() -> None:
    waiting = (3, 90, FLUSH_AWAITED)
    said = blockers_of(session((1, 60, "executing"), (2, 5, "updating"), waiting, (OURS, 99, "init")))
    assert said == (
        "; the longest statement is connection 1 of app, 60 s: SELECT ***; 1 more wait until it has ended "
        "(KILL QUERY 1 ends it)"
    )
    assert "KILL" not in blockers_of(session((1, 60, "executing")))


def test_nobody_is_named_where_nobody_is_to_be_seen() -> None:
    assert blockers_of(session((1, 0, "executing"), (3, 90, FLUSH_AWAITED), (OURS, 99, "init"))) == ""


def test_a_connection_that_is_lost_does_not_hide_that_the_lock_was_not_granted() -> None:
    assert blockers_of(session(lost=True)) == ""


def test_who_waits_for_a_flush_holds_nobody_up() -> None:
    assert [q.id for q in long_queries(session((1, 60, "executing"), (3, 90, FLUSH_AWAITED)), 5)] == [1]


def test_who_has_run_for_a_second_is_seen() -> None:
    assert "connection 1 of app, 1 s" in blockers_of(session((1, 1, "executing")))
