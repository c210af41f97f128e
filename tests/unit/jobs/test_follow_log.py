"""A log that is followed, also while its server begins it anew."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.jobs.test_log_searched import Host
from tests.unit.jobs.test_log_shown import entry
from zbackup.jobs.log import log
from zbackup.jobs.log.log import follow
from zbackup.model.errors import DatabaseError, NotRecoverable, VerificationFailed
from zbackup.model.log_entry import LogFilter, LogRead


def read(end: str) -> LogRead:
    return LogRead(name=end.partition(":")[0], size=1, end=end)


DAMAGED = LogRead(name="binlog.000009", size=1, end="", problem="the end", damaged=True)


class Followed:
    """What follows a log that held `stored`, and each time somebody looks one of `news`: then damage."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stored: list[Any], *news: list[Any]) -> None:
        self.news: Iterator[list[Any]] = iter(news)
        self.asked, self.notes, self.naps = list[str](), list[str](), list[float]()
        self.shown, self.follows = list[Any](), list[str]()
        monkeypatch.setattr(log, "search_log", lambda *_: stored)
        monkeypatch.setattr(log, "_further", lambda _: self._further)
        monkeypatch.setattr(log, "time", SimpleNamespace(sleep=self.naps.append))
        ctx = cast(Any, SimpleNamespace(progress=SimpleNamespace(note=self.notes.append)))
        with pytest.raises(VerificationFailed, match="the end"):
            for each in follow(ctx, LogFilter()):
                self.shown.append(each)

    def _further(self, wanted: LogFilter) -> list[Any]:
        self.asked.append(wanted.after)
        self.follows.append(wanted.follows)
        return next(self.news, [DAMAGED])


def test_what_comes_is_shown_once_and_twice_a_second_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, third = (entry(number) for number in (1, 2, 3))
    stored = [first, read("binlog.000007:800"), read("")]
    found = Followed(monkeypatch, stored, [second, read("binlog.000007:900")], [read("")], [third])
    assert found.shown == [*stored, second, third]
    assert found.asked == ["binlog.000007:800", *["binlog.000007:900"] * 3]
    assert found.naps == [0.5] * 4 and found.notes == []


def test_a_log_of_which_nothing_was_there_is_followed_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Followed(monkeypatch, [read("")], [entry(1), read("binlog.000001:200")])
    assert (found.asked, found.notes) == (["", "binlog.000001:200"], [])


def test_that_a_log_was_begun_anew_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = ("binlog.000007:900", "binlog.000001:150", "binlog.000001:150", "binlog.000001:200")
    found = Followed(monkeypatch, [read("binlog.000007:800")], *([read(end)] for end in ends))
    assert found.asked == ["binlog.000007:800", *ends]
    assert found.notes == ["the server began its log again, which is shown from its beginning"]


def test_what_was_not_read_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of which files were purged before they were read is not shown as if it were all."""
    gone = LogRead(name="binlog.000009", size=0, end="", problem="binlog.000008 is gone")
    sealed = LogRead(name="binlog.000009", size=9, end="binlog.000009:4", problem="it is encrypted")
    cut = replace(sealed, problem="it ends within an event", torn=True)
    news = [[gone, read("binlog.000009:90")], [gone, sealed], [sealed, cut, entry(1)]]
    stored = [replace(gone, problem="binlog.000006 is gone"), read("binlog.000007:800")]
    found = Followed(monkeypatch, stored, *news, [stored[0]])
    assert found.shown == [*stored, gone, sealed, entry(1)]
    assert found.follows == found.asked


def followed(host: Host, monkeypatch: pytest.MonkeyPatch, looks: int) -> list[str]:
    """The files that were read until somebody interrupted it after as many looks; and behind what, each."""
    naps = iter(range(looks))

    def nap(_: float) -> None:
        if next(naps, None) is None:
            raise KeyboardInterrupt

    monkeypatch.setattr(log, "time", SimpleNamespace(sleep=nap))
    shown = []
    with pytest.raises(KeyboardInterrupt):
        for each in follow(host.ctx, LogFilter()):
            shown.append(each.name if isinstance(each, LogRead) else "")
    return shown


def test_the_servers_own_log_is_what_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, reads_files=True)
    stored = ["backup-2", "backup-1", "live", "backup-4", "backup-3"]
    assert followed(host, monkeypatch, 3) == stored
    assert host.after[-3:] == ["backup-3's end", "live's end", "live's end"] and host.up_to_date == 3
    host = Host(monkeypatch, reads_files=False)
    assert followed(host, monkeypatch, 2) == ["backup-1", "backup-2", "backup-3", "server"]
    assert host.after[-2:] == ["server's end"] * 2 and len(host.clones) == 3


def test_where_it_cannot_be_read_there_is_nothing_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(monkeypatch, reads_files=True)
    host.span = DatabaseError("it is down")
    with pytest.raises(NotRecoverable, match="nothing to follow"):
        followed(host, monkeypatch, 1)
