"""A snapshot may be taken while the server replaces its index, or hold no log at all."""

from pathlib import Path

import pytest

from zbackup.engines.mysql.binlog.errors import GapError
from zbackup.engines.mysql.binlog.files import log_files


def test_without_its_index_the_log_is_found_by_name(tmp_path: Path) -> None:
    for name in ("binlog.000002", "binlog.000001", "binlog.~rec~", "other.000001"):
        (tmp_path / name).touch()
    found = log_files(tmp_path / "binlog.index", tmp_path, "binlog")
    assert [path.name for path in found] == ["binlog.000001", "binlog.000002"]


@pytest.mark.parametrize("listed", [None, "", "./binlog.000001\n"])
def test_a_log_that_is_gone_is_a_gap(tmp_path: Path, listed: str | None) -> None:
    index = tmp_path / "binlog.index"
    if listed is not None:
        index.write_text(listed)
    with pytest.raises(GapError, match="no file binlog"):
        log_files(index, tmp_path, "binlog")


def test_so_is_a_directory_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(GapError, match="no file binlog"):
        log_files(tmp_path / "log" / "binlog.index", tmp_path / "log", "binlog")
