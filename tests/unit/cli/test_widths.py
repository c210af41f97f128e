"""Output on terminals of 80, 120 and 200 columns: it fits, and nothing needed is missing."""

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.reports import BERLIN, DEV, LISTING, PRUNED, STATUS, WINDOW, a_status, at, done
from zbackup.cli import clone, listing, prose, prune, status, window
from zbackup.cli.prose import folded
from zbackup.jobs.clones.lifecycle import CloneList

WIDTHS = (80, 120, 200)


def _status() -> str:
    return status._text([done(a_status())])


def _window() -> str:
    return window._text([done(window.SeenWindow(WINDOW))])


def _list() -> str:
    return prose.fold(listing.render("shop", LISTING, BERLIN))


def _clones() -> str:
    return clone.render(CloneList((STATUS, DEV)), BERLIN, at(30))


def _prune() -> str:
    return prune._plan_text([done(PRUNED.plan)])


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("show", [_status, _window, _list, _clones, _prune])
def test_it_fits(monkeypatch: pytest.MonkeyPatch, show: Callable[[], str], columns: int) -> None:
    words = show().split()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    text = show()
    assert max(map(len, text.splitlines())) <= columns
    if show is _status:
        assert text.split() == words
    needed = {_list: LISTING.catalog.backups[0].name, _clones: STATUS.clone.name, _prune: "held by me"}
    assert needed.get(show, "") in " ".join(text.split())
    assert columns < 200 or "No room for" not in text


LINE = (
    "  drill            passed 2 h ago: zbackup-1 opened, to restore: zbackup restore shop --name a-b. Done"
)


def test_a_command_is_on_one_line() -> None:
    assert folded("To restore it: zbackup restore shop --name a-b", 40) == [
        "To restore it:",
        "zbackup restore shop --name a-b",
    ]


def test_what_is_continued_stands_below_its_text_and_a_command_is_whole() -> None:
    assert folded(LINE, 60) == [
        "  drill            passed 2 h ago: zbackup-1 opened, to",
        "                   restore: zbackup restore shop --name a-b.",
        "                   Done",
    ]
    assert folded(LINE, 20)[0] == "  drill passed 2 h"
    assert folded("  warning: " + "why " * 9, 30)[1].startswith("    why")
    assert folded("      $ zfs set quota=none tank/a-very-long-name", 20) == [
        "      $ zfs set quota=none tank/a-very-long-name"
    ]


@given(st.lists(st.text("ab-", min_size=1, max_size=9), min_size=1, max_size=30), st.integers(9, 40))
def test_folding_changes_blanks_alone(words: list[str], room: int) -> None:
    line = " ".join(words)
    lines = folded(line, room)
    assert " ".join(lines).split() == line.split() and max(map(len, lines)) <= room
