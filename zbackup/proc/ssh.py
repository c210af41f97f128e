"""Programs on another host, over one ssh connection for all of them (ssh_config(5), ControlMaster).

The first command opens the connection, the others go through it, and close() ends it. Nobody is asked for
anything: keys and known hosts come from the configuration, and a host whose key is not known is refused.
"""

import contextlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zbackup.model.errors import CommandFailed, CommandTimedOut, ConnectionFailed, NotInstalled, Refused
from zbackup.proc import secure_files
from zbackup.proc.run import Runner, run

# ssh's own failures end with this status; those of remote programs are passed on as they are.
SSH_FAILED = 255

# The kernel's limit for a socket's path is 107 bytes, and ssh makes it under a name 17 bytes longer.
LONGEST_SOCKET = 107 - 17

# A master whose zbackup was killed is gone this soon after its last session.
LINGER_S = 10

# So many intervals without an answer and the connection counts as broken.
ALIVE_TIMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SshHost:
    """A host, as it is reached. `options` are further `-o` options; `sudo` puts `sudo -n` before programs.

    `alive_s` is how often the other side is asked whether it is there.
    """

    host: str
    user: str = ""
    port: int = 0
    identity: Path | None = None
    known_hosts: Path | None = None
    options: tuple[str, ...] = ()
    sudo: bool = False
    alive_s: int = 15

    @property
    def where(self) -> str:
        """For people: user@host."""
        return f"{self.user}@{self.host}" if self.user else self.host


@dataclass(frozen=True)
class SshRunner:
    """A Runner of programs on `target`; `control` is the socket of its connection.

    Raise ConnectionFailed when ssh cannot connect or the connection breaks; CommandFailed, with the host's
    name in it, when the program there fails.
    """

    target: SshHost
    control: Path
    runner: Runner = run

    def __post_init__(self) -> None:
        if len(bytes(self.control)) > LONGEST_SOCKET:
            raise Refused(
                f"{self.control} is too long for a socket of ssh's ({LONGEST_SOCKET} bytes): "
                "set a shorter run_dir"
            )

    def __call__(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        secure_files.ensure_directory(self.control.parent)
        try:
            return self.runner(self.command(argv), mutates=mutates, timeout=timeout)
        except NotInstalled:
            raise
        except CommandTimedOut as late:
            raise CommandTimedOut(tuple(argv), late.returncode, late.stderr, self.target.where) from late
        except CommandFailed as failure:
            raise self.failure(argv, failure.returncode, failure.stderr) from failure

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The local command that runs `argv` over there, quoted for the shell that sshd hands it to."""
        remote = ("sudo", "-n", *argv) if self.target.sudo else tuple(argv)
        return ("ssh", *self._options(), "--", self._destination, shlex.join(remote))

    def failure(self, argv: Sequence[str], status: int, stderr: str) -> CommandFailed:
        """What a status of command() means: ssh's own failure, or that of the program over there."""
        kind = ConnectionFailed if status == SSH_FAILED else CommandFailed
        return kind(tuple(argv), status, stderr, self.target.where)

    def close(self) -> None:
        """End the connection; none is as good."""
        if secure_files.exists(self.control):
            order = ("ssh", *self._options(), "-O", "exit", "--", self._destination)
            with contextlib.suppress(CommandFailed):
                self.runner(order, mutates=False, timeout=10)

    @property
    def _destination(self) -> str:
        return self.target.where

    def _options(self) -> list[str]:
        target = self.target
        found = [
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            "ControlMaster=auto",
            f"ControlPath={_escaped(self.control)}",
            f"ControlPersist={LINGER_S}",
            f"ServerAliveInterval={target.alive_s}",
            f"ServerAliveCountMax={ALIVE_TIMES}",
            f"ConnectTimeout={target.alive_s * ALIVE_TIMES}",
            "ForwardAgent=no",
            "ForwardX11=no",
            "ClearAllForwardings=yes",
            "PermitLocalCommand=no",
            "RequestTTY=no",
            "LogLevel=ERROR",
            *([f"UserKnownHostsFile={_escaped(target.known_hosts)}"] if target.known_hosts else []),
            *([f"IdentityFile={_escaped(target.identity)}", "IdentitiesOnly=yes"] if target.identity else []),
            *target.options,
        ]
        ports = ["-p", str(target.port)] if target.port else []
        return [*(part for option in found for part in ("-o", option)), *ports]


def _escaped(path: Path) -> str:
    """A path in an option: quoted, as it may hold spaces, and with % doubled, which begins a token."""
    return '"' + str(path).replace("%", "%%") + '"'
