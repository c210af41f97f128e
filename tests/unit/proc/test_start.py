"""Programs are started with no secret of ours, and nothing from the directory that we happen to be in."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zbackup.model.errors import NotInstalled
from zbackup.proc.hook import run_hook
from zbackup.proc.pipeline import Meter, local, reading, transfer
from zbackup.proc.run import run
from zbackup.proc.start import FIXED_PATH, HOOKS, TOOLS, for_server, locate, own_module, start

SECRETS = {"AWS_SECRET_ACCESS_KEY": "secret", "SHOP_PASSWORD": "secret", "LD_PRELOAD_OF_OURS": "secret"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """We are in a directory of somebody's, with secrets in our environment."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SHOW = "pwd; env; echo ' end'"


def by_run(_: Path) -> str:
    return run(("sh", "-c", SHOW))


def by_reading(_: Path) -> str:
    with reading(local(("sh", "-c", SHOW))) as source:
        return source.read().decode()


def by_transfer(here: Path) -> str:
    keep = ("sh", "-c", f'{{ cat; {SHOW}; }} > "$1"', "sh", str(here / "said"))
    transfer(local(("true",)), local(keep), Meter())
    return (here / "said").read_text()


def by_hook(here: Path) -> str:
    run_hook(("sh", "-c", f'{{ {SHOW}; }} > "$1"', "sh", str(here / "said")), {}, 10)
    return (here / "said").read_text()


def by_feed(_: Path) -> str:
    code = f"from zbackup.proc.take_over import feed\nfeed(['sh', '-c', {SHOW!r}], b'')"
    return subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True).stdout


def by_becoming(_: Path) -> str:
    code = f"from zbackup.proc.take_over import become\nbecome(['sh', '-c', {SHOW!r}])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout


@pytest.mark.parametrize("way", [by_run, by_reading, by_transfer, by_hook, by_feed, by_becoming])
def test_no_secret_is_handed_on_and_no_directory(way: Callable[[Path], str], here: Path) -> None:
    directory, *variables, end = way(here).splitlines()
    assert (directory, end) == ("/", " end")
    names = {line.partition("=")[0] for line in variables}
    assert names <= {*TOOLS, *HOOKS, "LC_ALL", "PWD", "SHLVL", "_", "OLDPWD"}, names
    assert "PATH" in names


def test_a_server_gets_a_fixed_path_and_its_zone(here: Path) -> None:
    assert for_server() == {"PATH": FIXED_PATH}
    assert for_server("Asia/Tokyo") == {"PATH": FIXED_PATH, "TZ": "Asia/Tokyo"}


def test_a_module_of_ours_is_run_by_this_python_and_by_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_module("zbackup.x") == (sys.executable, "-I", "-m", "zbackup.x")
    for unknown in ("", "python3"):
        monkeypatch.setattr(sys, "executable", unknown)
        with pytest.raises(NotInstalled, match="the path of Python is not known"):
            own_module("zbackup.x")


def test_a_word_that_no_kernel_takes_is_a_program_that_cannot_be_started() -> None:
    with pytest.raises(NotInstalled, match="null byte"):
        start(("true", "\0"))


def test_messages_are_english_whatever_the_users_language(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LC_MESSAGES", "de_DE.UTF-8")
    assert run(("sh", "-c", "echo $LC_ALL $LANG $LC_MESSAGES")) == "C\n"
    assert os.environ["LANG"] == "de_DE.UTF-8"


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess",
        "from subprocess import Popen",
        "os.execvp('x', [])",
        "os.system('x')",
        "import pty",
    ],
)
def test_nothing_else_may_start_a_program(code: str) -> None:
    """Held by ruff: only one module is exempt."""
    ruff = (sys.executable, "-m", "ruff", "check", "--select", "TID251", "--stdin-filename")
    found = {}
    for file in ("zbackup/proc/run.py", "zbackup/proc/start.py", "zbackup/jobs/x.py"):
        done = subprocess.run(
            [*ruff, file, "-"], input=f"import os\n{code}\n", capture_output=True, text=True
        )
        found[file] = "zbackup.proc.start" in done.stdout
    assert found == {"zbackup/proc/run.py": True, "zbackup/proc/start.py": False, "zbackup/jobs/x.py": True}


def test_a_program_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put before it later, as by a mount, is not run."""
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    program = second / "zb-tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{first}:{second}")
    assert locate("zb-tool") == str(program)
    (first / "zb-tool").write_text("#!/bin/sh\n")
    (first / "zb-tool").chmod(0o755)
    assert locate("zb-tool") == str(program)
    assert locate("/any/path") == "/any/path"


def test_a_directory_that_cannot_be_looked_into_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of root's /root/bin, which is left in PATH by sudo -u."""
    program = tmp_path / "zb-other-tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"/{'x' * 300}:{tmp_path}")
    assert locate("zb-other-tool") == str(program)


@pytest.mark.skipif(os.geteuid() != 0, reason="for another user it is his own business what he runs")
@pytest.mark.parametrize("what", ["file", "directory", "link"])
def test_root_runs_no_program_that_others_can_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    directory, elsewhere = tmp_path / what, tmp_path / f"{what} elsewhere"
    for each in (directory, elsewhere):
        each.mkdir()
    program = (elsewhere if what == "link" else directory) / f"zb-{what}"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    if what == "link":
        (directory / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin")
    os.chown({"file": program, "directory": directory, "link": elsewhere}[what], 3333, 3333)
    with pytest.raises(PermissionError):
        locate(program.name)
    with pytest.raises(NotInstalled, match="cannot run zb-"):
        start([program.name])
