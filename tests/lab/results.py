"""What came of a module's tests, and of all of them together."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

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


def read_result(
    module: str, status: int, trouble: str | None, report: Path, *, selected: bool, seconds: float
) -> ModuleResult:
    """The result of a module from pytest's exit status and its JUnit report.

    A module that ended in any other way than by its tests counts as one failure more, for a crash must not
    look like a module with few tests. `selected` says that options may rightly have left nothing to run.
    """
    try:
        passed, failed, skipped = count(report.read_bytes())
    except (OSError, ElementTree.ParseError):
        passed, failed, skipped = 0, 0, 0
        trouble = trouble or f"pytest left no report (exit status {status})"
    if status == PYTEST_NOTHING_COLLECTED and not trouble:
        trouble = None if selected else "no test was collected"
    elif status != 0 and failed == 0 and not trouble:
        trouble = f"pytest ended with exit status {status}"
    return ModuleResult(
        module=module,
        passed=passed,
        failed=failed + (1 if trouble else 0),
        skipped=skipped,
        trouble=trouble,
        seconds=seconds,
    )


def count(report: bytes) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of a JUnit report; a test that fails and errs failed once."""
    passed = failed = skipped = 0
    for case in ElementTree.fromstring(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            failed += 1
        elif "skipped" in kinds:
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


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
