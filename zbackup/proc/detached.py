"""Servers that outlive the command that started them, and processes told apart for certain.

A number in a pid file may belong to another process by now. Together with the time the process started, in
clock ticks since the boot (proc(5), field 22 of stat), it is an identity.
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from zbackup.model.errors import CommandFailed
from zbackup.model.event_log import log
from zbackup.model.recovery import NO_LIMITS, Limits
from zbackup.proc import secure_files
from zbackup.proc.start import for_our_own, for_server, own_module, start

POLL_S = 0.05
TAIL = 16_384
SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
MFD_NOEXEC_SEAL = 0x0008  # memfd_create(2); Python has no name for it
SYSTEMD = Path("/run/systemd/system")


Network = Literal["own", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The confinement of a server: what it gets to see, and who it is, by a mount namespace of its own
    (unshare(2)).

    `hide` are mountpoints taken out of its sight first; then each (directory, mountpoint) of `bind` shows
    the directory at the mountpoint. So a server on a clone finds the clone's files under the very paths
    of the original, and can not open the original's by any absolute path written in its data.
    These and its `own` directories it may write to; what else it sees of the host is read-only, and of
    `cover` it sees empty directories. proc.mount_namespace tells more.

    `network` "own" is a network in which there is nobody else (see listen_beside). In the host's network it
    cannot call anybody but for one that `calls_out`.
    """

    hide: tuple[str, ...]
    bind: tuple[tuple[str, str], ...]
    uid: int
    gid: int
    own: tuple[str, ...] = ()
    cover: tuple[str, ...] = ()
    network: Network = "own"
    calls_out: bool = False
    limits: Limits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class Process:
    """One process, certainly this one. `str()` and `parse` are for a file."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The living process with this number; None when there is none or it only waits to be reaped."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, *fields = stat.rpartition(")")[2].split()
        return None if state in "ZX" and not _has_threads(pid) else cls(pid, int(fields[18]))

    @classmethod
    def parse(cls, text: str) -> "Process":
        """Raise ValueError unless `text` is what str() wrote."""
        pid, started = text.split()
        return cls(int(pid), int(started))

    def __str__(self) -> str:
        return f"{self.pid} {self.started}"

    @property
    def alive(self) -> bool:
        return Process.of(self.pid) == self

    def wait(self, timeout: float) -> bool:
        """Whether it ended within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.alive:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this process and to no other; nothing happens if it is gone."""
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(self.pid)
            try:
                if self.alive:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)

    def stop(self, timeout: float) -> bool:
        """SIGTERM, and after `timeout` seconds SIGKILL. Whether SIGTERM was enough."""
        self.send(signal.SIGTERM)
        if self.wait(timeout):
            return True
        self.kill(timeout)
        return False

    def kill(self, timeout: float) -> None:
        """SIGKILL, and wait up to `timeout` seconds until it is gone."""
        self.send(signal.SIGKILL)
        self.wait(timeout)


def _has_threads(pid: int) -> bool:
    """Whether a process whose first thread has ended has others: they keep its files and its mounts."""
    try:
        return len(os.listdir(f"/proc/{pid}/task")) > 1  # noqa: PTH208  numbers, not paths
    except OSError:
        return False


def launch(
    argv: Sequence[str],
    confinement: Confinement,
    output: Path,
    *,
    note: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Process:
    """Start a server in a session of its own, with nothing of ours but `output`, appended to.

    Its environment is for_server() by default.

    It writes its Process to `note` itself, before anything else: should we be killed right after its start,
    whoever comes next must find it, for it keeps the clone's datasets busy. Raise CommandFailed when it can
    not even be started; a server that ends later says why in `output`.
    """
    order = json.dumps(
        {
            "argv": list(argv),
            "environment": dict(for_server() if environment is None else environment),
            "note": str(note) if note else None,
            **asdict(confinement),
        }
    )
    limited = _scope(confinement.limits, output.parent.name)
    enter = (*limited, *own_module("zbackup.proc.enter_namespace"))
    log.info("server.launched", argv=tuple(argv))
    with secure_files.open_to_append(output) as sink, _sealed(order) as sheet:
        started = start(enter, for_our_own(), stdin=sheet, stdout=sink, stderr=sink, session=True)
    process = Process.of(started.pid)
    if process is None:
        raise CommandFailed(enter, started.wait(), last_lines(output))
    return process


@contextmanager
def _sealed(order: str) -> Iterator[int]:
    """A file in memory that holds this and never changes any more.

    A word of a command line ends at 128 KiB (MAX_ARG_STRLEN), which the mountpoints of some 900 clones have.
    """
    sheet = _in_memory("zbackup-order")
    try:
        with os.fdopen(os.dup(sheet), "wb") as file:
            file.write(order.encode())
        os.lseek(sheet, 0, os.SEEK_SET)
        fcntl.fcntl(sheet, fcntl.F_ADD_SEALS, SEALS)
        yield sheet
    finally:
        os.close(sheet)


def _in_memory(name: str) -> int:
    """Not to be run: a hardened kernel (vm.memfd_noexec=2) makes no other; before 6.3 there was none."""
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(name, flags | MFD_NOEXEC_SEAL)
    except OSError as failure:
        if failure.errno != errno.EINVAL:
            raise
    return os.memfd_create(name, flags)


def limits_apply() -> bool:
    """Whether systemd runs here, which alone can limit memory and CPU (sd_booted(3))."""
    return SYSTEMD.is_dir()


def _scope(limits: Limits, name: str) -> tuple[str, ...]:
    """What puts a program into a scope of systemd's with these limits; it stays the same process.

    Its name is new each time: the scope of the server before it may not be gone yet.
    """
    properties = [f"MemoryMax={limits.memory}"] if limits.memory else []
    properties += [f"CPUQuota={limits.cpu}%"] if limits.cpu else []
    if not properties or not limits_apply():
        return ()
    unit = f"zbackup-server-{secrets.token_hex(4)}.scope"
    said = (f"--unit={unit}", f"--description={name}", *(f"--property={value}" for value in properties))
    return ("systemd-run", "--scope", "--quiet", "--collect", *said, "--")


def last_lines(output: Path, count: int = 10, *, without: str = "") -> str:
    """The end of a server's output, for a message; lines that hold `without` are left out."""
    lines = secure_files.read_end(output, TAIL).decode(errors="replace").splitlines()
    told = [line for line in lines if not without or without not in line]
    return "\n".join(told[-count:])
