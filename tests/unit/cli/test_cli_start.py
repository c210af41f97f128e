"""The short way of the gate: the same as the long one, for whoever writes what the manual says."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

import pytest

from zbackup.cli import start
from zbackup.cli.at_the_gate import plain
from zbackup.cli.main import invoke
from zbackup.zfs.streams import resume_argv


@pytest.mark.parametrize(
    ("words", "powers"),
    [
        (("--root", "tank/b"), {"receive", "read", "destroy"}),
        (("--root", "tank/b", "--append-only"), {"receive"}),
        (("--read-only", "--root", "tank/b"), {"read"}),
    ],
)
def test_what_the_manual_says(words: Sequence[str], powers: set[str]) -> None:
    assert plain(words) == ("tank/b", powers)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--help",),
        ("--root",),
        ("--root=tank/b",),
        ("--root", "--append-only"),
        ("--root", "tank/b", "--append-only", "--read-only"),
        ("--root", "tank/b", "--debug"),
        ("--root", "tank/b", ""),
        ("tank/b", "--root"),
    ],
)
def test_everything_else_is_left_to_who_knows_all_options(words: Sequence[str]) -> None:
    assert plain(words) is None


@pytest.mark.parametrize("more", [(), ("-q",)])
@pytest.mark.parametrize(
    ("root", "line", "said"),
    [
        ("tank/b", "rm -rf /", "refused by the gate: command 'rm' is not allowed: this key may run zfs only"),
        ("tank/b", "zfs destroy -r tank/b", "refused by the gate: zfs destroy is not allowed"),
        ("tank@b", "zfs list", "tank@b is not the name of a dataset"),
    ],
)
def test_both_ways_refuse_in_the_same_words(root: str, line: str, said: str, more: Sequence[str]) -> None:
    argv = [sys.executable, "-m", "zbackup", "gate", "--root", root, "--append-only", *more]
    environment = {"SSH_ORIGINAL_COMMAND": line, "SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (9, "")
    assert done.stderr.startswith("zbackup: ") and said in done.stderr
    assert done.stderr.count("\n") == 1


def test_nothing_slow_is_imported_for_it() -> None:
    """What makes it quick: none of what it does without finds its way in again."""
    slow = "structlog", "typer", "pydantic", "rich"
    entry = "zbackup.cli.start, zbackup.cli.at_the_gate"
    look = f"import sys, {entry}; print([name for name in {slow!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def test_ctrl_c_before_a_command_begins_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["zbackup", "list"])
    monkeypatch.setattr("zbackup.cli.main.run", _interrupt)
    with pytest.raises(SystemExit) as left:
        start.run()
    assert left.value.code == 130
    monkeypatch.setattr("zbackup.cli.main.build", _interrupt)
    assert invoke(["list"]) == 130
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "zbackup: interrupted\n" * 2)


def test_what_is_asked_of_zfs_gets_into_no_stream() -> None:
    """The command's output is what the other side receives: a line of the log in front would ruin it."""
    argv = [sys.executable, "-m", "zbackup", "gate", "--root", "tank/b", "--read-only"]
    line = shlex.join(resume_argv("1-c74f9b94a-f0-789c6360", raw=False))
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={"SSH_ORIGINAL_COMMAND": line}
    )
    assert done.returncode != 0 and done.stdout == "", done.stdout
