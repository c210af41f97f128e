"""Becomes a server, inside a mount namespace of its own: see proc.detached.

Run as `python -I -m zbackup.proc.enter_namespace` with its order on standard input, as JSON: what Confinement
has, argv, environment and note, which may be null.
"""

import contextlib
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from zbackup.proc.mount_namespace import NamespaceView, arrange, named_paths
from zbackup.proc.mounts import leave_mounts
from zbackup.proc.network_namespace import leave_network
from zbackup.proc.privileges import become_user, call_nobody, last_capability
from zbackup.proc.secure_files import write_new
from zbackup.proc.start import become

RESOLVER = "/etc/resolv.conf"
"""The file that names the DNS servers: most often a link into /run, which the server sees empty."""


def main(order: str) -> None:
    """Arrange mounts and network, give up root, become the server. Ends with a message if that fails."""
    wanted = json.loads(order)
    if wanted["note"]:
        # As detached.Process reads it. Neither number changes when the server takes our place.
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        write_new(Path(wanted["note"]), f"{os.getpid()} {started}\n", mode=0o644)
    _end_first()
    _choose_network(wanted)
    last = last_capability()
    leave_mounts()
    arrange(_view(wanted))
    # A shell's soft limit of 1,024 files is no server's: production's unit file had raised it.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.nice(wanted["limits"]["nice"])
    become_user(wanted["uid"], wanted["gid"], last)
    if wanted["network"] == "host" and not wanted["calls_out"]:
        call_nobody()
    os.umask(0o027)
    become(wanted["argv"], wanted["environment"])


def _end_first() -> None:
    """Be what Linux ends first where memory runs out, and not production's server, which is larger most often
    (proc(5), oom_score_adj). Nobody needs to be root for that.

    A server stays so to its end, that of a promoted clone, too: what becomes production (zbackup switch) is
    never this process, but one that production's own service starts.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _view(wanted: dict[str, Any]) -> NamespaceView:
    return NamespaceView(
        hide=tuple(wanted["hide"]),
        bind=tuple((directory, mountpoint) for directory, mountpoint in wanted["bind"]),
        own=tuple(wanted["own"]),
        cover=tuple(wanted["cover"]),
        named=named_paths(wanted["argv"]) + ((os.path.realpath(RESOLVER),) if wanted["calls_out"] else ()),
    )


def _choose_network(wanted: dict[str, Any]) -> None:
    if wanted["network"] == "own":
        leave_network()


def read_order() -> str:
    """What we are told. The server gets nothing to read there."""
    text = sys.stdin.buffer.read().decode()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return text


if __name__ == "__main__":
    try:
        main(read_order())
    except Exception as problem:  # noqa: BLE001  who reads the server's output is told in one line, whatever it is
        sys.exit(f"cannot start the server: {problem}")
