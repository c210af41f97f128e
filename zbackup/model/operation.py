"""An operation: what somebody at the web page asked for, how far it is, and what came of it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Verb = Literal["create", "reset", "extend", "destroy", "restore"]
State = Literal["running", "done", "failed", "cut short"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`id` names it. `who` asked, as the page knows them; `clone` is "" until a name is chosen. `phase` and
    `detail` say what it is doing, `done` of `total` of `unit` how far that is ("B" is bytes), 0 of 0 for
    unknown. `said` is the result in one line, or why there is none; `notes` is what came up on the way.
    `process` tells the process that works on it from all others.
    """

    id: str
    verb: Verb
    instance: str
    clone: str
    who: str
    began: datetime
    ended: datetime | None = None
    state: State = "running"
    phase: str = ""
    detail: str = ""
    done: int = 0
    total: int = 0
    unit: str = "B"
    notes: tuple[str, ...] = ()
    said: str = ""
    process: str = ""
