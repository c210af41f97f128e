"""Decide to which cluster time all members of a sharded cluster are restored. Pure.

Cluster times are whole seconds and a number within the second; every member of a cluster orders what it does
by them, and a message carries the sender's to whom it reaches. So a cut of all members at one cluster time is
one that no effect is on this side of, and its cause on the other.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from zbackup.model.errors import NotRecoverable, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.moment import Moment, local_text
from zbackup.plan.recovery.window import RecoveryWindow

_FRACTION = re.compile(r":[0-9]{2}[.,][0-9]")
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class CoveredSpan:
    """Every moment after `after` and up to `to` is covered by all members."""

    after: datetime
    to: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    """The facts about one member: its window, and the newest cluster time in its log by its server's word.

    `end` is None where that is not known.
    """

    window: RecoveryWindow
    end: ClusterTime | None


def common(members: Mapping[str, MemberFacts]) -> tuple[CoveredSpan, ...]:
    """The moments that are in the windows of all, oldest first; none without members."""
    found: list[CoveredSpan] | None = None
    for facts in members.values():
        own = [CoveredSpan(each.after, each.to) for each in facts.window.ranges]
        found = own if found is None else _both(found, own)
    return tuple(found or ())


def _both(one: list[CoveredSpan], other: list[CoveredSpan]) -> list[CoveredSpan]:
    pairs = (CoveredSpan(max(a.after, b.after), min(a.to, b.to)) for a in one for b in other)
    return sorted((span for span in pairs if span.after < span.to), key=lambda span: span.after)


def of_moment(moment: Moment) -> ClusterTime:
    """The cluster time before which everything before a moment is.

    One that counts from now is taken to the whole second before. Raise UsageError for a part of a second.
    """
    at = moment.exclusive_end
    if at.microsecond and _FRACTION.search(moment.text):
        raise UsageError(
            f"{moment.text} is within a second, and a cluster's clock knows whole seconds only: name one of "
            "the two next to it, or an exact cluster time with --to-timestamp SECONDS,INC"
        )
    return ClusterTime(int(at.timestamp()), 0)


def newest(members: Mapping[str, MemberFacts], zone: ZoneInfo) -> ClusterTime:
    """The latest cluster time that every member's log reaches, by its server's word.

    Raise NotRecoverable when a member's log is not known, or another member's window begins only later.
    """
    if unknown := [name for name, facts in members.items() if facts.end is None]:
        raise NotRecoverable(
            f"how far the log of {', '.join(unknown)} leads is not known: take a backup (zbackup snapshot)"
        )
    at = min(facts.end for facts in members.values() if facts.end is not None)
    require_covered(at, members, zone)
    return at


def newest_or_none(members: Mapping[str, MemberFacts], zone: ZoneInfo) -> ClusterTime | None:
    """The same; None where there is none."""
    try:
        return newest(members, zone)
    except NotRecoverable:
        return None


def require_covered(at: ClusterTime, members: Mapping[str, MemberFacts], zone: ZoneInfo) -> None:
    """Raise NotRecoverable, with each member's window, when one of them does not hold the cluster time."""
    lacking = [name for name, facts in members.items() if not covers(facts, at)]
    if not lacking:
        return
    shared = common(members)
    windows = "; ".join(f"{name}: {_window(facts, zone)}" for name, facts in members.items())
    ends = (
        f"all of them hold {'; '.join(_text(span, zone) for span in shared)}"
        if shared
        else ("there is no moment that all of them hold: take a backup of each member, and another later")
    )
    raise NotRecoverable(
        f"the cluster time {at} ({local_text(at.at, zone)}) is not in the window of {', '.join(lacking)}. "
        f"{windows}. {ends[0].upper()}{ends[1:]}"
    )


def covers(facts: MemberFacts, at: ClusterTime) -> bool:
    """Whether a member can be restored to a cluster time, by its window and by its log's end."""
    wanted = at.at + SECOND if at.increment else at.at
    reached = facts.end is not None and at <= facts.end
    last = facts.window.ranges[-1:]
    return any(
        each.after < at.at and (wanted <= each.to or (reached and each in last))
        for each in facts.window.ranges
    )


def _window(facts: MemberFacts, zone: ZoneInfo) -> str:
    whole = facts.window.overall
    return whole.describe(zone) if whole else "nothing can be restored yet"


def _text(span: CoveredSpan, zone: ZoneInfo) -> str:
    return f"what is after {local_text(span.after, zone)} up to {local_text(span.to, zone)}"
