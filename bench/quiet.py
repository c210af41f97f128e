"""Progress of a measured job: shown to nobody, with the times at which its phases began."""

import logging
import time

import structlog


def quiet() -> None:
    """Only errors are logged."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


class Silent:
    """A Progress that nobody looks at; it notes when each phase began, and first advanced."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}
        self.advanced: dict[str, float] = {}
        self._phase = ""

    def phase(self, name: str, detail: str = "") -> None:
        """Note it."""
        self._phase = name
        self.began[name] = time.monotonic()

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        """Note when there was first anything to tell of a phase."""
        self.advanced.setdefault(self._phase, time.monotonic())

    def note(self, text: str) -> None:
        """Nobody looks."""
