"""The dataset that a log archive lies in: ROOT/INSTANCE/log, mounted, and its owner's alone."""

import os
import pwd
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zbackup.model.command_line import command_line
from zbackup.model.errors import CommandFailed, DatasetExists, DatasetNotFound, Refused
from zbackup.model.root_directories import LOG_ARCHIVE
from zbackup.proc import secure_files
from zbackup.proc.run import Runner, run
from zbackup.proc.safe_path import require_only_roots
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.errors import translate
from zbackup.zfs.mounting import KernelMounts, Mounts
from zbackup.zfs.streams import ZfsStreams

_SETTINGS: Final = {"canmount": "noauto", "readonly": "off", "setuid": "off", "exec": "off", "devices": "off"}
_MOUNTED_AT_BOOT: Final = "on"
"""The `canmount` that it gets when it is mounted."""


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

        Where it is not mounted, root mounts it in its own place: who made it was killed before, or its key
        came late after a start. Raise Refused when it cannot be, and for what has another place. Below the
        root of a key that may only add, that has received what was sent under this name; and who receives may
        set the mountpoint (`zfs allow`), and would choose what root mounts over.
        """
        found = self._mounted()
        if found == "":
            self._require_own_place()
            if os.geteuid() != 0:
                raise self._not_mounted(f"as root, {self._how()}")
            self._mount()
            found = self._mounted()
        if found and os.geteuid() == 0 and not self.mounts.is_there(self.name, Path(found)):
            raise Refused(f"{found} does not lead to {self.name}: unmount it, then try again")
        return Path(found) if found else None

    @property
    def _place(self) -> Path:
        return self.below / self.name

    def _require_own_place(self) -> None:
        place = self._value("mountpoint")
        if place != str(self._place):
            own = command_line("zfs", "set", "canmount=noauto", self.name)
            moved = command_line("zfs", "set", f"mountpoint={self._place}", self.name)
            raise Refused(
                f"{self.name} is no log archive's, and not mounted: its mountpoint is {place} "
                f"(to make it one: {own} && {moved})"
            )

    def _not_mounted(self, why: str) -> Refused:
        return Refused(f"{self.name}, the dataset of the log archive, is not mounted: {why}")

    def _mount(self) -> None:
        """Mount it where root alone decides what is there, now and at boot."""
        secure_files.claim_for_root(self.below)
        require_only_roots(self._place.parent)
        try:
            Zfs(self.runner, mounts=self.mounts).mount(self.name, only_at=self._place)
        except CommandFailed as failure:
            raise self._not_mounted(str(failure)) from failure
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
        return self._zfs("get", "-Hp", "-o", "value", setting, "--", self.name, mutates=False).removesuffix(
            "\n"
        )

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
                f"{found}, where {self.name} is mounted, is read-only: as root, "
                f"{command_line('zfs', 'set', 'readonly=off', self.name)} (or its pool was imported so)"
            )
        if not os.access(found, os.W_OK | os.X_OK):
            raise Refused(
                f"{found}, where {self.name} is mounted, is not writable for this user: as root, "
                f"{self._how()}"
            )
        return found

    def prepare_for(self, owner: tuple[int, int]) -> Path:
        """The same as root, given to a user and a group that are to write to it."""
        found = self.prepared()
        secure_files.make_directory(found, mode=0o700, owner=owner)
        return found

    def _make(self) -> None:
        """Made, but not mounted: `directory` does that."""
        ZfsStreams(self.runner).container(self.home)
        settings = _SETTINGS | {"mountpoint": str(self._place)}
        options = [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]
        try:
            self._zfs("create", "-u", *options, "--", self.name)
        except DatasetExists:
            return

    def _how(self) -> str:
        """Return the command that an administrator runs for who is not root."""
        return command_line("zbackup", "mount", self.name, "--log-archive-of", _own_name())

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
