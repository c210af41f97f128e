"""Each part of a replay has the max_allowed_packet of its statements, or the largest where rows need it."""

import os
from pathlib import Path

import pytest

from tests.unit.engines.binlog.builder import Builder
from zbackup.engines.mysql.binlog.compressed import LARGEST, ROWS_COMPRESSED
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.recovery.packets import _needs, parts, steps_of
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.model.log import LogPosition

PACKET = 1 << 20
RECORDED = {"max_allowed_packet": str(PACKET)}


def written(directory: Path, *files: str) -> tuple[LogRange, list[LogPosition]]:
    """A transaction for each letter of a file, and where it begins: r has rows, l large ones, t a statement,
    x both of these."""
    paths, begins = [], []
    for number, letters in enumerate(files, 1):
        builder, path = Builder(mariadb=True), directory / f"binlog.{number:06}"
        for at, letter in enumerate(letters):
            begins.append(LogPosition.of(path.name, len(builder.data)))
            size = PACKET - 4000 if letter in "lx" else 100
            inside = b"INSERT INTO t VALUES (REPEAT('x', 9))" if letter == "x" else b"SAVEPOINT a"
            builder.maria(1000, number * 100 + at, standalone=letter == "t", size=size, inside=inside)
        path.write_bytes(builder.data)
        paths.append(path)
    stop = LogPosition.of(path.name, len(builder.data))
    start = LogPosition.of(paths[0].name, FIRST_EVENT)
    return LogRange(files=tuple(paths), start=start, stop=stop, ends_file=True), begins


def told(log: LogRange, begins: list[LogPosition]) -> list[tuple[int, int, bool]]:
    """The steps: how many transactions up to there, the packet (0: the largest), whether its file ends."""
    at = [*begins, log.stop]
    done = []
    for step in steps_of(log, RECORDED).steps:
        reached = sum(each < step.stop for each in at)
        done.append((reached, 0 if step.packet == LARGEST else step.packet, step.ends_file))
    return done


@pytest.mark.parametrize(
    ("files", "steps"),
    [
        (["rrtr"], [(4, PACKET, True)]),
        (["rtlrt"], [(2, PACKET, False), (4, 0, False), (5, PACKET, True)]),
        (["rllr"], [(4, 0, True)]),
        (["rlt"], [(2, 0, False), (3, PACKET, True)]),
        (["rt", "lr"], [(2, PACKET, True), (4, 0, True)]),
        (["l", "rr", "t"], [(3, 0, True), (4, PACKET, True)]),
    ],
)
def test_a_step_ends_where_another_packet_is_needed(
    tmp_path: Path, files: list[str], steps: list[tuple[int, int, bool]]
) -> None:
    log, begins = written(tmp_path, *files)
    assert told(log, begins) == steps
    ranges = [part for part, _ in parts(log, steps_of(log, RECORDED).steps)]
    assert [part.start for part in ranges] == [log.start, *[part.stop for part in ranges[:-1]]]
    assert ranges[-1].stop == log.stop
    for part in ranges:
        assert part.files[-1].name == part.stop.file


def test_what_needs_both_is_counted(tmp_path: Path) -> None:
    log, _ = written(tmp_path, "rxt")
    found = steps_of(log, RECORDED)
    assert (found.text, found.torn) == (True, 1)
    assert not steps_of(written(tmp_path, "rlr")[0], RECORDED).text


@pytest.mark.parametrize(
    ("kind", "length", "is_large"),
    [
        (166, 40_000, False),
        (167, 40_000, False),
        (169, 40_000, False),
        (166, PACKET, True),
        (170, PACKET, True),
    ],
)
def test_compressed_rows_are_as_large_as_they_say(kind: int, length: int, is_large: bool) -> None:
    """Those of MariaDB."""
    builder = Builder(mariadb=True)
    maps = b"\x01" * (2 if ROWS_COMPRESSED[kind] in (24, 31) else 1)
    post = bytes(8) + (b"\x02\x00" if kind >= 169 else b"")
    rows = post + b"\x01" + maps + b"\x83" + length.to_bytes(3, "big") + os.urandom(20_000)
    begin = len(builder.data)
    builder.event(kind, rows)
    trailer = 4 if builder.checksum else 0
    assert _needs(builder.data, (begin, len(builder.data)), trailer, PACKET) == (is_large, False)


@pytest.mark.parametrize("said", ["", "0", "-1", "x", "9" * 30, "1e3"])
def test_a_record_that_does_not_say_it_gives_one_that_every_event_fits(tmp_path: Path, said: str) -> None:
    log, _ = written(tmp_path, "rlr")
    (step,) = steps_of(log, {"max_allowed_packet": said}).steps
    assert step.packet == LARGEST
