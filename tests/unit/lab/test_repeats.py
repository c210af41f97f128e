"""No repeat of a story is lost: what `make test` leaves out, `make test-slow` tells."""

import re
from pathlib import Path

import pytest

from tests.lab import repeats
from tests.lab.shards import find_modules
from tests.lab.variants import of_file

ROOT = Path(__file__).parents[3]


def test_some_are_told_or_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "ALL", False)
    assert repeats.some(["a", "b", "c"], "c", "a") == ["a", "c"]
    monkeypatch.setattr(repeats, "ALL", True)
    assert repeats.some(["a", "b", "c"], "c") == ["a", "b", "c"]


def test_what_is_cut_at_some_places_is_cut_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "ALL", False)
    assert repeats.step(3) == 3
    monkeypatch.setattr(repeats, "ALL", True)
    assert repeats.step(3) == 1


def test_what_is_kept_must_be_there() -> None:
    for kept in ((), ("d",)):
        with pytest.raises(AssertionError):
            repeats.some(["a", "b"], *kept)


def test_the_slow_lane_runs_every_module_that_leaves_some_out() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    named = re.findall(r"^REPEATED(?:_HERE)? := (.*)$", makefile, re.MULTILINE)
    leaving_out = {
        str(module.relative_to(ROOT))
        for module in (ROOT / "tests").rglob("*test_*.py")
        if re.search(r"^from tests\.lab\.repeats import|= a_few\(", module.read_text(), re.MULTILINE)
    }
    assert {word for words in named for word in words.split()} == leaving_out
    assert "ZBACKUP_REPEATS=all tests/lab/lab test" in makefile


def test_the_slow_lane_runs_every_module_with_its_slow_servers() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    lane = next(line for line in makefile.splitlines() if line.endswith("@slow"))
    told = find_modules([word for word in lane.split() if word.endswith("@slow")], ROOT)
    modules = [str(module.relative_to(ROOT)) for module in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(told) == sorted(f"{name}@{slow}" for name in modules for slow in of_file(ROOT / name).slow)
    # Of a story that `make test` tells in part, the slow servers tell all.
    assert told and "ZBACKUP_REPEATS=all" in lane
