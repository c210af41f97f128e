"""Names that others chose reach no terminal as anything but what can be read."""

import io
import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from tests.unit.examples import examples
from zbackup.cli import logs, output, tables
from zbackup.cli.bars import Bars
from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.model.printable import is_unsafe, json_safe, printable

EVIL = "z\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\u2066\u2028\x00\r\n\x7f\udcff[red]x[/red]"


def harmless(said: str) -> bool:
    return not any(is_unsafe(c) and c != "\n" for c in said)


@given(st.text())
@settings(max_examples=examples(300))
def test_whatever_it_is_it_becomes_one_harmless_line(text: str) -> None:
    assert harmless(printable(text)) and "\n" not in printable(text)
    assert printable(text, lines=True).count("\n") == text.count("\n")
    document = json_safe(json.dumps({"a": text}, ensure_ascii=False))
    assert harmless(document) and json.loads(document) == {"a": text}


@pytest.mark.parametrize("plain", ["zbackup-2024", "tank/my db", "Zürich 東京 😀", "e\u0301", "👩\u200d💻"])
def test_what_people_write_stays(plain: str) -> None:
    assert printable(plain) == plain


def test_results_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(f"Instance {EVIL}")
    output.tell(f"note {EVIL}")
    output.print_error(Refused(f"cannot {EVIL}"), as_json=False)
    said = capsys.readouterr()
    assert harmless(said.out) and harmless(said.err)
    assert said.err.count("\n") == 2 and "\\x1b[2J" in said.err and "\\u202e" in said.out


def test_json_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_document({"name": EVIL})
    said = capsys.readouterr().out
    assert harmless(said) and json.loads(said)["name"] == EVIL


@pytest.mark.parametrize("terminal", [True, False])
def test_a_table_has_as_many_lines_as_rows(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    shown = tables.table(("Name", "Why"), [[EVIL, "x"], ["one", EVIL]])
    assert harmless(shown) and len(shown.strip().splitlines()) == 3 + terminal
    assert "[red]x[/red]" in shown


def test_bars_and_their_notes() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system=None, width=400, legacy_windows=False)
    bars = Bars(console)
    bars.note(EVIL)
    assert "\\x1b[2J" in written.getvalue() and "\x1b[2J" not in written.getvalue()
    bars.phase(EVIL)
    bars.close()
    assert "\x1b[2J" not in written.getvalue() and "\x1b]0" not in written.getvalue()
    assert "[red]" in written.getvalue() and "\u202e" not in written.getvalue()


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_log_lines(log_format: logs.LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(log_format=log_format, events=True)
    log.warning("prune.skipped", snapshot=EVIL, argv=(EVIL, {EVIL: EVIL}))
    said = capsys.readouterr().err
    assert harmless(said) and said.count("\n") == 1
