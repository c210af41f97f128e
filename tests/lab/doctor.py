"""Tell what each backend has and lacks on this machine, and how to get what is missing."""

import json
import shutil
from pathlib import Path

from tests.lab import apt, build, host_packages, linked, native, places


def report() -> list[str]:
    """Lines for a person."""
    return [*_native(), *_guest(), *_cache()]


def size_of(path: Path) -> int:
    """Bytes that a tree takes on disk."""
    return sum(file.lstat().st_blocks * 512 for file in path.rglob("*"))


def human(size: int) -> str:
    """`1.5 GiB`"""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size >> 10} KiB"


def _native() -> list[str]:
    reason = native.unusable()
    if reason is None:
        return ["native: usable (real OpenZFS module, root)"]
    return [
        f"native: not usable: {reason}",
        "        to get it: apt-get install zfsutils-linux zfs-dkms, modprobe zfs, and run as root",
    ]


def _guest() -> list[str]:
    recipe, built = places.this_recipe(), places.built_guest()
    problems = build.refusals(recipe)
    if problems:
        return [f"guest:  not possible: {'; '.join(problems)}"]
    if built.home.is_dir():
        versions = json.loads(built.versions.read_text())
        lines = [f"guest:  built ({human(size_of(built.home))}): {built.home}"]
        lines += [f"        {name} {version}" for name, version in versions.items()]
        return [*lines, f"        zfs and zpool: {linked.state(built)}"]
    lines = ["guest:  not built yet; `lab up` builds it"]
    missing = host_packages.missing()
    if missing:
        lines.append(f"        missing to build: {host_packages.install_command(missing)}")
    free = shutil.disk_usage(
        apt.cache_root().parent if apt.cache_root().parent.exists() else Path.home()
    ).free
    if free < build.ROOM_TO_BUILD:
        lines.append(f"        too little room to build: {human(free)}, needed {human(build.ROOM_TO_BUILD)}")
    return lines


def _cache() -> list[str]:
    root = apt.cache_root()
    if not root.is_dir():
        return [f"cache:  {root}: empty"]
    lines = [f"cache:  {root}"]
    for path in sorted(root.iterdir()):
        if path.is_dir():
            lines.append(f"        {human(size_of(path)):>10}  {path.name}")
    return lines
