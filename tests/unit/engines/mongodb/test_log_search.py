"""Searching the oplog of a clone, and archived entries that were added to it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.engines.mongodb.archived_set import place_of
from tests.unit.engines.mongodb.recovered import FIRST, Story, ts, written
from zbackup.engines.mongodb.oplog.archived import put_in
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.recovery.log_reader import MongoLogReader
from zbackup.engines.mongodb.recovery.log_search import MongoLogSearch
from zbackup.model.added_log import AddedFile
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import DatabaseError, NotRecoverable, Refused, VerificationFailed
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead, Lost
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.progress import Silent
from zbackup.model.record import ARCHIVED
from zbackup.model.relocation import Relocation


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, monkeypatch)


def numbers(found: Iterator[Any]) -> list[int]:
    return [
        OplogPosition.parse(each.transaction.start).seconds - FIRST
        for each in found
        if isinstance(each, LogEntry)
    ]


def archived(story: Story, room: Path, *entries: bytes, oplog_first: str = "") -> None:
    """These were added to the log source's files."""
    data, (first, last) = b"".join(entries), (place_of(entries[0]), place_of(entries[-1]))
    file = AddedFile(
        name=first.name, size=len(data), read=lambda begin, end: iter([data[begin:end]]), end=str(last)
    )
    (room / "log").mkdir()
    put_in(room / "log", [file], None, Silent())
    more = {ARCHIVED: "1"} | ({"oplog_first": oplog_first} if oplog_first else {})
    known = story.source_record
    story.source_record = replace(known, server=known.server | more)


def search(story: Story, **wanted: Any) -> list[int]:
    made = MongoLogSearch(recovery=story.recovery)
    return numbers(made.on_clone(story.files("log", story.source_record), LogFilter(**wanted)))


@pytest.mark.parametrize("backwards", [False, True])
def test_a_clones_oplog_is_read_by_a_server_whose_files_are_thrown_away(
    story: Story, *, backwards: bool
) -> None:
    found = search(story, backwards=backwards)
    assert found == list(range(1, 9))
    assert story.servers["log"].did == ["make room", "start to open, and throw away"]


@pytest.mark.parametrize("backwards", [False, True])
def test_what_was_archived_is_told_once_and_the_newest_first_who_wants_that(
    story: Story, tmp_path: Path, *, backwards: bool
) -> None:
    archived(story, tmp_path, *(written(number) for number in range(6, 13)))
    own, added = list(range(1, 6)), list(range(6, 13))
    assert search(story, backwards=backwards) == (added + own if backwards else own + added)


@pytest.mark.parametrize(
    ("after", "own", "started"),
    [
        (f"{ts(6).time},1@1", "", False),
        (f"{ts(9).time},1@1", "", False),
        (f"{ts(5).time},1@1", "", True),
        ("", f"{ts(6).time},1@1", False),
        ("", f"{ts(2).time},1@1", True),
    ],
)
def test_where_the_archived_part_has_all_that_is_wanted_no_server_is_started(
    story: Story, tmp_path: Path, after: str, own: str, *, started: bool
) -> None:
    archived(story, tmp_path, *(written(number) for number in range(6, 13)), oplog_first=own)
    found = search(story, after=after)
    assert found[-1] == 12 and bool(story.servers["log"].did) is started


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_lost_in_front_of_an_oplog_is_told_where_it_lay(
    story: Story, tmp_path: Path, *, backwards: bool
) -> None:
    def at(seconds: int) -> str:
        return f"{FIRST + seconds},1@1"

    def told(**wanted: Any) -> list[str]:
        made = MongoLogSearch(recovery=story.recovery)
        asked = LogFilter(backwards=backwards, **wanted)
        found = list(made.on_clone(story.files("log", story.source_record), asked))
        problems = [each.problem for each in found if isinstance(each, LogRead) and each.problem]
        lost = found[-1 if backwards else 0]
        assert not problems or (isinstance(lost, LogRead) and [lost.problem] == problems and not lost.end)
        return problems

    gone = [f"what the oplog held between {at(0)} and {at(1)} is gone"]
    assert told(follows=at(0)) == gone
    made = MongoLogSearch(recovery=story.recovery)
    reads = list(made.on_clone(story.files("log", story.source_record), LogFilter(follows=at(0))))
    found = Lost(since=ts(0).as_datetime(), until=ts(1).as_datetime())
    assert [each.lost for each in reads if isinstance(each, LogRead) and each.lost] == [found]
    assert told() == told(follows=at(1)) == told(follows=at(7)) == []
    begun = ts(1).as_datetime()
    assert told(follows=at(0), since=begun) == gone
    assert told(follows=at(0), since=begun + timedelta(hours=1)) == []
    archived(story, tmp_path, *(written(number) for number in range(6, 13)))
    assert told(follows=at(0)) == gone, "of the part that comes first"
    known = story.source_record
    story.source_record = replace(known, server=known.server | {"oplog_first": at(6)})
    assert told(follows=at(5)) == [f"what the oplog held between {at(5)} and {at(6)} is gone"]


def test_who_is_not_told_how_to_reach_the_server_is_told_so(story: Story) -> None:
    with pytest.raises(Refused, match="does not say how to reach the server"):
        MongoLogSearch(recovery=story.recovery).live(LogFilter())
    assert MongoLogReader().live_log(BackupFiles(story.base_record, Relocation(())), Relocation(())) is None


def test_who_is_told_asks_it(story: Story, tmp_path: Path) -> None:
    there = ConnectOptions(socket=str(tmp_path / "nobody"))
    with pytest.raises(DatabaseError):
        list(MongoLogSearch(recovery=story.recovery, connect=there).live(LogFilter()))
    with pytest.raises(DatabaseError):
        MongoLogReader(connect=there).live_log(BackupFiles(story.base_record, Relocation(())), Relocation(()))


@pytest.mark.parametrize(
    ("position", "why"),
    [
        (f"{FIRST + 7},1@1", ""),
        (f"{FIRST + 7},1@2", "was rolled back"),
        ("", ""),
        ("binlog.000001:4", "the recorded oplog position cannot be understood"),
    ],
)
def test_what_is_added_has_the_end_that_was_recorded(
    story: Story, tmp_path: Path, position: str, why: str
) -> None:
    entries = [written(number) for number in range(6, 13)]
    data = b"".join(entries)
    file = AddedFile(
        name=place_of(entries[0]).name,
        size=len(data),
        read=lambda begin, end: iter([data[begin:end]]),
        end=str(place_of(entries[-1])),
    )
    (tmp_path / "log").mkdir()
    log = story.files("log", replace(story.source_record, position=position, log_from=f"{FIRST + 2},1@1"))
    files = BackupFiles(log.record, log.where)
    if why:
        with pytest.raises(NotRecoverable if "rolled" in why else VerificationFailed, match=why):
            story.recovery.add_log(files, [file], Silent())
        return
    span = story.recovery.add_log(files, [file], Silent())
    assert (span.first, span.last) == (f"{FIRST + 6},1@1", f"{FIRST + 12},1@1")
    later = replace(log.record, log_from=f"{FIRST + 7},1@1")
    assert story.recovery.add_log(BackupFiles(later, log.where), [file], Silent()).first == later.log_from
