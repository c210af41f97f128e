"""Many changes tried by the same tests, which are read once: each in a copy of the process that has them.

A change is tried by the tests that come to its lines, quickest first; which these are is looked at before
anything is changed. The file is changed, too, for what tests start as another process or import later.
"""

import ast
import gc
import math
import multiprocessing
import os
import pickle
import resource
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

from tests.mutants.__main__ import LIMIT_S, rewrite
from tests.mutants.changes import Change, changed_tree

CPU_S = 120
"""Tests that take longer do not end."""
PATIENCE_S = 30
"""What stands still for so long does not end, on whatever machine."""
Planned = Sequence[tuple[str, Change]]
Lines = dict[tuple[str, int], list[int]]
"""By file and line, the numbers of the tests that come there."""


class Warm:
    """What pytest runs in place of its tests. `found` has by change whether a test found it, None where the
    change is of what runs at import alone."""

    def __init__(
        self,
        home: Path,
        planned: Planned,
        tell: Callable[[str, Change, bool | None, int], None],
        most_s: float = math.inf,
    ):
        self.home, self.planned, self.tell, self.most_s = home, planned, tell, most_s
        self.kills: Counter[int] = Counter()
        self.functions: dict[str, list[FunctionType]]
        self.failed: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise pytest.UsageError("a test cannot be read")
        self.items = session.items
        with tempfile.TemporaryDirectory() as made:
            out = Path(made, "looked")
            _forked(lambda: self._look(session, out))
            self.lines, self.seconds, self.failed = pickle.loads(out.read_bytes())
        if self.failed:
            return True
        self.functions = self._functions()
        gc.freeze()
        for file, change in self.planned:
            numbers = self._chosen(file, change)
            self.tell(file, change, self._found(session, file, change, numbers), len(numbers))
        return True

    def _look(self, session: pytest.Session, out: Path) -> None:
        """Run each test once, and write down where it comes, how long it takes, and whether it failed."""
        files = {str(self.home / file): file for file, _ in self.planned}
        lines: Lines = defaultdict(list)
        seconds, failed = [], []
        for number, item in enumerate(self.items):
            here: set[tuple[str, int]] = set()
            began, before = time.process_time(), session.testsfailed
            with _traced(files, here):
                _run(item, None)
            seconds.append(time.process_time() - began)
            if session.testsfailed > before:
                failed.append(item.nodeid)
            for place in here:
                lines[place].append(number)
        out.write_bytes(pickle.dumps((dict(lines), seconds, failed)))

    def _chosen(self, file: str, change: Change) -> list[int]:
        numbers = {n for line in range(change.line, change.end + 1) for n in self.lines.get((file, line), ())}
        ordered = sorted(numbers, key=lambda n: self.seconds[n] / (1 + self.kills[n]))
        spent = accumulate(self.seconds[n] for n in ordered)
        return [n for n, s in zip(ordered, spent, strict=True) if n == ordered[0] or s <= self.most_s]

    def _found(
        self, session: pytest.Session, file: str, change: Change, numbers: Sequence[int]
    ) -> bool | None:
        if not numbers:
            return False
        target = self.home / file
        whole = target.read_text()
        tree = changed_tree(whole, change)
        if compile(tree, file, "exec", dont_inherit=True) == compile(whole, file, "exec", dont_inherit=True):
            return False
        swaps = self._swaps(file, tree)
        if swaps is None:
            return None
        rewrite(target, ast.unparse(tree))
        try:
            with tempfile.TemporaryDirectory() as made:
                by = Path(made, "by")
                limit_s = PATIENCE_S + 20 * sum(self.seconds[n] for n in numbers)
                status = _forked(lambda: self._try(session, swaps, numbers, by), limit_s)
                killer = int(by.read_text()) if by.exists() else None
        finally:
            rewrite(target, whole)
        if killer is not None:
            self._require_sound(session, numbers, killer)
            self.kills[killer] += 1
        return status != 0

    def _require_sound(self, session: pytest.Session, numbers: Sequence[int], killer: int) -> None:
        """A test that fails in this order without any change finds nothing."""
        if not self.kills[killer]:
            same = numbers[: numbers.index(killer) + 1]
            if _forked(lambda: self._try(session, [], same, Path(os.devnull))) != 0:
                raise pytest.UsageError(f"{self.items[killer].nodeid} fails with nothing changed")

    def _functions(self) -> dict[str, list[FunctionType]]:
        found: dict[str, list[FunctionType]] = {file: [] for file, _ in self.planned}
        by_path = {str(self.home / file): functions for file, functions in found.items()}
        for each in gc.get_objects():
            if isinstance(each, FunctionType) and each.__code__.co_filename in by_path:
                by_path[each.__code__.co_filename].append(each)
        return found

    def _swaps(self, file: str, tree: ast.Module) -> list[tuple[FunctionType, CodeType]] | None:
        """The functions there are whose code is another with the change; None if what is changed has run."""
        path = str(self.home / file)
        all_codes = list(_codes(compile(tree, path, "exec", dont_inherit=True)))
        codes, twice = dict(all_codes), Counter(key for key, _ in all_codes)
        if any(twice[_key(each.__code__)] > 1 for each in self.functions[file]):
            return None
        pairs = [(each, codes.get(_key(each.__code__))) for each in self.functions[file]]
        swaps = [(each, code) for each, code in pairs if code is not None and code != each.__code__]
        imported = any(getattr(module, "__file__", None) == path for module in list(sys.modules.values()))
        same_cells = all(each.__code__.co_freevars == code.co_freevars for each, code in swaps)
        return swaps if same_cells and (swaps or not imported) else None

    def _try(
        self,
        session: pytest.Session,
        swaps: Sequence[tuple[FunctionType, CodeType]],
        numbers: Sequence[int],
        by: Path,
    ) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        for function, code in swaps:
            function.__code__ = code
        for place, number in enumerate(numbers):
            after = self.items[numbers[place + 1]] if numbers[place + 1 :] else None
            _run(self.items[number], after)
            if session.testsfailed:
                by.write_text(str(number))
                os._exit(1)


def _run(item: pytest.Item, after: pytest.Item | None) -> None:
    # What the one lane's conftest has put in place for a session is not the other's.
    same_lane = after is not None and after.path.parent == item.path.parent
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=after if same_lane else None)


def _forked(act: Callable[[], None], limit_s: float = LIMIT_S) -> int | None:
    """In a copy of this process; its exit status, None where it did not end."""

    def run() -> None:
        act()
        os._exit(0)

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(limit_s)
    if process.is_alive():
        process.kill()
        process.join()
        return None
    return process.exitcode


@contextmanager
def _traced(files: dict[str, str], here: set[tuple[str, int]]) -> Iterator[None]:
    def called(frame: FrameType, event: str, _: Any) -> Any:
        file = files.get(frame.f_code.co_filename)
        if file is None:
            return None
        here.add((file, frame.f_lineno))
        return called

    threading.settrace(called)
    sys.settrace(called)
    try:
        yield
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield _key(each), each
            yield from _codes(each)


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno
