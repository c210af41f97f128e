"""Requests that are tried again, told as one event: when that begins, and when it is over.

A server that is busy for an hour has every request tried again, by several threads: each of them in the log
would bury everything else.
"""

import time
from collections.abc import Callable
from threading import Lock

from zbackup.model.event_log import log

CALM_S = 60.0
"""Seconds without a retry after which the trouble is over."""


class Trouble:
    """The trouble of one connection; told by several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._count = 0
        self._since = self._last = 0.0

    def met(self, verb: str, key: str, attempt: int, error: str) -> None:
        """A request is tried again."""
        with self._lock:
            self._last = self._clock()
            self._count += 1
            if self._count == 1:
                self._since = self._last
                log.warning("s3.retried", verb=verb, key=ascii(key)[1:-1], attempt=attempt, error=error)
                return
        log.debug("s3.retried_more", verb=verb, key=ascii(key)[1:-1], attempt=attempt, error=error)

    def passed(self) -> None:
        """A request was answered."""
        if self._count and self._clock() - self._last >= CALM_S:
            self.over()

    def over(self) -> None:
        """Nothing more is asked, or has failed for long."""
        with self._lock:
            if self._count:
                log.info("s3.retries_over", retries=self._count, seconds=round(self._last - self._since, 1))
            self._count = 0
