"""The position where replay stops."""

import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder, Written, at
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, GapError
from zbackup.engines.mysql.binlog.find_stop import Times, find_stop
from zbackup.model.anchors import Anchor
from zbackup.model.clock_reading import Reading
from zbackup.model.commit_times import Rules
from zbackup.model.log import LogPosition
from zbackup.model.target import Time

NOW = 1_700_000_000_000_000


def write(
    directory: Path, logs: list[list[int]], first: int = 1
) -> tuple[list[Path], list[tuple[Path, Written]]]:
    """One file for each list, with a transaction for each time (microseconds after NOW) in it."""
    files, written = [], []
    for sequence, offsets in enumerate(logs, first):
        builder = Builder()
        for number, offset in enumerate(offsets):
            builder.mysql(NOW + offset, number + 1)
        builder.rotate()
        path = directory / f"binlog.{sequence:06}"
        path.write_bytes(builder.data)
        files.append(path)
        written += [(path, one) for one in builder.written]
    return files, written


def place(path: Path, offset: int) -> LogPosition:
    return LogPosition.of(path.name, offset)


@given(
    logs=st.lists(st.lists(st.integers(0, 30), max_size=5), min_size=1, max_size=4),
    moment=st.integers(-1, 31),
    data=st.data(),
)
@settings(max_examples=examples(150), deadline=None)
def test_the_cut_is_a_prefix(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[int]], moment: int, data: st.DataObject
) -> None:
    """Everything in front of it is before the moment, and what follows first is not."""
    files, written = write(tmp_path_factory.mktemp("log"), logs)
    starts = [place(files[0], 4)] + [place(path, one.end) for path, one in written]
    start = data.draw(st.sampled_from(starts))
    rest = [(p, w) for p, w in written if place(p, w.start) >= start]
    cut = find_stop(files, start, Time(at(NOW + moment)))
    applied = [(p, w) for p, w in rest if place(p, w.end) <= cut.stop]
    skipped = rest[len(applied) :]
    assert all(w.micros < NOW + moment for _, w in applied)
    assert not skipped or skipped[0][1].micros >= NOW + moment
    assert cut.transactions == len(applied)
    assert cut.stop == (place(applied[-1][0], applied[-1][1].end) if applied else start)
    assert (cut.last_applied.start if cut.last_applied else None) == (
        place(applied[-1][0], applied[-1][1].start) if applied else None
    )
    assert (cut.first_skipped.start if cut.first_skipped else None) == (
        place(skipped[0][0], skipped[0][1].start) if skipped else None
    )
    assert cut.out_of_order == sum(w.micros < NOW + moment for _, w in skipped)
    between = b"".join(path.read_bytes() for path in files if path.name < cut.stop.file)
    assert cut.log_bytes == len(between) + cut.stop.offset - start.offset - sum(
        path.stat().st_size for path in files if path.name < start.file
    )


def test_the_end_bounds_the_search(tmp_path: Path) -> None:
    files, written = write(tmp_path, [[1, 2], [3, 4]])
    end = place(files[1], written[2][1].end)
    cut = find_stop(files, place(files[0], 4), Time(at(NOW + 100)), end=end)
    assert cut.stop == end
    assert cut.first_skipped is None
    assert cut.transactions == 3


def test_a_missing_file_in_between_is_named(tmp_path: Path) -> None:
    files, _ = write(tmp_path, [[1], [2], [3], [4]])
    with pytest.raises(GapError, match=r"between binlog\.000001 and binlog\.000004"):
        find_stop([files[0], files[3]], place(files[0], 4), Time(at(NOW)))


def test_a_missing_first_file_is_named(tmp_path: Path) -> None:
    files, _ = write(tmp_path, [[1], [2]])
    with pytest.raises(
        GapError, match=r"binlog\.000001, which is missing: the oldest file present is binlog\.000002"
    ):
        find_stop(files[1:], place(files[0], 4), Time(at(NOW)))
    with pytest.raises(GapError, match="no log files"):
        find_stop([], place(files[0], 4), Time(at(NOW)))


def test_a_log_that_ends_too_early_is_an_error(tmp_path: Path) -> None:
    files, _ = write(tmp_path, [[1], [2]])
    size = files[0].stat().st_size
    with pytest.raises(GapError, match=f"ends at {size}"):
        find_stop(files, place(files[0], size + 1), Time(at(NOW)))
    with pytest.raises(GapError, match=r"last file is binlog\.000002"):
        find_stop(files, place(files[0], 4), Time(at(NOW)), end=LogPosition.of("binlog.000003", 4))


def test_a_file_begun_by_a_long_statement_is_cut_like_any_other(tmp_path: Path) -> None:
    """The builder's events all say that they began with the first transaction."""
    second = 1_000_000
    files, written = write(
        tmp_path, [[n * second for n in range(600)], [n * second for n in range(600, 700)]]
    )
    cut = find_stop(files, place(files[0], 4), Time(at(NOW + 300 * second)))
    assert (cut.transactions, cut.later) == (300, None)
    for path, one in written:
        if path is files[0]:
            stamp(path, one.start, 50)
    disputed = find_stop(files, place(files[0], 4), Time(at(NOW + 300 * second)))
    assert disputed.transactions == 300 and disputed.later is not None
    assert disputed.later.transactions == 600


def stamp(path: Path, offset: int, seconds: int) -> None:
    """Let the event at `offset` have begun that many seconds later."""
    data = bytearray(path.read_bytes())
    (size,) = struct.unpack_from("<I", data, offset + 9)
    struct.pack_into("<I", data, offset, NOW // 1_000_000 + seconds)
    struct.pack_into("<I", data, offset + size - 4, zlib.crc32(data[offset : offset + size - 4]))
    path.write_bytes(data)


def test_what_lies_behind_the_cut_need_not_be_readable(tmp_path: Path) -> None:
    """Where this host's clock is known to have been past the target, nothing further is looked at."""
    second = 1_000_000
    files, written = write(tmp_path, [[n * second for n in range(600)], [600 * second]])
    files[1].write_bytes(b"nothing of a log")
    then = NOW + 500 * second
    clock = Reading("boot", 1000.0, True)
    seen = Anchor(position=(1, written[500][1].end), earliest=then, latest=then, clock=clock)
    times = Times(rules=Rules(), anchors=(seen,))
    cut = find_stop(files, place(files[0], 4), Time(at(NOW + 300 * second)), times=times)
    assert (cut.transactions, cut.later) == (300, None)
    with pytest.raises(BinlogDamaged):
        find_stop(files, place(files[0], 4), Time(at(NOW + 599 * second)), times=times)
