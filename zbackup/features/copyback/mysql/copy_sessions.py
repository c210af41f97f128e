"""The sessions that rows are read and written by."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.production.throttle import Throttle
from zbackup.engines.mysql.server.connection import (
    Connection,
    Row,
    RowConnection,
    StatementFailed,
    connect,
    connect_rows,
)
from zbackup.model.errors import DatabaseError
from zbackup.model.progress import Progress

LOADERS = 2
"""Sessions that load rows at once: a server does a load with one of its CPUs."""
FOR_ACCOUNT = (1203, 1226)
NO_MORE = (1040, *FOR_ACCOUNT)
"""The server's max_connections or max_user_connections, or the account's MAX_USER_CONNECTIONS is reached."""
TRIES = 20
PAUSE_S = 0.25

Session = TypeVar("Session", bound=Connection)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Sessions for rows: the clone's, with one view of all that is read, and production's.

    `loaders` are production's, too, `production` one of them: all of them load rows at once.
    """

    clone: RowConnection
    production: RowConnection
    loaders: tuple[RowConnection, ...]
    throttle: Throttle
    progress: Progress


def on_both(ends: Ends, in_clone: bytes, in_production: bytes) -> tuple[list[Row], list[Row]]:
    """Ask both servers at once.

    Whatever fails, be it Ctrl-C or an error of either, ends the clone's session, so that nobody waits for its
    answer.
    """
    with ThreadPoolExecutor(max_workers=1) as other:
        there = other.submit(ends.clone.read, in_clone)
        try:
            here = ends.production.read(in_production)
            return there.result(), here
        except BaseException:
            ends.clone.abort()
            raise


def sessions(
    open_ones: ExitStack, account: ConnectOptions, progress: Progress, *, loads: bool
) -> tuple[Connection, tuple[RowConnection, ...]]:
    """Open a session for statements in production and those for rows: LOADERS for one that `loads`, fewer
    where production allows no more, else one.

    Raise DatabaseError where it does not allow two in all.
    """
    try:
        production = open_ones.enter_context(when_allowed(lambda: connect(account)))
        loaders = [open_ones.enter_context(when_allowed(lambda: connect_rows(account, loads=True)))]
    except StatementFailed as failure:
        if failure.code not in FOR_ACCOUNT:
            raise
        raise DatabaseError(
            f"{failure}: a copy takes two sessions of {account.user} at once, and loads rows faster with "
            f"{LOADERS + 1} (ALTER USER ... WITH MAX_USER_CONNECTIONS {LOADERS + 1})"
        ) from None
    while loads and len(loaders) < LOADERS:
        try:
            loaders.append(open_ones.enter_context(connect_rows(account, loads=True)))
        except StatementFailed as failure:
            if failure.code not in NO_MORE:
                raise
            progress.note(f"rows are loaded by {len(loaders)} session instead of {LOADERS}: {failure}")
            break
    return production, tuple(loaders)


def when_allowed(opened: Callable[[], Session]) -> Session:
    """Open a session. Try for a while: a server counts a session that was closed until it has noticed."""
    for left in range(TRIES, -1, -1):
        try:
            return opened()
        except StatementFailed as failure:
            if failure.code not in NO_MORE or not left:
                raise
            time.sleep(PAUSE_S)
    raise AssertionError("unreachable")
