"""The results of a module's tests, and of all of them together."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.variants import Told

PYTEST_NOTHING_COLLECTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleResult:
    """The tests of one module, run in one guest."""

    module: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    trouble: str | None = None
    """Why the counts do not tell everything: a crash, a time limit, nothing collected."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.failed == 0 and self.trouble is None

    def line(self) -> str:
        """One line for the person who waits."""
        word = "ok    " if self.ok else "FAILED"
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        because = f": {self.trouble.splitlines()[0]}" if self.trouble else ""
        return f"{word} {self.module} ({counts}, {self.seconds:.0f} s){because}"


def read_results(
    modules: Sequence[str],
    status: int,
    trouble: str | None,
    report: Path,
    *,
    selected: bool,
    seconds: float,
) -> list[ModuleResult]:
    """The results of modules that one pytest ran, from its exit status and its JUnit report.

    A module that ended in any other way than by its tests counts as one failure more, for a crash must not
    look like a module with few tests. `selected` says that options may rightly have left nothing to run.
    """
    try:
        counts = count(report.read_bytes(), modules)
    except (OSError, ElementTree.ParseError):
        counts = [Counts() for _ in modules]
        trouble = trouble or f"pytest left no report (exit status {status})"
    failed = sum(counted.failed for counted in counts)
    if status not in (0, PYTEST_NOTHING_COLLECTED) and failed == 0 and not trouble:
        trouble = f"pytest ended with exit status {status}"
    results = []
    for module, counted in zip(modules, counts, strict=True):
        why = trouble or (None if counted.all or selected else "no test was collected")
        results.append(
            ModuleResult(
                module=module,
                passed=counted.passed,
                failed=counted.failed + (1 if why else 0),
                skipped=counted.skipped,
                trouble=why,
                seconds=seconds if len(modules) == 1 else counted.seconds,
            )
        )
    return results


@dataclass(slots=True)
class Counts:
    """Tests of one module."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0

    @property
    def all(self) -> int:
        return self.passed + self.failed + self.skipped


def count(report: bytes, modules: Sequence[str]) -> list[Counts]:
    """The tests of each module in a JUnit report; a test that fails and errs failed once.

    What belongs to none of the modules counts for the first: nothing that failed may get lost.
    """
    counts = [Counts() for _ in modules]
    for case in ElementTree.fromstring(report).iter("testcase"):
        counted = counts[_owner(case, modules)]
        counted.seconds += float(case.get("time") or 0)
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            counted.failed += 1
        elif "skipped" in kinds:
            counted.skipped += 1
        else:
            counted.passed += 1
    return counts


def _owner(case: ElementTree.Element, modules: Sequence[str]) -> int:
    """The number of the module that a test is of. One that cannot be imported is named instead of a class."""
    named = f"{case.get('classname') or case.get('name') or ''}."
    for number, module in enumerate(modules):
        dotted = Told.read(module).file.removesuffix(".py").replace("/", ".")
        if named.startswith(f"{dotted}."):
            return number
    return 0


def summary(results: Iterable[ModuleResult]) -> str:
    """The closing line, alone on its line, that continuous integration reads."""
    all_results = list(results)
    passed = sum(result.passed for result in all_results)
    failed = sum(result.failed for result in all_results)
    skipped = sum(result.skipped for result in all_results)
    return f"{passed} passed, {failed} failed, {skipped} skipped"


def exit_status(results: Sequence[ModuleResult]) -> int:
    """0 only if something was tested and nothing failed."""
    if not any(result.passed + result.failed for result in results):
        return PYTEST_NOTHING_COLLECTED
    return 0 if all(result.ok for result in results) else 1
