"""Directories that the log names in CREATE TABLE … DATA DIRECTORY."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.samples import PLAIN
from zbackup.engines.mysql.clone.clone_server import CloneServer
from zbackup.engines.mysql.clone.outside_directories import MOST, make_room, mentioned, shown, why_not
from zbackup.model.recovery import RecoveryFiles
from zbackup.model.relocation import Relocation


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


def test_nor_is_what_one_server_needs_or_a_link_leads_to(tmp_path: Path) -> None:
    """Such words can stand in any row, whoever wrote it."""
    server = ["/srv/mysql/bin/mysqld", "/srv/plugins", "/run/zbackup/r1"]
    wanted = [
        "/run/zbackup/r1",
        "/run",
        "/var/run/x",
        "/tmp/root/x",
        "/var/tmp",
        "/srv/mysql",
        "/srv/mysql/bin",
    ]
    wanted += ["/srv/plugins/x", "/srv", "/tmp", "/elsewhere"]
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o777)
    theirs.chmod(0o777)
    (theirs / "link").symlink_to("/usr/lib")
    home = tmp_path / "home"
    make_room(home, [*wanted, f"{theirs}/link", f"{theirs}/link/x"], server, (os.geteuid(), os.getegid()))
    assert [place for _, place in shown(home)] == ["/elsewhere"]


def test_what_a_server_needs_is_what_it_is_started_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program, where it is told that its files are, its keys, and the directory of its socket."""
    monkeypatch.setattr(CloneServer, "owner", property(lambda _: (os.geteuid(), os.getegid())))
    base, given = tmp_path / "base", tmp_path / "given"
    for directory in (base, given):
        directory.mkdir()
    server = {"log_bin_basename": "/data/log/b", "log_bin_index": "/data/log/b.index", "basedir": str(base)}
    keys = {"keyring_file": "/srv/keys/file", "file_key_management_filename": "/srv/more/keys"}
    record = replace(PLAIN, server=server | keys)
    where = Relocation((("/data", str(tmp_path / "0")),))
    run = Path("/srv/run/r1")
    files = RecoveryFiles(record=record, where=where, home=tmp_path / "home", run=run, hide=())
    clone = CloneServer(flavor="mariadb", program=("/srv/bin/mariadbd",), files=files, memory=1, workers=1)
    wanted = ["/srv/bin", "/srv/keys", "/srv/more", "/srv/run", "/srv/run/r1/x", "/data/x", "/srv/good"]
    clone.make_room_outside([*wanted, str(base), str(base / "share"), str(given)])
    assert [place for _, place in shown(tmp_path / "home")] == ["/srv/good", str(given)]


def test_none_is_shown_of_a_clone_that_needs_none(tmp_path: Path) -> None:
    assert shown(tmp_path) == ()


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_the_directory_is_the_server_s(tmp_path: Path, flavor: str) -> None:
    make_room(tmp_path, [f"/somewhere/{flavor}"], [], (os.geteuid(), os.getegid()))
    ((own, place),) = shown(tmp_path)
    assert Path(own).is_dir() and place == f"/somewhere/{flavor}"


def test_rooms_of_before_are_kept(tmp_path: Path) -> None:
    """A clone's server is started many times."""
    owner = os.geteuid(), os.getegid()
    for wanted in (["/one"], ["/two", "/one"], ["/two"]):
        make_room(tmp_path, wanted, [], owner)
    assert [place for _, place in shown(tmp_path)] == ["/one", "/two"]


def test_where_the_original_looks_for_tables_the_clone_finds_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the server is told to look there makes a directory none that it needs."""
    monkeypatch.setattr(CloneServer, "owner", property(lambda _: (os.geteuid(), os.getegid())))
    searched = "/data/own;/srv/far;/srv/far/./below/;relative;/usr/lib"
    record = replace(PLAIN, server={"innodb_directories": searched})
    where = Relocation((("/data", str(tmp_path / "0")),))
    files = RecoveryFiles(record=record, where=where, home=tmp_path / "home", run=tmp_path / "run", hide=())
    clone = CloneServer(flavor="mysql", program=("/srv/bin/mysqld",), files=files, memory=1, workers=1)
    clone.make_room()
    clone.make_room_outside(["/srv/far/x"])
    assert [place for _, place in shown(files.home)] == ["/srv/far", "/srv/far/below", "/srv/far/x"]


@pytest.mark.parametrize("path", ["/usr/x", "/run/x", "/tmp", "/var", "/proc"])
def test_where_no_table_can_be_is_told(path: str) -> None:
    assert f"in {path}, and a clone cannot have" in why_not(path, ["/var/lib/mysql"])


@pytest.mark.parametrize("path", ["/srv/far", "/var/lib/mysql/x", "/tmp/x"])
def test_where_one_can_be_is_not(path: str) -> None:
    assert why_not(path, ["/var/lib/mysql"]) == ""
