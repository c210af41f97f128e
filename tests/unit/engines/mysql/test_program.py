"""The server program must be there, be a server, and be of the series that wrote the files."""

from pathlib import Path

import pytest

from zbackup.engines.mysql.clone import program as module
from zbackup.engines.mysql.clone.program import find_program, series, version_of
from zbackup.model.errors import Refused


def server(path: Path, says: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{says}\nEND\n")
    path.chmod(0o755)
    return str(path)


MYSQL = "/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 (MySQL Community Server - GPL)"
MARIADB = "mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)"


@pytest.mark.parametrize(
    ("version", "wanted"), [("9.7.4-2", "9.7"), ("10.11.6-MariaDB-log", "10.11"), ("8.0.36", "8.0")]
)
def test_the_series_is_the_first_two_numbers(version: str, wanted: str) -> None:
    assert series(version) == wanted


@pytest.mark.parametrize(("says", "version"), [(MYSQL, "9.7.4-2"), (MARIADB, "10.11.6-MariaDB-0+deb12u1")])
def test_a_program_is_asked_for_its_version(rooted: Path, says: str, version: str) -> None:
    assert version_of([server(rooted / "mysqld", says)]) == version


def test_the_configured_program_comes_first(rooted: Path) -> None:
    mine, recorded = server(rooted / "mine", MYSQL), server(rooted / "recorded" / "mysqld", MYSQL)
    assert find_program([mine], "mysql", {"mysqld": recorded}, "9.7.1") == (mine,)
    assert find_program(None, "mysql", {"mysqld": recorded}, "9.7.1") == (recorded,)


def test_a_wrapper_with_arguments_is_kept_whole(rooted: Path) -> None:
    mine = server(rooted / "mysqld", MYSQL)
    env = "/usr/bin/env"
    assert find_program([env, mine], "mysql", {}, "9.7.9") == (env, mine)


def test_an_installed_one_is_found_without_a_record(rooted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DIRECTORIES", (str(rooted),))
    old_name = server(rooted / "mysqld", MARIADB)
    gone = {"mysqld": str(rooted / "gone")}
    assert find_program(None, "mariadb", gone, "10.11.2-MariaDB") == (old_name,)
    new_name = server(rooted / "mariadbd", MARIADB)
    assert find_program(None, "mariadb", gone, "10.11.2-MariaDB") == (new_name,)


def test_another_series_would_upgrade_the_files_and_is_refused(rooted: Path) -> None:
    mine = server(rooted / "mysqld", MYSQL)
    with pytest.raises(
        Refused,
        match=r"is version 9\.7, but the files are of 8\.4: name a server of 8\.4 in recovery\.server",
    ):
        find_program([mine], "mysql", {}, "8.4.3")


def test_none_at_all_is_refused(rooted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DIRECTORIES", (str(rooted),))
    with pytest.raises(Refused, match="no mariadbd found on this host"):
        find_program(None, "mariadb", {}, "10.11.2")


def test_a_configured_one_that_is_not_there_is_refused(rooted: Path) -> None:
    with pytest.raises(Refused, match="the server program cannot be used"):
        find_program([str(rooted / "gone")], "mysql", {}, "9.7.4")


def test_something_else_is_no_server(rooted: Path) -> None:
    with pytest.raises(Refused, match="does not look like a database server: hello"):
        find_program([server(rooted / "x", "hello")], "mysql", {}, "9.7.4")
