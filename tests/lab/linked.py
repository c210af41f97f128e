"""`zfs` and `zpool` as one file each: most of what a command costs in a guest goes to its 19 libraries.

They are linked statically from the source of that release whose packages the guest has, unpatched, and with
the libraries of this machine. Only a guest sees them, in a layer above the packages' own tools, which do what
is not linked here, and everything where $LAB_ZFS is `packaged`.
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
PROGRAMS = ("zfs", "zpool")
ARCHIVES = ("libblkid-dev", "libtirpc-dev", "uuid-dev", "zlib1g-dev")
"""Packages with static libraries, not to be installed. That of libcrypto is: the kernel needs it, too."""
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
HEAP = Path(__file__).with_name("heap.c")
"""What is linked to them beside their own: maps memory that they will need at once."""
TRIED_AGAIN_AFTER = 12 * 3600.0
"""Seconds after which a build that failed is begun anew."""


def trees(built: BuiltGuest) -> list[Path]:
    """What a guest lays over the root, the uppermost first."""
    linked = layer(built)
    return [linked, built.tools] if _wanted() and linked.is_dir() else [built.tools]


def _wanted() -> bool:
    return os.environ.get("LAB_ZFS") != "packaged"


def layer(built: BuiltGuest) -> Path:
    """The tree that a guest lays over the packages' tools, or will."""
    ingredients = "\n".join((*PROGRAMS, *ARCHIVES, *CONFIGURED)).encode() + HEAP.read_bytes()
    digest = hashlib.sha256(ingredients).hexdigest()
    return built.home.with_name(f"{built.home.name}-linked-{_version(built)}-{digest[:10]}")


def ensure(built: BuiltGuest) -> None:
    """Build the layer unless it is there. A failure is said: every command works without, and costs more."""
    home = layer(built)
    failed = home.with_name(f"{home.name}.failed")
    failed_lately = failed.exists() and time.time() - failed.stat().st_mtime < TRIED_AGAIN_AFTER
    if not _wanted() or home.is_dir() or failed_lately:
        return
    with apt.locked(home.with_name(f"{home.name}.lock")):
        if home.is_dir():
            return
        try:
            _build(built, home)
        except (StepFailed, apt.AptFailed) as error:
            failed.write_text(f"{error}\n")
            say(f"zfs and zpool stay the packages' own, and cost twice the CPU: {error}")


def _version(built: BuiltGuest) -> str:
    return str(json.loads(built.versions.read_text())[VERSION_OF])


def _build(built: BuiltGuest, home: Path) -> None:
    recipe, version = places.this_recipe(), _version(built)
    assert recipe.tools_suite is not None
    place, log = home.with_name(f"{home.name}.building"), places.logs() / f"{home.name}.log"
    shutil.rmtree(place, ignore_errors=True)
    with step("linking zfs and zpool, once"):
        source = apt.download_source(SOURCE, version, recipe.tools_suite, place / "packages", log)
        apt.unpack(apt.download(list(ARCHIVES), recipe.release, place / "packages", log), place / "archives")
        tree = place / "source"
        tree.mkdir()
        _run("tar", ["tar", "--strip-components=1", "-xf", str(source)], tree, log)
        name_release(tree / "META", version)
        _compile(tree, place / "archives" / "usr", log)
        programs = place / "layer" / "usr" / "sbin"
        programs.mkdir(parents=True)
        for name in PROGRAMS:
            _run("strip", ["strip", "-o", str(programs / name), name], tree, log)
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


def _compile(tree: Path, archives: Path, log: Path) -> None:
    found = sorted(archives.glob("lib/*/libblkid.a"))
    if not found:
        raise StepFailed(f"no static libblkid in {', '.join(ARCHIVES)}")
    libraries = f"-L{found[0].parent} -no-pie"
    settings = [
        f"CPPFLAGS=-I{archives / 'include'}",
        "CFLAGS=-O2 -fno-pie",
        f"LDFLAGS={libraries}",
        f"LIBTIRPC_CFLAGS=-I{archives / 'include' / 'tirpc'}",
        "LIBTIRPC_LIBS=-ltirpc",
        "PKG_CONFIG=false",
        "ac_cv_lib_udev_main=no",  # there is no static one, and a guest has no udev
    ]
    heap = tree.with_name("heap.o")
    _run("gcc", ["gcc", "-O2", "-fno-pie", "-c", "-o", str(heap), str(HEAP)], tree, log)
    _run("configuring the tools", ["./configure", *CONFIGURED, *settings], tree, log)
    cores = len(os.sched_getaffinity(0))
    make = ["make", f"-j{cores}", *PROGRAMS, f"LDFLAGS={libraries} -all-static {heap}"]
    _run("compiling the tools", make, tree, log)


def _run(name: str, argv: list[str], where: Path, log: Path) -> None:
    environment = {**build.compiler_environment()}
    del environment["ARCH"]
    logged(name, argv, cwd=where, log=log, environment=environment)
