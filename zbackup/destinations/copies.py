"""The backups that target datasets hold, by what is written on them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from zbackup.model.backup import Backup
from zbackup.model.record import PREFIX, from_properties
from zbackup.model.retention import CONDEMNED
from zbackup.model.shipping import ReceivedSnapshot, copy_of
from zbackup.model.snapshot import Snapshot

INSTANCE = f"{PREFIX}instance"

MOST_INSTANCES = 1000
"""Instances at one address that are told apart; whoever may write there could add any number."""


@dataclass(frozen=True, slots=True)
class Copies:
    """The committed backups, oldest first, and (snapshot, problem) where a record cannot be understood.

    A backup's snapshots are the copies as they lie at the destination, in the order of its members. `remains`
    are what is left of backups whose removal was cut short. `unproven` is why nobody can tell here which of
    them are real, so that none may go for another; "" where that can be told.
    """

    backups: tuple[Backup, ...]
    unreadable: tuple[tuple[str, str], ...]
    remains: tuple[Backup, ...] = ()
    unproven: str = ""

    def to_restore(self) -> "Copies":
        """The same, with records as they are believed on the host that restores from them."""
        believed = (replace(b, record=b.record.from_elsewhere()) for b in self.backups)
        return replace(self, backups=tuple(believed))


@dataclass(frozen=True, slots=True)
class StreamStep:
    """One stream of the way back: the copy that it brings, and the one that it goes on from, if any."""

    copy: Snapshot
    base: Snapshot | None


def committed(snapshots: Sequence[Snapshot]) -> Copies:
    """Only what is committed: every part is there and says so. Of two that claim to be one backup, the older.

    That cannot be made by adding snapshots: it is the one that was there before.
    """
    newest_first = sorted(snapshots, key=lambda s: s.createtxg, reverse=True)
    there = {s.guid: (s, copy_of(s.name, s.guid, dict(s.properties))) for s in newest_first}
    found: dict[str, Backup] = {}
    remains, unreadable = [], []
    for snapshot, copy in sorted(there.values(), key=lambda pair: pair[0].createtxg):
        parts = _parts(copy, there)
        going = _condemned(snapshot)
        if not parts or copy.backup in found or not (going or len(parts) == len(copy.parts)):
            continue
        try:
            record = from_properties(dict(snapshot.properties))
        except ValueError as problem:
            unreadable.append((str(snapshot), str(problem)))
            continue
        if record is not None and len(record.members) == len(copy.parts):
            backup = Backup(record=record, snapshots=parts)
            if going:
                remains.append(backup)
            else:
                found[copy.backup] = backup
    return Copies(tuple(sorted(found.values(), key=lambda b: b.createtxg)), tuple(unreadable), tuple(remains))


def by_home(root: str, snapshots: Sequence[Snapshot]) -> dict[str, list[Snapshot]]:
    """The snapshots of backups by the dataset that they lie in: ROOT/.../INSTANCE."""
    homes: dict[str, list[Snapshot]] = {}
    for snapshot in snapshots:
        if instance := dict(snapshot.properties).get(INSTANCE):
            homes.setdefault(home_of(root, snapshot.dataset, instance), []).append(snapshot)
    return dict(sorted(homes.items()))


def home_of(root: str, dataset: str, instance: str) -> str:
    """Return the dataset that an instance's copies lie in, by one of them."""
    parts = dataset.removeprefix(f"{root}/").split("/")
    end = parts.index(instance) + 1 if instance in parts else len(parts)
    return "/".join((root, *parts[:end]))


def instance_without_home(root: str, copy: Snapshot) -> str:
    """Return the instance of a copy that does not lie in ROOT/INSTANCE, "" of one that does: `root` may
    itself be what that instance's copies lie in."""
    instance = dict(copy.properties).get(INSTANCE, "")
    return "" if copy.dataset.startswith(f"{root}/{instance}/") else instance


def by_server(backups: Sequence[Backup]) -> list[list[Backup]]:
    """The backups of each server that shares this address under one instance's name; order is kept.

    A target dataset is of one dataset, so backups with one in common are of one server, however its datasets
    are called since, and whichever were added. Where streams lie beside each other, two servers with datasets
    of the same name share target datasets: they are told apart by their identities, which take turns. One
    that only follows another is the same server, set up again.
    """
    found: list[tuple[set[str], list[Backup]]] = []
    for backup in backups:
        datasets = {s.dataset for s in backup.snapshots}
        joined = [each for each in found if each[0] & datasets]
        if len(joined) == 1 and found[-1] is joined[0]:
            joined[0][0].update(datasets)
            joined[0][1].append(backup)
            continue
        found = [each for each in found if each not in joined]
        members = [b for _, others in joined for b in others]
        found.append((datasets.union(*(each[0] for each in joined)), [*members, backup]))
    order = {b.record.backup: number for number, b in enumerate(backups)}
    sets = (sorted(members, key=lambda b: order[b.record.backup]) for _, members in found)
    return [server for members in sets for server in _taking_turns(members)]


def _taking_turns(backups: Sequence[Backup]) -> list[list[Backup]]:
    turns = [identity for identity, _ in groupby(b.record.server_uuid for b in backups)]
    if len(turns) == len(set(turns)):
        return [list(backups)]
    return [[b for b in backups if b.record.server_uuid == identity] for identity in dict.fromkeys(turns)]


def _condemned(snapshot: Snapshot) -> bool:
    return any(key == CONDEMNED for key, _ in snapshot.properties)


def _parts(
    copy: ReceivedSnapshot, there: dict[int, tuple[Snapshot, ReceivedSnapshot]]
) -> tuple[Snapshot, ...]:
    """The parts that are there of the backup that this is the first part of; () when it is not one."""
    if not (copy.marked and copy.backup and copy.parts[:1] == (copy.guid,)):
        return ()
    parts = [there.get(guid) for guid in copy.parts]
    return tuple(p[0] for p in parts if p and p[1].marked and p[1].backup == copy.backup)
