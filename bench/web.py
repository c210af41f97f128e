"""Measure the CPU time of a page of `zbackup web` that shows much: `python -m bench.web`."""

import logging
import sys
import time
from dataclasses import replace
from datetime import timedelta

import structlog

from bench.report import circumstances, median, table, write
from tests.unit.web.browsing import logged_in
from tests.unit.web.host import NOW, Told, ago, backups, host, shop
from zbackup.model.overview import OverviewGap

ROUNDS = 5
YEAR = timedelta(days=365)
COUNTS = (100, 1_000, 10_000)
GAPS = 200
MOST_S, MOST_BYTES = 0.3, 200_000
PAGES = (
    ("a year", "/instance/shop"),
    ("its last hour, to the minute", "/instance/shop?from=-1h&to=now"),
    ("the overview", "/"),
)


def main() -> int:
    """Draw pages of a year with many backups and gaps; fails when one is too slow, or too long."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    rows, good = [], True
    for count in COUNTS:
        gaps = tuple(
            OverviewGap(
                after=ago(days=n + 1),
                to=ago(days=n, hours=23),
                cause="purged",
                older="a",
                newer="b",
                why="gone",
            )
            for n in range(GAPS)
        )
        there = backups(count, YEAR / count, oldest=NOW - YEAR)
        browser = logged_in(Told(host(replace(shop(), backups=there, gaps=gaps))))
        for name, path in PAGES:
            browser.get(path)  # its template is read once
            seconds, size = [], 0
            for _ in range(ROUNDS):
                began = time.process_time()
                size = len(browser.get(path).content)
                seconds.append(time.process_time() - began)
            took = median(seconds)
            good = good and took < MOST_S and size < MOST_BYTES
            rows.append([f"{count:,}", name, f"{took * 1000:.0f} ms", f"{size / 1000:.0f} KB"])
    text = table(["backups", "page", "CPU time", "size"], rows)
    write("web", f"{circumstances('python -m bench.web')}; {ROUNDS} rounds each, the middle one\n\n{text}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
