"""Named events with their facts, for the log.

structlog writes them. To read it takes a sixth of a short command, most of which have nothing to tell: so it
is read with the first line that is to be written.
"""

import sys
from collections.abc import Callable
from contextlib import suppress

from zbackup.model.printable import printable

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "exception": 40}
"""The levels of Python's logging."""


class EventLog:
    """The way that events go. Until it is told otherwise, each is structlog's to judge."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Be as in a program that just began."""
        self._least = 0
        self._prepare: Callable[[], None] | None = None

    def set_up(self, least: int, prepare: Callable[[], None]) -> None:
        """Drop what is below the level `least`, as logging counts them, and `prepare` structlog once for the
        rest."""
        self._least, self._prepare = least, prepare

    def debug(self, event: str, **facts: object) -> None:
        self._tell("debug", event, facts)

    def info(self, event: str, **facts: object) -> None:
        self._tell("info", event, facts)

    def warning(self, event: str, **facts: object) -> None:
        self._tell("warning", event, facts)

    def error(self, event: str, **facts: object) -> None:
        self._tell("error", event, facts)

    def exception(self, event: str, **facts: object) -> None:
        """With the traceback of the exception that is being handled."""
        self._tell("exception", event, facts)

    def _tell(self, method: str, event: str, facts: dict[str, object]) -> None:
        if _LEVELS[method] < self._least:
            return
        try:
            if prepare := self._prepare:
                prepare()
                self._prepare = None
            import structlog
        except Exception as failure:  # noqa: BLE001  a line of the log is never worth the work that it tells of
            # zbackup was upgraded since this process began, or it has no descriptor left to read a file.
            with suppress(OSError, ValueError, AttributeError):
                told = printable(f"{event} {facts} (not in the log: {failure})")
                sys.stderr.write(f"zbackup: {told}\n")
            return
        getattr(structlog.get_logger(), method)(event, **facts)


log = EventLog()
