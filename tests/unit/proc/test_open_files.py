"""Processes that are in a directory, real ones."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from zbackup.proc.open_files import processes_in, told


@contextmanager
def standing_in(directory: Path) -> Iterator[int]:
    """The number of a process that works there."""
    directory.mkdir(parents=True)
    process = subprocess.Popen(["sleep", "600"], cwd=directory)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_who_stands_there_or_has_something_open_is_found_by_name(tmp_path: Path) -> None:
    place = tmp_path / "a clone"
    with standing_in(place / "0") as pid, standing_in(tmp_path / "a clone too"):
        assert processes_in(str(place)) == [(pid, "sleep")]
        with (place / "open").open("w"):
            assert [who for who, _ in processes_in(f"{place}/")] == sorted((pid, os.getpid()))
        assert processes_in(str(place / "0")) == [(pid, "sleep")]
    assert processes_in(str(place)) == []


def test_a_process_that_is_gone_or_closed_to_us_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "7" / "fd").mkdir(parents=True)
    (tmp_path / "8").mkdir()
    (tmp_path / "8" / "cwd").symlink_to("/clones/dev1")
    (tmp_path / "self").mkdir()
    assert processes_in("/clones/dev1", tmp_path) == [(8, "a process that ends")]
    (tmp_path / "7" / "cwd").symlink_to("pipe:[1]")
    for root, ended in (("/", 8), ("/clones/", 8)):
        assert processes_in(root, tmp_path) == [(ended, "a process that ends")]


@given(st.lists(st.tuples(st.integers(1, 4194304), st.text("abc ", min_size=1, max_size=15))))
def test_as_many_as_fit_are_named_and_the_others_counted(who: list[tuple[int, str]]) -> None:
    said = told(who, room=100)
    assert len(said) <= 100 + len(" and 9999 more")
    named = said.count("(pid ")
    more = int(said.rpartition(" and ")[2].removesuffix(" more")) if said.endswith(" more") else 0
    assert named + more == len(who) and bool(named) == bool(who)
