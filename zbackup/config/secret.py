"""Secrets are named in the configuration, never written there, and read when they are needed."""

import grp
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zbackup.config.units import refuse
from zbackup.model.command_line import command_line
from zbackup.model.errors import ConfigError

HOW = '{ file = "/etc/zbackup/NAME.password" }, { env = "NAME" } or { credential = "NAME" }'

GROUP = "zbackup"
"""The group that the systemd units run the daemon in."""

Source = Literal["file", "env", "credential"]


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A reference to where a secret is. Holds no secret itself, so it may be printed."""

    source: Source
    where: str

    def read(self) -> str:
        """The secret, read now. Raise ConfigError when it is missing, empty, of several lines, or open to
        others."""
        secret = self.read_lines()
        if "\n" in secret or "\r" in secret:
            raise ConfigError([f"{self}: the secret has more than one line"])
        return secret

    def read_lines(self) -> str:
        """The same of one that may have several lines."""
        match self.source:
            case "file":
                secret = _read_file(Path(self.where))
            case "env":
                secret = _from_environment(self.where)
            case "credential":
                secret = _read_credential(self.where)
        if not secret:
            raise ConfigError([f"{self}: the secret is empty"])
        return secret

    def __str__(self) -> str:
        return f"{self.source} {self.where}"


def secret_ref(value: object) -> SecretRef:
    """A reference out of a TOML table. The text of a refusal never holds what was written."""
    if isinstance(value, SecretRef):
        return value
    if isinstance(value, str):
        refuse(f"a reference, {HOW}; a password itself does not belong in this file (change it)")
    if not isinstance(value, dict) or len(value) != 1:
        refuse(f"exactly one of {HOW}")
    ((source, where),) = value.items()
    if source not in ("file", "env", "credential") or not isinstance(where, str) or not where:
        refuse(f"exactly one of {HOW}")
    if source == "file" and not Path(where).is_absolute():
        refuse("the absolute path of the file that holds the secret")
    if source == "credential" and "/" in where:
        refuse("the name of a systemd credential, without directory")
    return SecretRef(source, where)


def uri_ref(value: object) -> SecretRef | str:
    """A mongodb:// address; one that holds a password only by reference."""
    if isinstance(value, str):
        user, at, _ = value.removeprefix("mongodb://").rpartition("@")
        if not value.startswith("mongodb://"):
            refuse(f'an address such as "mongodb://127.0.0.1:27017", or {HOW}')
        if at and ":" in user:
            refuse(f"a reference, {HOW}; a uri with a password does not belong in this file (change it)")
        return value
    return secret_ref(value)


def _read_file(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            # The open file is looked at, not the name: what is checked is what is read.
            facts = os.fstat(file.fileno())
            if problem := _open_to_others(facts):
                raise ConfigError([f"{path}: {problem}"])
            return _without_line_break(file.read())
    except OSError as error:
        raise ConfigError([f"{path}: cannot read the secret: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: the secret is not UTF-8 text"]) from error


def _open_to_others(facts: os.stat_result) -> str:
    if facts.st_uid not in (0, os.geteuid()):
        return f"belongs to user id {facts.st_uid}: chown it to root"
    mode = stat.S_IMODE(facts.st_mode)
    shared = mode & 0o077 == 0o040 and facts.st_uid == 0 and facts.st_gid in _daemon_groups()
    if mode & 0o077 and not shared:
        group = command_line("chgrp", GROUP)
        return f"mode {mode:04o} lets others read the secret: chmod 600, or {group} and chmod 640"
    return ""


def _daemon_groups() -> set[int]:
    """The group of the daemon's user: root and it may share a file of root's, mode 640."""
    try:
        return {os.getegid(), grp.getgrnam(GROUP).gr_gid}
    except KeyError:
        return {os.getegid()}


def _from_environment(name: str) -> str:
    try:
        return os.environ[name]
    except KeyError as missing:
        raise ConfigError([f"environment variable {name} is not set; it should hold a secret"]) from missing


def _read_credential(name: str) -> str:
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    if not directory:
        raise ConfigError([f"credential {name}: not started by systemd with LoadCredential={name}:..."])
    # Modes are not checked here: systemd keeps the directory to the service, and its access control
    # lists show up as group bits (systemd.exec(5), "Credentials").
    path = Path(directory, name)
    try:
        return _without_line_break(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"credential {name}: cannot be read ({type(error).__name__})"]) from error


def _without_line_break(text: str) -> str:
    """Editors end files with a line break that is no part of the secret."""
    return text.removesuffix("\n").removesuffix("\r")
