"""A program is asked for its version once by a command, and again when it may be another."""

from pathlib import Path

import pytest

from zbackup.model.errors import CommandFailed
from zbackup.proc import version
from zbackup.proc.version import said_version


def says(path: Path, words: str) -> None:
    """As who upgrades a package puts a program there."""
    fresh = path.with_suffix(".new")
    fresh.write_text(f"#!/bin/sh\necho asked >> {path}.asked\n{words}\n")
    fresh.chmod(0o755)
    fresh.replace(path)


def asked(path: Path) -> int:
    return len(Path(f"{path}.asked").read_text().splitlines())


def test_it_is_asked_once_until_it_is_replaced(tmp_path: Path) -> None:
    program = tmp_path / "server"
    says(program, "echo 9.7.4")
    for _ in range(2):
        assert said_version([str(program)], "--version") == "9.7.4\n"
    assert asked(program) == 1
    assert said_version([str(program)], "--no-defaults", "--version") == "9.7.4\n" and asked(program) == 2
    says(program, "echo 9.8.0")
    for _ in range(2):
        assert said_version([str(program)], "--version") == "9.8.0\n", "and not what the old one said"
    assert asked(program) == 3


def test_what_is_a_word_of_a_launcher_is_looked_at_too(tmp_path: Path) -> None:
    program = tmp_path / "server"
    for says_now in ("9.7.4", "9.8.0"):
        says(program, f"echo {says_now}")
        assert said_version(["env", str(program)], "--version") == f"{says_now}\n"


def test_what_a_wrapper_starts_is_asked_anew_when_time_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper, program = tmp_path / "wrapper", tmp_path / "server"
    says(wrapper, f"exec {program}")
    says(program, "echo 9.7.4")
    assert said_version([str(wrapper)], "--version") == "9.7.4\n"
    says(program, "echo 9.8.0")
    assert said_version([str(wrapper)], "--version") == "9.7.4\n"
    monkeypatch.setattr(version, "FRESH_S", -1.0)
    assert said_version([str(wrapper)], "--version") == "9.8.0\n"


def test_no_answer_is_remembered(tmp_path: Path) -> None:
    program = tmp_path / "server"
    says(program, "exit 3")
    for _ in range(2):
        with pytest.raises(CommandFailed, match="exited with 3"):
            said_version([str(program)], "--version")
    assert asked(program) == 2
    says(program, "echo 9.7.4")
    assert said_version([str(program)], "--version") == "9.7.4\n"
