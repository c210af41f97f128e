"""The dataset that a log archive lies in: ROOT/INSTANCE/log, mounted, and its owner's alone."""

import os
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zbackup.model.errors import CommandFailed, DatasetExists, DatasetNotFound, Refused
from zbackup.proc.run import Runner, run
from zbackup.zfs.errors import translate
from zbackup.zfs.streams import ZfsStreams

BELOW: Final = "/var/lib/zbackup/log-archive"
"""The directory that the archives of this host are mounted below."""

_SETTINGS: Final = {"canmount": "on", "readonly": "off", "setuid": "off", "exec": "off", "devices": "off"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDataset:
    """`home` is ROOT/INSTANCE, the container of the instance's copies; `name` the dataset of its archive."""

    home: str
    name: str
    runner: Runner = run

    def directory(self) -> Path | None:
        """Return where it is mounted; None when there is no such dataset.

        Where it is not mounted, root mounts it: who made it was killed before, or its key came late after a
        start. Raise Refused when it cannot be, and for what was not made to be mounted: below the root of a
        key that may only add, that has received what was sent under this name, and nobody mounts it.
        """
        found = self._mounted()
        if found == "" and (canmount := self._value("canmount")) != _SETTINGS["canmount"]:
            raise Refused(
                f"{self.name} is no log archive's, and not mounted: its canmount is {canmount} "
                f"(if it is one: zfs set canmount=on {shlex.quote(self.name)})"
            )
        if found == "" and os.geteuid() == 0:
            with suppress(CommandFailed):
                self._zfs("mount", self.name)
            found = self._mounted()
        if found == "":
            raise Refused(
                f"{self.name}, which the log archive lies in, is not mounted: as root, zfs mount "
                f"{shlex.quote(self.name)}"
            )
        return Path(found) if found else None

    def _mounted(self) -> str | None:
        """Return where it is mounted, "" for nowhere; None when there is no such dataset."""
        try:
            said = self._zfs(
                "get", "-Hp", "-o", "value", "mounted,mountpoint", "--", self.name, mutates=False
            )
        except DatasetNotFound:
            return None
        mounted, mountpoint, *_ = [*said.split("\n"), "", ""]
        return mountpoint if mounted == "yes" and mountpoint.startswith("/") else ""

    def _value(self, setting: str) -> str:
        return self._zfs("get", "-Hp", "-o", "value", setting, "--", self.name, mutates=False).strip()

    def prepared(self) -> Path:
        """The same, made if it is not there, which only root can. Raise Refused, saying how, where not."""
        found = self.directory()
        if found is None:
            if os.geteuid() != 0:
                raise Refused(f"there is no dataset {self.name} for the log archive: as root, {self._how()}")
            self._make()
            found = self.directory()
        if found is None:
            raise DatasetNotFound(("zfs", "get"), 1, f"dataset does not exist: {self.name}")
        if os.statvfs(found).f_flag & os.ST_RDONLY:
            raise Refused(
                f"{found}, where {self.name} is mounted, is read-only: as root, zfs set readonly=off "
                f"{shlex.quote(self.name)} (or its pool was imported so)"
            )
        if not os.access(found, os.W_OK | os.X_OK):
            raise Refused(
                f"{found}, where {self.name} is mounted, is not ours to write to: as root, {_own(found)}"
            )
        return found

    def _make(self) -> None:
        ZfsStreams(self.runner).container(self.home)
        settings = _SETTINGS | {"mountpoint": f"{BELOW}/{self.name}"}
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        try:
            self._zfs("create", *options, "--", self.name)
        except DatasetExists:
            return

    def _how(self) -> str:
        """Return the commands that an administrator runs for who is not root."""
        mountpoint = Path(BELOW) / self.name
        made = " ".join(f"-o {key}={value}" for key, value in _SETTINGS.items())
        where = f"-o mountpoint={shlex.quote(str(mountpoint))} {shlex.quote(self.name)}"
        return f"zfs create {made} {where}; {_own(mountpoint)}"

    def _zfs(self, *argv: str, mutates: bool = True) -> str:
        try:
            return self.runner(("zfs", *argv), mutates=mutates)
        except CommandFailed as failure:
            raise translate(failure) from failure


def _own(mountpoint: Path) -> str:
    return f"chown {os.geteuid()} {shlex.quote(str(mountpoint))}; chmod 700 {shlex.quote(str(mountpoint))}"
