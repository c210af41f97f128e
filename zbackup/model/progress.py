"""Progress of a job, as whoever is watching hears of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Progress(Protocol):
    """The protocol by which a job reports while it works. Nothing it does may depend on anybody looking.

    A job is a row of phases; each begins with phase() and ends where the next begins or the job returns.
    """

    def phase(self, name: str, detail: str = "") -> None:
        """A new phase begins, such as "starting the temporary server". `detail` is for the curious.

        With no name nothing is shown until the next: somebody is asked, or a result is printed.
        """

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        """`done` of `total` in this phase; `unit` "B" is bytes, anything else is a counted noun."""

    def note(self, text: str) -> None:
        """One line the operator should see, now and also when nobody watches the progress."""


class Silent:
    """Progress that nobody watches."""

    def phase(self, name: str, detail: str = "") -> None:
        """Say nothing."""

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        """Say nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of a job that is over, and how long it took. Phases of one name are counted together."""

    name: str
    seconds: float


class Stopwatch:
    """Another progress, with the time that each phase took. `clock` counts seconds, and never goes back."""

    def __init__(self, told: Progress, clock: Callable[[], float]) -> None:
        self._told, self._clock = told, clock
        self._spent: dict[str, float] = {}
        self._running = ""
        self._since = clock()

    def phase(self, name: str, detail: str = "") -> None:
        self._stop()
        self._running = name
        self._told.phase(name, detail)

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        self._told.advance(done, total, unit)

    def note(self, text: str) -> None:
        self._told.note(text)

    def phases(self) -> tuple[Phase, ...]:
        """All there were, in the order in which they began; the running one ends here."""
        self._stop()
        self._running = ""
        return tuple(Phase(name, seconds) for name, seconds in self._spent.items())

    def _stop(self) -> None:
        now = self._clock()
        if self._running:
            self._spent[self._running] = self._spent.get(self._running, 0.0) + now - self._since
        self._since = now
