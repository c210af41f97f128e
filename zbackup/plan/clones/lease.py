"""Leases of dev clones: when one ends, and what is to be done about it. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from zbackup.model.clone import Clone

Verdict = Literal["runs", "ends soon", "protected", "over"]


def end_of(clone: Clone) -> datetime | None:
    """When the lease ends; None for never.

    Protection holds it up, but not longer than it lasts itself.
    """
    if not clone.until:
        return None
    until = datetime.fromisoformat(clone.until)
    return max(until, datetime.fromisoformat(clone.protected)) if clone.protected else until


def judge(clone: Clone, now: datetime, warn: timedelta) -> Verdict:
    """How a clone's lease stands."""
    if clone.protected and datetime.fromisoformat(clone.protected) > now:
        return "protected"
    end = end_of(clone)
    if end is None:
        return "runs"
    if end <= now:
        return "over"
    return "ends soon" if end - warn <= now else "runs"


def children_first(clones: Sequence[Clone]) -> list[Clone]:
    """The same in the order in which they can be destroyed: ZFS keeps a clone while another is made of it."""
    parents = {clone.name: clone.parent for clone in clones}

    def depth(clone: Clone) -> int:
        # Descriptions may name each other.
        count, name = 0, clone.parent
        while name in parents and count < len(parents):
            count, name = count + 1, parents[name]
        return count

    return sorted(clones, key=depth, reverse=True)
