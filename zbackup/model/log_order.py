"""Find where the times in a log contradict its order by more than is ordinary. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from zbackup.model.commit_times import SLOW_AMONG, Rules, Span

MOST: Final = 20
"""More are counted, and not kept."""

FileSpan = tuple[int, Span]
"""A log file's number, and the transaction."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`ahead` has a time that is later than that of `behind`, which follows it, or (None) than any that there
    was: the clock when the log was looked at."""

    ahead: FileSpan
    behind: FileSpan | None


class OrderWatch:
    """Looks at transactions in the order of their log. Times later than `ceiling` are certainly wrong."""

    def __init__(self, ceiling: int, rules: Rules) -> None:
        self._ceiling, self._rules = ceiling, rules
        self._newest: FileSpan | None = None
        self._run = 0
        self.latest: int | None = None
        """The latest time that can be right."""
        self.open_end = False
        """True while the last transactions have no time that can be right."""
        self.found: list[Contradiction] = []
        self.more = 0

    def add(self, file: int, spans: Iterable[Span]) -> None:
        """Read a file's transactions."""
        ceiling, tolerance = self._ceiling, self._rules.tolerance
        # On MariaDB single ones are behind because their statements were slow.
        telling = SLOW_AMONG if self._rules.starts else 1
        latest = -1 if self.latest is None else self.latest
        newest, run = self._newest, self._run
        for span in spans:
            committed = span[2]
            if committed > ceiling:
                if not self.open_end:
                    self._note(Contradiction((file, span), None))
                self.open_end = True
                continue
            self.open_end = False
            if committed >= latest:
                latest, newest, run = committed, (file, span), 0
            elif committed < latest - tolerance:
                run += 1
                if run == telling and newest:
                    self._note(Contradiction(newest, (file, span)))
            else:
                run = 0
        self.latest = latest if latest >= 0 else None
        self._newest, self._run = newest, run

    def _note(self, found: Contradiction) -> None:
        if len(self.found) < MOST:
            self.found.append(found)
        else:
            self.more += 1
