"""Measure the CPU time of looking at a fleet, and of showing it: `python -m bench.fleet`."""

import logging
import sys
import time

import structlog

from bench.report import circumstances, median, table, write
from tests.unit.fleets import NOW, ROOT, many
from tests.unit.web.browsing import logged_in
from tests.unit.web.host import Told
from zbackup.features.fleet.judgement import judged
from zbackup.features.fleet.look import of_dataset
from zbackup.model.fleet import Fleet
from zbackup.zfs.datasets import Zfs

ROUNDS = 5
COUNTS = (10, 100, 1_000)
BACKUPS = 30
MOST_S = 2.0


def main() -> int:
    """Look at fleets; fails when 1,000 instances take longer than they may."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    rows, good = [], True
    for count in COUNTS:
        there = many(count, BACKUPS, NOW)
        looked, shown, size = [], [], 0
        for _ in range(ROUNDS):
            began = time.process_time()
            members, _ = of_dataset(Zfs(there), ROOT)
            fleet = Fleet(looked=NOW, members=judged(members, NOW, None))
            looked.append(time.process_time() - began)
            source = Told()
            source.ships = fleet
            browser = logged_in(source)
            began = time.process_time()
            size = len(browser.get("/fleet").content)
            shown.append(time.process_time() - began)
        took = median(looked)
        good = good and took + median(shown) < MOST_S and len(fleet.members) == count
        snapshots = f"{len(there.lines):,}"
        page = f"{median(shown) * 1000:.0f} ms, {size / 1000:.0f} KB"
        rows.append([f"{count:,}", snapshots, f"{took * 1000:.0f} ms", page])
    text = table(["instances", "snapshots", "looking (CPU)", "the page (CPU, size)"], rows)
    write(
        "fleet", f"{circumstances('python -m bench.fleet')}; {ROUNDS} rounds each, the middle one\n\n{text}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
