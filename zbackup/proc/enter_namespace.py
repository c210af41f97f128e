"""Becomes a server, inside a mount namespace of its own: see proc.detached.

Run as `python -I -m zbackup.proc.enter_namespace` with its order on standard input, as JSON: what Confinement
has, argv, environment and note, which may be null.
"""

import contextlib
import ctypes
import errno
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

from zbackup.proc.mount_namespace import NamespaceView, arrange, named_paths
from zbackup.proc.mounts import leave_mounts
from zbackup.proc.network_namespace import leave_network
from zbackup.proc.secure_files import write_new
from zbackup.proc.start import become

_C = ctypes.CDLL(None, use_errno=True)

_PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 24, 22, 38, 47
_AMBIENT_CLEAR_ALL = 4
_SECCOMP_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

# Of classic BPF (linux/bpf_common.h): load a word, compare, end. The words are of struct seccomp_data.
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000

_CONNECT = {"x86_64": (0xC000003E, 42), "aarch64": (0xC00000B7, 203)}
"""Architecture in the kernel's words (linux/audit.h), and the number of connect(2) there."""


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("jt", ctypes.c_ubyte),
        ("jf", ctypes.c_ubyte),
        ("k", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction)))


def last_capability() -> int:
    """The highest capability that this kernel knows (capabilities(7))."""
    return int(Path("/proc/sys/kernel/cap_last_cap").read_text())


def become_user(uid: int, gid: int, last: int) -> None:
    """Be this user from now on, root too with no capability, and with no way to get one. Raise OSError.

    `last` is last_capability(), as read where /proc is surely the kernel's.
    """
    for capability in range(last + 1):
        _control(_PR_CAPBSET_DROP, capability)
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    _control(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    _drop_capabilities()
    _control(_PR_SET_NO_NEW_PRIVS, 1)


def call_nobody() -> None:
    """Let every connect(2) fail from now on, for want of permission. Raise OSError.

    On processors that this does not know nothing is done: there the server's accounts alone keep it from it.
    """
    if os.uname().machine not in _CONNECT:
        return
    architecture, connect = _CONNECT[os.uname().machine]
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 0, 3, architecture),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_EQUAL, 0, 1, connect),
        (_RETURN, 0, 0, _FAIL | errno.EACCES),
        (_RETURN, 0, 0, _ALLOW),
    )
    instructions = (_Instruction * len(steps))(*(_Instruction(*step) for step in steps))
    program = _Program(len(steps), instructions)
    _control(_PR_SET_SECCOMP, _SECCOMP_FILTER, ctypes.addressof(program))


def _drop_capabilities() -> None:
    """capset(2): what root keeps when it becomes root."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    _require(_C.capset(header, (ctypes.c_uint32 * 6)()), "capset")


def _control(option: int, value: int, third: int = 0) -> None:
    done = _C.prctl(
        ctypes.c_int(option),
        ctypes.c_ulong(value),
        ctypes.c_ulong(third),
        ctypes.c_ulong(0),
        ctypes.c_ulong(0),
    )
    _require(done, f"prctl {option}")


def _require(done: int, what: str) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


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
