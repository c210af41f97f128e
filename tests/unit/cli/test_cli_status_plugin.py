"""Output for a monitoring system: one line, performance data, an exit status."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.reports import a_status
from zbackup.cli.command_context import Done, Failed
from zbackup.cli.main import invoke
from zbackup.cli.status import answer
from zbackup.model.errors import Refused, ZbackupError
from zbackup.model.finding import Finding, Severity

DRILLS = "'shop drill'=7320s 'shop drill cloud'=7320s"
NUMBERS = f"'shop age'=120s 'shop behind offsite'=120s {DRILLS} 'shop pool free'=15%"


def finding(severity: Severity, subject: str, text: str) -> Finding:
    return Finding(severity=severity, subject=subject, text=text)


def of(*findings: Finding, **changes: Any) -> Done[Any]:
    context: Any = None
    return Done(context, a_status(findings=findings, **changes))


def test_all_is_ok() -> None:
    remark = finding("advice", "settings", "atime is on")
    wiki = of(instance="wiki", newest=None, shipped=(), drills=())
    assert answer(lambda: [of(remark), wiki]) == (
        0,
        f"ZBACKUP OK - shop: ok, wiki: ok | {NUMBERS} 'wiki pool free'=15%",
    )


def test_the_worst_comes_first_and_every_reason_has_a_line() -> None:
    low, old = (
        finding("warning", "space", "15% free"),
        finding("critical", "snapshots", "the newest |\nis old"),
    )
    level, text = answer(lambda: [of(low, old)])
    first = f"ZBACKUP CRITICAL - shop: snapshots: the newest / is old (and 1 more) | {NUMBERS}"
    assert (level, text.split("\n")) == (2, [first, "shop: space: 15% free"])


def test_what_is_acknowledged_is_named_beside_what_is_not() -> None:
    known = replace(finding("advice", "pool", "is DEGRADED"), acknowledged="critical", key="tank DEGRADED")
    low = finding("warning", "space", "15% free")
    level, text = answer(lambda: [of(known, low)])
    assert level == 1 and text.split("\n")[1:] == ["shop: (acknowledged: pool tank DEGRADED)"]
    level, text = answer(lambda: [of(known)])
    assert level == 0 and text.startswith("ZBACKUP OK - shop: ok (acknowledged: pool tank DEGRADED) |")


@pytest.mark.parametrize(
    ("others", "level", "word"),
    [
        ([of()], 3, "UNKNOWN"),
        ([of(finding("warning", "space", "low"))], 3, "UNKNOWN"),
        ([of(finding("critical", "window", "lost"))], 2, "CRITICAL"),
    ],
)
def test_what_nobody_knows_is_worse_than_a_warning_only(
    others: list[Done[Any]], level: int, word: str
) -> None:
    status, text = answer(lambda: [*others, Failed("wiki", Refused("no"))])
    assert (status, text.split(" - ")[0]) == (level, f"ZBACKUP {word}")


def test_an_error_is_an_answer() -> None:
    def look() -> list[Failed]:
        raise ZbackupError("zfs list exited with 1")

    assert answer(look) == (3, "ZBACKUP UNKNOWN - zfs list exited with 1")


def test_without_a_configuration_nobody_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["--config", "/nonexistent", "status", "--plugin"]) == 3
    said = capsys.readouterr()
    assert said.out.startswith("ZBACKUP UNKNOWN - /nonexistent: no such configuration file") and not said.err


def test_it_is_one_answer_in_one_form() -> None:
    assert invoke(["status", "--plugin", "--watch"]) == invoke(["--json", "status", "--plugin"]) == 2
