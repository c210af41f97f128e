"""Which CPU of this machine a guest runs on.

A guest has one CPU: its kernel and the program it runs take turns. On two CPUs each turn wakes
the other one, which takes two to three times as long as the turn itself; on one it is a change of tasks.
"""

import json
import os
from collections.abc import Iterable

from tests.lab import places, runs


def quietest() -> int:
    """The CPU of ours with the fewest guests, whoever of this user started them."""
    return fewest(os.sched_getaffinity(0), _taken())


def fewest(ours: Iterable[int], taken: Iterable[int]) -> int:
    """The CPU of `ours` that is least often in `taken`."""
    guests = list(taken)
    return min(sorted(ours), key=guests.count)


def _taken() -> list[int]:
    """The CPU of each guest that runs."""
    found: list[int] = []
    for path in places.runs().iterdir():
        try:
            guest = json.loads((path / "owner.json").read_text())["guest"]
            if runs.is_alive(guest):
                found += os.sched_getaffinity(guest[0])
        except (OSError, ValueError):
            continue  # it is being made, or has just ended
    return found
