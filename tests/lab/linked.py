"""`zfs` and `zpool` as one file each: most of what a command costs in a guest goes to its 19 libraries.

They are linked from the static libraries that Debian makes with the packages' shared ones, and from the
source of the two commands, unpatched. Only a guest sees them, in a layer above the packages' own tools. Those
do what is not linked here, and everything where $LAB_ZFS is `packaged`.
"""

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

from tests.lab import apt, build, places
from tests.lab.progress import StepFailed, logged, say, step
from tests.lab.recipe import BuiltGuest

SOURCE = "zfs-linux"
VERSION_OF = "zfsutils-linux"
"""The package in the guest whose version is that of the source."""
LIBRARIES = "libzfslinux-dev"
"""Its static libraries are of the same version, with Debian's changes."""
OBJECTS = {
    "zfs": ("cmd/zfs/zfs_iter.o", "cmd/zfs/zfs_main.o", "cmd/zfs/zfs_project.o"),
    "zpool": (
        *(f"cmd/zpool/zpool-zpool_{name}.o" for name in ("iter", "main", "util", "vdev")),
        "cmd/zpool/os/linux/zpool-zpool_vdev_os.o",
    ),
}
"""What each program is made of, as the Makefile calls it."""
ARCHIVES = ("libblkid-dev", "libtirpc-dev", "uuid-dev", "zlib1g-dev")
"""Packages with static libraries, not to be installed. That of libcrypto is: the kernel needs it, too."""
LINKED = tuple(
    f"-l{name}"
    for name in ("zfs", "zfs_core", "nvpair", "uutil", "blkid", "uuid", "tirpc", "crypto", "z", "m")
)
CONFIGURED = (
    "--quiet",
    "--disable-dependency-tracking",
    "--with-config=user",
    "--prefix=/usr",
    "--sysconfdir=/etc",
    "--localstatedir=/var",
    "--libexecdir=/usr/lib",
    "--with-zfsexecdir=/usr/lib/zfs-linux",
    "--disable-shared",
    "--disable-pyzfs",
    "--disable-pam",
    "--disable-systemd",
    "--without-libunwind",
    "--with-tirpc",
)
BESIDE = Path(__file__).with_name("linked.c")
"""What is linked to them and not their own."""
TRIED_AGAIN_AFTER = 12 * 3600.0
"""Seconds after which a build that failed is tried again."""


def trees(built: BuiltGuest) -> list[Path]:
    """What a guest lays over the root, the uppermost first."""
    linked = layer(built)
    return [linked, built.tools] if _wanted() and linked.is_dir() else [built.tools]


def _wanted() -> bool:
    return os.environ.get("LAB_ZFS") != "packaged"


def layer(built: BuiltGuest) -> Path:
    """The tree that a guest lays over the packages' tools, or will."""
    ingredients = repr((LIBRARIES, OBJECTS, ARCHIVES, LINKED, CONFIGURED)).encode() + BESIDE.read_bytes()
    digest = hashlib.sha256(ingredients).hexdigest()
    return built.home.with_name(f"{built.home.name}-linked-{_version(built)}-{digest[:10]}")


def ensure(built: BuiltGuest) -> None:
    """Build the layer unless it is there. A failure is said: every command works without, and costs more."""
    home, failed = layer(built), _failure(built)
    failed_lately = failed.exists() and time.time() - failed.stat().st_mtime < TRIED_AGAIN_AFTER
    if not _wanted() or home.is_dir() or failed_lately:
        return
    with apt.locked(home.with_name(f"{home.name}.lock")):
        if home.is_dir():
            return
        try:
            _build(built, home)
        except (StepFailed, apt.AptFailed, OSError) as error:
            failed.write_text(f"{error}\n")
            say(f"zfs and zpool stay the packages' own, and cost twice the CPU: {error}")


def state(built: BuiltGuest) -> str:
    """A line for a person."""
    if layer(built).is_dir():
        return "linked"
    failed = _failure(built)
    return f"the packages' own: {failed.read_text().strip()}" if failed.exists() else "not linked yet"


def _failure(built: BuiltGuest) -> Path:
    home = layer(built)
    return home.with_name(f"{home.name}.failed")


def _version(built: BuiltGuest) -> str:
    return str(json.loads(built.versions.read_text())[VERSION_OF])


def _build(built: BuiltGuest, home: Path) -> None:
    recipe, version = places.this_recipe(), _version(built)
    assert recipe.tools_suite is not None
    place, log = home.with_name(f"{home.name}.building"), places.logs() / f"{home.name}.log"
    shutil.rmtree(place, ignore_errors=True)
    with step("linking zfs and zpool, once"):
        debs, archives = place / "packages", place / "archives"
        source = apt.download_source(SOURCE, version, recipe.tools_suite, debs, log)
        own = apt.download([f"{LIBRARIES}={version}"], recipe.tools_suite, debs, log)
        apt.unpack([*own, *apt.download(list(ARCHIVES), recipe.release, debs, log)], archives)
        tree = place / "source"
        tree.mkdir()
        _run("tar", ["tar", "--strip-components=1", "-xf", str(source)], tree, log)
        name_release(tree / "META", version)
        programs = place / "layer" / "usr" / "sbin"
        programs.mkdir(parents=True)
        _compile(tree, archives / "usr", programs, log)
    (place / "layer").rename(home)
    shutil.rmtree(place)


def name_release(meta: Path, version: str) -> None:
    """Let the programs say the packages' version, as the packages are built."""
    release = version.partition("-")[2]
    lines = [
        f"Release: {release}" if line.startswith("Release:") else line
        for line in meta.read_text().splitlines()
    ]
    meta.write_text("\n".join(lines) + "\n")


def _compile(tree: Path, archives: Path, programs: Path, log: Path) -> None:
    found = sorted(archives.glob("lib/*/libzfs.a"))
    if not found:
        raise StepFailed(f"no static libzfs in {LIBRARIES}")
    libraries = f"-L{found[0].parent}"
    settings = [
        f"CPPFLAGS=-I{archives / 'include'}",
        "CFLAGS=-O2 -fno-pie",
        f"LDFLAGS={libraries} -no-pie",
        f"LIBTIRPC_CFLAGS=-I{archives / 'include' / 'tirpc'}",
        "LIBTIRPC_LIBS=-ltirpc",
        "PKG_CONFIG=false",
    ]
    beside = tree.with_name("linked.o")
    _run("gcc", ["gcc", "-O2", "-fno-pie", "-c", "-o", str(beside), str(BESIDE)], tree, log)
    _run("configuring the tools", ["./configure", *CONFIGURED, *settings], tree, log)
    cores = len(os.sched_getaffinity(0))
    objects = [name for names in OBJECTS.values() for name in names]
    _run("compiling the tools", ["make", f"-j{cores}", *objects], tree, log)
    for name, parts in OBJECTS.items():
        target = ["-s", "-static", "-no-pie", "-o", str(programs / name)]
        group = ["-Wl,--start-group", *LINKED, "-Wl,--end-group"]
        _run("linking the tools", ["gcc", *target, *parts, str(beside), libraries, *group], tree, log)


def _run(name: str, argv: list[str], where: Path, log: Path) -> None:
    environment = {**build.compiler_environment()}
    del environment["ARCH"]
    logged(name, argv, cwd=where, log=log, environment=environment)
