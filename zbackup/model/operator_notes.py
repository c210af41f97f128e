"""An operator's notes on an instance: that its jobs are to wait, or that its problems are known."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from zbackup.model.json_fields import Moment


class Problem(NamedTuple):
    """The part of a finding that stays the same from look to look."""

    severity: str
    subject: str
    key: str = ""

    def __str__(self) -> str:
        return f"{f'{self.subject} {self.key}'.strip()} ({self.severity})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """The daemon begins none of the instance's scheduled jobs before `until`."""

    until: Moment
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """These `problems` are known until then and call nobody. Others, and the same got worse, still do."""

    until: Moment
    reason: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorNotes:
    """The notes on all instances, by the instance's name."""

    paused: Mapping[str, Pause] = field(default_factory=dict)
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)

    def pause_of(self, instance: str, now: datetime) -> Pause | None:
        """The pause that is not over yet."""
        found = self.paused.get(instance)
        return found if found and found.until > now else None

    def acknowledgement_of(self, instance: str, now: datetime) -> Acknowledgement | None:
        """The acknowledgement that is not over yet."""
        found = self.acknowledged.get(instance)
        return found if found and found.until > now else None


NO_NOTES = OperatorNotes()
