"""A log that is followed while its server begins it anew."""

from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.jobs.log import log
from zbackup.model.log_entry import LogFilter, LogRead


def read(end: str) -> LogRead:
    return LogRead(name=end.partition(":")[0], size=1, end=end)


def test_that_a_log_was_begun_anew_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter(["binlog.000007:900", "binlog.000001:150", "binlog.000001:150", "binlog.000001:200"])
    asked, notes = list[str](), list[str]()

    def further(wanted: LogFilter) -> list[Any]:
        asked.append(wanted.after)
        end = next(ends, "")
        return [read(end)] if end else [SimpleNamespace(damaged=True, problem="the end")]

    monkeypatch.setattr(log, "search_log", lambda *_: [read("binlog.000007:800")])
    monkeypatch.setattr(log, "_further", lambda _: further)
    monkeypatch.setattr(log, "POLL_S", 0)
    ctx = cast(Any, SimpleNamespace(progress=SimpleNamespace(note=notes.append)))
    with pytest.raises(log.VerificationFailed, match="the end"):
        list(islice(log.follow(ctx, LogFilter()), 2))
    assert asked == [
        "binlog.000007:800",
        "binlog.000007:900",
        *["binlog.000001:150"] * 2,
        "binlog.000001:200",
    ]
    assert [note for note in notes if "began its log again" in note] == notes and len(notes) == 1
