"""What taking backups costs: a standstill of those who write, and room as a day goes by."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.disaster_ways import DUMP, PHYSICAL, ZBACKUP, take_dump, take_physical
from bench.replay import write_rows
from bench.standstill import PAUSE_S, standstill, writing
from tests.lab.demo_stage import Stage
from tests.lab.pool import run

HOURS = 24
EVERY_HOUR = 2000
"""Small transactions between two snapshots."""


def standstills(made: Stage, others: Path) -> dict[str, Mapping[str, Any]]:
    """Milliseconds of the longest time without an answer while a backup is taken in each way, once."""
    takes: dict[str, Callable[[], object]] = {ZBACKUP: lambda: made.ask("snapshot")}
    if made.kind == "mariadb":
        takes[PHYSICAL] = lambda: take_physical(made, others / "stood-still")
    takes[DUMP] = lambda: take_dump(made, others / "stood-still.sql")
    answers = made.home / "answers"
    windows = {}
    with writing(made, answers):
        for way, take in takes.items():
            time.sleep(PAUSE_S)
            began = time.time_ns()
            take()
            windows[way] = (began, time.time_ns())
        time.sleep(PAUSE_S)
    shutil.rmtree(others / "stood-still", ignore_errors=True)
    (others / "stood-still.sql").unlink()
    found = sorted((int(sent), int(answered)) for sent, answered in _pairs(answers))
    return {way: {"standstill": standstill(found, window)} for way, window in windows.items()}


def _pairs(answers: Path) -> list[list[str]]:
    return [line.split(",") for line in answers.read_text().splitlines()]


def day(made: Stage) -> int:
    """Bytes that a snapshot every hour of a day occupies, with small transactions in between."""
    before = _occupied(made)
    for _ in range(HOURS):
        write_rows(made.server, EVERY_HOUR)
        made.ask("snapshot")
    return _occupied(made) - before


def _occupied(made: Stage) -> int:
    """What its snapshots alone hold."""
    run("zpool", "sync", made.pool.name)
    said = run("zfs", "get", "-Hpro", "value", "-t", "filesystem", "usedbysnapshots", made.pool.data.name)
    return sum(int(line) for line in said.split())
