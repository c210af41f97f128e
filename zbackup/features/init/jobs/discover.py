"""Find the database servers of this host, and how each can be reached. Looks only.

Whoever may run a program may run a server: one that an ordinary user runs is shown, and taken only when it
is named. Until then nobody connects to it: it could keep us waiting, or hear what it must not.
"""

import contextlib
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from zbackup.engines.mysql.server.greeting import greeting
from zbackup.features.init.jobs.administrators import Administrator
from zbackup.features.init.setup import EngineName, FoundServer
from zbackup.model.errors import DatabaseError, Refused
from zbackup.proc.listening import ORDINARY_UID, FoundProcess, listens, running, shares_network
from zbackup.proc.mounts import is_below
from zbackup.zfs.datasets import Zfs

PROGRAMS: Mapping[str, EngineName] = {
    "mysqld": "mysql",
    "mysqld-debug": "mysql",
    "mariadbd": "mariadb",
    "mongod": "mongodb",
}

FILES = re.compile(
    r"(ibdata\d+|mongod\.lock|WiredTiger\.lock)|ib_logfile\d+|#ib_redo\d+(?:_tmp)?|undo_?\d+|undo_\d+\.ibu|"
    r"\S+\.ibd|aria_log\S*|\S+\.\d{6}|\S+\.index|WiredTiger(?:Log)?\.\S+|\S+\.wt"
)
"""Names of database files, the one that lies in the data directory in the first group."""

MOST_SOCKETS = 8
"""Sockets of one server that are tried: each may keep us waiting."""

HERE = ("127.0.0.1", "0.0.0.0", "::1", "::")
AdministratorsOf = Callable[[FoundServer], Sequence[Administrator]]
"""Administrators as whom a server is asked, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A process that runs a database server and is not offered, and why; None: as many as `why` says."""

    process: FoundProcess | None
    why: str


def discover(
    zfs: Zfs, run_dir: Path, named: Collection[str], administrators: AdministratorsOf
) -> tuple[tuple[FoundServer, ...], tuple[Passed, ...]]:
    """The servers that can be reached, each with what its administrator sees of it, and those passed over;
    `named` are the addresses that the operator names.

    What zbackup itself started is neither.
    """
    servers, passed = [], []
    processes, cut = running(PROGRAMS, FILES)
    if cut:
        why = f"{cut} more processes that run a database server: too many of one user, or of all, to look at"
        passed.append(Passed(process=None, why=why))
    for process in map(_with_our_ports, processes):
        if any(is_below(socket, str(run_dir)) for socket in process.sockets):
            continue
        if process.uid >= ORDINARY_UID and (stranger := _stranger(process, named)):
            servers.append(stranger)
        elif process.uid == 0:
            why = "it runs as root, and zbackup starts no server as root: give it a user of its own"
            passed.append(Passed(process=process, why=why))
        elif found := _reach(_asked_for(process, named)):
            servers.append(seen(found, zfs, administrators(found)))
        else:
            why = (
                "it answers at no socket that is seen here: is it in a container? Then write its "
                "table by hand"
            )
            passed.append(Passed(process=process, why=why))
    return tuple(servers), tuple(passed)


def is_ordinary(server: FoundServer) -> bool:
    """Whether somebody's own account runs it, and not the system's."""
    return server.process.uid >= ORDINARY_UID


def _stranger(process: FoundProcess, named: Collection[str]) -> FoundServer | None:
    """An ordinary user's server as the kernel shows it alone, at the address by which it would be reached;
    None when it is named, or listens nowhere here."""
    asked = _asked_for(process, named)
    if asked.sockets or asked.ports:
        return None
    engine = PROGRAMS[Path(process.program).name]
    if engine == "mongodb" and (found := _at_port(process)):
        return found
    if process.sockets:
        return FoundServer(process=process, engine=engine, version="", socket=min(process.sockets))
    return None


def _with_our_ports(process: FoundProcess) -> FoundProcess:
    """Without ports in another network, such as a container's: who listens at that port here is another."""
    return process if shares_network(process.pid) else replace(process, ports=())


def _asked_for(process: FoundProcess, named: Collection[str]) -> FoundProcess:
    """Leave of an ordinary user's addresses those that are named; the system's stay."""
    if process.uid < ORDINARY_UID:
        return process
    ports = tuple((host, port) for host, port in process.ports if f"{_here(host)}:{port}" in named)
    return replace(process, sockets=tuple(path for path in process.sockets if path in named), ports=ports)


def _here(host: str) -> str:
    return "::1" if ":" in host else "127.0.0.1"


def _reach(process: FoundProcess) -> FoundServer | None:
    """Return how clients reach it: the socket of MySQL's protocol, or mongod's port, else its socket."""
    engine = PROGRAMS[Path(process.program).name]
    if engine == "mongodb":
        return _reach_mongod(process)
    for path in sorted(process.sockets)[:MOST_SOCKETS]:
        if listens(path, process.pid) and (version := greeting(path)):
            flavor: EngineName = "mariadb" if "mariadb" in version.lower() else "mysql"
            return FoundServer(process=process, engine=flavor, version=version, socket=path)
    return None


def _reach_mongod(process: FoundProcess) -> FoundServer | None:
    """Reach it by its port where it has one: the unit has a /tmp of its own, without mongod's socket."""
    if found := _at_port(process):
        return found
    for path in process.sockets[:MOST_SOCKETS]:
        if listens(path, process.pid):
            return FoundServer(process=process, engine="mongodb", version="", socket=path)
    return None


def _at_port(process: FoundProcess) -> FoundServer | None:
    """A mongod that can be reached from this host alone, or from everywhere."""
    for host, port in process.ports:
        if host in HERE:
            return FoundServer(process=process, engine="mongodb", version="", host=_here(host), port=port)
    return None


def seen(server: FoundServer, zfs: Zfs, administrators: Sequence[Administrator]) -> FoundServer:
    """With what the first is told whom it lets in; where it lets nobody in, what the kernel shows has to
    do."""
    directories = list(server.process.directories)
    problem = ""
    for administrator in administrators:
        try:
            version, paths, is_open = administrator.inspect()
        except (DatabaseError, Refused) as failure:
            problem = str(failure)
            continue
        own, doubted = _own(paths, server.process)
        homes = zfs.homes(list(dict.fromkeys([*own, *directories])))
        login: Literal["open", "admin"] = "open" if is_open else "admin"
        return replace(server, version=version, homes=homes, login=login, problem="", doubted=doubted)
    return replace(server, problem=problem, homes=zfs.homes(directories))


def first_admitted(administrators: Sequence[Administrator]) -> Administrator:
    """The first whom the server lets in, else the last."""
    for administrator in administrators[:-1]:
        with contextlib.suppress(DatabaseError, Refused):
            administrator.inspect()
            return administrator
    return administrators[-1]


def _own(paths: Sequence[str], process: FoundProcess) -> tuple[list[str], tuple[str, ...]]:
    """Tell paths that belong to the server's user, or have files that it has open, from those that it only
    names: root would let the daemon prune what lies there. What is not there is neither: a server may name a
    log that it has not begun, and anything at all."""
    own: list[str] = []
    doubted: list[str] = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            real = os.path.realpath(path, strict=True)
            has_open = any(is_below(each, real) for each in process.directories)
            (own if has_open or Path(real).stat().st_uid == process.uid else doubted).append(path)
    return own, tuple(doubted)
