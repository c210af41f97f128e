"""The command line of `lab`, the choice of modules, and the small readers below it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import runs
from tests.lab.cli import main, parser, split_words
from tests.lab.guest import exit_status
from tests.lab.order import Task
from tests.lab.recipe import (
    KERNEL_OFF,
    KERNEL_ON,
    Recipe,
    config_arguments,
    config_gaps,
    newest_supported,
    release_codename,
)
from tests.lab.request import BadRequest
from tests.lab.shards import find_here, find_modules, pytest_command, result_name, selects


@pytest.mark.parametrize(
    ("words", "ours", "theirs"),
    [
        (["tests/a", "-x"], ["tests/a"], ["-x"]),
        (["-j", "1", "tests/a", "-k", "one and two"], ["-j", "1", "tests/a"], ["-k", "one and two"]),
        (["-j2", "--timeout=5m", "--tb=short", "a"], ["-j2", "--timeout=5m", "a"], ["--tb=short"]),
        (["--keep", "a::test_b", "--maxfail", "1"], ["--keep", "a::test_b"], ["--maxfail", "1"]),
        (["a", "-vv", "--durations=5"], ["a"], ["-vv", "--durations=5"]),
    ],
)
def test_unknown_options_belong_to_pytest(words: list[str], ours: list[str], theirs: list[str]) -> None:
    assert split_words(words) == (ours, theirs)


def test_everything_after_two_dashes_is_the_command() -> None:
    chosen = parser().parse_args(["run", "--disk", "4G", "--disk", "/d", "--", "zfs", "list", "-t", "all"])
    assert chosen.command == ["zfs", "list", "-t", "all"]
    assert chosen.disk == ["4G", "/d"]


def test_modules_are_found_once_and_in_order(tmp_path: Path) -> None:
    for name in ("b/test_2.py", "b/test_1.py", "b/helper.py", "test_3.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    words = ["test_3.py", "b", "b/test_2.py", "b/test_1.py::test_x"]
    assert find_modules(words, tmp_path) == ["test_3.py", "b/test_1.py", "b/test_2.py", "b/test_1.py::test_x"]
    elsewhere = tmp_path / "c"
    assert find_modules([str(tmp_path / "b")], elsewhere)[0] == str(tmp_path / "b" / "test_1.py")


def test_modules_for_this_machine_are_found_by_either_name(tmp_path: Path) -> None:
    for name in (
        "lab/selftest_a.py",
        "lab/other.py",
        "there/test_b.py",
        "empty/c.py",
        "both/selftest_a.py",
        "both/d/test_b.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert find_here("lab", tmp_path) == ["lab/selftest_a.py"]
    assert find_here("there", tmp_path) == ["there/test_b.py"]
    assert find_here("both", tmp_path) == ["both/d/test_b.py", "both/selftest_a.py"]
    assert find_here("both/selftest_a.py", tmp_path) == ["both/selftest_a.py"]
    for word in ("empty", "nothing.py"):
        with pytest.raises(FileNotFoundError):
            find_here(word, tmp_path)


def test_a_module_is_run_once_for_each_of_its_servers(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/test_1.py").write_text(
        'VARIANTS = ("mysql-9.7", "mariadb-10.11")\nSLOW_VARIANTS = ("mariadb-11.8",)'
    )
    (tmp_path / "a/test_2.py").touch()
    (tmp_path / "a/test_3.py").write_text('VARIANTS = ("mariadb-11.8",)')

    def found(*words: str) -> list[str]:
        return find_modules(words, tmp_path)

    usual = ["a/test_1.py@mysql-9.7", "a/test_1.py@mariadb-10.11"]
    assert found("a") == [*usual, "a/test_2.py", "a/test_3.py@mariadb-11.8"]
    assert found("a/test_1.py", "a/test_1.py@mysql-9.7") == usual
    assert found("a@slow") == found("a/test_1.py@slow") == ["a/test_1.py@mariadb-11.8"]
    assert found("a@mariadb-11.8") == ["a/test_1.py@mariadb-11.8", "a/test_3.py@mariadb-11.8"]
    assert found("a/test_1.py@mysql-9.7::TestX::test_y[a@b]") == ["a/test_1.py@mysql-9.7::TestX::test_y[a@b]"]
    assert found("a/test_3.py::test_y") == ["a/test_3.py@mariadb-11.8::test_y"]
    for word in ("a@mysql-9.7-no-gtid", "a/test_2.py@mysql-9.7", "a/test_3.py@slow"):
        with pytest.raises(FileNotFoundError, match="told with"):
            found(word)


@pytest.mark.parametrize("said", ['VARIANTS = ("mysql-5",)', "VARIANTS = of('mysql')", "VARIANTS = ("])
def test_a_module_whose_servers_cannot_be_read_is_an_error(tmp_path: Path, said: str) -> None:
    (tmp_path / "test_a.py").write_text(said)
    with pytest.raises(BadRequest, match="test_a"):
        find_modules(["test_a.py"], tmp_path)


def test_pytest_is_told_the_server_beside_the_files() -> None:
    task = Task(("a/test_1.py@mysql-9.7", "a/test_2.py@mysql-9.7::test_x[@]", "a/test_3.py"))
    command = pytest_command(task, ["-x"], Path("r.xml"))
    assert command[-5:] == [
        "--variant=mysql-9.7",
        "-x",
        "a/test_1.py",
        "a/test_2.py::test_x[@]",
        "a/test_3.py",
    ]
    assert "--variant" not in " ".join(pytest_command(Task(("a/test_3.py",)), [], Path("r.xml")))


def test_a_mistyped_module_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for word in ("test_nothing.py", "empty"):
        with pytest.raises(FileNotFoundError):
            find_modules([word], tmp_path)


def test_results_have_plain_file_names() -> None:
    assert result_name(["tests/platform/test_lab.py"]) == "tests-platform-test_lab"
    assert result_name(["a/test_b.py@mysql-9.7"]) == "a-test_b@mysql-9.7"
    assert result_name(["a/test_b.py::test_c[x y]"]) == "a-test_b.py-test_c-x-y"
    assert result_name(["a/test_b.py", "a/test_c.py", "a/test_d.py"]) == "a-test_b-and-2-more"


def test_selections_are_recognised() -> None:
    assert selects(["-x", "-k", "one"])
    assert not selects(["-x", "--tb=short"])


def test_the_status_is_what_the_guest_reported() -> None:
    assert exit_status(b"ready\nexit 7\n") == 7
    assert exit_status(b"ready\n") is None
    assert exit_status(b"ready\nexit \n") is None


def test_another_recipe_is_another_guest() -> None:
    keys = {Recipe(release=name, machine="x86_64").key for name in ("bookworm", "trixie")}
    assert len(keys) == 2
    assert Recipe(release="bookworm", machine="x86_64").tools_suite == "bookworm-backports"
    assert Recipe(release="sarge", machine="x86_64").tools_suite is None


def test_kernel_options_are_asked_for_and_checked() -> None:
    words = config_arguments()
    assert words[:2] == ["--enable", KERNEL_ON[0]]
    assert words[-2:] == ["--disable", KERNEL_OFF[-1]]
    full = "\n".join(f"CONFIG_{option}=y" for option in KERNEL_ON)
    assert config_gaps(full) == []
    assert config_gaps(full.replace("CONFIG_HOSTFS=y", "# CONFIG_HOSTFS is not set")) == ["HOSTFS"]


def test_small_files_are_read() -> None:
    assert release_codename('NAME="Debian"\nVERSION_CODENAME=bookworm\n') == "bookworm"
    assert release_codename("NAME=x\n") == ""
    assert newest_supported("Meta: 1\nLinux-Maximum: 7.2\n") == (7, 2)
    assert newest_supported("") < (7, 2)


def test_a_wrong_backend_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_BACKEND", "docker")
    assert main(["run", "--", "true"]) == 2
    assert capsys.readouterr().err == "lab: LAB_BACKEND is native or guest, got 'docker'\n"


class TestRuns:
    @pytest.fixture(autouse=True)
    def own_directory(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("TMPDIR", str(tmp_path))

    def sleeper(self) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-c", "import time; time.sleep(60)"]
        return subprocess.Popen(argv, start_new_session=True)

    def test_a_run_takes_its_process_and_files_with_it(self, tmp_path: Path) -> None:
        disk = tmp_path / "disk"
        disk.touch()
        with runs.new_run("guest") as run:
            process = self.sleeper()
            run.owns(process.pid)
            run.owns_file(disk)
        assert process.wait(10) < 0
        assert not disk.exists()
        assert not run.path.exists()

    def test_a_kept_run_stays_until_it_is_asked_to_go(self) -> None:
        with runs.new_run("guest") as run:
            assert run.keep() == (run.path,)
        runs.sweep()
        assert run.path.exists()
        assert runs.sweep(even_of_the_living=True)
        assert not run.path.exists()

    def test_another_process_with_the_same_number_is_spared(self) -> None:
        process = self.sleeper()
        try:
            known = runs.identity(process.pid)
            assert known is not None
            assert runs.is_alive(known)
            assert not runs.is_alive([known[0], known[1] + 1])
        finally:
            process.kill()
            process.wait()
        assert not runs.is_alive(known)
        assert not runs.is_alive(None)

    def test_runs_of_the_living_are_left_alone(self) -> None:
        with runs.new_run("guest") as run:
            assert runs.identity(os.getpid()) is not None
            assert runs.sweep() == []
            assert run.path.exists()
