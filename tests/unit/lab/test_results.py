"""Counting tests: nothing that went wrong may look like success."""

from pathlib import Path

import pytest

from tests.lab.results import ModuleResult, count, exit_status, read_result, summary

REPORT = b"""<testsuites><testsuite tests="5">
<testcase name="a"/>
<testcase name="b"><failure message="x"/></testcase>
<testcase name="c"><skipped/></testcase>
<testcase name="d"><error message="x"/></testcase>
<testcase name="e"><failure/><error/></testcase>
</testsuite></testsuites>"""
GOOD = b'<testsuites><testsuite><testcase name="a"/></testsuite></testsuites>'
EMPTY = b"<testsuites><testsuite/></testsuites>"


def read(
    tmp_path: Path, report: bytes | None, status: int, trouble: str | None = None, *, selected: bool = False
) -> ModuleResult:
    path = tmp_path / "r.xml"
    if report is not None:
        path.write_bytes(report)
    return read_result("m.py", status, trouble, path, selected=selected, seconds=1.0)


def test_a_test_that_fails_and_errs_failed_once() -> None:
    assert count(REPORT) == (1, 3, 1)


def test_good(tmp_path: Path) -> None:
    result = read(tmp_path, GOOD, 0)
    assert result.ok
    assert (result.passed, result.failed) == (1, 0)


def test_failures_are_not_counted_twice(tmp_path: Path) -> None:
    assert read(tmp_path, REPORT, 1).failed == 3


@pytest.mark.parametrize(
    ("report", "status", "trouble"),
    [
        (None, 0, None),
        (None, 125, "the guest ended"),
        (b"<testsui", 124, "no end within 10 s"),
        (GOOD, 3, None),
        (GOOD, 124, "no end within 10 s"),
        (EMPTY, 5, None),
        (None, 4, None),
    ],
)
def test_every_other_ending_is_one_failure_more(
    tmp_path: Path, report: bytes | None, status: int, trouble: str | None
) -> None:
    result = read(tmp_path, report, status, trouble)
    assert not result.ok
    assert result.failed == 1
    assert result.trouble
    assert exit_status([result, ModuleResult(module="n", passed=3)]) == 1


def test_a_selection_may_leave_a_module_without_tests(tmp_path: Path) -> None:
    result = read(tmp_path, EMPTY, 5, selected=True)
    assert result.ok
    assert exit_status([result]) != 0
    assert exit_status([result, ModuleResult(module="n", passed=1)]) == 0


def test_only_skipped_tests_are_no_success() -> None:
    assert exit_status([ModuleResult(module="n", skipped=3)]) != 0
    assert exit_status([]) != 0


def test_the_summary_is_the_line_that_is_read() -> None:
    results = [ModuleResult(module="a", passed=2, skipped=1), ModuleResult(module="b", passed=1, failed=4)]
    assert summary(results) == "3 passed, 4 failed, 1 skipped"


def test_the_line_of_a_module_says_why() -> None:
    line = ModuleResult(module="a.py", failed=1, trouble="the guest ended\nmore", seconds=2.0).line()
    assert line == "FAILED a.py (0 passed, 1 failed, 0 skipped, 2 s): the guest ended"
