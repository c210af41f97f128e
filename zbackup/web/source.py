"""The source of the pages' facts: questions to the reader's socket, and answers that are kept a while."""

import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from zbackup.model.errors import Refused
from zbackup.model.fleet import Fleet
from zbackup.model.operation import Operation
from zbackup.model.overview import Marks, MomentPlan, Overview
from zbackup.model.run import JobRun
from zbackup.proc.helper_socket import ask, ask_much

LONGEST = 64 << 20
"""Bytes of an answer: 100,000 backups have room."""
LIMIT_S = 120.0
FRESH_S, FLEET_FRESH_S, FOLLOWED_S = 10.0, 60.0, 2.0
"""Seconds for which an overview, the fleet, or how operations go is shown again without asking: each question
starts a process."""

T = TypeVar("T")
_OVERVIEW, _MOMENT, _MARKS = TypeAdapter(Overview), TypeAdapter(MomentPlan), TypeAdapter(Marks)
_HISTORY = TypeAdapter(tuple[JobRun, ...])
_OPERATIONS, _FLEET = TypeAdapter(tuple[Operation, ...]), TypeAdapter(Fleet)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneWish:
    """An order (features.webpage.operations.order) as the user wrote it. `id` makes asking twice the same."""

    verb: str
    who: str
    instance: str
    clone: str
    id: str = "0" * 16
    at: str = ""
    lease: str = ""


class WebSource(Protocol):
    """Answers of somebody who may look. Each raises Refused, with his reason, when there is none."""

    def overview(self) -> Overview:
        """All instances and clones."""

    def moment(self, instance: str, at: datetime) -> MomentPlan:
        """Return what a restore to a moment takes."""

    def marks(self, instance: str, since: datetime, until: datetime) -> Marks:
        """Statements that changed what tables there are."""

    def operations(self) -> tuple[Operation, ...]:
        """Operations that were asked for, the newest first."""

    def history(self) -> tuple[JobRun, ...]:
        """Runs of the daemon's jobs, the newest first."""

    def fleet(self) -> Fleet:
        """Every instance that ships to this host."""

    def order(self, wish: CloneWish) -> str:
        """Ask for an operation; its id."""

    def connect(self, wish: CloneWish) -> str:
        """The address of a clone, with its password."""

    def forget(self) -> None:
        """Something has changed: look again, next time."""


class SocketSource:
    """See Source: asks at the reader's socket, again each time."""

    def __init__(self, path: Path, cloner: Path) -> None:
        self._path, self._cloner = path, cloner

    def overview(self) -> Overview:
        return self._ask(_OVERVIEW, {"verb": "overview", "instance": "", "since": "", "until": ""})

    def moment(self, instance: str, at: datetime) -> MomentPlan:
        question = {"verb": "moment", "instance": instance, "since": at.isoformat(), "until": ""}
        return self._ask(_MOMENT, question)

    def marks(self, instance: str, since: datetime, until: datetime) -> Marks:
        times = {"since": since.isoformat(), "until": until.isoformat()}
        return self._ask(_MARKS, {"verb": "marks", "instance": instance, **times})

    def operations(self) -> tuple[Operation, ...]:
        return self._ask(_OPERATIONS, {"verb": "operations", "instance": "", "since": "", "until": ""})

    def history(self) -> tuple[JobRun, ...]:
        return self._ask(_HISTORY, {"verb": "history", "instance": "", "since": "", "until": ""})

    def fleet(self) -> Fleet:
        return self._ask(_FLEET, {"verb": "fleet", "instance": "", "since": "", "until": ""})

    def order(self, wish: CloneWish) -> str:
        return self._answer(wish, "operation")

    def connect(self, wish: CloneWish) -> str:
        return self._answer(wish, "address")

    def forget(self) -> None:
        """See Source."""

    def _answer(self, wish: CloneWish, key: str) -> str:
        said = ask(self._cloner, asdict(wish))
        try:
            return str(said[key])
        except KeyError as wrong:
            raise Refused(f"what answers at {self._cloner} is of another version") from wrong

    def _ask(self, shape: TypeAdapter[T], question: dict[str, str]) -> T:
        said = ask_much(self._path, question, longest=LONGEST, limit_s=LIMIT_S)
        if said.startswith(b'{"refused"'):
            raise Refused(_why(said))
        try:
            return shape.validate_json(said)
        except ValidationError as wrong:
            raise Refused(f"the reader at {self._path} is of another version: {wrong.title}") from wrong


def _why(said: bytes) -> str:
    try:
        found: Any = json.loads(said)
        return str(found["refused"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return "the reader's answer makes no sense"


class SharedSource:
    """A source whose overview is asked for by one at a time, and shown to all for a while.

    Nobody who wants to see it waits for somebody else's log to be read.
    """

    def __init__(self, source: WebSource, clock: Callable[[], float] = time.monotonic) -> None:
        self._source, self._clock = source, clock
        self._asking, self._reading, self._visiting = threading.Lock(), threading.Lock(), threading.Lock()
        self._found: Overview | None = None
        self._began = self._asked = 0.0
        self._fleet: Fleet | None = None
        self._fleet_asked = 0.0
        self._following = threading.Lock()
        self._went: tuple[Operation, ...] = ()
        self._went_began = self._went_asked = self._changed = -math.inf

    def overview(self) -> Overview:
        with self._asking:
            if self._found is None or not self._is_fresh(self._began, self._asked, FRESH_S):
                self._found, self._began = None, self._clock()
                self._found = self._source.overview()
                self._asked = self._clock()
            return self._found

    def moment(self, instance: str, at: datetime) -> MomentPlan:
        """See Source. One at a time: each reads a log."""
        with self._reading:
            return self._source.moment(instance, at)

    def marks(self, instance: str, since: datetime, until: datetime) -> Marks:
        with self._reading:
            return self._source.marks(instance, since, until)

    def operations(self) -> tuple[Operation, ...]:
        """See Source. However many follow one, somebody asks every other second."""
        with self._following:
            if not self._is_fresh(self._went_began, self._went_asked, FOLLOWED_S):
                self._went_began, self._went_asked = self._clock(), -math.inf
                self._went = self._source.operations()
                self._went_asked = self._clock()
            return self._went

    def _is_fresh(self, began: float, asked: float, seconds: float) -> bool:
        """Whether an answer still holds; one that was begun before something changed does not."""
        return began > self._changed and self._clock() - asked <= seconds

    def history(self) -> tuple[JobRun, ...]:
        return self._source.history()

    def fleet(self) -> Fleet:
        with self._visiting:
            if self._fleet is None or self._clock() - self._fleet_asked > FLEET_FRESH_S:
                self._fleet = None
                self._fleet = self._source.fleet()
                self._fleet_asked = self._clock()
            return self._fleet

    def order(self, wish: CloneWish) -> str:
        try:
            return self._source.order(wish)
        finally:
            self.forget()

    def connect(self, wish: CloneWish) -> str:
        return self._source.connect(wish)

    def forget(self) -> None:
        self._changed = self._clock()
