"""Output on stdout and stderr: sizes, tables, JSON shapes, progress, exit statuses."""

import io
import json
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from zbackup.cli import logs, main, output, progress, tables
from zbackup.cli.bars import Bars
from zbackup.cli.options import Options
from zbackup.cli.progress import Lines, Notes, shown
from zbackup.model.errors import ConfigError, NotFound
from zbackup.model.event_log import log
from zbackup.model.moment import Moment
from zbackup.model.progress import Silent


@pytest.mark.parametrize(
    ("bytes_", "text"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1.0 KiB"), (1024, "1.0 KiB"), (1536, "1.5 KiB"),
        (300 * 1024, "300 KiB"), (1024**2, "1.0 MiB"), (5 * 1024**4, "5.0 TiB"), (1024**6, "1024 PiB"),
    ],
)  # fmt: skip
def test_size(bytes_: int, text: str) -> None:
    assert tables.size(bytes_) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"), (0.34, "340 ms"), (1, "1.0 s"), (59.99, "1 min 0 s"), (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
    ],
)  # fmt: skip
def test_length(seconds: float, text: str) -> None:
    assert tables.length(seconds) == text


@given(st.lists(st.tuples(st.text("ab é", max_size=200), st.text("12", max_size=9)), min_size=1, max_size=5))
def test_a_piped_table_shows_every_cell_whole(rows: list[tuple[str, str]]) -> None:
    lines = tables.aligned(rows, right=(1,)).split("\n")
    assert len(lines) == len(rows)
    assert all(
        cell in line for row, line in zip(rows, lines, strict=True) for cell in (row[0].strip(), row[1])
    )


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes stdout a terminal of so many columns."""

    def of(columns: int) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)

    return of


def table(*words: Any, **more: Any) -> list[str]:
    """The lines of a table, without what makes them bold."""
    return re.sub("\x1b.*?m", "", tables.table(*words, **more)).splitlines()


def test_a_narrow_terminal_folds_and_never_cuts(terminal: Callable[[int], None]) -> None:
    terminal(40)
    name = "tank/a dataset with a very_long_name/and a child_of_it_whose_name_is_longer_than_the_terminal_has"
    lines = table(["Dataset", "Size"], [[name, "1.0 KiB"]], right=(1,))
    assert max(map(len, lines)) <= 40
    assert "".join(name.split()) in "".join("".join(lines).replace("1.0 KiB", "").split())


BACKUP = [
    "zbackup-20261122T005003Z",
    "2026-11-22 00:49:54 UTC",
    "backup-lock (waited 5 ms)",
    "14.0 KiB",
    "",
    "0",
]
HEAD = ["Snapshot", "Last transaction", "Lock", "Used", "Remarks", "Holds"]


@pytest.mark.parametrize(
    ("columns", "without"),
    [(200, ""), (93, ""), (92, "lock"), (66, "lock"), (65, "lock, holds"), (30, "lock, holds")],
)
def test_a_terminal_that_is_too_narrow_shows_less_instead_of_breaking_names(
    terminal: Callable[[int], None], columns: int, without: str
) -> None:
    terminal(columns)
    lines = table(HEAD, [BACKUP, BACKUP], right=(3,), expendable=(2, 5))
    assert max(map(len, lines)) <= columns
    said = f"No room for {without}: a wider terminal, a pipe or --json has it."
    assert " ".join(lines).endswith(said) == bool(without)
    assert any(BACKUP[0] in line for line in lines) == (columns > 30)


def test_texts_are_broken_between_words_before_names_are(terminal: Callable[[int], None]) -> None:
    terminal(50)
    lines = table(["Snapshot", "Why it stays"], [[BACKUP[0], "base for the window, and held by audit"]])
    assert [line[26:] for line in lines[2:]] == ["base for the window, and", "held by audit"]


@dataclass(frozen=True)
class Report:
    at: datetime
    where: Path
    many: tuple[int, ...]
    nothing: None = None


def test_json_of_a_report(capsys: pytest.CaptureFixture[str]) -> None:
    at = datetime(2024, 5, 1, 10, 2, tzinfo=ZoneInfo("Europe/Berlin"))
    report = Report(at, Path("/a b"), (1, 2))
    output.emit(Options(json=True), "list", report, lambda: "never")
    assert json.loads(capsys.readouterr().out) == {
        "version": 2,
        "command": "list",
        "data": {
            "at": "2024-05-01T08:02:00Z", "where": "/a b", 
            "many": [1, 2], "nothing": None,
        },
    }  # fmt: skip
    output.emit(Options(), "list", report, lambda: "for people")
    assert capsys.readouterr().out == "for people\n"


def test_json_of_a_moment_and_of_nothing_known() -> None:
    moment = Moment(datetime(2024, 5, 1, tzinfo=UTC), "-15m", ZoneInfo("UTC"))
    assert output.plain(moment) == {"at": "2024-05-01T00:00:00Z", "asked": "-15m", "zone": "UTC"}
    with pytest.raises(TypeError, match="object has no JSON shape"):
        output.plain(object())


def test_errors_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_error(NotFound("no such\n  instance"), as_json=False)
    output.print_error(ConfigError(["a: one", "b: two"]), as_json=True)
    said = capsys.readouterr()
    assert said.err == "zbackup: no such instance\nzbackup: a: one\nzbackup: b: two\n"
    assert json.loads(said.out) == {
        "version": 2,
        "error": {
            "kind": "ConfigError", "message": "a: one b: two", "exit_status": 2,
            "problems": ["a: one", "b: two"],
        },
    }  # fmt: skip


def test_short_work_on_a_pipe_says_nothing_but_its_notes(capsys: pytest.CaptureFixture[str]) -> None:
    with shown(Options()) as watched:
        watched.phase("working", "hard")
        watched.advance(1, 2)
        watched.note("look here")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "zbackup: look here\n")
    assert isinstance(watched, Notes)
    with shown(Options(quiet=True)) as watched:
        assert isinstance(watched, Silent)


def test_progress_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    screen = io.StringIO()
    bars = Bars(Console(file=screen, force_terminal=True, width=100))
    bars.phase("starting [the] server", "crash recovery")
    bars.phase("replaying", "3 transactions")
    bars.advance(0, 2048)
    bars.advance(1024, 2048)
    bars.note("one [thing]")
    bars.advance(1, 5, "rows")
    bars.close()
    bars.close()
    drawn = screen.getvalue()
    for part in ("starting [the] server (crash recovery)", "1.0/2.0 KiB", "zbackup: one [thing]", "1/5 rows"):
        assert part in drawn
    assert capsys.readouterr().out == ""


def test_logs(capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(log_format="json")
    logs.bind(job="snapshot", instance="shop")
    log.info("snapshot.created", held_ms=12)
    line = json.loads(capsys.readouterr().err)
    assert (
        line.items()
        >= {"event": "snapshot.created", "job": "snapshot", "instance": "shop", "held_ms": 12}.items()
    )
    assert {"run", "timestamp", "level"} <= line.keys()
    logs.set_up()
    log.info("quiet.please")
    log.warning("lock.long", ms=9)
    said = capsys.readouterr()
    assert (said.out, "quiet" in said.err, "lock.long" in said.err) == ("", False, True)
    logs.set_up(debug=True)
    log.debug("detail")
    assert "detail" in capsys.readouterr().err


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_traceback_controls_no_terminal_and_tells_no_variable(
    capsys: pytest.CaptureFixture[str], log_format: logs.LogFormat
) -> None:
    logs.set_up(log_format=log_format, events=True)
    hidden = "the-" + "secret"
    try:
        raise ValueError(f"tank/\x1b[2Jgone\x9b{len(hidden)}")
    except ValueError:
        log.exception("job.defect")
    said = capsys.readouterr().err
    assert "ValueError" in said and "gone" in said
    assert not {"\x1b", "\x9b"} & set(said)
    assert "the-secret" not in said


def test_a_log_that_nobody_reads_any_more_keeps_nobody_from_working(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w", buffering=1, encoding="ascii")
    monkeypatch.setattr(sys, "stderr", stream)
    for log_format in ("json", "text"):
        logs.set_up(log_format=log_format, events=True)
        log.info("job.done", message="\N{SNOWMAN} \udcff")
        log.error("job.failed")
    with pytest.raises(BrokenPipeError):
        stream.close()


def test_systemd_is_recognised_by_the_stream_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import os

    with (tmp_path / "journal").open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        facts = os.fstat(stream.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{facts.st_dev}:{facts.st_ino}")
        assert logs.under_systemd()
        monkeypatch.setenv("JOURNAL_STREAM", "1:1")
        assert not logs.under_systemd()


def test_the_exit_status_table_has_every_number() -> None:
    shown_numbers = {int(line.split()[0]) for line in main.table().splitlines()}
    assert shown_numbers == {0, 130, *main.meanings()}


def test_work_off_a_terminal_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = iter([0.0, 10.0, 12.0, 12.5, 13.0, 99.0])
    lines = Lines(lambda: next(now))
    lines.phase("sending tank/db", "all of it")
    assert lines.line() == "sending tank/db (all of it), for 2.0 s"
    lines.advance(1 << 30, 4 << 30)
    assert lines.line() == "sending tank/db (all of it), 1.0 GiB of 4.0 GiB (25%), for 2.5 s"
    lines.advance(3, 0, "rows")
    assert lines.line() == "sending tank/db (all of it), 3 of 0 rows, for 3.0 s"
    lines.close()
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    spoken = threading.Event()
    monkeypatch.setattr(progress, "tell", lambda _: spoken.set())
    with shown(Options()) as watched:
        watched.phase("replaying")
        assert spoken.wait(60)
    assert "progress" not in [thread.name for thread in threading.enumerate()]


SHOWN = "Instance shop: ok\nInstance b: CRITICAL (1 critical)\n  WARNING: x: y\nrestorable   ##xx#\n"


@pytest.mark.parametrize(
    ("name", "value", "coloured"),
    [("TERM", "xterm", True), ("NO_COLOR", "1", False), ("NO_COLOR", "", True), ("TERM", "dumb", False)],
)
def test_colours_are_for_terminals_that_want_them(
    terminal: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    value: str,
    coloured: bool,
) -> None:
    terminal(80)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv(name, value)
    output.say(SHOWN + "\x1b[2J")
    said = capsys.readouterr().out
    assert ("\x1b[32mok\x1b[0m\n" in said and "\x1b[31mxx\x1b[0m" in said) == coloured
    assert ("\x1b[31mCRITICAL\x1b" in said and "\x1b[33mWARNING\x1b" in said) == coloured
    assert re.sub("\x1b\\[[0-9]+m", "", said) == SHOWN + "\\x1b[2J\n"


def test_sentences_are_folded_before_a_column_goes_and_narrow_ones_come_back(
    terminal: Callable[[int], None],
) -> None:
    terminal(72)
    long = "the newest; hourly 2024-05-01 10:00; holds the log that the window needs"
    lines = table(["", "Snapshot", "Taken", "Used", "Why"], [["keep", *BACKUP[:2], "14.0 KiB", long]],
                  right=(3,), expendable=(2, 3), text={4: 30})  # fmt: skip
    assert lines[0].split() == ["Snapshot", "Used", "Why"] and max(map(len, lines)) <= 72
    head = ["Snapshot", "Small", "Wide"]
    terminal(40)
    lines = table(head, [["zbackup-1", "12", "w" * 60]], expendable=(1, 2))
    assert lines[0].split() == ["Snapshot", "Small"]


def test_a_long_word_in_a_sentence_is_broken_before_times_and_sizes_are(
    terminal: Callable[[int], None],
) -> None:
    terminal(80)
    label = "label before-deploy-of-the-new-checkout; kept until 2026-12-23"
    head = ["Snapshot", "Last transaction", "Used", "Remarks"]
    rows = [[BACKUP[0], BACKUP[1], "14.0 KiB", remark] for remark in ("", label)]
    lines = table(head, rows, right=(2,), text={3: 18})
    assert max(map(len, lines)) <= 80
    assert sum(f"{BACKUP[0]}  {BACKUP[1]}  14.0 KiB" in line for line in lines) == 2
    assert "".join(line[61:] for line in lines[3:]).replace(" ", "") == label.replace(" ", "")


@pytest.mark.parametrize(
    ("line", "painted"),
    [
        (
            "Instance shop: ok (0 critical, 0 warnings)",
            "Instance shop: {green}ok{end} (0 critical, 0 warnings)",
        ),
        ("Instance shop: critical", "Instance shop: {red}critical{end}"),
        (
            "Instance shop: warning (0 critical, 1 warning)",
            "Instance shop: {yellow}warning{end} (0 critical, 1 warning)",
        ),
        ("  critical  log: it is off", "{red}  critical{end}  log: it is off"),
        ("  warning   log: it is short", "{yellow}  warning{end}   log: it is short"),
        ("  ok        log: critical of nothing", "{green}  ok{end}        log: critical of nothing"),
    ],
)
def test_the_word_for_a_state_has_its_colour_and_no_other(line: str, painted: str) -> None:
    colours = {"green": "\x1b[32m", "yellow": "\x1b[33m", "red": "\x1b[31m", "end": "\x1b[0m"}
    assert output.painted(line) == painted.format(**colours)
