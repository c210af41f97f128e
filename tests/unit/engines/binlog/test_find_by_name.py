"""Finding one transaction in a log without reading all of it."""

import struct
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import SERVER, Builder, Written
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.errors import BinlogDamaged
from zbackup.engines.mysql.binlog.find_by_name import find
from zbackup.engines.mysql.binlog.find_stop import find_stop
from zbackup.engines.mysql.binlog.transactions_before import read_earlier
from zbackup.model.log import LogPosition
from zbackup.model.transaction_name import Gtid, parse_transaction

NOW = 1_700_000_000_000_000


@dataclass(frozen=True)
class Log:
    files: list[Path]
    written: list[tuple[Path, Written]]


def previous(gtids: dict[str, list[tuple[int, int]]], *, tagged: bool) -> bytes:
    """A GTID set as MySQL stores it; numbers are from the first to the one behind the last."""
    count = len(gtids) if not tagged else 1 << 56 | len(gtids) << 8 | 1
    body = struct.pack("<Q", count)
    for source, intervals in gtids.items():
        uuid, _, tag = source.partition(":")
        body += UUID(uuid).bytes
        if tagged:
            body += bytes((len(tag) << 1,)) + tag.encode()
        body += struct.pack("<Q", len(intervals)) + b"".join(struct.pack("<QQ", *i) for i in intervals)
    return body


def mysql_log(directory: Path, logs: list[list[str]], *, tagged: bool = False) -> Log:
    """One file for each list, with a transaction for each tag ("" for none) in it."""
    files, written, numbers = [], [], dict[str, int]()
    for sequence, tags in enumerate(logs, 1):
        builder = Builder()
        before = {f"{SERVER}:{t}" if t else str(SERVER): [(1, n + 1)] for t, n in sorted(numbers.items())}
        builder.event(events.PREVIOUS_GTIDS, previous(before, tagged=tagged))
        for tag in tags:
            numbers[tag] = numbers.get(tag, 0) + 1
            builder.mysql(NOW, numbers[tag], tag=tag)
        builder.rotate()
        _end(directory, sequence, builder, files, written)
    return Log(files, written)


def mariadb_log(directory: Path, logs: list[list[tuple[int, int, int]]]) -> Log:
    """One file for each list, with a transaction for each domain, server and number in it."""
    files, written, last = [], [], dict[tuple[int, int], int]()
    for sequence, gtids in enumerate(logs, 1):
        builder = Builder(mariadb=True)
        entries = [struct.pack("<IIQ", *source, number) for source, number in last.items()]
        builder.event(events.GTID_LIST, struct.pack("<I", len(entries) | 1 << 28) + b"".join(entries))
        builder.event(events.BINLOG_CHECKPOINT, b"\0" * 8)
        for domain, server, number in gtids:
            builder.maria(NOW // 10**6, number, domain=domain, server=server)
            last[domain, server] = number
        builder.rotate()
        _end(directory, sequence, builder, files, written)
    return Log(files, written)


def _end(
    directory: Path, sequence: int, builder: Builder, files: list[Path], written: list[tuple[Path, Written]]
) -> None:
    path = directory / f"binlog.{sequence:06}"
    path.write_bytes(builder.data)
    files.append(path)
    written += [(path, one) for one in builder.written]


def assert_all_are_found(log: Log) -> None:
    for path, one in log.written:
        found = find(parse_transaction(one.gtid), log.files).found
        assert found and (found.start, found.end) == (f"{path.name}:{one.start}", f"{path.name}:{one.end}")
        assert found.gtid == one.gtid


@given(logs=st.lists(st.lists(st.sampled_from(["", "blue", "x_1"]), max_size=5), min_size=1, max_size=5))
@settings(max_examples=examples(60), deadline=None)
def test_every_gtid_of_mysql_is_found(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[str]]
) -> None:
    tagged = any(tag for tags in logs for tag in tags)
    log = mysql_log(tmp_path_factory.mktemp("log"), logs, tagged=tagged)
    assert_all_are_found(log)
    last = sum(not tag for tags in logs for tag in tags)
    nowhere = find(Gtid("mysql", str(SERVER), last + 1), log.files)
    assert (nowhere.found, nowhere.first) == (None, "binlog.000001")
    assert "is not there" in nowhere.why


sources = st.tuples(st.integers(0, 1), st.integers(1, 2))


@given(data=st.data(), files=st.integers(1, 5), rising=st.booleans())
@settings(max_examples=examples(80), deadline=None)
def test_every_gtid_of_mariadb_is_found_also_where_numbers_do_not_rise(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, files: int, rising: bool
) -> None:
    gtids = data.draw(
        st.lists(st.tuples(sources, st.integers(1, 30)), unique=True, max_size=15).map(
            lambda found: sorted(found) if rising else found
        )
    )
    logs: list[list[tuple[int, int, int]]] = [[] for _ in range(files)]
    for index, ((domain, server), number) in enumerate(gtids):
        logs[index * files // len(gtids)].append((domain, server, number))
    assert_all_are_found(mariadb_log(tmp_path_factory.mktemp("log"), logs))


@given(logs=st.lists(st.lists(st.just(""), max_size=4), min_size=1, max_size=3), data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_place_names_what_it_lies_in_and_the_cut_is_before_that(
    tmp_path_factory: pytest.TempPathFactory, logs: list[list[str]], data: st.DataObject
) -> None:
    log = mysql_log(tmp_path_factory.mktemp("log"), logs)
    path = data.draw(st.sampled_from(log.files))
    offset = data.draw(st.integers(0, path.stat().st_size + 10))
    searched = find(LogPosition.of(path.name, offset), log.files)
    inside = [i for i, (p, w) in enumerate(log.written) if p == path and w.start <= offset < w.end]
    if not inside:
        assert searched.found is None
        assert "is in no transaction" in searched.why
        return
    path, one = log.written[inside[0]]
    assert searched.found and searched.found.gtid == one.gtid
    starts = [LogPosition.of(log.files[0].name, 4)]
    starts += [LogPosition.of(p.name, w.end) for p, w in log.written[: inside[0]]]
    start = data.draw(st.sampled_from(starts))
    cut = find_stop(log.files, start, LogPosition.parse(searched.found.start))
    assert cut.first_skipped and cut.first_skipped.described() == searched.found
    assert cut.transactions == inside[0] - starts.index(start)
    assert (cut.last_applied.gtid if cut.last_applied else None) == (
        log.written[inside[0] - 1][1].gtid if cut.transactions else None
    )
    assert cut.out_of_order == 0


def test_only_the_file_that_has_it_is_read_whole(tmp_path: Path) -> None:
    log = mysql_log(tmp_path, [[""] * 2] * 4)
    for damaged in (log.files[0], log.files[3]):
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-60] + bytes(20) + whole[-40:])
    found = find(Gtid("mysql", str(SERVER), 5), log.files).found
    assert found and found.start.startswith("binlog.000003:")
    with pytest.raises(BinlogDamaged):
        find(Gtid("mysql", str(SERVER), 8), log.files)


@pytest.mark.parametrize("kept", [0, 4, 60])
@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
@pytest.mark.parametrize("which", [1, 3])
def test_a_file_that_a_crash_cut_off_at_its_head_hides_nothing(
    tmp_path: Path, kind: str, which: int, kept: int
) -> None:
    mysql = kind == "mysql"
    log = mysql_log(tmp_path, [[""] * 2] * 4) if mysql else mariadb_log(tmp_path, [[(0, 1, 1)], [], [], []])
    cut_off = log.files[which]
    cut_off.write_bytes(cut_off.read_bytes()[:kept])
    log.written[:] = [(path, one) for path, one in log.written if path != cut_off]
    assert_all_are_found(log)


def test_a_damaged_head_matters_only_where_the_file_has_to_be_read(tmp_path: Path) -> None:
    log = mysql_log(tmp_path, [[""] * 2] * 4)
    damaged = log.files[1]
    whole = damaged.read_bytes()
    at = log.written[2][1].start - 20
    damaged.write_bytes(whole[:at] + bytes(byte ^ 255 for byte in whole[at : at + 10]) + whole[at + 10 :])
    log.written[:] = [(path, one) for path, one in log.written if path != damaged]
    assert_all_are_found(log)
    with pytest.raises(BinlogDamaged):
        find(Gtid("mysql", str(SERVER), 3), log.files)


def test_what_was_before_the_oldest_file_is_said(tmp_path: Path) -> None:
    log = mysql_log(tmp_path, [[""] * 2] * 3)
    searched = find(Gtid("mysql", str(SERVER), 1), log.files[1:])
    assert (searched.first, searched.last) == ("binlog.000002", "binlog.000003")
    assert "was before binlog.000002" in searched.why
    assert searched.begun
    assert "there is no binlog.000001 any more" in find(LogPosition.of("binlog.000001", 4), log.files[1:]).why
    assert find(LogPosition.of("binlog.000009", 4), log.files).why == "there is no binlog.000009"
    other = LogPosition.of("mysqld-bin.000001", 4)
    assert find(other, log.files[1:]).why == "there is no mysqld-bin.000001"


def test_without_gtids_nothing_is_called_by_one(tmp_path: Path) -> None:
    builder = Builder()
    builder.mysql(NOW, 1, anonymous=True)
    path = tmp_path / "binlog.000001"
    path.write_bytes(builder.data)
    assert find(Gtid("mysql", str(SERVER), 1), [path]).found is None
    assert find(LogPosition.of(path.name, builder.written[0].start), [path]).found


@given(
    st.sampled_from([events.PREVIOUS_GTIDS, events.GTID_LIST]),
    st.one_of(st.binary(max_size=80), st.binary(max_size=60).map(lambda rest: b"\1" + bytes(7) + rest)),
)
def test_a_list_of_earlier_ones_is_read_or_refused(kind: int, body: bytes) -> None:
    try:
        read_earlier(kind, body)
    except ValueError as refusal:
        assert "unreadable" in str(refusal)


def test_a_gtid_of_mariadb_that_was_given_again_is_found_each_time(tmp_path: Path) -> None:
    """In one file and in others, also where the next file begins with a higher number of its source."""
    mine, other = (0, 1, 7), (0, 2, 7)
    log = mariadb_log(tmp_path, [[mine, (0, 1, 8), mine], [(0, 1, 9)], [other, mine], [(1, 1, 7)]])
    found = find(Gtid("mariadb", "0-1", 7), log.files)
    assert found.found
    starts = [each.start for each in (found.found, *found.others)]
    assert starts == [f"{path.name}:{one.start}" for path, one in log.written if one.gtid == "0-1-7"]
    assert len(starts) == 3
    assert not find(Gtid("mariadb", "0-2", 7), log.files).others
    assert not find(Gtid("mariadb", "1-1", 7), log.files).others
    assert not find(LogPosition.of("binlog.000001", log.written[0][1].start), log.files).others
