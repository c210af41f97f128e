"""What a measured job says to nobody, and when its phases began."""

import logging
import time

import structlog


def quiet() -> None:
    """Only errors are logged."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


class Silent:
    """A Progress that nobody looks at; it notes when each phase began."""

    def __init__(self) -> None:
        self.began: dict[str, float] = {}

    def phase(self, name: str, detail: str = "") -> None:
        """Note it."""
        self.began[name] = time.monotonic()

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        """Nobody looks."""

    def note(self, text: str) -> None:
        """Nobody looks."""
