"""Weeks of a daemon, in a quarter of an hour.

A snapshot every five seconds under load and a prune every fifteen, a restart every thirty (told to stop, then
killed, in turn), and in the end ten random moments of the promised window, which must all be restorable.
"""

import os
import time
from collections import Counter
from datetime import timedelta

import pytest

from tests.lab.variants import Variant
from tests.system.conftest import house
from tests.system.daemon_story import CADENCE_S, live, restore_anywhere
from tests.system.house import House

__all__ = ["house"]

SECONDS = float(os.environ.get("ZBACKUP_SLOW_SECONDS", "900"))
RESTART_EVERY = 30.0
MOMENTS = 10
WINDOW_MINUTES = 6


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


@pytest.mark.timeout(3600)
def test_every_moment_of_a_hard_life_is_restorable(house: House) -> None:
    journal = house.home / "journal"
    config = house.configure(
        "daemon",
        schedule={"snapshot": f"{CADENCE_S}s", "prune": "15s"},
        retention={
            "keep": [f"every 1 minute for {WINDOW_MINUTES} minutes"],
            "window": f"{WINDOW_MINUTES} minutes",
        },
        daemon={"watch": "20s"},
    )
    life = live(house, config, journal, seconds=SECONDS, restart_every=RESTART_EVERY)
    counts = Counter(event["event"] for event in life.events)
    failed = [e for e in life.events if e["event"] in ("job.failed", "job.defect", "daemon.gave_up")]
    held = sorted(b["lock_held_ms"] for b in life.backups if b["lock_held_ms"] is not None)
    print(
        f"{SECONDS:g} s, {life.starts} starts, {len(life.backups)} backups, {len(failed)} failed jobs, "
        f"{counts['snapshot.created']} snapshots, {counts['prune.destroyed']} pruned, "
        f"{counts['leftover.healed']} leftovers healed"
    )
    print(
        f"{life.load.transactions} transactions, {life.load.rate:.0f}/s, "
        f"longest stall {life.load.stall:.0f} ms; "
        f"lock held {held[len(held) // 2]} ms (median), {held[-1]} ms (most)"
    )
    assert failed == []
    assert house.sessions() == []
    assert [b["name"] for b in life.backups if not (b["complete"] and b["finished"])] == []
    assert counts["snapshot.created"] >= SECONDS / RESTART_EVERY, "not even one between two restarts"
    assert counts["prune.destroyed"] > 0
    seed, begin = int(time.time()), max(life.after, life.end - timedelta(minutes=WINDOW_MINUTES))
    print(f"seed {seed}; {begin.isoformat()} to {life.end.isoformat()}")
    restore_anywhere(house, config, journal, begin=begin, end=life.end, times=MOMENTS, seed=seed)
