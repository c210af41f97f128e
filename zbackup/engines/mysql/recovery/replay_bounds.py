"""Find where a replay begins and ends in the log among backups' files, and where a transaction stands in
it.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.find_by_name import find
from zbackup.engines.mysql.binlog.find_stop import StopPoint, Times, find_stop
from zbackup.engines.mysql.binlog.position import described
from zbackup.engines.mysql.binlog.same_log import require_same_log
from zbackup.engines.mysql.clone.outside_directories import mentioned
from zbackup.engines.mysql.recovery.covered_log import covered_files
from zbackup.model.anchors import Anchor
from zbackup.model.backup import BackupFiles
from zbackup.model.commit_times import Rules
from zbackup.model.errors import NotRecoverable, VerificationFailed
from zbackup.model.log import ClusterTime, LogPosition, Searched
from zbackup.model.record import Record
from zbackup.model.target import Stop, Time, WholeLog
from zbackup.model.transaction_name import TransactionName


def effective_stop(flavor: str, stop: Stop) -> Stop:
    """Round a time down to what the log's clock can tell: MariaDB's knows whole seconds only.

    So nothing that was committed at the target or later can slip in.
    """
    if flavor != "mariadb" or not isinstance(stop, Time):
        return stop
    return replace(stop, at=stop.at.replace(microsecond=0))


def rules_for(record: Record) -> Rules:
    """What is ordinary in the times of a server's log: see binlog.gtid.read_opening."""
    starts = record.engine == "mariadb" or record.server_version.startswith("5.")
    return Rules(starts=starts, replica=record.role == "replica")


def find_stop_behind_base(
    start: LogPosition,
    base_files: Sequence[Path],
    log: BackupFiles,
    stop: Stop,
    anchors: Sequence[Anchor] = (),
) -> StopPoint:
    """Find the stop point, having proved that the log continues the base's own. Raise NotRecoverable if not.

    A target that is a transaction is the first that is left out. Raise VerificationFailed when the log does
    not hold it where it was found.
    """
    files = covered_files(*log)
    same = [f for f in files if f.name == start.file]
    if not same:
        raise NotRecoverable(
            f"the log has a gap: the base ends in {start.file}, but {log.record.called} holds "
            f"{files[0].name} to {files[-1].name} only"
        )
    require_same_log(base_files[-1], same[0], start.offset)
    if isinstance(stop, Time | WholeLog):
        return find_stop(files, start, stop, times=Times(rules=rules_for(log.record), anchors=tuple(anchors)))
    if isinstance(stop, ClusterTime):
        raise AssertionError(f"{stop} is no position in a binlog")
    position = LogPosition.parse(stop.start)
    if position < start:
        raise NotRecoverable(f"the base ends at {start}: it holds the transaction at {position} already")
    point = find_stop(files, start, position)
    if described(point.first_skipped) != stop:
        raise VerificationFailed(
            f"the log that {log.record.called} holds has another transaction at {position}"
        )
    return point


def find_named(name: TransactionName, files: Sequence[BackupFiles]) -> Searched:
    """Look for a transaction in one log, of which each backup's `files` hold some, the newest first."""
    return find(name, paths_of(files))


def paths_of(files: Sequence[BackupFiles]) -> list[Path]:
    """The paths of one log's files, oldest first. Each backup's `files` hold some, the newest come first."""
    paths: dict[str, Path] = {}
    for each in files:
        # The newer the backup, the more of a file it holds.
        paths = {file.name: file for file in covered_files(*each)} | paths
    return sorted(paths.values(), key=lambda file: sequence(file.name))


def complete_with(files: Sequence[BackupFiles]) -> dict[Path, datetime]:
    """Up to when all that was committed is in one log, by the files with which what its backups hold of it
    ends."""
    return {covered_files(*each)[-1]: known for each in files if (known := each.record.complete_to)}


def tables_outside(
    base: Record, start: Path, files: Sequence[Path], point: StopPoint | None = None
) -> tuple[str, ...]:
    """Where the log makes tables that lie on none of the backup's datasets, from the file `start` on."""
    first, last = LogPosition.of(start.name, 0).sequence, point.stop.sequence if point else math.inf
    within = [file for file in files if first <= LogPosition.of(file.name, 0).sequence <= last]
    return mentioned(within, [mountpoint for _, mountpoint in base.members])
