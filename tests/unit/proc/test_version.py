"""A program is asked for its version once by a command, and again when it may be another."""

import os
import pwd
import tempfile
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


def test_it_is_asked_once_until_it_is_replaced(rooted: Path) -> None:
    program = rooted / "server"
    says(program, "echo 9.7.4")
    for _ in range(2):
        assert said_version([str(program)], "--version") == "9.7.4\n"
    assert asked(program) == 1
    assert said_version([str(program)], "--no-defaults", "--version") == "9.7.4\n" and asked(program) == 2
    says(program, "echo 9.8.0")
    for _ in range(2):
        assert said_version([str(program)], "--version") == "9.8.0\n", "and not what the old one said"
    assert asked(program) == 3


def test_what_is_a_word_of_a_launcher_is_looked_at_too(rooted: Path) -> None:
    program = rooted / "server"
    for says_now in ("9.7.4", "9.8.0"):
        says(program, f"echo {says_now}")
        assert said_version(["/usr/bin/env", str(program)], "--version") == f"{says_now}\n"


def test_what_a_wrapper_starts_is_asked_anew_when_time_has_passed(
    rooted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper, program = rooted / "wrapper", rooted / "server"
    says(wrapper, f"exec {program}")
    says(program, "echo 9.7.4")
    assert said_version([str(wrapper)], "--version") == "9.7.4\n"
    says(program, "echo 9.8.0")
    assert said_version([str(wrapper)], "--version") == "9.7.4\n"
    monkeypatch.setattr(version, "FRESH_S", -1.0)
    assert said_version([str(wrapper)], "--version") == "9.8.0\n"


def test_no_answer_is_remembered(rooted: Path) -> None:
    program = rooted / "server"
    says(program, "exit 3")
    for _ in range(2):
        with pytest.raises(CommandFailed, match="exited with 3"):
            said_version([str(program)], "--version")
    assert asked(program) == 2
    says(program, "echo 9.7.4")
    assert said_version([str(program)], "--version") == "9.7.4\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
@pytest.mark.parametrize(("mode", "group"), [(0o755, 0), (0o750, 27)])
def test_root_asks_as_nobody_in_the_group_that_may_run_it(
    mode: int, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        program = directory / "server"
        program.write_text("#!/bin/sh\nid -u; id -g; id -G; pwd; env\n")
        program.chmod(mode)
        os.chown(program, 0, group)
        uid, gid, groups, where, *variables = said_version([str(program)], "--version").splitlines()
    assert uid == str(pwd.getpwnam("nobody").pw_uid)
    assert gid == groups == str(group or pwd.getpwnam("nobody").pw_gid)
    assert where == "/" and {v.partition("=")[0] for v in variables} <= {"PATH", "PWD", "_", "SHLVL"}
