"""Build the guest: download, unpack, configure, compile, try it, and put it into the cache.

A build that was killed goes on where it stopped: each finished step leaves a mark in the building
directory, and make itself knows what it has already compiled. The finished guest appears in the cache by
one rename, so there is never half a guest.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.lab import apt, host_packages, places
from tests.lab.progress import StepFailed, logged, say, step
from tests.lab.recipe import (
    KERNEL_PACKAGE,
    KERNEL_SUITES,
    MODULE_PACKAGE,
    MODULE_SUITES,
    TOOLS,
    BuiltGuest,
    Recipe,
    config_arguments,
    config_gaps,
    newest_supported,
)

ROOM_TO_BUILD = 4 << 30
"""Bytes that a build takes at its largest: sources, objects, packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """The directory in which one guest is being built."""

    home: Path
    log: Path
    recipe: Recipe

    @property
    def packages(self) -> Path:
        return self.home / "packages"

    @property
    def kernel_source(self) -> Path:
        return self.home / KERNEL_PACKAGE

    @property
    def result(self) -> Path:
        return self.home / "result"

    @property
    def module_source(self) -> Path:
        found = sorted((self.home / "module" / "usr" / "src").glob("zfs-*"))
        if not found:
            raise StepFailed(f"{MODULE_PACKAGE} has no source in /usr/src")
        return found[0]

    def once(self, name: str, work: Callable[["Workshop"], None]) -> None:
        """Do `work` unless an earlier, interrupted build has finished it."""
        mark = self.home / f"{work.__name__}.done"
        if mark.exists():
            return
        with step(name):
            work(self)
        mark.touch()

    def make(self, name: str, *arguments: str, where: Path | None = None) -> None:
        """Run make for the um architecture on all cores."""
        cores = len(os.sched_getaffinity(0))
        argv = ["make", "ARCH=um", f"-j{cores}", *arguments]
        logged(name, argv, cwd=where or self.kernel_source, log=self.log, environment=compiler_environment())


def ensure(check: Callable[[BuiltGuest], None]) -> BuiltGuest:
    """The built guest, building it when it is not in the cache.

    `check` tries a guest that was just built; what it raises leaves the cache without a guest.
    Raises StepFailed or apt.AptFailed with one line that says what to do.
    """
    built = places.built_guest()
    if built.home.is_dir():
        return built
    if _workplace(built).is_dir():
        say("going on with a build that was begun (waiting for it if somebody else is at it)")
    with apt.locked(built.home.with_name(f"{built.home.name}.lock")):
        if not built.home.is_dir():
            _build(built, check)
    return built


def _workplace(built: BuiltGuest) -> Path:
    return built.home.with_name(f"{built.home.name}.building")


def refusals(recipe: Recipe) -> list[str]:
    """Why this machine cannot have a guest; empty when it can."""
    found = []
    if recipe.machine != "x86_64":
        found.append(f"User-Mode Linux exists for x86_64, this machine is {recipe.machine}")
    if recipe.tools_suite is None:
        found.append(f"no ZFS tools are known for the release {recipe.release or '(unknown)'!r}")
    return found


def compiler_environment() -> dict[str, str]:
    """The environment without what would leak into a kernel build."""
    leaking = {"CFLAGS", "CPPFLAGS", "LDFLAGS", "ARCH", "CROSS_COMPILE", "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}
    kept = {name: value for name, value in os.environ.items() if name not in leaking}
    return {**kept, "LC_ALL": "C", "ARCH": "um"}


def _build(built: BuiltGuest, check: Callable[[BuiltGuest], None]) -> None:
    recipe = places.this_recipe()
    problems = refusals(recipe)
    if problems:
        raise StepFailed("; ".join(problems))
    home = _workplace(built)
    home.mkdir(parents=True, exist_ok=True)
    if shutil.disk_usage(home).free < ROOM_TO_BUILD:
        raise StepFailed(f"{home} needs {ROOM_TO_BUILD >> 30} GiB of free space to build in")
    shop = Workshop(home=home, log=places.logs() / f"{recipe.key}.log", recipe=recipe)
    say(f"building the guest kernel with OpenZFS, once: 5 to 9 minutes on 2 cores; log: {shop.log}")
    host_packages.ensure(shop.log)
    shop.once("downloading packages (165 MB)", download)
    shop.once("unpacking", unpack)
    shop.once("configuring the kernel", configure_kernel)
    shop.once("compiling the kernel", compile_kernel)
    shop.once("configuring OpenZFS", configure_module)
    shop.once("compiling OpenZFS", compile_module)
    shop.once("laying out the ZFS tools", lay_out_tools)
    collect(shop)
    check(BuiltGuest(home=shop.result))
    shop.result.rename(built.home)
    shutil.rmtree(shop.home)


def download(shop: Workshop) -> None:
    """Fetch every package; nothing is installed."""
    _from_first(KERNEL_PACKAGE, KERNEL_SUITES, shop)
    _from_first(MODULE_PACKAGE, MODULE_SUITES, shop)
    assert shop.recipe.tools_suite is not None
    apt.download(list(TOOLS), shop.recipe.tools_suite, shop.packages / "tools", shop.log)


def _from_first(package: str, suites: tuple[str, ...], shop: Workshop) -> None:
    """Download `package` of the first suite that has it: backports move on, sid follows."""
    failures = []
    for suite in suites:
        try:
            apt.download([package], suite, shop.packages / package, shop.log)
            return
        except apt.AptFailed as failure:
            failures.append(f"{suite}: {failure}")
    raise StepFailed(f"cannot download {package}: {'; '.join(failures)}")


def unpack(shop: Workshop) -> None:
    """Unpack the packages and the kernel's source archive within its package."""
    for name, into in (
        (KERNEL_PACKAGE, shop.home / "kernel-package"),
        (MODULE_PACKAGE, shop.home / "module"),
        ("tools", shop.home / "tools-package"),
    ):
        shutil.rmtree(into, ignore_errors=True)
        apt.unpack(sorted((shop.packages / name).glob("*.deb")), into)
    archive = shop.home / "kernel-package" / "usr" / "src" / f"{KERNEL_PACKAGE}.tar.xz"
    shutil.rmtree(shop.kernel_source, ignore_errors=True)
    logged("tar", ["tar", "-C", str(shop.home), "-xf", str(archive)], cwd=shop.home, log=shop.log)


def configure_kernel(shop: Workshop) -> None:
    """Write the kernel's .config and check that every option we asked for is in it."""
    shop.make("make defconfig", "defconfig")
    logged("config", ["scripts/config", *config_arguments()], cwd=shop.kernel_source, log=shop.log)
    shop.make("make olddefconfig", "olddefconfig")
    gaps = config_gaps((shop.kernel_source / ".config").read_text())
    if gaps:
        raise StepFailed(f"the kernel refuses the options {', '.join(gaps)}")


def compile_kernel(shop: Workshop) -> None:
    """The kernel is one executable; modules are prepared so that OpenZFS can be built against it."""
    shop.make("compiling the kernel", "linux", "modules")


def configure_module(shop: Workshop) -> None:
    """Let OpenZFS look at the kernel it is built for."""
    source, kernel = shop.module_source, str(shop.kernel_source)
    newest = newest_supported((source / "META").read_text())
    wanted = tuple(int(part) for part in KERNEL_PACKAGE.removeprefix("linux-source-").split("."))
    if newest < wanted:
        raise StepFailed(f"{source.name} supports kernels up to {newest}, not {wanted}: change the recipe")
    arguments = [
        "--quiet",
        "--disable-dependency-tracking",
        "--with-config=kernel",
        f"--with-linux={kernel}",
        f"--with-linux-obj={kernel}",
        "ARCH_UM=ARCH=um",
        "KERNEL_ARCH=um",
    ]
    logged(
        "configuring OpenZFS",
        ["./configure", *arguments],
        cwd=source,
        log=shop.log,
        environment=compiler_environment(),
    )


def compile_module(shop: Workshop) -> None:
    """Build spl.ko and zfs.ko."""
    shop.make("compiling OpenZFS", "KERNEL_ARCH=um", where=shop.module_source / "module")


def lay_out_tools(shop: Workshop) -> None:
    """Move the tools to where this release keeps programs: /bin, /lib and /sbin are links into /usr.

    A plain directory /lib above such a link would hide the machine's own libraries.
    """
    package, tools = shop.home / "tools-package", shop.home / "tools"
    shutil.rmtree(tools, ignore_errors=True)
    for name in ("bin", "sbin", "lib"):
        for root in (package / name, package / "usr" / name):
            if root.is_dir():
                shutil.copytree(root, tools / "usr" / name, symlinks=True, dirs_exist_ok=True)
    # Units and udev rules of the package would only confuse a test that looks at the host's.
    for unused in ("systemd", "udev", "modules-load.d"):
        shutil.rmtree(tools / "usr" / "lib" / unused, ignore_errors=True)


def collect(shop: Workshop) -> None:
    """Gather what a guest needs to run into one directory."""
    shutil.rmtree(shop.result, ignore_errors=True)
    shop.result.mkdir()
    result = BuiltGuest(home=shop.result)
    strip(shop.kernel_source / "linux", result.kernel)
    for module in result.modules:
        strip(shop.module_source / "module" / module.name, module)
    shutil.copytree(shop.home / "tools", result.tools, symlinks=True)
    versions = {
        deb.name.partition("_")[0]: apt.package_version(deb) for deb in sorted(shop.packages.glob("*/*.deb"))
    }
    result.versions.write_text(json.dumps(versions, indent=2) + "\n")


def strip(source: Path, target: Path) -> None:
    """Copy a binary without its debugging symbols; symbols that the kernel links by stay."""
    done = subprocess.run(
        ["strip", "-g", "-o", str(target), str(source)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise StepFailed(f"cannot strip {source}: {done.stderr.strip()}")
