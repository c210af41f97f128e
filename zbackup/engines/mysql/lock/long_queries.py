"""Statements that run for long: a lock would wait for them, and then everybody waits for the lock."""

import re
import time
from dataclasses import replace

from zbackup.config.lock import Lock
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import (
    Connection,
    ConnectionLost,
    StatementFailed,
    connect,
    whole_number,
)
from zbackup.engines.mysql.sql.shown import shown
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.event_log import log
from zbackup.model.server import RunningQuery

POLL_S = 0.2
SHOWN = 60
NOTICED_S = 1.0
NO_SUCH_THREAD = 1094

_READS = re.compile(
    r"(?:\s|\(|(?>/\*(?!M?!).*?\*/)|--(?:[^\S\n][^\n]*)?\n|#[^\n]*\n)*+SELECT\b", re.IGNORECASE | re.DOTALL
)
"""A comment is taken whole or not at all: anybody may have a statement run that has many of them."""

FLUSH_AWAITED = "Waiting for table flush"

SEMI_SYNC_AWAITED = "Waiting for semi-sync ACK"
"""How the state of a commit begins that waits for a replica; MySQL goes on "from replica", MariaDB "from
slave"."""
LOOK_S = 5.0
"""Seconds for a look at who holds up an answer that did not come."""

# The server's own threads; they do not hold up a lock the way a statement does.
INTERNAL = ("system user", "event_scheduler")


def settle_long_queries(session: Connection, limits: Lock, deadline: float) -> None:
    """Wait for long statements to end, or end them, as configured.

    Raise LockNotTaken, naming the longest, if one is still there at `deadline` of the monotonic clock.
    """
    killed: set[int] = set()
    while found := long_queries(session, limits.long_query):
        worst = max(found, key=lambda q: q.seconds)
        if limits.on_long_query == "abort":
            why = f"not locking while a long statement runs: {_describe(worst)}"
            raise LockNotTaken(f"{why}{_semi_sync(found)}")
        if limits.on_long_query == "kill":
            _kill(session, [q for q in found if q.id not in killed and _may_kill(q, limits)], killed)
        if time.monotonic() > deadline:
            why = f"a long statement still runs after {limits.wait:g} s: {_describe(worst)}"
            raise LockNotTaken(f"{why}{_semi_sync(found)}")
        time.sleep(POLL_S)


def long_queries(session: Connection, seconds: float) -> list[RunningQuery]:
    """Statements of others that have been running for at least `seconds`.

    Not those that only wait until a table is flushed, for another one: they hold nobody up.
    """
    return [q for q in _statements(session) if q.seconds >= seconds and q.state != FLUSH_AWAITED]


def blockers_of(session: Connection) -> str:
    """Who probably kept a lock from being granted, as the end of a sentence; "" if nobody is to be seen.

    A server that cannot be asked any more is no error of its own here: it hid what the sentence says.
    """
    try:
        found = [q for q in _statements(session) if q.seconds >= NOTICED_S]
    except (ConnectionLost, StatementFailed) as failure:
        log.warning("lock.holder_not_seen", reason=str(failure))
        return ""
    running = [q for q in found if q.state != FLUSH_AWAITED]
    if not running:
        return ""
    longest = max(running, key=lambda q: q.seconds)
    # MySQL: all who use a table that the lock wanted to flush, also after it was given up.
    waiting = len(found) - len(running)
    victims = f"; {waiting} more wait until it has ended (KILL QUERY {longest.id} ends it)" if waiting else ""
    return f"; the longest statement is {_describe(longest)}{victims}{_semi_sync(running)}"


def who_holds_up(options: ConnectOptions) -> str:
    """The same of a server that did not answer another session of ours; "" if it does not answer this one."""
    try:
        with connect(replace(options, limit_s=LOOK_S)) as connection:
            return blockers_of(connection)
    except DatabaseError as failure:
        log.warning("lock.holder_not_seen", reason=str(failure))
        return ""


def _semi_sync(running: list[RunningQuery]) -> str:
    waiting = [q for q in running if q.state.startswith(SEMI_SYNC_AWAITED)]
    if not waiting:
        return ""
    return (
        f"; commits waiting for a semi-sync replica: {len(waiting)}. Start a replica, or turn semi-sync "
        "replication off until one is connected"
    )


def _statements(session: Connection) -> list[RunningQuery]:
    own = session.id
    return [
        RunningQuery(
            id=whole_number(row, "Id"),
            user=str(row["User"]),
            seconds=float(whole_number(row, "Time")),
            text=str(row["Info"]),
            state=str(row["State"] or ""),
            is_select=is_select(str(row["Info"])),
        )
        for row in session.rows("SHOW FULL PROCESSLIST")
        if row["Command"] in ("Query", "Execute")
        and row["Info"]
        and row["User"] not in INTERNAL
        and whole_number(row, "Id") != own
    ]


def is_select(text: str) -> bool:
    """Whether a statement only reads, judged by its first word behind comments and parentheses."""
    return bool(_READS.match(text))


def _may_kill(query: RunningQuery, limits: Lock) -> bool:
    return query.is_select or limits.kill == "all"


def _kill(session: Connection, queries: list[RunningQuery], killed: set[int]) -> None:
    for query in queries:
        try:
            session.execute(f"KILL QUERY {query.id}")
        except StatementFailed as failure:
            if failure.code != NO_SUCH_THREAD:
                raise
        killed.add(query.id)
        log.warning("query.killed", id=query.id, user=query.user, seconds=query.seconds)


def _describe(query: RunningQuery) -> str:
    text = " ".join(shown(query.text).split())
    short = text if len(text) <= SHOWN else text[:SHOWN] + "..."
    return f"connection {query.id} of {query.user}, {query.seconds:g} s: {short}"
