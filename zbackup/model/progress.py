"""How a job tells whoever is watching how far it is."""

from typing import Protocol


class Progress(Protocol):
    """Where a job reports while it works. Nothing it does may depend on anybody looking.

    A job is a row of phases; each begins with phase() and ends where the next begins or the job returns.
    """

    def phase(self, name: str, detail: str = "") -> None:
        """A new phase begins, such as "starting the temporary server". `detail` is for the curious."""

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
