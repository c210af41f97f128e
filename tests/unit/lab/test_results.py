"""Counting tests: nothing that went wrong may look like success."""

from pathlib import Path

import pytest

from tests.lab.results import Counts, ModuleResult, count, exit_status, read_results, summary

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
    (result,) = read_results(["m.py"], status, trouble, path, selected=selected, seconds=1.0)
    return result


def test_a_test_that_fails_and_errs_failed_once() -> None:
    assert count(REPORT, ["m.py"]) == [Counts(passed=1, failed=3, skipped=1)]


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


SHARED = b"""<testsuites><testsuite>
<testcase classname="t.test_a.TestOne" name="x" time="1.5"/>
<testcase classname="t.test_a" name="y" time="2"/>
<testcase classname="t.test_ab" name="y" time="4"><failure/></testcase>
<testcase classname="" name="t.test_broken"><error/></testcase>
</testsuite></testsuites>"""
MODULES = ["t/test_a.py@mysql-9.7", "t/test_ab.py", "t/test_broken.py", "t/test_forgotten.py"]


class TestModulesThatShareAGuest:
    def read(
        self, tmp_path: Path, status: int, trouble: str | None = None, report: bytes = SHARED
    ) -> list[ModuleResult]:
        path = tmp_path / "r.xml"
        path.write_bytes(report)
        return read_results(MODULES, status, trouble, path, selected=False, seconds=9.0)

    def test_each_has_its_own_tests(self, tmp_path: Path) -> None:
        good, bad, broken, _ = self.read(tmp_path, 1)
        assert (good.ok, good.passed, good.seconds) == (True, 2, 3.5)
        assert (bad.ok, bad.passed, bad.failed) == (False, 0, 1)
        assert (broken.ok, broken.failed) == (False, 1)

    def test_one_that_did_not_run_failed(self, tmp_path: Path) -> None:
        forgotten = self.read(tmp_path, 1)[-1]
        assert (forgotten.ok, forgotten.failed, forgotten.trouble) == (False, 1, "no test was collected")

    def test_what_ends_the_guest_is_a_failure_of_all(self, tmp_path: Path) -> None:
        assert [r.ok for r in self.read(tmp_path, 124, "no end within 10 s")] == [False] * 4
        assert [r.failed for r in self.read(tmp_path, 125, "the guest ended", b"")] == [1] * 4

    def test_an_ending_that_no_test_explains_is_a_failure_of_all(self, tmp_path: Path) -> None:
        assert [r.ok for r in self.read(tmp_path, 3, None, GOOD)] == [False] * 4
