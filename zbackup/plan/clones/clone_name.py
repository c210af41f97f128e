"""Names of clones. Pure."""

import re
from collections.abc import Collection
from datetime import datetime
from itertools import count

from zbackup.model.errors import UsageError

_GOOD = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

MOST_OWN = 9
"""Names for each kind of recovery that zbackup makes for itself."""


def default_name(instance: str, target: datetime) -> str:
    """shop-20240501t100200z: the same question asked again gets the same name."""
    fraction = f"{target:%f}".rstrip("0")
    return f"{instance}-{target:%Y%m%dt%H%M%S}{fraction}z".lower()[:63]


def log_name(name: str) -> str:
    """The log source that belongs to the recovery of that name. No clone of a user's can be called so."""
    return f"{name}.log"


def drill_names(instance: str) -> tuple[str, ...]:
    """The names that the recovery of a drill may have: there is one at a time."""
    return _own(instance, "drill")


def search_names(instance: str) -> tuple[str, ...]:
    """The same of where a server reads a log for `zbackup log`."""
    return _own(instance, "search")


def undo_names(instance: str) -> tuple[str, ...]:
    """The same of what `zbackup undo` restores, where the log alone does not tell enough."""
    return _own(instance, "undo")


def own_names(instance: str) -> frozenset[str]:
    """The recoveries that zbackup makes for itself: whatever is called so, it may destroy."""
    return frozenset((*drill_names(instance), *search_names(instance), *undo_names(instance)))


def _own(instance: str, purpose: str) -> tuple[str, ...]:
    """The usual name, and those for the time when something keeps what had it from being removed."""
    lower, length = instance.lower(), 62 - len(purpose)
    others = (f"{lower[: length - 2]}-{purpose}-{n}" for n in range(2, MOST_OWN + 1))
    return (f"{lower[:length]}-{purpose}", *others)


def next_name(instance: str, taken: set[str]) -> str:
    """shop-dev1, or the next number that nobody has."""
    return next(name for n in count(1) if (name := f"{instance}-dev{n}") not in taken)


def numbered(name: str, wanted: int) -> list[str]:
    """The name, or name-1, name-2 ... of several; "" for each that has none yet."""
    if not name or wanted == 1:
        return [name] * wanted
    return [f"{name}-{n}" for n in range(1, wanted + 1)]


def copy_name(name: str) -> str:
    """What is fetched for the recovery of that name. No clone of a user's can be called so."""
    return f"{name}.copy"


def recovery_of(name: str) -> str:
    """The recovery that a log source or a copy belongs to, or the name itself."""
    return name.partition(".")[0]


def require_wanted(name: str, reserved: Collection[str]) -> None:
    """Raise UsageError unless a user's clone can have the name. `reserved` are own_names()."""
    require_good(name)
    if name in reserved:
        raise UsageError(f"{name} is a name that zbackup uses for that instance itself: choose another")


def require_good(name: str) -> None:
    """Raise UsageError unless it can be a dataset, a directory and a socket's directory."""
    if not _GOOD.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be a clone's name: use a-z, 0-9, - and _, at most 63, a-z or 0-9 first"
        )
