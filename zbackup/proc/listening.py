"""Find running servers and where they listen, by what the kernel says of them and not by what they say.

A process may call itself anything, and its arguments and environment are its own to write. What it runs
(/proc/PID/exe), has open (/proc/PID/fd) and listens at (/proc/PID/net/unix, tcp) is the kernel's (proc(5)).
Whoever answers at a socket is asked of the kernel as well (SO_PEERCRED, unix(7)). Looks only.
"""

import contextlib
import pwd
import re
import socket
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
MOST = 64
"""Servers of one host: more are no database host, but somebody's attempt at filling our memory."""
MOST_OF_A_USER = 16
"""Servers of one user id, so that nobody's hide another's."""
ORDINARY_UID = 1000
"""User ids from here on are people's (Debian policy 9.2.2)."""
MOST_OPEN = 100_000
ANSWER_S = 5.0

_SOCKET = re.compile(r"socket:\[(\d+)\]")
_LISTENS = "00010000"  # __SO_ACCEPTCON, in /proc/net/unix
_LISTENING_TCP = "0A"
_MAPPED = re.compile(r"^\S+ r-xp \S+ \S+ \d+\s+(/\S.*)$", re.M)
_UNIT = re.compile(r"/system\.slice/(?:[^/]+/)*([A-Za-z0-9_.@:-]+\.service)$", re.M)
_PEER = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProcess:
    """A running server as the kernel shows it; nothing of it is what the process says of itself.

    `program` is the file that runs, `sockets` the paths that it listens at, `ports` the (host, port) pairs,
    `directories` those in which it has database files open, the data directory first, `unit` the systemd
    unit of the machine that it belongs to ("" for none).
    """

    pid: int
    uid: int
    gid: int
    user: str
    program: str
    sockets: tuple[str, ...] = ()
    ports: tuple[tuple[str, int], ...] = ()
    directories: tuple[str, ...] = ()
    unit: str = ""


def running(
    names: Collection[str], files: "re.Pattern[str]", proc: Path = PROC
) -> tuple[list[FoundProcess], int]:
    """The processes that run a program of one of these names, the system's before people's, lowest number
    first; and how many more there are, which are not looked at.

    `files` says which names of open files are database files; the directory of a first group's match, such
    as the system tablespace, comes first.
    """
    named: list[tuple[bool, int, int, str]] = []
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()):
        with contextlib.suppress(OSError, ValueError):
            of = proc / str(pid)
            if program := _program(of, names):
                uid = of.stat().st_uid
                named.append((uid >= ORDINARY_UID, pid, uid, program))
    found: list[FoundProcess] = []
    cut, each = 0, Counter[int]()
    for _, pid, uid, program in sorted(named):
        each[uid] += 1
        if each[uid] > MOST_OF_A_USER or len(found) >= MOST:
            cut += 1
            continue
        with contextlib.suppress(OSError, ValueError):
            found.append(_process(proc / str(pid), pid, program, files))
    return found, cut


def listens(path: str, pid: int) -> bool:
    """Whether it is this process that answers at a socket of this mount namespace."""
    with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ANSWER_S)
        probe.connect(path)
        return peer(probe)[0] == pid
    return False


def peer(connected: socket.socket) -> tuple[int, int]:
    """Process and user id of who listens at the other end of a connected socket (SO_PEERCRED, unix(7))."""
    pid, uid, _ = _PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(pid), int(uid)


def shares_network(pid: int, proc: Path = PROC) -> bool:
    """Whether a process has the network that we have, so that its ports are the ones we reach."""
    with contextlib.suppress(OSError):
        return (proc / str(pid) / "ns/net").readlink() == (proc / "self/ns/net").readlink()
    return False


def _program(of: Path, names: Collection[str]) -> str:
    """The path of what a process runs, "" if that is none of these; some are run by their dynamic loader."""
    path = str((of / "exe").readlink()).removesuffix(" (deleted)")
    if Path(path).name in names:
        return path
    if not Path(path).name.startswith("ld-"):
        return ""
    mapped = _MAPPED.findall((of / "maps").read_text(errors="surrogateescape"))
    return next((each for each in mapped if Path(each).name in names), "")


def _process(of: Path, pid: int, program: str, files: "re.Pattern[str]") -> FoundProcess:
    facts = of.stat()
    inodes, opened = _opened(of)
    return FoundProcess(
        pid=pid,
        uid=facts.st_uid,
        gid=facts.st_gid,
        user=_user_name(facts.st_uid),
        program=program,
        sockets=tuple(dict.fromkeys(_sockets(of, inodes))),
        ports=tuple(dict.fromkeys(_ports(of, inodes))),
        directories=_directories(opened, files),
        unit=_unit(of),
    )


def _opened(of: Path) -> tuple[set[str], list[str]]:
    """Inodes of its sockets, and the paths of its other files."""
    inodes, paths = set(), []
    for number, entry in enumerate((of / "fd").iterdir()):
        if number >= MOST_OPEN:
            break
        with contextlib.suppress(OSError):
            link = str(entry.readlink())
            if found := _SOCKET.fullmatch(link):
                inodes.add(found[1])
            elif link.startswith("/"):
                paths.append(link.removesuffix(" (deleted)"))
    return inodes, paths


def _sockets(of: Path, inodes: Collection[str]) -> Iterator[str]:
    """Num RefCount Protocol Flags Type St Inode Path."""
    cwd = (of / "cwd").readlink()
    for line in (of / "net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
        fields = line.split(None, 7)  # a path may hold spaces
        if len(fields) == 8 and fields[3] == _LISTENS and fields[6] in inodes and fields[7][:1] != "@":
            yield str(cwd / fields[7])


def _ports(of: Path, inodes: Collection[str]) -> Iterator[tuple[str, int]]:
    for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with contextlib.suppress(OSError):
            for line in (of / "net" / name).read_text().splitlines()[1:]:
                fields = line.split()
                if len(fields) > 9 and fields[3] == _LISTENING_TCP and fields[9] in inodes:
                    address, _, port = fields[1].partition(":")
                    yield _address(address, family), int(port, 16)


def _address(text: str, family: int) -> str:
    """An address in the kernel's hexadecimal, of words in this machine's order."""
    words = struct.pack(f"={len(text) // 8}I", *(int(text[i : i + 8], 16) for i in range(0, len(text), 8)))
    return socket.inet_ntop(family, words)


def _directories(paths: Sequence[str], files: "re.Pattern[str]") -> tuple[str, ...]:
    """Return where it has database files open; the directory of its main file first."""
    first: list[str] = []
    more: list[str] = []
    for path in paths:
        if found := files.fullmatch(Path(path).name):
            (first if found[1] else more).append(str(Path(path).parent))
    return tuple(dict.fromkeys([*first, *sorted(more)]))


def _unit(of: Path) -> str:
    with contextlib.suppress(OSError):
        if found := _UNIT.search((of / "cgroup").read_text()):
            return found[1]
    return ""


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
