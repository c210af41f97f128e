"""Measure the cost of taking backups: a standstill of those who write, and space as a day goes by."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.disaster_turns import Note, Rows, Stopwatch
from bench.disaster_ways import ZBACKUP
from bench.standstill import PAUSE_S, AnyStage, standstill, writing
from tests.lab.pool import run

HOURS = 24

Take = Callable[[], int]
"""Takes a backup, and returns how many bytes of its own it has."""

Standstills = Mapping[str, Mapping[str, Any]]


def take_all(takes: Mapping[str, Take], note: Note) -> None:
    """Take a base in every way, with nobody at work beside."""
    for way, take in takes.items():
        watch = Stopwatch()
        size = take()
        note("taking", way, [watch.spent()], size)


def standstills(made: AnyStage, takes: Mapping[str, Take]) -> Standstills:
    """Milliseconds of the longest time without an answer while a backup is taken in each way, once."""
    answers = made.home / "answers"
    windows = {}
    with writing(made, answers):
        for way, take in takes.items():
            time.sleep(PAUSE_S)
            began = time.time_ns()
            take()
            windows[way] = (began, time.time_ns())
        time.sleep(PAUSE_S)
    pairs = (line.split(",") for line in answers.read_text().splitlines())
    # By the answers: who sent first is not always who is answered first.
    known = sorted((int(answered), int(sent)) for sent, answered in pairs)
    found = [(sent, answered) for answered, sent in known]
    return {way: {"standstill": standstill(found, window)} for way, window in windows.items()}


def add_costs(made: AnyStage, rows: Rows, still: Standstills, write: Callable[[], None]) -> None:
    """Add to the rows of taking what it costs too; `write` commits the small transactions of an hour."""
    for row in rows:
        if row["scene"] == "taking":
            row |= still[row["way"]]
            if row["way"] == ZBACKUP:
                row["day"] = day(made, write)


def day(made: AnyStage, write: Callable[[], None]) -> int:
    """Bytes that a snapshot every hour of a day occupies, with small transactions in between."""
    before = _occupied(made)
    for _ in range(HOURS):
        write()
        made.ask("snapshot")
    return _occupied(made) - before


def _occupied(made: AnyStage) -> int:
    """Read how much its snapshots alone hold."""
    run("zpool", "sync", made.pool.name)
    said = run("zfs", "get", "-Hpro", "value", "-t", "filesystem", "usedbysnapshots", made.pool.data.name)
    return sum(int(line) for line in said.split())
