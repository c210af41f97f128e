"""The source of the pages' facts: questions to the reader's socket, and answers that are kept a while."""

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from zbackup.model.errors import Refused
from zbackup.model.overview import Marks, MomentPlan, Overview
from zbackup.proc.helper import ask_much

LONGEST = 64 << 20
"""Bytes of an answer: 100,000 backups have room."""
LIMIT_S = 120.0
FRESH_S = 10.0
"""So long an overview is shown again without asking."""

T = TypeVar("T")
_OVERVIEW, _MOMENT, _MARKS = TypeAdapter(Overview), TypeAdapter(MomentPlan), TypeAdapter(Marks)


class Source(Protocol):
    """Answers of somebody who may look. Each raises Refused, with his reason, when there is none."""

    def overview(self) -> Overview:
        """All instances and clones."""

    def moment(self, instance: str, at: datetime) -> MomentPlan:
        """Return what a restore to a moment takes."""

    def marks(self, instance: str, since: datetime, until: datetime) -> Marks:
        """Statements that changed what tables there are."""


class SocketSource:
    """See Source: asks at the reader's socket, again each time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def overview(self) -> Overview:
        """See Source."""
        return self._ask(_OVERVIEW, {"verb": "overview", "instance": "", "since": "", "until": ""})

    def moment(self, instance: str, at: datetime) -> MomentPlan:
        """See Source."""
        question = {"verb": "moment", "instance": instance, "since": at.isoformat(), "until": ""}
        return self._ask(_MOMENT, question)

    def marks(self, instance: str, since: datetime, until: datetime) -> Marks:
        """See Source."""
        times = {"since": since.isoformat(), "until": until.isoformat()}
        return self._ask(_MARKS, {"verb": "marks", "instance": instance, **times})

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


class Kept:
    """A source whose overview is asked for by one at a time, and shown to all for a while."""

    def __init__(self, source: Source, clock: Callable[[], float] = time.monotonic) -> None:
        self._source, self._clock = source, clock
        self._asking = threading.Lock()
        self._found: Overview | None = None
        self._asked = 0.0

    def overview(self) -> Overview:
        """See Source."""
        with self._asking:
            if self._found is None or self._clock() - self._asked > FRESH_S:
                self._found = None
                self._found = self._source.overview()
                self._asked = self._clock()
            return self._found

    def moment(self, instance: str, at: datetime) -> MomentPlan:
        """See Source. One at a time: each reads a log."""
        with self._asking:
            return self._source.moment(instance, at)

    def marks(self, instance: str, since: datetime, until: datetime) -> Marks:
        """See Source."""
        with self._asking:
            return self._source.marks(instance, since, until)
