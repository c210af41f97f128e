"""Orders: who may give one, and which there are. Nothing in them is a path, a dataset or a command. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from zbackup.model import bounds
from zbackup.model.errors import Refused
from zbackup.model.operation import Verb
from zbackup.plan.clones.clone_name import require_good

FIELDS = frozenset(("verb", "id", "who", "instance", "clone", "at", "lease"))
VERBS = (*get_args(Verb), "connect")
MOST_LEASE = timedelta(days=31)
"""No clone that a page asked for stays longer, unless the configuration says so."""
MOST_WHO = 128
_ID = re.compile(r"[0-9a-f]{16,64}")
_LEASE = re.compile(r"[0-9]{1,8}")
ON_CLONES = ("reset", "extend", "destroy", "connect")

At = datetime | Literal["", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneOrder:
    """`verb` "connect" asks for a clone's address with its login, and is answered at once. `id` is chosen by
    who asks, so that asking twice does it once. `at` is a moment, or "latest" of a reset to the newest
    backup. `lease` is in seconds, None for what the configuration says."""

    verb: Verb | Literal["connect"]
    id: str
    who: str
    instance: str
    clone: str
    at: At
    lease: float | None


def require_role(uid: int, readers: frozenset[int], *, clones: bool) -> None:
    """Raise Refused unless who asks, as the kernel tells, may make and remove clones."""
    if uid != 0 and uid not in readers:
        raise Refused(f"user id {uid} may not ask for clones: [web] readers in the configuration names who")
    if not clones:
        raise Refused("clones are not made from the page: clones = true in [web] of the configuration")


def parse(line: str) -> CloneOrder:
    """Read an order. Raise Refused for what is none, and UsageError for a name that no clone can have."""
    try:
        asked: Mapping[str, Any] = bounds.strings(line, FIELDS)
    except ValueError as wrong:
        raise Refused("not an order") from wrong
    if asked["verb"] not in VERBS:
        raise Refused("not an order")
    if not _ID.fullmatch(asked["id"]):
        raise Refused("not an order")
    if asked["clone"] or asked["verb"] in ON_CLONES:
        require_good(asked["clone"])
    try:
        who = bounds.plain(asked["who"], MOST_WHO)
        at = _at(asked["verb"], asked["at"])
    except ValueError as wrong:
        raise Refused("not an order") from wrong
    return CloneOrder(
        verb=asked["verb"],
        id=asked["id"],
        who=who,
        instance=asked["instance"],
        clone=asked["clone"],
        at=at,
        lease=_lease(asked["lease"]),
    )


def require_lease(wanted: float | None, configured: float | None) -> float | None:
    """Return the seconds of a lease. Raise Refused for one that is longer than a page may give."""
    if wanted is None:
        return configured
    if wanted > max(MOST_LEASE.total_seconds(), configured or 0):
        raise Refused(f"a lease of more than {MOST_LEASE.days} days is given by zbackup clone extend alone")
    return wanted


def _at(verb: str, text: str) -> At:
    if verb == "reset":
        if text not in ("", "latest"):
            raise ValueError("a clone is reset to where it came from, or to the newest")
        return "latest" if text else ""
    if not text and verb != "restore":
        return ""
    return bounds.moment(text)


def _lease(text: str) -> float | None:
    if not text:
        return None
    if not _LEASE.fullmatch(text) or not int(text):
        raise Refused("not an order")
    return float(text)
