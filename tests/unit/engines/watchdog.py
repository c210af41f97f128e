"""A watchdog beside a server in memory: the real module, as a thread.

It only goes on while whoever told it something, or let time pass, waits for it.
"""

import queue
import signal
import threading
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

import pytest

from tests.unit.engines.clock import Clock, Timer
from zbackup.engines import watchdog as common
from zbackup.model.errors import CommandFailed

LIMIT_S = 60.0
_this = threading.local()
"""Which watchdog a thread is."""


class Killed(BaseException):
    """zbackup got SIGKILL: nothing it does from now on has any effect."""


class Watched(Protocol):
    """What a server in memory says of who is dead, and of what its watchdogs fail with."""

    clock: Clock
    killed: bool
    watchdog_dead: bool
    watchdog_fails: str


class Watchdog:
    """zbackup.proc.guardian.Guardian, and the process at its other end."""

    def __init__(self, server: Watched, main: Callable[[], int], line: str) -> None:
        self.server, self.line, self._main = server, line, main
        self.words: queue.Queue[str | None] = queue.Queue()
        self.answered: str | None = None
        self.status: int | None = None
        self.told: list[str] = []
        self.ignores: set[str] = set()
        self._waits = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        _this.watchdog = self
        try:
            self.status = self._main()
        except Killed:
            self.status = -9
        except BaseException:
            self.status = 1
            raise
        finally:
            self._waits.set()

    def word(self, limit_s: float) -> str:
        timer = Timer(self.server.clock, limit_s, lambda: self._give(""))
        timer.start()
        self._waits.set()
        said = self.words.get()
        timer.cancel()
        if said is None:
            raise Killed
        return said

    def _give(self, word: str) -> None:
        """Go on when it waits for the next one, or has ended."""
        if self.alive:
            self._put(word)

    def _put(self, word: str | None) -> None:
        self._waits.clear()
        self.words.put(word)
        assert self._waits.wait(LIMIT_S)

    def ready(self) -> None:
        if self.server.watchdog_fails:
            raise CommandFailed(("watchdog",), -1, self.server.watchdog_fails)
        self._thread.start()
        assert self._waits.wait(LIMIT_S)
        if self.answered != "ready":
            raise CommandFailed(("watchdog",), -1, str(self.answered))

    def tell(self, word: str) -> None:
        self.told.append(word)
        self._from_us(word)

    def done(self) -> None:
        self.tell("done")
        self._from_us("")

    def act(self) -> bool:
        self._from_us("")
        return not self.server.watchdog_dead and self.status in (0, None)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self.status is None and not self.server.watchdog_dead

    def _from_us(self, word: str) -> None:
        if self.server.killed:
            raise Killed
        self._give(word)

    def end(self) -> None:
        """Whoever made it is dead."""
        self._give("")

    def bury(self) -> None:
        """The test is over."""
        if self._thread.is_alive():
            self._put(None)
            self._thread.join(LIMIT_S)


def in_memory(
    patch: pytest.MonkeyPatch, module: ModuleType, clock: Clock, connect: Callable[[Any], Any]
) -> None:
    """Have a watchdog's module work as a thread of ours; `connect` gets the server it watches."""
    stdin = SimpleNamespace(readline=lambda: _this.watchdog.line)
    parts = {
        "time": clock,
        "connect": lambda _: connect(_this.watchdog.server),
        "signal": _signals(),
        "sys": SimpleNamespace(stdin=stdin),
        "word": lambda limit_s: _this.watchdog.word(limit_s),
        "abandoned": lambda limit_s: _this.watchdog.word(limit_s) != "done",
        "answer": lambda line: setattr(_this.watchdog, "answered", line),
    }
    for each in module, common:
        for name, part in parts.items():
            if hasattr(each, name):
                patch.setattr(each, name, part)


def _signals() -> SimpleNamespace:
    """The module `signal`, for a thread that is none: what it ignores is noted."""

    def note(number: signal.Signals, what: signal.Handlers) -> None:
        assert what == signal.SIG_IGN
        _this.watchdog.ignores.add(number.name)

    names = "SIGINT", "SIGTERM", "SIGHUP", "SIG_IGN"
    return SimpleNamespace(**{name: getattr(signal, name) for name in names}, signal=note)
