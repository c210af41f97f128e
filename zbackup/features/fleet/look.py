"""Look at every instance that ships to an address, by what lies there alone: no host is asked.

Of a dataset on this host the names of all snapshots are listed, and only the newest backups of each instance
are read. At other addresses each instance is looked at by itself.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from zbackup.destinations.base import Destination
from zbackup.destinations.copies import INSTANCE, Copies, committed, home_of
from zbackup.jobs.ship.archived import archived_log
from zbackup.model.archive import ArchivedFile, server_key
from zbackup.model.archive_order import LOG
from zbackup.model.backup import Backup
from zbackup.model.drill import DrillVerdict, last_passed
from zbackup.model.errors import Refused, VerificationFailed, ZbackupError
from zbackup.model.fleet import FleetMember
from zbackup.model.printable import printable
from zbackup.model.record import PREFIX
from zbackup.model.shipping import COMMITTED
from zbackup.model.snapshot import Snapshot
from zbackup.proc.log_store import LogStore
from zbackup.zfs.datasets import Zfs

BACKUP = f"{PREFIX}backup"
MOST_MEMBERS = 10_000
MOST_TRIED = 2
"""Backups of an instance that are read, from the newest on: the newest may be one that cannot be."""
AT_ONCE = 500
"""Snapshots that are asked for by name in one command."""

Opened = Callable[[str, str], Destination]
"""The destination of a path below the address ("" for itself) and an instance."""


@dataclass(slots=True)
class _Home:
    """The snapshots of an instance's backups by backup, each with its createtxg."""

    instance: str
    backups: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    committed: set[str] = field(default_factory=set)

    def tried(self) -> Iterator[str]:
        """Names of the snapshots of the newest backups."""
        newest = sorted(self.committed, key=lambda b: max(t for _, t in self.backups[b]), reverse=True)
        for backup in newest[:MOST_TRIED]:
            yield from (name for name, _ in self.backups[backup])


def of_dataset(
    zfs: Zfs, root: str, drills: Mapping[str, Sequence[DrillVerdict]] | None = None
) -> tuple[list[FleetMember], int]:
    """The instances below a dataset of this host, and how many more there are than are looked at.

    `drills` are verdicts of this host's own drills by the dataset of the instance. Raise DatasetNotFound.
    """
    homes = _homes(zfs, root)
    chosen = dict(sorted(homes.items())[:MOST_MEMBERS])
    names = [name for home in chosen.values() for name in home.tried()]
    there: dict[str, list[Snapshot]] = {}
    disputed: set[str] = set()
    for start in range(0, len(names), AT_ONCE):
        found_here, doubtful = zfs.snapshots_of_many(names[start : start + AT_ONCE])
        disputed |= doubtful
        for snapshot in found_here:
            instance = dict(snapshot.properties).get(INSTANCE, "")
            there.setdefault(home_of(root, snapshot.dataset, instance), []).append(snapshot)
    logs = _log_directories(zfs, root, chosen)
    members = [
        _member(
            root,
            home.removeprefix(root).strip("/").rpartition("/")[0],
            (found.instance, len(found.committed)),
            _committed(there.get(home, ()), disputed.intersection(found.tried())),
            _LocalLog(logs.get(home)),
            (drills or {}).get(home, ()),
        )
        for home, found in chosen.items()
    ]
    return members, len(homes) - len(chosen)


def of_address(address: Destination, opened: Opened) -> list[FleetMember]:
    """The same at another address. What fails of one instance does not keep the others from being seen.

    Raise what it raises when nobody can look there at all.
    """
    return [_member_at(opened(path, name), address.address, path, name) for path, name in address.instances()]


def _committed(snapshots: Sequence[Snapshot], disputed: Collection[str]) -> Copies:
    found = committed(snapshots)
    problems = ((name, "two values of one property are told: somebody forges it") for name in disputed)
    return replace(found, unreadable=(*found.unreadable, *problems))


def _homes(zfs: Zfs, root: str) -> dict[str, _Home]:
    homes: dict[str, _Home] = {}
    for full, createtxg, (instance, backup, when) in zfs.snapshots_with(root, INSTANCE, BACKUP, COMMITTED):
        if not instance or not backup:
            continue
        home = homes.setdefault(home_of(root, full.partition("@")[0], instance), _Home(instance))
        home.backups.setdefault(backup, []).append((full, createtxg))
        if when:
            home.committed.add(backup)
    return homes


def _log_directories(zfs: Zfs, root: str, homes: Mapping[str, object]) -> dict[str, Path]:
    """Map each instance's dataset to where its log archive is mounted."""
    found = {}
    for name, mountpoint in zfs.mounted_below(root).items():
        home, _, last = name.rpartition("/")
        if last == LOG and home in homes:
            found[home] = Path(mountpoint)
    return found


@dataclass(frozen=True, slots=True)
class _LocalLog:
    """The log archive in a directory, if there is one."""

    directory: Path | None

    def newest(self, server: str) -> ArchivedFile | None:
        return LogStore(self.directory).newest(server) if self.directory else None


@dataclass(frozen=True, slots=True)
class _ListedLog:
    """The log archive as a destination listed it; `unknown` is why that could not be had, "" if it was."""

    files: Sequence[ArchivedFile]
    unknown: str = ""

    def newest(self, server: str) -> ArchivedFile | None:
        if self.unknown:
            raise VerificationFailed(self.unknown)
        return max((f for f in self.files if f.file.server == server), key=lambda f: f.file, default=None)


def _member_at(destination: Destination, address: str, path: str, name: str) -> FleetMember:
    try:
        with destination.connect() as session:
            copies = session.copies().to_restore()
            archive, unknown = archived_log(session)
    except ZbackupError as problem:
        return FleetMember(
            address=address, path=printable(path), instance=printable(name), problems=(_line(problem),)
        )
    return _member(address, path, (name, len(copies.backups)), copies, _ListedLog(archive.files, unknown), ())


def _member(
    address: str,
    path: str,
    called: tuple[str, int],
    copies: Copies,
    log: _LocalLog | _ListedLog,
    drills: Sequence[DrillVerdict],
) -> FleetMember:
    problems = [f"{snapshot}: {why}" for snapshot, why in copies.unreadable[:MOST_TRIED]]
    problems += [copies.unproven] if copies.unproven else []
    newest = copies.backups[-1] if copies.backups else None
    archived, problem = _archived(newest, log)
    passed = last_passed(drills)
    last = drills[-1] if drills else None
    return FleetMember(
        address=address,
        # What others wrote may be no text at all, and then nobody could be told of anybody.
        path=printable(path),
        instance=printable(called[0]),
        backups=called[1],
        engine=newest.record.engine if newest else "",
        newest=newest.name if newest else "",
        taken=newest.record.taken if newest else None,
        as_of=newest.record.as_of if newest else None,
        archived=archived,
        drilled=passed.at if passed else None,
        drill_failed=last.why if last else "",
        problems=tuple(map(printable, (*problems, *problem))),
    )


def _archived(newest: Backup | None, log: _LocalLog | _ListedLog) -> tuple[datetime | None, tuple[str, ...]]:
    if newest is None:
        return None, ()
    try:
        found = log.newest(server_key(newest.record.server_uuid))
    except PermissionError:
        who = f"user id {os.geteuid()}"
        return None, (f"its archived log counts for nothing, for {who} may not read it: ask as its owner",)
    except (OSError, ValueError, Refused, VerificationFailed) as problem:
        return None, (f"its archived log cannot be read: {_line(problem)}",)
    return (found.last.read if found else None), ()


def _line(problem: Exception) -> str:
    return printable(" ".join(str(problem).split())[:500])
