"""Repeats of one story: `make test` tells some of them, `make test-slow` tells all."""

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ALL = os.environ.get("ZBACKUP_REPEATS") == "all"
"""Whether every repeat is to be told."""


def some(repeats: Sequence[T], *kept: T) -> list[T]:
    """Those of `repeats` that are to be told: all, or only the ones `kept`, each of which must be there."""
    assert kept and all(repeat in repeats for repeat in kept), kept
    return [repeat for repeat in repeats if ALL or repeat in kept]


def step(usual: int) -> int:
    """How far apart the places are at which something is cut off: 1 where every repeat is to be told."""
    return 1 if ALL else usual
