"""Connections to the page: how many there are, how long each may be silent, and which is ended first.

Any user of the host can open connections, without a login. Such a connection is ended when its request is
not there, or not answered, in time. When there are too many of them, the oldest is ended. Users who are
logged in, or have a link that logs in, have places of their own, which no others take.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

UNKNOWN, KNOWN = 400, 100
"""Connections at a time without a login, and with one."""

AT_ONCE: Final = 50
"""Connections that are accepted at once: few, so that each is read before it is the oldest."""

REQUEST_S: Final = 5.0
"""Time without a login, from the connection's opening, or its last answer, to the end of the next answer."""

KEEP_ALIVE_S: Final = 15.0
"""Time with a login between an answer and the next request."""


class Places:
    """The connections with and without a login, the oldest first. `knows` tells whether a request has one."""

    def __init__(self, knows: Callable[[Request], bool]) -> None:
        self.knows = knows
        self._unknown: OrderedDict[asyncio.Transport, None] = OrderedDict()
        self._known: OrderedDict[asyncio.Transport, None] = OrderedDict()

    def take(self, transport: asyncio.Transport, *, known: bool) -> None:
        """Put a connection behind the others of its kind, and end the oldest if there are too many."""
        self.leave(transport)
        connections, most = (self._known, KNOWN) if known else (self._unknown, UNKNOWN)
        connections[transport] = None
        if len(connections) > most:
            connections.popitem(last=False)[0].abort()

    def leave(self, transport: asyncio.Transport) -> None:
        """Forget a connection that has ended."""
        self._unknown.pop(transport, None)
        self._known.pop(transport, None)


class PageConnection(H11Protocol):
    """One connection to the page. Uvicorn has no time limit for what comes before a request."""

    def __init__(self, *, places: Places, **uvicorns: Any) -> None:
        super().__init__(**uvicorns)
        self._places = places
        self._limit: asyncio.TimerHandle | None = None
        self._page: Any = self.app
        self.app = self._answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place."""
        super().connection_made(transport)
        self._places.take(transport, known=False)
        self._end_after(REQUEST_S)

    def connection_lost(self, exc: Exception | None) -> None:
        """Leave it."""
        super().connection_lost(exc)
        self._places.leave(self.transport)
        self._no_limit()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request whose head has come."""
        known = self._places.knows(Request(scope))
        if self.transport.is_closing():
            return
        self._places.take(self.transport, known=known)
        if known:
            self._no_limit()
        await self._page(scope, receive, send)
        self._end_after(KEEP_ALIVE_S if known else REQUEST_S)

    def _end_after(self, seconds: float) -> None:
        """Replace the time limit by another one, which begins now."""
        self._no_limit()
        if not self.transport.is_closing():
            self._limit = self.loop.call_later(seconds, self.transport.abort)

    def _no_limit(self) -> None:
        if self._limit:
            self._limit.cancel()
