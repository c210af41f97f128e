"""Look at what the service needs to know of this host, and at the files that it is made of."""

import grp
import shutil
import sys
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

from zbackup.clock import Clock
from zbackup.features.init.plan.service import (
    DROP_INS,
    SETTINGS,
    UNIT_DIRECTORY,
    UNITS,
    USER,
    WRITTEN_PROGRAM,
)
from zbackup.features.init.setup import HostFacts
from zbackup.model.errors import CommandFailed, Refused
from zbackup.proc import secure_files
from zbackup.proc.programs import why_not_trusted
from zbackup.proc.run import run
from zbackup.proc.run_directory import daemon_user

SYSTEMD = Path("/run/systemd/system")
"""There while systemd is the init (sd_booted(3))."""

PACKAGED = "/usr/lib/systemd/system"
UNIT_DIRECTORIES = (UNIT_DIRECTORY, PACKAGED, "/lib/systemd/system")
SETTING_DIRECTORIES = {
    "zbackup.sysusers.conf": ("/etc/sysusers.d", "/usr/lib/sysusers.d"),
    "zbackup.tmpfiles.conf": ("/etc/tmpfiles.d", "/usr/lib/tmpfiles.d"),
}
ASK_LIMIT_S = 30.0


def inspect() -> HostFacts:
    """Inspect what is there of the service."""
    systemd = SYSTEMD.is_dir()
    return HostFacts(
        systemd=systemd,
        user=_has_user(),
        program=own_program(),
        units=_units(),
        active=systemd and is_active(),
    )


def own_program() -> str:
    """The path that this zbackup is started by."""
    started = Path(sys.argv[0])
    if started.name == "zbackup" and started.is_absolute() and started.is_file():
        return str(started)
    return shutil.which("zbackup") or WRITTEN_PROGRAM


def require_roots_program(program: str) -> None:
    """Raise Refused when somebody else could change what the units start as root."""
    if reason := why_not_trusted(program):
        raise Refused(
            f"the service would start {program} as root: {reason}; install zbackup where only root may write"
        )


def texts() -> dict[str, str]:
    """The files of the service by name, as the wheel brings them, or the source."""
    package = Path(str(files("zbackup")))
    directories = (package / "systemd", package.parent / "systemd")
    directory = next((each for each in directories if each.is_dir()), directories[0])
    return {name: secure_files.read_linked(directory / name) for name in (*UNITS, *SETTINGS)}


def there() -> dict[str, str]:
    """The text of each file of ours that is at its place."""
    paths = [f"{UNIT_DIRECTORY}/{name}" for name in UNITS]
    paths += [*DROP_INS, *(f"{directory}/zbackup.conf" for directory in SETTINGS.values())]
    return {path: secure_files.read_linked(Path(path)) for path in paths if Path(path).is_file()}


def daemon_group() -> int | None:
    """The group of the daemon's user; None where there is none."""
    try:
        return grp.getgrnam(USER).gr_gid
    except KeyError:
        return None


def service_user() -> str:
    """The user that the unit runs the daemon as. Raise CommandFailed."""
    return _property("User") or "root"


def service_started(clock: Clock) -> datetime:
    """The time at which the daemon's process was started; now where there is none. Raise CommandFailed."""
    microseconds = int(_property("ExecMainStartTimestampMonotonic") or 0)
    if not microseconds:
        return clock.now()
    return clock.now() - timedelta(seconds=clock.monotonic() - microseconds / 1e6)


def _property(name: str) -> str:
    show = ("systemctl", "show", "--value", f"--property={name}", "zbackup.service")
    return run(show, mutates=False, timeout=ASK_LIMIT_S).strip()


def daemon_may_read(path: Path) -> bool:
    """Whether the daemon's group, or everybody, may read a file."""
    found = secure_files.stat(path)
    shared = found.st_gid == daemon_group() and bool(found.st_mode & 0o040)
    return shared or bool(found.st_mode & 0o004)


def group_name(gid: int) -> str:
    """Return the name of a group, "" if it has no name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""


def _has_user() -> bool:
    return daemon_user() is not None


def _units() -> dict[str, str]:
    """Return where each file is, the place that counts for systemd first."""
    found = {}
    for name in UNITS:
        paths = (f"{path}/{name}" for path in UNIT_DIRECTORIES)
        if path := next((p for p in paths if Path(p).is_file()), ""):
            found[name] = path
    for name, directories in SETTING_DIRECTORIES.items():
        paths = (f"{each}/zbackup.conf" for each in directories)
        if path := next((p for p in paths if Path(p).is_file()), ""):
            found[name] = path
    return found


def is_active() -> bool:
    """Whether the daemon runs as systemd's service."""
    try:
        run(("systemctl", "is-active", "--quiet", "zbackup.service"), mutates=False, timeout=ASK_LIMIT_S)
    except CommandFailed:
        return False
    return True
