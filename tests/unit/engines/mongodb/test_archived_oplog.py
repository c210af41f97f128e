"""Archived oplog reads as the oplog it was, and whatever is none is refused."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.engines.mongodb.archived_set import FIRST, NOON, RECORD, Archive, Member, entry
from zbackup.engines.mongodb.archive import follow as in_files
from zbackup.engines.mongodb.oplog.archived import ArchivedOplog, archived_oplog, put_in
from zbackup.engines.mongodb.oplog.stored import documents, in_order, stored_entry
from zbackup.model.added_log import AddedFile, NotContinued
from zbackup.model.archive import ArchivedFile
from zbackup.model.errors import NotRecoverable, VerificationFailed
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.progress import Silent
from zbackup.plan.recovery.archived import Chain, chains_from


def added(made: Archive, chain: Chain) -> list[AddedFile]:
    def reading(file: ArchivedFile) -> Callable[[int, int], Any]:
        return lambda begin, end: made.read(file, begin, end)

    return [
        AddedFile(name=f.file.name, size=f.size, read=reading(f), end=str(f.end_position))
        for f in chain.files
    ]


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setattr(in_files, "MOST_FILE", 400)
    made = Archive(Member())
    made.member.write(12)
    made.all()
    assert len(made.inventory.files) > 2
    return made


def put(made: Archive, directory: Path, chain: Chain | None = None) -> ArchivedOplog:
    chain = chain or chains_from(RECORD, made.inventory.files)[0]
    put_in(directory, added(made, chain), OplogPosition(FIRST, 1, 1), Silent())
    return archived_oplog(directory, ("rs0", "65f0c0ffee"))


def test_what_was_archived_reads_as_the_oplog_it_was(three: Archive, tmp_path: Path) -> None:
    log, entries = put(three, tmp_path), three.member.oplog
    assert list(log.raw({})) == entries
    stamps = [bson.decode(e)["ts"] for e in entries]
    assert list(log.raw({"ts": {"$gt": stamps[3], "$lte": stamps[8]}})) == entries[4:9]
    assert log.count({"ts": {"$gt": stamps[5]}}) == 6
    newest = log.find({}, backwards=True)
    assert newest and newest["ts"] == stamps[-1] and newest["wall"].tzinfo is not None
    found = log.find({"ts": {"$gt": stamps[0]}, "wall": {"$gte": NOON + timedelta(milliseconds=5)}})
    assert found and found["ts"] == stamps[4]
    assert log.sure() is None and log.replica_set() == ("rs0", "65f0c0ffee")
    assert log.size() == (sum(map(len, entries)),) * 2


def test_an_archive_that_lacks_the_backups_end_is_another_history(three: Archive, tmp_path: Path) -> None:
    chain = chains_from(RECORD, three.inventory.files)[0]
    with pytest.raises(NotRecoverable, match="was rolled back"):
        put_in(tmp_path, added(three, chain), OplogPosition(FIRST, 4, 2), Silent())
    with pytest.raises(NotRecoverable, match="before the backup does"):
        put_in(tmp_path, added(three, chain), OplogPosition(FIRST, 400, 1), Silent())
    assert list(tmp_path.iterdir()) == []


def test_an_archive_with_a_hole_is_refused(three: Archive, tmp_path: Path) -> None:
    chain = chains_from(RECORD, three.inventory.files)[0]
    files = added(three, chain)
    with pytest.raises(NotContinued, match="there is a hole") as torn:
        put_in(tmp_path, [files[0], *files[2:]], None, Silent())
    assert torn.value.index == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_cut_off_counts_up_to_its_last_whole_entry(three: Archive, tmp_path: Path) -> None:
    chain = chains_from(RECORD, three.inventory.files)[0]
    cut = chain.cut(1, chain.files[1].size - 3)
    assert cut is not None
    files = added(three, cut)
    files[-1] = AddedFile(name=files[-1].name, size=files[-1].size, read=files[-1].read)
    first, last = put_in(tmp_path, files, None, Silent())
    assert first == OplogPosition(FIRST, 1, 1) and str(last) < str(chain.files[1].end_position)


@pytest.mark.parametrize(
    "data",
    [
        b"\x04\x00\x00\x00",
        b"\xff\xff\xff\xff" + b"x" * 20,
        b"\x14\x00\x00\x00" + b"\xff" * 15 + b"\x00",
        bson.encode({"ts": 5, "t": 1, "wall": NOON, "op": "i"}),
        bson.encode({"t": 1, "wall": NOON, "op": "i"}),
        entry(FIRST, 1, 1, op="x"),
        entry(FIRST, 1, 1) + b"\x05",
        entry(FIRST, 2, 1) + entry(FIRST, 1, 1),
        entry(FIRST, 1, 5) + entry(FIRST, 2, 4),
        entry(FIRST, 1, -7),
    ],
)
def test_bytes_that_are_no_oplog_are_refused(data: bytes) -> None:
    with pytest.raises(VerificationFailed):
        list(in_order(map(stored_entry, documents([data]))))


@given(st.binary(max_size=200), st.lists(st.integers(1, 40), max_size=5))
def test_no_bytes_at_all_get_further_than_that(data: bytes, cuts: list[int]) -> None:
    parts, at = [], 0
    for cut in cuts:
        parts.append(data[at : at + cut])
        at += cut
    parts.append(data[at:])
    try:
        found = [stored_entry(each) for each in documents(parts)]
    except VerificationFailed:
        return
    assert b"".join(each.data for each in found) == data


def test_a_file_that_is_not_what_its_name_says_is_no_part_of_it(three: Archive, tmp_path: Path) -> None:
    files = added(three, chains_from(RECORD, three.inventory.files)[0])
    other = replace(files[1], name=OplogPosition(FIRST, 1, 1).name)
    short = replace(files[1], end=str(OplogPosition(FIRST, 11, 1)))
    for wrong, said in ((other, "called by"), (short, "does not end at")):
        with pytest.raises(NotContinued, match=said):
            put_in(tmp_path, [files[0], wrong], None, Silent())


def test_what_cannot_be_read_is_the_readers_to_tell(three: Archive, tmp_path: Path) -> None:
    def torn(begin: int, end: int) -> Any:
        yield from files[1].read(begin, end - 10)
        raise VerificationFailed("not what was archived")

    files = added(three, chains_from(RECORD, three.inventory.files)[0])
    with pytest.raises(VerificationFailed, match="not what was archived") as failed:
        put_in(tmp_path, [files[0], replace(files[1], read=torn)], None, Silent())
    assert not isinstance(failed.value, NotContinued) and list(tmp_path.iterdir()) == []
