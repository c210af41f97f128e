"""A backup: one record, and the snapshots of all the datasets that belong to it."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused
from zbackup.model.log import ClusterTime
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation
from zbackup.model.retention import CONDEMNED
from zbackup.model.snapshot import Dataset, Snapshot


class BackupFiles(NamedTuple):
    """A backup's record, and where its files are now, or where the server's own are that go on from them."""

    record: Record
    where: Relocation


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """`snapshots` are in the order of the record's members, of those that are (still) there.

    `createtxg` is when it was there as a whole: snapshots of one backup are of one moment here, and arrive
    one by one at a destination.
    """

    record: Record
    snapshots: tuple[Snapshot, ...]
    createtxg: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Plans compare it again and again.
        object.__setattr__(self, "createtxg", max((s.createtxg for s in self.snapshots), default=0))
        if self.snapshots and self.record.name != self.name:
            object.__setattr__(self, "record", replace(self.record, name=self.name))

    @property
    def name(self) -> str:
        """The snapshots' common name, for people; identity is record.backup."""
        return self.snapshots[0].name

    @property
    def complete(self) -> bool:
        """Every dataset's snapshot is there. A backup with one missing restores nothing."""
        return len(self.snapshots) == len(self.record.members)

    @property
    def lost_parts(self) -> tuple[str, ...]:
        """The datasets whose snapshot of this backup is gone, though no prune took it: each was rolled back,
        or the snapshot was destroyed by hand."""
        if self.complete or any(key == CONDEMNED for s in self.snapshots for key, _ in s.properties):
            return ()
        there = {s.dataset for s in self.snapshots}
        return tuple(dataset for dataset, _ in self.record.members if dataset not in there)

    @property
    def log_break(self) -> str:
        """Why no log leads across the backup, as a clause for people; "" if one does."""
        if lost := self.lost_parts:
            return (
                f"{self.name} has lost its snapshot of {', '.join(map(command_line, lost))}: the dataset was "
                "rolled back, or the snapshot was destroyed by hand"
            )
        return f"when {self.name} was taken, {self.record.log_lacks}" if self.record.log_lacks else ""

    @property
    def finished(self) -> bool:
        """The last step of taking it was done: how far its data reaches is known."""
        return self.record.as_of is not None and self.record.complete_to is not None

    def reaches(self, moment: datetime) -> bool:
        """Whether everything committed before `moment` is certainly inside."""
        return self.record.complete_to is not None and self.record.complete_to >= moment

    def ends_before(self, time: ClusterTime) -> bool:
        """Whether nothing from this cluster time on is inside, by what was seen when the backup was
        there."""
        try:
            return ClusterTime.parse(self.record.server.get("oplog_after", "").partition("@")[0]) < time
        except ValueError:
            return False

    def browse(self, datasets: tuple[Dataset, ...]) -> Relocation:
        """The backup's files, read-only, below the mounted datasets' .zfs directories.

        Raise Refused when a dataset is not mounted, or its snapshots are not to be seen below it.
        """
        mounted = {d.name: d.mountpoint for d in datasets}
        closed = {d.name: d.closed for d in datasets}
        moves = []
        for (_, original), snapshot in zip(self.record.members, self.snapshots, strict=True):
            now = mounted.get(snapshot.dataset)
            if now is None:
                raise Refused(
                    f"{snapshot.dataset} is not mounted, so its snapshots cannot be read: "
                    f"{command_line('zbackup', 'mount', snapshot.dataset)}"
                    f", after zfs load-key if it is encrypted"
                )
            if problem := closed[snapshot.dataset]:
                raise Refused(problem)
            moves.append((original, str(Path(now) / ".zfs" / "snapshot" / snapshot.name)))
        return Relocation(tuple(moves))

    def files(self, datasets: tuple[Dataset, ...]) -> BackupFiles:
        """The record and what browse() finds."""
        return BackupFiles(self.record, self.browse(datasets))


@dataclass(frozen=True, slots=True)
class FinishedBackup:
    """A complete backup of which it is known how far its data reaches: see Record for both times."""

    backup: Backup
    as_of: datetime
    complete_to: datetime


def finished(backups: Iterable[Backup]) -> list[FinishedBackup]:
    """Return those that are complete and finished, in their order."""
    return [
        FinishedBackup(b, b.record.as_of, b.record.complete_to)
        for b in backups
        if b.complete and b.record.as_of is not None and b.record.complete_to is not None
    ]
