"""Process 1 of the guest: makes a root that cannot harm the host, runs one command, powers off.

It runs as a copied single file under the host's own python3 with `-I -S`, so it imports the standard library
and nothing else. Its only argument is the path of a JSON file, as `tests.lab.guest.spec` writes it.

The root is an overlay: the host's files below, read-only through hostfs; the ZFS tools above them; a tmpfs
on top that takes every write. What is said on the serial lines: ttyS0 and ttyS1 carry the command's standard
output and error, ttyS2 carries `ready`, `exit N` out and `signal N` in, ttyS3 is a terminal for `lab shell`.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import sys
import termios
import threading
import tty
from pathlib import Path
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_NOSUID, MS_NODEV = 1, 2, 4
MS_BIND, MS_MOVE, MS_REC, MS_SHARED = 4096, 8192, 16384, 1 << 20
MNT_DETACH = 2
POWER_OFF = 0x4321FEDC
SYS_PIVOT_ROOT, SYS_FINIT_MODULE = 155, 313  # x86_64, the only CPU that User-Mode Linux has
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 1
TIOCSCTTY = 0x540E

BASE = Path("/mnt")  # a tmpfs while the root is being made
ROOT = BASE / "root"
HOST_ID = 0x7A626C62  # the same in all guests: a pool moves from one to the next without -f
HOST_NAME = "zbackup-lab"
PRELOADED = Path("/usr/lib/lab-populate.so")  # where also a server's user may read it
HIDDEN = ("tmp", "run", "dev/shm")
"""Directories that start empty in the guest."""


def checked(result: int, what: str) -> None:
    """Raise OSError if a call into the C library failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: Path, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2); the target is made when missing."""
    target.mkdir(parents=True, exist_ok=True)
    done = LIBC.mount(source.encode(), os.fsencode(target), kind.encode(), flags, options.encode())
    checked(done, f"mount {source} on {target}")


def make_root(spec: dict[str, Any]) -> None:
    """Build the overlay root and everything that is mounted in it."""
    mount("tmpfs", BASE, "tmpfs", options="size=75%")
    for name in ("upper", "work"):
        (BASE / name).mkdir()
    # The tools lie below the host's root; the overlay takes them as a layer only from a mount of their own.
    trees = []
    for number, tree in enumerate(spec["tools"]):
        trees.append(BASE / f"tools{number}")
        mount("none", trees[-1], "hostfs", MS_RDONLY, tree)
    below = ":".join(map(str, [*trees, "/"]))
    layers = f"lowerdir={below},upperdir={BASE}/upper,workdir={BASE}/work"
    mount("overlay", ROOT, "overlay", options=layers)
    kept = keep_visible(spec["visible"])
    mount("proc", ROOT / "proc", "proc")
    mount("sysfs", ROOT / "sys", "sysfs")
    mount("cgroup2", ROOT / "sys/fs/cgroup", "cgroup2")
    mount("devtmpfs", ROOT / "dev", "devtmpfs")
    mount("devpts", ROOT / "dev/pts", "devpts", options="mode=620,ptmxmode=666")
    for name in HIDDEN:
        mount("tmpfs", ROOT / name, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=75%")
    (ROOT / "run/lock").mkdir()
    for source, path in kept:
        mount(str(source), ROOT / path, flags=MS_MOVE)
    for share in spec["shares"]:
        mount("none", ROOT / share.lstrip("/"), "hostfs", options=share)


def keep_visible(paths: list[str]) -> list[tuple[Path, str]]:
    """Hold on to wanted directories that lie where the guest starts empty.

    They are still seen through the overlay, so the host's files stay unharmed.
    """
    kept: list[tuple[Path, str]] = []
    for path in paths:
        relative = path.lstrip("/")
        if any(relative == name or relative.startswith(f"{name}/") for name in HIDDEN):
            holder = BASE / f"kept{len(kept)}"
            mount(str(ROOT / relative), holder, flags=MS_BIND)
            kept.append((holder, relative))
    return kept


def enter_root() -> None:
    """Make the overlay the root of every process, and let go of the host's file system.

    pivot_root and not chroot: ZFS opens file vdevs from kernel threads, and only pivot_root moves their root.
    """
    os.chdir(ROOT)
    checked(LIBC.syscall(SYS_PIVOT_ROOT, b".", b"mnt"), "pivot_root")
    os.chdir("/")
    checked(LIBC.umount2(b"/mnt", MNT_DETACH), "umount /mnt")
    # As systemd leaves it on a plain machine.
    checked(LIBC.mount(b"none", b"/", b"", MS_REC | MS_SHARED, b""), "share mounts")


def furnish() -> None:
    """The small files and links that programs expect."""
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        Path("/dev", name).symlink_to(f"/proc/self/fd{target}")
    Path("/etc/mtab").unlink(missing_ok=True)
    Path("/etc/mtab").symlink_to("/proc/self/mounts")
    Path("/etc/hostid").write_bytes(struct.pack("<I", HOST_ID))
    socket.sethostname(HOST_NAME)
    with Path("/etc/hosts").open("a") as hosts:
        hosts.write(f"\n127.0.1.1 {HOST_NAME}\n")


def preload(library: str) -> None:
    """Let every program load a library first."""
    PRELOADED.write_bytes(Path(library).read_bytes())
    PRELOADED.chmod(0o755)
    Path("/etc/ld.so.preload").write_text(f"{PRELOADED}\n")


def load_modules(paths: list[str]) -> None:
    """Load kernel modules without modprobe, which this machine may not have."""
    for path in paths:
        with Path(path).open("rb") as module:
            checked(LIBC.syscall(SYS_FINIT_MODULE, module.fileno(), b"", 0), f"load {path}")


def raise_loopback() -> None:
    """Bring the interface lo up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = fcntl.ioctl(any_socket, SIOCGIFFLAGS, struct.pack("16sH14s", b"lo", 0, b""))
        flags = struct.unpack("16sH14s", asked)[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", flags | IFF_UP, b""))


def line(number: int) -> int:
    """A serial line of the guest, transparent for every byte."""
    descriptor = os.open(f"/dev/ttyS{number}", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(descriptor)
    return descriptor


def pump(source: int, target: int) -> None:
    """Copy until the last writer has closed."""
    while data := os.read(source, 1 << 16):
        while data:
            data = data[os.write(target, data) :]
    termios.tcdrain(target)


def obey(control: int, child: int) -> None:
    """Pass signals on to the command; the host's end closed means that nobody waits for it any more."""
    waiting = b""
    while data := os.read(control, 256):
        *orders, waiting = (waiting + data).split(b"\n")
        for order in orders:
            if order.startswith(b"signal "):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, int(order.split()[1]))
    power_off()


def start(spec: dict[str, Any], files: list[tuple[int, int]]) -> int:
    """Start the command as leader of its own session; `files` are (ours, theirs) descriptors."""
    os.environ.clear()
    os.environ.update(spec["environment"])
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        for ours, theirs in files:
            os.dup2(ours, theirs)
        if spec["terminal"]:
            fcntl.ioctl(0, TIOCSCTTY, 0)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", *spec["terminal"], 0, 0))
        os.chdir(spec["directory"])
        os.execvp(spec["command"][0], spec["command"])
    except OSError as error:
        os.write(2, f"lab: {spec['command'][0]}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def reap(child: int) -> int:
    """Wait for the command, burying the orphans that become ours meanwhile; returns its exit status."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def power_off() -> None:
    """Write what is still in memory to shared directories and disks, and stop the machine."""
    os.sync()
    LIBC.reboot(POWER_OFF)


def piped() -> tuple[list[tuple[int, int]], list[threading.Thread], list[int]]:
    """Standard streams of a command as pipes: it must not believe that it writes to a terminal."""
    pumps, files, ends = [], [(os.open("/dev/null", os.O_RDONLY), 0)], []
    for theirs in (1, 2):
        read_end, write_end = os.pipe()
        pumps.append(threading.Thread(target=pump, args=(read_end, line(theirs - 1)), daemon=True))
        files.append((write_end, theirs))
        ends.append(write_end)
    return files, pumps, ends


def terminal() -> tuple[list[tuple[int, int]], list[threading.Thread], list[int]]:
    """Standard streams of an interactive shell: a real terminal."""
    descriptor = os.open("/dev/ttyS3", os.O_RDWR | os.O_NOCTTY)
    return [(descriptor, 0), (descriptor, 1), (descriptor, 2)], [], []


def run(spec: dict[str, Any]) -> None:
    """Run the command of `spec` and say how it ended."""
    control = line(2)
    os.write(control, b"ready\n")
    files, pumps, ends = terminal() if spec["terminal"] else piped()
    child = start(spec, files)
    for end in ends:
        os.close(end)
    for thread in (*pumps, threading.Thread(target=obey, args=(control, child), daemon=True)):
        thread.start()
    status = reap(child)
    # Whatever the command left running would keep its output open; a machine that stops ends it anyway.
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    for thread in pumps:
        thread.join(60)
    os.write(control, f"exit {status}\n".encode())
    termios.tcdrain(control)


def main() -> None:
    """Process 1."""
    mount("proc", Path("/proc"), "proc")
    spec = json.loads(Path(sys.argv[1]).read_text())
    make_root(spec)
    enter_root()
    furnish()
    preload(spec["preload"])
    load_modules(spec["modules"])
    raise_loopback()
    run(spec)
    power_off()


if __name__ == "__main__":
    main()
