"""Do the steps that change files, accounts and the service. Each may be cut anywhere, and be done again."""

import base64
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zbackup.config.load import parse
from zbackup.config.secret import SecretRef
from zbackup.features.init.jobs import host
from zbackup.features.init.jobs.administrators import Administrator
from zbackup.features.init.setup import Newcomer, SetupStep
from zbackup.model.errors import DatabaseError, Refused
from zbackup.proc import secure_files
from zbackup.proc.run import Runner, run
from zbackup.proc.run_directory import daemon_user
from zbackup.proc.safe_path import require_only_roots

DIRECTORY_MODE = 0o750
PRIVATE_MODE = 0o700
SECRET_MODE = 0o600
LONGEST = 4 << 20
"""Bytes of a configuration, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """The state that the steps work with: the configuration's path, its text before and after, who comes new,
    and the secret key of the bucket that copies go to."""

    config: Path
    before: str
    after: str
    newcomers: Mapping[str, Newcomer]
    administrator: Callable[[Newcomer], Administrator]
    script: Callable[[Newcomer, str], str]
    secret_key: str = ""
    runner: Runner = run


def read_config(path: Path) -> str:
    """The text of a configuration, "" where there is none. Raise Refused for a link, or what is not UTF-8."""
    if not secure_files.exists(path):
        return ""
    try:
        return secure_files.read_bytes(path, LONGEST).decode()
    except UnicodeDecodeError:
        raise Refused(f"{path} is not UTF-8 text: zbackup init adds nothing to it") from None


def act(step: SetupStep, on: Acting) -> None:
    """Do one step. Raise what is in the way: DatabaseError, CommandFailed, Refused, ConfigError."""
    match step.kind:
        case "write":
            if Path(step.path).parent == on.config.parent:
                make_directory(on.config.parent)
            _write(Path(step.path), step.content, step.mode)
        case "run":
            on.runner(step.argv)
        case "secret" | "key":
            _write_secret(Path(step.path), new_password() if step.kind == "secret" else _new_key())
        case "credential":
            _write_credential(Path(step.path), on.secret_key)
        case "identity":
            _make_identity(Path(step.path), on.runner)
        case "account":
            _make_account(on.newcomers[step.instance], on)
        case "account-file":
            new = on.newcomers[step.instance]
            text = on.script(new, _password(new))
            make_directory(Path(step.path).parent)
            secure_files.replace(Path(step.path), text, mode=SECRET_MODE)
        case "config":
            _write_config(on)


def install(steps: Sequence[SetupStep], runner: Runner = run) -> None:
    """Do steps that are files and commands alone."""
    for step in steps:
        if step.kind == "write":
            _write(Path(step.path), step.content, step.mode)
        else:
            runner(step.argv)


def new_password() -> str:
    """A random password that also rules about kinds of characters let pass (validate_password)."""
    return f"{secrets.token_urlsafe(24)}-aA1"


def _new_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def make_directory(directory: Path) -> None:
    """The directory of the configuration and its secrets: the daemon's group may enter it. Raise Refused when
    others than root may change it."""
    if not secure_files.exists(directory):
        group = host.daemon_group()
        mode = PRIVATE_MODE if group is None else DIRECTORY_MODE
        secure_files.make_directory(directory, mode=mode, owner=(os.geteuid(), group or os.getegid()))
    require_only_roots(directory)


def _write(path: Path, text: str, mode: int) -> None:
    secure_files.ensure_directory(path.parent)
    secure_files.replace(path, text, mode=mode)


def _write_secret(path: Path, text: str) -> None:
    """Root's, which the daemon's group may read. One that came meanwhile stays."""
    make_directory(path.parent)
    if secure_files.exists(path):
        return
    mode, owner = _shared(0o640)
    secure_files.replace(path, f"{text}\n", mode=mode, owner=owner)


def _write_credential(path: Path, secret: str) -> None:
    _write_secret(path, secret)
    if SecretRef("file", str(path)).read() != secret:
        raise Refused(f"{path} holds another secret key: move that file away, and run zbackup init again")


def _shared(mode: int) -> tuple[int, tuple[int, int] | None]:
    """Mode and owner of a file for root and the daemon; root's alone where there is no daemon's group."""
    group = host.daemon_group()
    if group is None or os.geteuid() != 0:
        return mode & ~0o077, None
    return mode, (0, group)


def _make_identity(path: Path, runner: Runner) -> None:
    """ssh refuses a key of its own user that a group may read: so the file is the daemon's, and root may
    read it."""
    make_directory(path.parent)
    fresh = path.with_name(f"{path.name}.new")
    public, fresh_public = path.with_name(f"{path.name}.pub"), fresh.with_name(f"{fresh.name}.pub")
    if secure_files.exists(path):
        return
    for left in (fresh, fresh_public):
        secure_files.unlink(left)
    comment = f"zbackup@{socket.gethostname()}"
    runner(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(fresh)))
    owner = daemon_user() if os.geteuid() == 0 else None
    secure_files.replace(public, secure_files.read_text(fresh_public), mode=0o644, owner=owner)
    secure_files.replace(path, secure_files.read_text(fresh), mode=SECRET_MODE, owner=owner)
    for left in (fresh, fresh_public):
        secure_files.unlink(left)


def _make_account(new: Newcomer, on: Acting) -> None:
    administrator, password = on.administrator(new), _password(new)
    if administrator.account_works(new.user, password):
        return
    another = DatabaseError(
        f"the account {new.user} at {new.server.where} was there before, with another password than in "
        f"{new.password}: write its password into that file, or drop the account, and run zbackup "
        "init again"
    )
    if administrator.account_exists(new.user) and not administrator.account_admits(new.user, password):
        raise another  # somebody's own: it is not given anything
    administrator.create_account(new.user, password)
    if not administrator.account_works(new.user, password):
        raise another


def _password(new: Newcomer) -> str:
    return SecretRef("file", new.password).read()


def _write_config(on: Acting) -> None:
    """Put the new text in place in one step, if it is one that zbackup reads and nobody changed the old
    one."""
    parse(on.after, str(on.config))
    make_directory(on.config.parent)
    if read_config(on.config) != on.before:
        raise Refused(f"{on.config} was changed meanwhile: run zbackup init again")
    mode, owner = _shared(0o640)
    if on.before:
        found = secure_files.stat(on.config)
        mode, owner = found.st_mode & 0o777, (found.st_uid, found.st_gid)
    secure_files.replace(on.config, on.after, mode=mode, owner=owner)
