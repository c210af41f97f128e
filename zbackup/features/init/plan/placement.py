"""Names and datasets of servers that were found, or why one cannot be protected as it lies. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from zbackup.features.init.setup import FoundServer
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused
from zbackup.plan.health.placement import needed_datasets

LONGEST = 40
_UNFIT = re.compile(r"[^a-z0-9_-]+")


def datasets(server: FoundServer, mountpoints: Mapping[str, str]) -> tuple[str, ...]:
    """The datasets that hold everything the server has. Raise Refused, saying what to do, when there are
    none.

    `mountpoints` says where each dataset is mounted.
    """
    if server.doubted:
        raise Refused(
            f"{server.where}: it says that its files are at {', '.join(server.doubted)}, which does not "
            f"belong to its user {server.process.user}, and it has nothing open there: give it "
            "to that user, or write the table by hand"
        )
    lost = [directory for directory, home in server.homes.items() if not home]
    if not server.homes:
        raise Refused(f"{server.where}: its files cannot be located")
    if lost:
        raise Refused(f"{server.where}: {', '.join(lost)} lies on no ZFS dataset: {_move(server, lost[0])}")
    wanted = needed_datasets(server.homes, ())
    if not wanted:
        where = "; ".join(f"{directory} on {home}" for directory, home in server.homes.items())
        raise Refused(
            f"{server.where}: its files are on several pools, and no snapshot is atomic across pools: {where}"
        )
    for name in wanted:
        if "/" not in name or mountpoints.get(name) == "/":
            what = "the pool's own" if "/" not in name else "the system's root"
            raise Refused(
                f"{server.where}: its files are on {name}, {what} dataset, and all below it would be "
                f"part of every backup: {_move(server, server.process.directories[0])}"
            )
    return tuple(wanted)


def proposals(server: FoundServer, wanted: Sequence[str], mountpoints: Mapping[str, str]) -> list[str]:
    """Propose what would be better for a server on these datasets, and is the operator's to do: nothing is
    moved by us."""
    found = []
    directories = list(server.homes)
    if server.engine != "mongodb" and len(set(server.homes.values())) == 1:
        found.append(_log_apart(wanted[0], mountpoints.get(wanted[0], "")))
    for name in wanted:
        mountpoint = mountpoints.get(name, "")
        if mountpoint and directories[0].count("/") - mountpoint.count("/") > 1:
            found.append(f"{name} holds more than this server ({mountpoint}): all of it is in every backup")
    return found


def _log_apart(data: str, mountpoint: str) -> str:
    """Beside the data and not in it: that directory is the server's user's, who could put a link there for
    what mounts by names at boot."""
    name = f"{data}/binlog"
    beside = ("-o", f"mountpoint={mountpoint}-binlog") if mountpoint.startswith("/") else ()
    create = command_line("zfs", "create", "-u", "-o", "recordsize=128K", *beside, name)
    return (
        "data and binary log are on one dataset: with the log on one of its own, with large records, "
        f"it compresses better: {create}, "
        f"{command_line('zbackup', 'mount', name)}, stop the server, and move "
        "the log there"
    )


def name_for(server: FoundServer, wanted: Sequence[str], taken: Collection[str]) -> str:
    """A name for the instance: after its dataset, else its engine, and one that is free."""
    last = wanted[0].rpartition("/")[2] if wanted else ""
    base = _fit(last) or server.engine
    return next(n for n in _numbered(base) if n not in taken)


def _fit(text: str) -> str:
    return _UNFIT.sub("-", text.lower()).strip("-_")[: LONGEST - 3]


def _numbered(base: str) -> Iterator[str]:
    yield base
    number = 2
    while True:
        yield f"{base}{number}"
        number += 1


def _move(server: FoundServer, directory: str) -> str:
    service = server.process.unit or "the server"
    record = "recordsize=32K" if server.engine == "mongodb" else "recordsize=16K"
    options = ("-o", record, "-o", "compression=lz4", "-o", "atime=off")
    create = command_line("zfs", "create", *options, f"POOL/{server.engine}")
    return (
        f"make a dataset ({create}), stop {service}, copy {command_line(directory)} there, "
        "and let the server start from it. zbackup moves nothing itself"
    )
