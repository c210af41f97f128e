"""`python -m tests.mutants.campaign [--most N] [--seed N] [WORD...]`: small changes of what decides.

First it is measured which tests run what: a change is shown to those alone that run its function, the
nearest first. The changes come in an order of chance, so that a campaign that is stopped has seen some of
everything. What no test finds is printed as it comes; each such line is killed by a test, or explained in
docs/reference/slow-tests.md.
"""

import argparse
import random
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.mutants.__main__ import ROOT, copy_of_the_project, fails, rewrite
from tests.mutants.changes import Change, changed, changes
from tests.mutants.reaching import Ran, measured, reaching

TESTS: dict[str, tuple[str, ...]] = {
    "zbackup/plan": ("tests/unit/plan",),
    "zbackup/engines/mysql/recovery/verify_replay.py": ("tests/unit/engines/mysql",),
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
    "zbackup/engines/mysql/binlog/find_stop.py": ("tests/unit/engines/binlog", "tests/unit/engines/mysql"),
    "zbackup/destinations/copies.py": ("tests/unit/destinations", "tests/fast/test_shipping.py"),
    "zbackup/destinations/zfs_destination.py": ("tests/fast/test_shipping.py", "tests/fast/test_restore.py"),
    "zbackup/jobs/clone": ("tests/fast/test_clones.py", "tests/fast/test_identities.py", "tests/unit/jobs"),
    "zbackup/jobs/switch": ("tests/fast/test_switch.py", "tests/unit/jobs"),
    "zbackup/jobs/ship": ("tests/fast/test_shipping.py", "tests/unit/jobs"),
    "zbackup/jobs/backup/prune.py": (
        "tests/fast/test_prune.py",
        "tests/fast/test_shipping.py",
        "tests/unit/jobs",
    ),
    "zbackup/jobs/backup/snapshot.py": ("tests/fast/test_snapshot.py", "tests/unit/jobs"),
    "zbackup/jobs/backup/complete_record.py": ("tests/fast/test_snapshot.py", "tests/unit/jobs"),
    "zbackup/jobs/ship/stale_holds.py": ("tests/fast/test_shipping.py", "tests/unit/jobs"),
    "zbackup/jobs/cleanup/cleanup.py": (
        "tests/fast/test_clones.py",
        "tests/fast/test_snapshot.py",
        "tests/unit/jobs",
    ),
    "zbackup/jobs": ("tests/fast/test_restore.py", "tests/unit/jobs"),
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


def shown_to(file: str) -> list[str]:
    """All files of tests that a change of this module is shown to, where they run it."""
    found = dict.fromkeys(near(file))
    for test in tests_of(file):
        each = [ROOT / test] if test.endswith(".py") else sorted((ROOT / test).rglob("test_*.py"))
        found |= dict.fromkeys(str(one.relative_to(ROOT)) for one in each)
    return [*found]


def modules() -> list[str]:
    """All files that are changed."""
    files = (str(file.relative_to(ROOT)) for file in sorted((ROOT / "zbackup").rglob("*.py")))
    return [file for file in files if any(file.startswith(begin) for begin in TESTS)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.campaign")
    parser.add_argument("--most", type=int, default=0, help="no more changes than that")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("words", nargs="*", help="only files whose paths hold one of these")
    given = parser.parse_args()
    files = [f for f in modules() if not given.words or any(word in f for word in given.words)]
    planned = [(file, change) for file in files for change in changes((ROOT / file).read_text())]
    random.Random(given.seed).shuffle(planned)
    planned = planned[: given.most or None]
    print(f"{len(planned)} changes of {len(files)} modules, seed {given.seed}", flush=True)
    with copy_of_the_project() as home:
        ran = measured(home, sorted({test for file in {f for f, _ in planned} for test in shown_to(file)}))
        alive = sum(not _found(home, file, change, ran) for file, change in planned)
    print(f"{len(planned) - alive} of {len(planned)} were found")
    return 0


def _found(home: Path, file: str, change: Change, ran: Mapping[str, Ran]) -> bool:
    target = home / file
    whole = target.read_text()
    shown, first = shown_to(file), near(file)
    tests = [test for test in reaching(ran, file, whole, change.line) if test in shown]
    tests.sort(key=lambda test: test not in first)
    rewrite(target, changed(whole, change))
    try:
        found = bool(tests) and fails(home, tests)
    finally:
        rewrite(target, whole)
    verdict = "found" if found else "NOT FOUND" if tests else "NOT FOUND, no test runs it"
    print(f"{verdict}: {file}:{change.line}: {change.what}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
