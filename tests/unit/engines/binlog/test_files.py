"""Lists of log files, comparing two copies, cutting one off."""

from pathlib import Path

import pytest

from tests.unit.engines.binlog.builder import Builder
from zbackup.engines.mysql.binlog.errors import DifferentLog
from zbackup.engines.mysql.binlog.files import find_index, index_without_links, log_files
from zbackup.engines.mysql.binlog.same_log import require_same_log

NOW = 1_700_000_000_000_000


def touch(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).touch()


def test_files_in_order_of_their_numbers(tmp_path: Path) -> None:
    touch(
        tmp_path,
        "binlog.1000000",
        "binlog.999999",
        "binlog.index",
        "other.000001",
        "binlog.000001.idx",
        "binlog.~rec~",
    )
    assert [p.name for p in log_files(None, tmp_path, "binlog")] == ["binlog.999999", "binlog.1000000"]


def test_the_index_counts_when_there_is_one(tmp_path: Path) -> None:
    touch(tmp_path, "db-1.log.000001", "db-1.log.000002", "db-1.log.000003")
    index = tmp_path / "db-1.log.index"
    index.write_text("/elsewhere/logs/db-1.log.000002\n./db-1.log.000003\n./db-1.log.000004\n")
    assert log_files(index, tmp_path, "db-1.log") == [
        tmp_path / "db-1.log.000002",
        tmp_path / "db-1.log.000003",
    ]


def test_an_index_with_a_second_dot_is_found_beside_what_the_server_calls_it(tmp_path: Path) -> None:
    said, real = tmp_path / "my.index", tmp_path / "my.v2.index"
    touch(tmp_path, "my.000001", "my.old")
    real.write_text("/elsewhere/logs/my.000001\n")
    assert find_index(said, "my") == real
    said.write_text("/elsewhere/logs/another.000001\n")
    assert find_index(said, "my") == real
    said.write_text("/elsewhere/logs/my.000001\n")
    assert find_index(said, "my") == said
    assert find_index(tmp_path / "none.index", "none") == tmp_path / "none.index"


def copies(tmp_path: Path, base: bytes, source: bytes) -> tuple[Path, Path]:
    for name, content in (("base", base), ("source", source)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "binlog.000001").write_bytes(content)
    return tmp_path / "base" / "binlog.000001", tmp_path / "source" / "binlog.000001"


def log(count: int, micros: int = NOW) -> bytes:
    builder = Builder()
    for number in range(count):
        builder.mysql(micros + number, number + 1, size=500)
    return bytes(builder.data)


def test_a_longer_copy_is_the_same_log_even_if_closed(tmp_path: Path) -> None:
    base = bytearray(log(300))
    base[4 + 17] |= 1
    pair = copies(tmp_path, bytes(base), log(400))
    require_same_log(*pair, upto=len(base))


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (log(299), "ends at"),
        (log(300, NOW + 1), "begin differently"),
        (log(2) + bytes(10**6), "differ before"),
    ],
)
def test_another_log_is_told_apart(tmp_path: Path, source: bytes, why: str) -> None:
    base = log(300)
    pair = copies(tmp_path, base, source)
    if why == "differ before":
        pair[1].write_bytes(base[:5000] + bytes(len(base) - 5000))
    with pytest.raises(DifferentLog, match=f"{why}.*the log was reset or belongs to another server"):
        require_same_log(*pair, upto=len(base))


def test_an_index_names_its_files_where_the_server_is_told_to_look() -> None:
    """Configured through a link, a server lists them by the link."""
    listed = "/var/log/mysql/binlog.000001\n/var/log/mysql/binlog.000002\n"
    there = "/tank/log files/binlog.000001\n/tank/log files/binlog.000002\n"
    assert index_without_links(listed, "/tank/log files") == there
    assert index_without_links(there, "/tank/log files") == there
    relative = "./binlog.000001\nbinlog.000002\n"
    assert index_without_links(relative, "/tank/log files") == relative
    assert index_without_links("", "/tank") == ""
