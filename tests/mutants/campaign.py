"""`python -m tests.mutants.campaign [--most N] [--seed N] [--tests TEST...] [-- WORD...]`: small changes.

The changes come in an order of chance, so that a campaign that is stopped has seen some of everything. What
no test finds is printed as it comes; each such line is killed by a test, or explained in
docs/reference/slow-tests.md.
"""

import argparse
import math
import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from tests.mutants.__main__ import ROOT, copy_of_the_project, fails, leave_for, rewrite
from tests.mutants.changes import Change, changed, changes
from tests.mutants.warm import Warm

TESTS: dict[str, tuple[str, ...]] = {
    "zbackup/plan/archive.py": (
        "tests/unit/plan/test_plan_archive.py",
        "tests/unit/jobs/test_archive.py",
        "tests/unit/engines/mysql/test_archive_follow.py",
        "tests/unit/engines/mongodb/test_archive.py",
    ),
    "zbackup/plan": ("tests/unit/plan",),
    "zbackup/engines/mysql/recovery": ("tests/unit/engines/mysql",),
    "zbackup/engines/mongodb/recovery": ("tests/unit/engines/mongodb",),
    "zbackup/engines/mysql/lock": (
        *(f"tests/unit/engines/mysql/test_{name}.py" for name in ("ceiling", "lock_confirmed", "lock")),
        *(f"tests/unit/engines/mysql/test_{name}.py" for name in ("applier", "orders", "long_queries")),
        "tests/unit/engines/test_watchdogs.py",
    ),
    "zbackup/engines/mongodb/lock": (
        *(f"tests/unit/engines/mongodb/test_{name}.py" for name in ("lock", "lock_watchdog")),
        "tests/unit/engines/mongodb/test_taking_the_lock.py",
        *(f"tests/unit/engines/mongodb/test_{name}.py" for name in ("looking", "written_down")),
        "tests/unit/engines/test_watchdogs.py",
    ),
    **dict.fromkeys(
        ("zbackup/engines/watchdog.py", "zbackup/engines/marker_file.py"),
        (
            *(f"tests/unit/engines/mysql/test_{name}.py" for name in ("applier", "orders")),
            *(f"tests/unit/engines/mongodb/test_{name}.py" for name in ("lock_watchdog", "written_down")),
            "tests/unit/engines/test_watchdogs.py",
        ),
    ),
    "zbackup/engines/mysql/binlog/find_stop.py": ("tests/unit/engines/binlog", "tests/unit/engines/mysql"),
    "zbackup/destinations/copies.py": ("tests/unit/destinations", "tests/fast/test_shipping.py"),
    "zbackup/destinations/zfs_archive.py": ("tests/unit/destinations/test_zfs_archive.py",),
    "zbackup/destinations/archived_bytes.py": ("tests/unit/destinations/test_archived_bytes.py",),
    "zbackup/destinations/zfs_destination.py": (
        *(f"tests/fast/test_{name}.py" for name in ("destination", "shipping", "restore")),
    ),
    "zbackup/destinations/s3": ("tests/unit/destinations",),
    "zbackup/destinations/base.py": ("tests/unit/destinations",),
    "zbackup/destinations/archive_leftovers.py": ("tests/unit/destinations",),
    "zbackup/catalog": ("tests/unit/catalog", "tests/fast"),
    "zbackup/jobs": ("tests/fast", "tests/unit/jobs"),
    "zbackup/features/init": (
        "tests/unit/cli/test_cli_init.py",
        *(f"tests/fast/test_init_{name}.py" for name in ("story", "asked")),
    ),
    "zbackup/features/init/install_service.py": ("tests/fast/test_init_asked.py",),
    "zbackup/features": (
        "tests/fast",
        *(f"tests/unit/{name}" for name in ("jobs", "plan", "engines", "cli")),
    ),
}
"""By the beginning of a module's path, the tests that should find a change of it."""


def near(file: str) -> tuple[str, ...]:
    """The tests that name the module, which mostly find a change at once."""
    room, _, name = file.removesuffix(".py").replace("/", ".").rpartition(".")
    named = re.compile(rf"\b{re.escape(room)}(\.{name} import\b| import .*\b{name}\b)")
    tests = [
        test for part in ("tests/unit", "tests/fast") for test in sorted((ROOT / part).rglob("test_*.py"))
    ]
    return tuple(str(test.relative_to(ROOT)) for test in tests if named.search(test.read_text()))


def tests_of(file: str) -> tuple[str, ...]:
    return next(tests for begin, tests in TESTS.items() if file.startswith(begin))


def modules() -> list[str]:
    """All files that are changed."""
    files = (str(file.relative_to(ROOT)) for file in sorted((ROOT / "zbackup").rglob("*.py")))
    return [file for file in files if any(file.startswith(begin) for begin in TESTS)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.campaign")
    parser.add_argument("--most", type=int, default=0, help="no more changes than that")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--tests", nargs="+", default=(), help="by these tests alone")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="of tests for a change, quickest first"
    )
    parser.add_argument("words", nargs="*", help="only changes whose FILE:LINE: WHAT holds one of these")
    given = parser.parse_args()
    planned = [(file, change) for file in modules() for change in changes((ROOT / file).read_text())]
    planned = [
        each for each in planned if not given.words or any(word in said(*each) for word in given.words)
    ]
    random.Random(given.seed).shuffle(planned)
    planned = planned[: given.most or None]
    files = {file for file, _ in planned}
    print(f"{len(planned)} changes of {len(files)} modules, seed {given.seed}", flush=True)
    tests = given.tests or sorted({test for file in files for test in (*near(file), *tests_of(file))})
    alive = 0
    with copy_of_the_project() as home, at_home(home) as out:

        def tell(file: str, change: Change, found: bool | None, tried: int) -> None:
            nonlocal alive
            anew = found is None
            found = _found(home, file, change) if found is None else found
            alive += not found
            least = " (tried anew)" if anew else "" if tried or found else " (no test comes there)"
            print(f"{'found' if found else 'NOT FOUND'}: {said(file, change)}{least}", file=out, flush=True)

        warm = Warm(home, planned, tell, given.seconds)
        status = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests], plugins=[warm])
        if warm.failed or status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            tail = os.pread(1, os.fstat(1).st_size, 0).decode(errors="replace")[-2000:]
            print(f"{tail}\nfailed before anything is changed: {warm.failed}", file=out, flush=True)
            return 1
        print(f"{len(planned) - alive} of {len(planned)} were found", file=out, flush=True)
    return 0


def said(file: str, change: Change) -> str:
    return f"{file}:{change.line}: {change.what}"


@contextmanager
def at_home(home: Path) -> Iterator[TextIO]:
    """This process works in the copy from now on; what tests say is not shown. Give what can."""
    out = os.fdopen(os.dup(1), "w")
    leave_for(home)
    with tempfile.TemporaryFile() as told:
        os.dup2(told.fileno(), 1)
        os.dup2(told.fileno(), 2)
        try:
            yield out
        finally:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)


def _found(home: Path, file: str, change: Change) -> bool:
    """By a process that reads all anew."""
    target = home / file
    whole = target.read_text()
    rewrite(target, changed(whole, change))
    try:
        return any(fails(home, tests) for tests in (near(file), tests_of(file)) if tests)
    finally:
        rewrite(target, whole)


if __name__ == "__main__":
    sys.exit(main())
