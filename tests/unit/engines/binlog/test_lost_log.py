"""What is lost between files of a log, in one search and between several."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.binlog.test_search_by_filter import HOUR, transaction
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.lost_log import goes_on_at
from zbackup.engines.mysql.binlog.reader import begun
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.model.log_entry import LogFilter, LogRead, Lost


@dataclass(frozen=True)
class Copies:
    """What there is of a log of ten files, some of it in snapshots: each file ends by naming the next."""

    room: Path

    def of(self, number: int, place: str = "live", *, cut: bool = False) -> Path:
        builder, path = Builder(), self.room / place / f"binlog.{number:06}"
        transaction(builder, number, (30, "shop.orders"))
        if not cut:
            builder.rotate(f"binlog.{number + 1:06}")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(builder.data)
        return path


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    return Copies(tmp_path)


def problems(files: list[Path], **wanted: Any) -> list[str]:
    return [e.problem for e in search(files, LogFilter(**wanted)) if isinstance(e, LogRead) and e.problem]


@pytest.mark.parametrize("backwards", [False, True])
def test_the_end_of_a_file_that_only_a_snapshot_has_is_lost(copies: Copies, *, backwards: bool) -> None:
    """It was written to afterwards, and then purged: unless it says itself that it has ended."""
    cut, later = copies.of(3, "snapshot", cut=True), copies.of(4)
    size = cut.stat().st_size
    gone = f"what the log held between binlog.000003:{size} and binlog.000004 is gone"
    assert problems([cut, later], backwards=backwards) == [gone]
    assert problems([cut, later], backwards=backwards, after="binlog.000004:4") == []
    left = begun(later)
    assert left and problems([cut, later], backwards=backwards, since=left + HOUR) == []
    assert problems([copies.of(3, "snapshot"), later], backwards=backwards) == []
    copies.of(4, "snapshot", cut=True)
    assert problems([copies.of(3, "snapshot", cut=True), later], backwards=backwards) == [], "it has the next"


@pytest.mark.parametrize(
    ("follows", "between"),
    [
        ("binlog.000001:500", "binlog.000001:500 and binlog.000004 (2 files)"),
        ("binlog.000002:4", "binlog.000002:4 and binlog.000004 (2 files)"),
        ("binlog.000003:500", "binlog.000003:500 and binlog.000004"),
        ("binlog.000003:4", "binlog.000003:4 and binlog.000004 (1 file)"),
        ("binlog.000004:4", ""),
        ("binlog.000004:500", ""),
        ("binlog.000007:4", ""),
        ("", ""),
    ],
)
@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_lost_in_front_of_the_first_file_is_told(
    copies: Copies, follows: str, between: str, *, backwards: bool
) -> None:
    files = [copies.of(4), copies.of(5, cut=True)]
    said = [f"what the log held between {between} is gone"] if between else []
    assert problems(files, follows=follows, backwards=backwards) == said
    left = begun(files[0])
    assert left and problems(files, follows=follows, backwards=backwards, since=left + HOUR) == []
    found = list(search(files, LogFilter(follows=follows, backwards=backwards)))
    lost = found[-1 if backwards else 0]
    assert not said or (isinstance(lost, LogRead) and lost.problem == said[0]), "where it lies"
    for ended in (None, left - HOUR):
        reads = search(files, LogFilter(follows=follows, ended=ended, backwards=backwards))
        lacking = [each.lost for each in reads if isinstance(each, LogRead) and each.lost]
        assert lacking == [Lost(since=ended, until=left)] * len(said)


@settings(max_examples=examples(60))
@given(
    there=st.sets(st.integers(1, 10), min_size=1),
    cuts=st.sets(st.integers(1, 10)),
    backwards=st.booleans(),
)
def test_however_files_are_handed_over_a_file_that_is_lacking_is_told_of(
    tmp_path_factory: pytest.TempPathFactory, there: set[int], cuts: set[int], *, backwards: bool
) -> None:
    """In one call or in several, of which each knows where the log in front of it ended."""
    copies, calls = Copies(tmp_path_factory.mktemp("log")), list[list[Path]]()
    for number in sorted(there):
        if not calls or number in cuts:
            calls.append([])
        calls[-1].append(copies.of(number, f"backup-{len(calls)}"))
    said, follows = list[list[str]](), ""
    for files in calls:
        said.append(problems(files, follows=follows, backwards=backwards))
        last = files[-1]
        follows = goes_on_at(last, f"{last.name}:{last.stat().st_size}")
    lacking = {number for number in range(min(there), max(there)) if number not in there}
    runs = sum(number - 1 not in lacking for number in lacking)
    assert sum(map(len, said)) == runs
    assert all("is gone" in problem for found in said for problem in found)


def test_a_log_goes_on_behind_what_is_recorded_unless_its_last_file_has_ended(copies: Copies) -> None:
    assert goes_on_at(copies.of(9, cut=True), "binlog.000009:300") == "binlog.000009:300"
    assert goes_on_at(copies.of(9), "binlog.000009:300") == "binlog.000010:4"
    builder = Builder()
    builder.event(events.STOP, b"")
    (path := copies.room / "binlog.999999").write_bytes(builder.data)
    assert goes_on_at(path, "binlog.999999:200") == "binlog.1000000:4"
    path.unlink()
    assert goes_on_at(path, "binlog.999999:200") == "binlog.999999:200"
