"""Measure the CPU time of deciding which backups stay: `python -m bench.retention`."""

import gc
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from bench.report import circumstances, median, table, write
from zbackup.config.retention import tier
from zbackup.model.backup import Backup
from zbackup.model.record import Record
from zbackup.model.retention import Retention
from zbackup.model.snapshot import Snapshot
from zbackup.plan.recovery.window import LiveLog, recovery_window
from zbackup.plan.retention.retention import plan_retention

ROUNDS = 5
COUNTS = (1_000, 10_000, 100_000)
CADENCE = timedelta(minutes=5)
START = datetime(2023, 6, 1, tzinfo=UTC)
ZONE = ZoneInfo("Europe/Berlin")
RULES = Retention(
    tiers=tuple(
        tier(rule)
        for rule in (
            "every 5 minutes for 2 hours",
            "hourly for 2 days",
            "daily for 30 days",
            "weekly for 8 weeks",
            "monthly for 12 months",
            "yearly forever",
        )
    ),
    last=3,
)
PLAIN = Record(
    backup="",
    instance="shop",
    engine="mysql",
    members=(("tank/mysql", "/tank/mysql"),),
    taken=START,
    lock="none",
    server_uuid="u",
    server_version="9.7.4",
)


def backups(count: int) -> list[Backup]:
    """One every five minutes, of a server that purges its log after a day."""
    found = []
    for number in range(1, count + 1):
        taken = START + CADENCE * number
        record = replace(
            PLAIN,
            backup=str(number),
            taken=taken,
            as_of=taken,
            complete_to=taken,
            log_id="log",
            log_from=f"binlog.{max(1, number - 288):06}:4",
            log_to=f"binlog.{number:06}:1000",
        )
        snapshot = Snapshot(
            dataset="tank/mysql", name=f"zbackup-{number}", guid=number, createtxg=number, created=taken
        )
        found.append(Backup(record=record, snapshots=(snapshot,)))
    return found


def main() -> int:
    """Write the table."""
    rows = []
    for count in COUNTS:
        there = backups(count)
        now = START + CADENCE * (count + 1)
        live = LiveLog("log", there[-1].record.log_to)
        plans, windows, kept = [], [], 0
        for _ in range(ROUNDS):
            gc.collect()
            began = time.process_time()
            kept = len(plan_retention(there, RULES, now, ZONE, {}).keep)
            planned = time.process_time()
            recovery_window(there, live, now)
            plans.append(planned - began)
            windows.append(time.process_time() - planned)
        rows.append([f"{count:,}", str(kept), f"{median(plans):.3f} s", f"{median(windows):.3f} s"])
    head = (
        "Backups there are",
        "kept",
        "what stays and what goes, with reasons",
        "recovery window with gaps",
    )
    text = f"{table(head, rows)}\n\nMedians of {ROUNDS}. {circumstances('python -m bench.retention')}"
    write("retention", text)
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
