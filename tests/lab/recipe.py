"""The recipe of the guest: packages, kernel options, and the key of the cache.

The guest is a User-Mode Linux kernel (an ordinary process of this machine) with the unpatched OpenZFS
module, both built here from Debian's packages: a GPL kernel and a CDDL module may be joined on a user's
machine, but never be handed out together.

Linux 7.2 because older kernels under ARCH=um panic on CPUs with a large floating-point state; OpenZFS 2.3.9
because its META names 7.2 as supported (the build checks that).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

KERNEL_PACKAGE = "linux-source-7.2"
KERNEL_SUITES = ("trixie-backports", "sid")
MODULE_PACKAGE = "zfs-dkms"
MODULE_SUITES = ("trixie", "sid")

# The tools run with this machine's own libraries, so they come from its own release.
TOOLS = (
    "zfsutils-linux",
    "libzfs6linux",
    "libzpool6linux",
    "libnvpair3linux",
    "libuutil3linux",
    "libzfsbootenv1linux",
)
TOOLS_SUITE_OF_RELEASE = {"bookworm": "bookworm-backports", "trixie": "trixie"}

# Debian packages that must be installed, each with a file that shows that it is; the last not for building.
BUILD_NEEDS = {
    "build-essential": "/usr/bin/gcc",
    "flex": "/usr/bin/flex",
    "bison": "/usr/bin/bison",
    "bc": "/usr/bin/bc",
    "libelf-dev": "/usr/include/libelf.h",
    "libssl-dev": "/usr/include/openssl/ssl.h",
    "xz-utils": "/usr/bin/xz",
    "zstd": "/usr/bin/zstd",  # brings a backup back from a bucket without zbackup
}

KERNEL_ON = (
    "MODULES",
    "HOSTFS",
    "BLK_DEV_UBD",
    "DEVTMPFS",
    "TMPFS",
    "TMPFS_XATTR",  # the overlay keeps its bookkeeping in extended attributes of the layer above
    "TMPFS_POSIX_ACL",
    "OVERLAY_FS",
    "CRYPTO",
    "CRYPTO_DEFLATE",  # brings the ZLIB_DEFLATE that OpenZFS demands
    "CC_OPTIMIZE_FOR_PERFORMANCE",
    "DEBUG_INFO_NONE",
    # several hosts with cut and slow links inside one guest
    "NAMESPACES",
    "NET_NS",
    "PID_NS",
    "VETH",
    "BRIDGE",
    "NETFILTER",
    "NET_SCHED",
    "NET_SCH_NETEM",
)
KERNEL_OFF = (
    "CC_OPTIMIZE_FOR_SIZE",
    "MODULE_SIG",
    "MODVERSIONS",
    "DEBUG_INFO_DWARF_TOOLCHAIN_DEFAULT",
    "UML_TIME_TRAVEL_SUPPORT",
    "SMP",  # boots, but hangs were seen: one CPU a guest, several guests side by side
    # never used in a guest; leaving them out makes the build shorter
    "FTRACE",
    "EXT4_FS",
    "ISO9660_FS",
    "AUTOFS_FS",
    "BINFMT_MISC",
    "BLK_DEV_LOOP",
    "BLK_DEV_NBD",
    "IOSCHED_BFQ",
    "PPP",
    "SLIP",
    "DUMMY",
    "TUN",
    "HID_SUPPORT",
    "INPUT",
    "ETHERNET",
    "SOUND",
    "MD",
    "BTRFS_FS",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Everything that decides what the built guest is."""

    release: str
    """Codename of this machine's Debian release, which the ZFS tools must fit."""
    machine: str
    """CPU architecture as the kernel names it; User-Mode Linux exists for x86_64 only."""

    @property
    def tools_suite(self) -> str | None:
        """The suite that holds ZFS tools for this machine; None when none is known."""
        return TOOLS_SUITE_OF_RELEASE.get(self.release)

    @property
    def key(self) -> str:
        """Name of the built guest in the cache: another recipe is another guest."""
        parts = (
            self.release,
            self.machine,
            KERNEL_PACKAGE,
            MODULE_PACKAGE,
            *KERNEL_SUITES,
            *MODULE_SUITES,
            *TOOLS,
            *KERNEL_ON,
            "-",
            *KERNEL_OFF,
        )
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return f"guest-{KERNEL_PACKAGE.removeprefix('linux-source-')}-{self.release}-{digest[:10]}"


def config_arguments() -> list[str]:
    """Arguments of the kernel's own scripts/config."""
    on = [word for option in KERNEL_ON for word in ("--enable", option)]
    return on + [word for option in KERNEL_OFF for word in ("--disable", option)]


def config_gaps(config: str) -> list[str]:
    """Options of KERNEL_ON that the finished .config does not have: a dependency was missed."""
    lines = set(config.splitlines())
    return [option for option in KERNEL_ON if f"CONFIG_{option}=y" not in lines]


def release_codename(os_release: str) -> str:
    """VERSION_CODENAME of /etc/os-release, empty when it has none."""
    for line in os_release.splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.partition("=")[2].strip().strip('"')
    return ""


def newest_supported(meta: str) -> tuple[int, ...]:
    """The newest kernel that an OpenZFS release says it supports, from its META file."""
    for line in meta.splitlines():
        if line.startswith("Linux-Maximum:"):
            return tuple(int(part) for part in line.partition(":")[2].strip().split("."))
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltGuest:
    """The finished artefacts in the cache."""

    home: Path

    @property
    def kernel(self) -> Path:
        return self.home / "linux"

    @property
    def modules(self) -> tuple[Path, ...]:
        """In the order in which they must be loaded."""
        return (self.home / "spl.ko", self.home / "zfs.ko")

    @property
    def tools(self) -> Path:
        """A tree with zfs, zpool and their libraries, laid over the root of the guest."""
        return self.home / "tools"

    @property
    def versions(self) -> Path:
        return self.home / "versions.json"
