"""List the findings about a mongod's oplog and of the records its files have, before it hurts. Pure.

MongoDB manual, "Replica Set Oplog" (its window must last longer than any expected downtime) and
"replSetResizeOplog". WiredTiger writes blocks of 4 KiB and more, most of them about 32 KiB before they are
compressed: records of 16 to 64 KiB suit them.
"""

import math
from collections.abc import Iterator, Sequence

from zbackup.model.command_line import command_line
from zbackup.model.finding import Finding
from zbackup.model.relocation import owner_of
from zbackup.model.server import OplogFacts
from zbackup.model.snapshot import Dataset
from zbackup.model.space import DatasetSettings

DAY_S = 86_400.0
MIB = 1024**2
LARGEST_RECORD = 64 * 1024

# Less of an oplog says nothing of the pace at which it is written.
ENOUGH = 0.1


def examine(
    oplog: OplogFacts | None,
    every: float | None,
    datasets: Sequence[Dataset],
    settings: Sequence[DatasetSettings],
) -> tuple[Finding, ...]:
    """List what could be better; nothing when all is as it should be, or it is no mongod with an oplog.

    `every` is the seconds between two snapshots, None without a schedule.
    """
    if oplog is None:
        return ()
    return (*_window(oplog, every), *_records(oplog.data_directory, datasets, settings))


def lasts(oplog: OplogFacts) -> float | None:
    """For how many seconds the oplog holds an entry, at the pace seen; None when that cannot be told."""
    if oplog.used < ENOUGH * oplog.most:
        return None
    return max(oplog.span_s * max(1.0, oplog.most / oplog.used), oplog.kept_s)


def _window(oplog: OplogFacts, every: float | None) -> Iterator[Finding]:
    """Entries that are dropped before a snapshot holds them leave a gap in the recovery window."""
    lasting, needed = lasts(oplog), max(4 * every, DAY_S) if every else DAY_S
    if lasting is None or lasting >= needed:
        return
    enough = math.ceil(oplog.most * needed / max(lasting, 1.0) / MIB)
    yield Finding(
        severity="critical" if every and lasting < 2 * every else "warning",
        subject="oplog",
        text=f"the oplog holds {_hours(lasting)}"
        + (f", and a snapshot is taken every {_hours(every)}" if every else ""),
        why="entries that are dropped before a snapshot holds them are a gap in what can be restored; a "
        "night without snapshots must not make one",
        fix=f"db.adminCommand({{replSetResizeOplog: 1, size: Double({max(enough, 990)})}})",
        exit_status=9,
    )


def _records(
    data_directory: str, datasets: Sequence[Dataset], settings: Sequence[DatasetSettings]
) -> Iterator[Finding]:
    mounted = {d.mountpoint: d.name for d in datasets if d.mountpoint}
    owner = owner_of(data_directory, list(mounted))
    home = next((s for s in settings if owner and s.name == mounted[owner]), None)
    if home is None or home.number("recordsize") <= LARGEST_RECORD:
        return
    yield Finding(
        severity="advice",
        subject="recordsize",
        text=f"{home.name} has records of {home.number('recordsize') // 1024} KiB, and WiredTiger's blocks "
        "have 32 KiB or less",
        why="each block that is written rewrites a whole record, and snapshots grow by records",
        fix=command_line("zfs", "set", "recordsize=32K", home.name),
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g} hours" if seconds >= 3600 else f"{seconds / 60:.3g} minutes"
