"""Directories that the log names in CREATE TABLE … DATA DIRECTORY."""

import os
from pathlib import Path

import pytest

from zbackup.engines.mysql.outside import MOST, make_room, mentioned, shown


def test_each_directory_beyond_the_datasets_is_found_once(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(
        b"\xfe\x01CREATE TABLE a (id INT) DATA DIRECTORY='/else where/x'\x00\x01"
        b"create table b (id int) data directory = '/other//./y' index\tdirectory '/third'\x00"
        b"CREATE TABLE c (id INT) DATA DIRECTORY = '/var/lib/mysql/own'"
        b"CREATE TABLE d (id INT) DATA DIRECTORY='/else where/x' DATA DIRECTORY='relative'"
    )
    empty = tmp_path / "binlog.000002"
    empty.touch()
    assert mentioned([log, empty], ["/var/lib/mysql"]) == ("/else where/x", "/other/y", "/third")


def test_so_many_that_somebody_means_harm_are_not_taken(tmp_path: Path) -> None:
    log = tmp_path / "binlog.000001"
    log.write_bytes(b"".join(b"DATA DIRECTORY='/x%d' " % number for number in range(1000)))
    assert len(mentioned([log], [])) == MOST


def test_what_the_server_needs_is_never_covered(tmp_path: Path) -> None:
    owner = os.geteuid(), os.getegid()
    wanted = ["/good", "/", "/usr", "/usr/lib", "/etc/x", "/proc", "/data", "/data/x"]
    wanted += [str(tmp_path), f"{tmp_path}/home/x"]
    make_room(tmp_path / "home", wanted, ["/data"], owner)
    assert [place for _, place in shown(tmp_path / "home")] == ["/good"]


def test_none_is_shown_of_a_clone_that_needs_none(tmp_path: Path) -> None:
    assert shown(tmp_path) == ()


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_the_directory_is_the_server_s(tmp_path: Path, flavor: str) -> None:
    make_room(tmp_path, [f"/somewhere/{flavor}"], [], (os.geteuid(), os.getegid()))
    ((own, place),) = shown(tmp_path)
    assert Path(own).is_dir() and place == f"/somewhere/{flavor}"
