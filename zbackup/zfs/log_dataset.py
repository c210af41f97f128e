"""The dataset that a log archive lies in: ROOT/INSTANCE/log, mounted, and its owner's alone."""

import os
import pwd
import shlex
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zbackup.model.errors import CommandFailed, DatasetExists, DatasetNotFound, Refused
from zbackup.model.root_directories import LOG_ARCHIVE
from zbackup.proc import secure_files
from zbackup.proc.mounts import is_below
from zbackup.proc.run import Runner, run
from zbackup.proc.safe_path import require_only_roots
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.errors import translate
from zbackup.zfs.mounting import KernelMounts, Mounts
from zbackup.zfs.streams import ZfsStreams

_SETTINGS: Final = {"canmount": "noauto", "readonly": "off", "setuid": "off", "exec": "off", "devices": "off"}
_MOUNTED_AT_BOOT: Final = "on"
"""The `canmount` that it gets when it is mounted, and that tells it from what was received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDataset:
    """`home` is ROOT/INSTANCE, the container of the instance's copies; `name` the dataset of its archive."""

    home: str
    name: str
    runner: Runner = run
    mounts: Mounts = field(default_factory=KernelMounts)
    below: Path = Path(LOG_ARCHIVE)

    def directory(self) -> Path | None:
        """Return where it is mounted; None when there is no such dataset.

        Where it is not mounted, root mounts it: who made it was killed before, or its key came late after a
        start. Raise Refused when it cannot be, and for what was not made to be mounted: below the root of a
        key that may only add, that has received what was sent under this name, and nobody mounts it.
        """
        found = self._mounted()
        if found == "" and not self._is_archive():
            canmount = self._value("canmount")
            raise Refused(
                f"{self.name} is no log archive's, and not mounted: its canmount is {canmount} "
                f"(if it is one: zfs set canmount=on {shlex.quote(self.name)})"
            )
        if found == "" and os.geteuid() == 0:
            with suppress(CommandFailed):
                self._mount()
            found = self._mounted()
        if found == "":
            raise Refused(
                f"{self.name}, which the log archive lies in, is not mounted: as root, zbackup mount "
                f"{shlex.quote(self.name)}"
            )
        return Path(found) if found else None

    def _is_archive(self) -> bool:
        """Tell whether it was made to be mounted, be it half made: its mountpoint is its own then."""
        return self._value("canmount") == _MOUNTED_AT_BOOT or self._half_made()

    def _half_made(self) -> bool:
        own = self._zfs(
            "get", "-Hp", "-s", "local", "-o", "value", "mountpoint", "--", self.name, mutates=False
        )
        return own.strip() == str(self.below / self.name)

    def _mount(self) -> None:
        """Mount it where root alone decides what is there, now and at boot."""
        place = Path(self._value("mountpoint"))
        if is_below(str(place), str(self.below)):
            secure_files.claim_for_root(self.below)
            require_only_roots(place.parent)
        Zfs(self.runner, mounts=self.mounts).mount(self.name)
        if self._value("canmount") != _MOUNTED_AT_BOOT:
            self._zfs("set", f"canmount={_MOUNTED_AT_BOOT}", self.name)

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
                f"{found}, where {self.name} is mounted, is not ours to write to: as root, {self._how()}"
            )
        return found

    def prepare_for(self, owner: tuple[int, int]) -> Path:
        """The same as root, given to a user and a group that are to write to it."""
        found = self.prepared()
        if not self.mounts.is_there(self.name, found):
            raise Refused(f"{found} does not lead to {self.name}: unmount it, then try again")
        secure_files.make_directory(found, mode=0o700, owner=owner)
        return found

    def _make(self) -> None:
        """Made, but not mounted: `directory` does that."""
        ZfsStreams(self.runner).container(self.home)
        settings = _SETTINGS | {"mountpoint": str(self.below / self.name)}
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        try:
            self._zfs("create", "-u", *options, "--", self.name)
        except DatasetExists:
            return

    def _how(self) -> str:
        """Return the command that an administrator runs for who is not root."""
        return f"zbackup mount {shlex.quote(self.name)} --log-archive-of {_own_name()}"

    def _zfs(self, *argv: str, mutates: bool = True) -> str:
        try:
            return self.runner(("zfs", *argv), mutates=mutates)
        except CommandFailed as failure:
            raise translate(failure) from failure


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
