"""A clock in memory, on which timers go off and sessions end that were silent for too long."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SLEEPS = 3000


@dataclass
class Timer:
    """threading.Timer, on a clock in memory."""

    clock: "Clock"
    seconds: float
    act: Callable[[], None]
    daemon: bool = False

    def start(self) -> None:
        self.clock.coming.append((self.clock.now + self.seconds, self))

    def cancel(self) -> None:
        self.clock.coming = [(at, timer) for at, timer in self.clock.coming if timer is not self]

    def join(self) -> None:
        """It acts within what it waits for."""


class Clock:
    """Stands in for the module `time`. Nobody is let wait again and again for ever."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.coming: list[tuple[float, Timer]] = []
        self.sessions: list[Any] = []
        self.slept = 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """Everything that is due meanwhile comes to pass, in its order; until something makes it `over`."""
        self.slept += 1
        assert seconds > 0 and self.slept < SLEEPS, "this waits for ever"
        end = self.now + seconds
        while (due := self._next()) <= end:
            self.now = max(self.now, due)
            for at, timer in list(self.coming):
                if at <= self.now:
                    timer.cancel()
                    timer.act()
            for session in self.sessions:
                session.end_if_silent()
            if over():
                return
        self.now = max(self.now, end)

    def _next(self) -> float:
        silent = [session.ends_at for session in self.sessions]
        return min([*silent, *(at for at, _ in self.coming)], default=math.inf)
