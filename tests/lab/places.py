"""The lab's directories on this machine, and what kind of machine that is."""

import os
import platform
import shutil
import time
from pathlib import Path

from tests.lab import apt
from tests.lab.recipe import BuiltGuest, Recipe, release_codename

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED_MEMORY = Path("/dev/shm")  # room for a guest's memory, where there is much

RESULTS_KEPT = 20


def this_recipe() -> Recipe:
    """The recipe of the guest that fits this machine."""
    os_release = Path("/etc/os-release")
    text = os_release.read_text() if os_release.exists() else ""
    return Recipe(release=release_codename(text), machine=platform.machine())


def built_guest() -> BuiltGuest:
    """Where the built guest of this machine is, or will be."""
    return BuiltGuest(home=apt.cache_root() / this_recipe().key)


def logs() -> Path:
    """Directory of build logs and of the kernel logs of guests that failed; made when missing."""
    path = apt.cache_root() / "logs"
    path.mkdir(parents=True, exist_ok=True)
    return path


def new_results() -> Path:
    """A directory of its own for the reports of one `lab test`: several may run at once. Old ones go."""
    base = apt.cache_root() / "results"
    base.mkdir(parents=True, exist_ok=True)
    for old in sorted(base.iterdir())[:-RESULTS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return base / f"{stamp}-{os.getpid()}"


def runs() -> Path:
    """Directory with one sub-directory a running guest; private to this user.

    Not in the cache: the path of a Unix socket in it must stay short.
    """
    base = Path(os.environ.get("TMPDIR") or "/tmp")
    path = base / f"zbackup-lab-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid() or path.is_symlink():
        raise PermissionError(f"{path} belongs to somebody else")
    return path


def fast_place(needed: int) -> Path:
    """A directory for `needed` bytes of guest memory or disk: in memory if there is room, else on disk."""
    if SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > needed:
        return SHARED_MEMORY
    return runs()
