"""Find the database servers of this host, and how each can be reached. Looks only.

Whoever may run a program may run a server: one that an ordinary user runs is shown, and taken only when it
is named.
"""

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from zbackup.engines.base import Administrator
from zbackup.engines.mysql.server.greeting import greeting
from zbackup.model.errors import DatabaseError, Refused
from zbackup.model.setup import EngineName, Process, Server
from zbackup.proc.listening import listens, running, shares_network
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

HERE = ("127.0.0.1", "0.0.0.0", "::1", "::")
ORDINARY_UID = 1000
"""User ids from here on are people's (Debian policy 9.2.2)."""

AdministratorsOf = Callable[[Server], Sequence[Administrator]]
"""As whom a server is asked, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A process that runs a database server and is not offered, and why."""

    process: Process
    why: str


def discover(
    zfs: Zfs, run_dir: Path, administrators: AdministratorsOf
) -> tuple[tuple[Server, ...], tuple[Passed, ...]]:
    """The servers that can be reached, each with what its administrator sees of it, and those passed over.

    What zbackup itself started is neither.
    """
    servers, passed = [], []
    for process in running(PROGRAMS, FILES):
        if any(is_below(socket, str(run_dir)) for socket in process.sockets):
            continue
        if process.uid == 0:
            why = "it runs as root, and zbackup starts no server as root: give it a user of its own"
            passed.append(Passed(process=process, why=why))
        elif found := _reach(process):
            servers.append(seen(found, zfs, administrators(found)))
        else:
            why = (
                "it answers at no socket that is seen here: is it in a container? Then write its "
                "table by hand"
            )
            passed.append(Passed(process=process, why=why))
    return tuple(servers), tuple(passed)


def is_ordinary(server: Server) -> bool:
    """Tell whether somebody's own account runs it, and not the system's."""
    return server.process.uid >= ORDINARY_UID


def _reach(process: Process) -> Server | None:
    """Return how clients reach it: the socket of MySQL's protocol, or mongod's port, else its socket."""
    engine = PROGRAMS[Path(process.program).name]
    if engine == "mongodb":
        return _reach_mongod(process)
    for path in sorted(process.sockets):
        if listens(path, process.pid) and (version := greeting(path)):
            flavor: EngineName = "mariadb" if "mariadb" in version.lower() else "mysql"
            return Server(process=process, engine=flavor, version=version, socket=path)
    return None


def _reach_mongod(process: Process) -> Server | None:
    """By its port where it has one: the daemon's unit has a /tmp of its own, where mongod's socket is not."""
    if shares_network(process.pid):
        for host, port in process.ports:
            if host in HERE:
                reached = "::1" if ":" in host else "127.0.0.1"
                return Server(process=process, engine="mongodb", version="", host=reached, port=port)
    for path in process.sockets:
        if listens(path, process.pid):
            return Server(process=process, engine="mongodb", version="", socket=path)
    return None


def seen(server: Server, zfs: Zfs, administrators: Sequence[Administrator]) -> Server:
    """With what the first is told whom it lets in; where it lets nobody in, what the kernel shows has to
    do."""
    directories = list(server.process.directories)
    problem = ""
    for administrator in administrators:
        try:
            version, places, is_open = administrator.look()
        except (DatabaseError, Refused) as failure:
            problem = str(failure)
            continue
        homes = zfs.homes(list(dict.fromkeys([*_existing(places), *directories])))
        login: Literal["open", "admin"] = "open" if is_open else "admin"
        return replace(server, version=version, homes=homes, login=login, problem="")
    return replace(server, problem=problem, homes=zfs.homes(directories))


def first_admitted(administrators: Sequence[Administrator]) -> Administrator:
    """The first whom the server lets in, else the last."""
    for administrator in administrators[:-1]:
        with contextlib.suppress(DatabaseError, Refused):
            administrator.look()
            return administrator
    return administrators[-1]


def _existing(places: tuple[str, ...]) -> list[str]:
    """Of the places that a server names, those that are there: it may name a log that it has not begun."""
    found = []
    for place in places:
        with contextlib.suppress(OSError):
            if Path(place).exists():
                found.append(place)
    return found
