"""What `zbackup log` says of log that is lost: within what is promised, and before it."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.jobs.test_log_shown import entry
from zbackup import app
from zbackup.cli import log
from zbackup.cli.options import Options
from zbackup.model.errors import Refused
from zbackup.model.log_entry import LogEntry, LogRead, Lost
from zbackup.model.retention import Retention, Span

NOW = datetime(2024, 5, 31, 12, 0, tzinfo=UTC)
WHOLE = LogRead(name="binlog.000009", size=1024, end="binlog.000009:1024")


def gap(since: int | None, until: int | None) -> LogRead:
    """One that lasted from so many days ago until so many days ago."""

    def at(days: int | None) -> datetime | None:
        return None if days is None else NOW - timedelta(days=days)

    lost = Lost(since=at(since), until=at(until))
    return replace(WHOLE, size=0, end="", problem=f"{since} to {until} is gone", lost=lost)


OLD = (gap(60, 31), gap(30, 15), gap(14, 8))
RECENT = gap(9, 6)


class Host:
    """A host with a log of which `found` is told; `notes` are said of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.found: list[LogEntry | LogRead] = []
        self.notes = list[str]()
        progress = SimpleNamespace(phase=lambda *_: None, note=self.notes.append, begin=lambda: None)
        there = SimpleNamespace(retention=Retention(window=Span(60, "day")))
        for name in ("on_one", "paged"):
            monkeypatch.setattr(log, name, self._entered)
        monkeypatch.setattr(log, "replace", lambda ctx, **_: ctx)
        for name in ("search_log", "search_copies", "follow"):
            monkeypatch.setattr(log, name, lambda *_: iter(self.found))
        monkeypatch.setattr(app, "choose_destination", lambda *_: there)
        self.ctx = SimpleNamespace(
            instance="shop",
            engine_name="mysql",
            zone=ZoneInfo("UTC"),
            clock=SimpleNamespace(now=lambda: NOW),
            retention=Retention(window=Span(7, "day")),
            progress=progress,
            phase=progress.phase,
            note=progress.note,
            begin=progress.begin,
        )

    def _entered(self, *_: object, **__: object) -> Any:
        host = self

        class Entered:
            def __enter__(self) -> Any:
                return host.ctx

            def __exit__(self, *_: object) -> None:
                pass

        return Entered()

    def log(self, *found: LogEntry | LogRead, json: bool = False, **options: Any) -> None:
        self.found, self.notes[:] = list(found), []
        cast(Callable[..., None], log.command)(Options(json=json), "shop", **options)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def test_gaps_that_thinned_backups_leave_are_told_in_one_line(
    host: Host, capsys: pytest.CaptureFixture[str]
) -> None:
    host.log(OLD[0], WHOLE, *OLD[1:], entry(5), WHOLE)
    assert host.notes == [
        "the log has 3 gaps between 2024-04-01 12:00:00 UTC and 2024-05-23 12:00:00 UTC, before the window "
        "that is promised: what happened there is not shown"
    ]
    assert "1 transaction of 2 files of the log" in capsys.readouterr().out
    host.log(gap(None, 7), WHOLE)
    (note,) = host.notes
    assert note.startswith("the log has 1 gap up to 2024-05-24 12:00:00 UTC, before the window")
    host.log(WHOLE, largest_n=3)
    assert host.notes == []


@pytest.mark.parametrize("real", [RECENT, gap(30, 1), gap(30, None), gap(None, None)])
def test_one_that_reaches_into_what_is_promised_is_not_hidden_by_them(host: Host, real: LogRead) -> None:
    with pytest.raises(Refused) as refused:
        host.log(*OLD, WHOLE, real, WHOLE)
    assert str(refused.value) == f"not all of the log was read: {real.problem}"
    assert host.notes[0] == real.problem and "the log has 3 gaps" in host.notes[1]
    with pytest.raises(Refused, match="encrypted"):
        host.log(*OLD, replace(WHOLE, problem="encrypted"))


@pytest.mark.parametrize("options", [{"since": "2024-03-01 00:00"}, {"at": "offsite"}, {"follow_on": True}])
def test_what_is_asked_for_or_promised_elsewhere_is_lost(host: Host, options: dict[str, Any]) -> None:
    """By the retention of the destination; of a log that is followed it is told where it lay."""
    with pytest.raises(Refused, match="30 to 15 is gone"):
        host.log(OLD[1], WHOLE, **options)
    assert host.notes == [OLD[1].problem]


def test_each_gap_is_in_the_json(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.log(*OLD, WHOLE, json=True)
    (last,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(read["problem"], read["lost"]) for read in last["read"]] == [
        *((each.problem, True) for each in OLD),
        (None, False),
    ]
