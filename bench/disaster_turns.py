"""Ways back from a disaster in turn, and what each took."""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.report import median
from tests.lab.demo_stage import say

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Spent:
    """The cost of one run: seconds on the clock, and CPU seconds of the whole guest."""

    seconds: float
    cpu: float


class Stopwatch:
    """Begins when it is made."""

    def __init__(self) -> None:
        self._began, self._busy = time.monotonic(), _busy()

    def spent(self) -> Spent:
        return Spent(time.monotonic() - self._began, _busy() - self._busy)


def _busy() -> float:
    numbers = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Asked:
    """The measurements that are asked for."""

    gib: float
    rounds: int
    transactions: int
    scenes: frozenset[str]


def asked_for(words: Sequence[str]) -> Asked:
    """Read the words that bench.disaster starts a guest with: GIB ROUNDS TRANSACTIONS SCENE..."""
    gib, rounds, transactions, *scenes = words
    return Asked(float(gib), int(rounds), int(transactions), frozenset(scenes))


Note = Callable[[str, str, list[Spent], int], None]
"""Takes the scene, the way, what each round took, and how many bytes it made."""

Turn = Callable[[str], Spent]
"""One run of a way back, under a name that no other has."""


def noting(rows: Rows, server: str, gib: float, out: Path) -> Note:
    """Adds to the rows, and writes them down as soon as they are known."""

    def note(scene: str, way: str, spent: list[Spent], size: int = 0) -> None:
        seconds = [each.seconds for each in spent]
        row = {"server": server, "gib": gib, "scene": scene, "way": way, "seconds": median(seconds)}
        row |= {"cpu": median([each.cpu for each in spent]), "rounds": seconds, "bytes": size}
        rows.append(row)
        out.write_text(json.dumps(rows))
        say(f"{server} {gib:g} GiB, {scene}, {way}: {', '.join(f'{s:.1f}' for s in seconds)} s")

    return note


def in_turn(
    scene: str, turns: Mapping[str, Turn], rounds: int, note: Note, *, once: frozenset[str] = frozenset()
) -> None:
    """All ways in turn, the other way round every second time; those of `once` in the first round alone."""
    spent: dict[str, list[Spent]] = {way: [] for way in turns}
    for number in range(rounds):
        for way in list(turns)[:: -1 if number % 2 else 1]:
            if way not in once or number == 0:
                spent[way].append(turns[way](f"{scene}{number}{list(turns).index(way)}"))
    for way, all_of_it in spent.items():
        note(scene, way, all_of_it, 0)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a directory."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(f.stat().st_size for f in files if f.is_file())
