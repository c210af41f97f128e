"""Arguments of ssh, and what its failures mean. Real connections are in tests/platform."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest

from zbackup.model.errors import CommandFailed, CommandTimedOut, ConnectionFailed, NotInstalled, Refused
from zbackup.proc.ssh import SshHost, SshRunner

TARGET = SshHost(host="vault", user="backup", port=2222, identity=Path("/etc/my keys/id"), sudo=True)


def failing(kind: type[CommandFailed], status: int) -> SshRunner:
    def runner(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        raise kind(tuple(argv), status, "said on stderr")

    return SshRunner(TARGET, Path("/run/zbackup/shop.ssh"), runner)


def test_the_remote_command_is_one_word_quoted_for_a_shell() -> None:
    ssh = SshRunner(TARGET, Path("/run/zbackup/shop.ssh"))
    argv = ("zfs", "list", "--", "tank/my db'; rm -rf /", "$(id)", "a\nb")
    *options, where, remote = ssh.command(argv)
    assert shlex.split(remote) == ["sudo", "-n", *argv]
    assert (options[-1], where) == ("--", "backup@vault")


def test_nobody_is_asked_and_no_unknown_host_is_trusted() -> None:
    words = SshRunner(TARGET, Path("/run/zbackup/100%.ssh")).command(("true",))
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no", "IdentitiesOnly=yes"):
        assert option in words
    assert 'IdentityFile="/etc/my keys/id"' in words
    assert 'ControlPath="/run/zbackup/100%%.ssh"' in words
    assert words[words.index("-p") + 1] == "2222"


def test_failures_of_ssh_and_of_the_program_over_there_are_told_apart() -> None:
    with pytest.raises(ConnectionFailed, match="no connection to backup@vault: said on stderr"):
        failing(CommandFailed, 255)(("zfs", "list"))
    with pytest.raises(CommandFailed, match="zfs list on backup@vault exited with 1") as told:
        failing(CommandFailed, 1)(("zfs", "list"))
    assert not isinstance(told.value, ConnectionFailed)
    with pytest.raises(CommandTimedOut, match="backup@vault"):
        failing(CommandTimedOut, -1)(("zfs", "list"))
    with pytest.raises(NotInstalled, match="cannot run ssh"):
        failing(NotInstalled, -1)(("zfs", "list"))


def test_a_socket_that_ssh_could_not_make_is_refused() -> None:
    with pytest.raises(Refused, match="shorter run_dir"):
        SshRunner(TARGET, Path("/run") / ("x" * 100))


def test_a_connection_that_was_cut_without_a_word() -> None:
    """An ssh that is killed, or whose network went away, may say nothing at all."""
    cut = ConnectionFailed(("zfs", "receive"), 255, "\n", "nas")
    assert str(cut) == (
        "the connection to nas was cut: ssh ended with 255 and said nothing; "
        "try again when the host and the network are up"
    )
    assert str(ConnectionFailed(("zfs",), 255, "Host key verification failed.", "nas")) == (
        "no connection to nas: Host key verification failed."
    )
