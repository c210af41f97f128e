"""Sizes, disks and durations as a person may write them."""

from pathlib import Path

import pytest

from tests.lab.request import BadRequest, Disk, parse_disk, parse_duration, parse_size


@pytest.mark.parametrize(
    ("text", "size"), [("512M", 512 << 20), ("4G", 4 << 30), ("4GiB", 4 << 30), ("1t", 1 << 40), ("7", 7)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "0G", "G", "-1G", "4X", "1.5G"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BadRequest, match="expected a size"):
        parse_size(text)


def test_disks() -> None:
    assert parse_disk("4G") == Disk(size=4 << 30)
    assert parse_disk("/a/b") == Disk(path=Path("/a/b"))
    assert parse_disk("/a/b:4G") == Disk(path=Path("/a/b"), size=4 << 30)
    assert parse_disk("./b") == Disk(path=Path.cwd() / "b")
    assert parse_disk("/a:1/b") == Disk(path=Path("/a:1/b"))
    with pytest.raises(BadRequest):
        parse_disk("/a/b:much")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1h", 3600), ("0.5", 0.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "1d", "soon"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(BadRequest, match="expected a duration"):
        parse_duration(text)
