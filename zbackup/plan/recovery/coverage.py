"""Find which snapshots hold the log that a backup needs to be brought further, by what was recorded. Pure.

A snapshot continues a backup when both are of the same log and the snapshot's oldest part of it is no newer
than the backup's end. What a server purges it never gets back, so the snapshots that continue a backup are
those that follow it up to some last one.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from zbackup.model.backup import Backup, FinishedBackup
from zbackup.model.log import position_of
from zbackup.model.record import Record
from zbackup.model.silence import Silence
from zbackup.model.unreplayable import Unreplayable

Position = tuple[int, ...]


def log_known(record: Record) -> bool:
    """Whether it was recorded which log the backup holds. Snapshots of older versions do not say."""
    return bool(record.log_id and record.log_from and record.log_to)


def continues(newer: Backup, older: Backup) -> bool:
    """Whether `newer`'s log certainly holds everything behind `older`'s end."""
    one, other = older.record, newer.record
    return (
        newer.createtxg >= older.createtxg
        and log_known(one)
        and one.log_id == other.log_id
        and position_of(other.log_from) <= position_of(one.log_to)
    )


def first_break(base: Backup, log: Backup | None, backups: Iterable[Backup]) -> Backup | None:
    """The first behind the base at which the server's log was not whole, up to `log`, or to now (None).

    Up to now, one that has lost a part counts as well: its data may have been rolled back, and the log gone
    on. Where a later backup holds the same log, that was proven before the part was lost.
    """
    backups = list(backups)
    proven = max((b.createtxg for b in backups if b.complete and continues(b, base)), default=base.createtxg)
    behind = (
        b
        for b in backups
        if (
            b.record.breaks_log
            or (b.record.log_ended and b is not log)
            or (log is None and b.lost_parts and b.createtxg > proven)
        )
        and base.createtxg < b.createtxg
        and (log is None or b.createtxg <= log.createtxg)
        and _same_server(b.record, base.record)
    )
    return min(behind, key=_age, default=None)


def _same_server(one: Record, other: Record) -> bool:
    return one.server_uuid == other.server_uuid or (log_known(one) and one.log_id == other.log_id)


def first_behind(base: Backup, stops: Iterable[Unreplayable]) -> Unreplayable | None:
    """The first of these that the base's own data does not have already."""
    end = position_of(base.record.log_to)
    return next((stop for stop in stops if position_of(stop.transaction.start) >= end), None)


def silences_behind(base: Backup, backups: Iterable[Backup]) -> Iterator[Silence]:
    """The times of which the base's log, as backups hold it, does not show what was committed."""
    end = position_of(base.record.log_to)
    for each in backups:
        if log_known(base.record) and each.record.log_id == base.record.log_id:
            yield from (s for s in each.record.silences if position_of(s.position) >= end)


@dataclass(frozen=True, slots=True)
class Reached:
    """The extent to which a base can be brought: everything after its as_of and up to `end`, from the log in
    `holder`."""

    end: datetime
    holder: Backup


class Coverage:
    """The extent to which bases can be brought with these snapshots and no live log."""

    def __init__(self, holders: Iterable[FinishedBackup]) -> None:
        ends = list(holders)
        known = [h.backup for h in ends if log_known(h.backup.record)]
        self._breaks = _breaks(
            known, [h.backup for h in ends if h.backup.record.breaks_log or h.backup.record.log_ended]
        )
        by_log: dict[tuple[str, int], list[FinishedBackup]] = defaultdict(list)
        for end in ends:
            if log_known(end.backup.record):
                by_log[self._stretch(end.backup)].append(end)
        self._logs = {log: _Log(found) for log, found in by_log.items()}
        # Hardly any has one: those alone are looked at for each base.
        self._by_log: dict[str, list[Backup]] = defaultdict(list)
        for holder in sorted((h for h in known if h.record.unreplayable), key=_age):
            self._by_log[holder.record.log_id].append(holder)

    def reached(self, base: Backup) -> Reached | None:
        """None when it was not recorded which log the base holds."""
        log = self._logs.get(self._stretch(base)) if log_known(base.record) else None
        return log.reached(base) if log else None

    def first_break(self, base: Backup) -> Backup | None:
        """The first behind the base at which its log was not whole."""
        found = (b for b in self._breaks.get(base.record.log_id, ()) if b.createtxg > base.createtxg)
        return next(found, None)

    def first_stop(self, base: Backup) -> Unreplayable | None:
        """The first transaction behind the base that cannot be replayed, in what other backups hold of its
        log."""
        found = self.stopped_by(base)
        return found[0] if found else None

    def stopped_by(self, base: Backup) -> tuple[Unreplayable, Backup] | None:
        """The same, and the backup that says so."""
        behind = (h for h in self._by_log.get(base.record.log_id, ()) if h.createtxg > base.createtxg)
        return next(((stop, h) for h in behind if (stop := first_behind(base, h.record.unreplayable))), None)

    def _stretch(self, backup: Backup) -> tuple[str, int]:
        """Which log it is of, and which stretch of it: one ends where the log was not whole."""
        log = backup.record.log_id
        # The end of a log belongs to what it is the end of.
        found = bisect_left if backup.record.log_ended else bisect_right
        return log, found(self._breaks.get(log, ()), backup.createtxg, key=lambda b: b.createtxg)


def _breaks(known: Sequence[Backup], breaking: Sequence[Backup]) -> dict[str, list[Backup]]:
    """For each log, in order, the backups at which it was not whole: of those some hold no log at all."""
    servers: dict[str, set[str]] = defaultdict(set)
    for holder in known:
        servers[holder.record.log_id].add(holder.record.server_uuid)
    return {
        log: sorted(
            (b for b in breaking if b.record.log_id == log or b.record.server_uuid in uuids), key=_age
        )
        for log, uuids in servers.items()
    }


class _Log:
    """The snapshots of one log in order of creation."""

    def __init__(self, holders: Sequence[FinishedBackup]) -> None:
        self._holders = sorted(holders, key=lambda h: _age(h.backup))
        self._ages = [_age(h.backup) for h in self._holders]
        # Non-decreasing by nature; where it is not, the larger number promises less.
        self._oldest: list[Position] = []
        self._farthest: list[int] = []
        for index, holder in enumerate(self._holders):
            begin = position_of(holder.backup.record.log_from)
            self._oldest.append(max(begin, self._oldest[-1]) if self._oldest else begin)
            best = self._farthest[-1] if self._farthest else index
            farther = holder.complete_to >= self._holders[best].complete_to
            self._farthest.append(index if farther else best)

    def reached(self, base: Backup) -> Reached | None:
        first = bisect_left(self._ages, _age(base))
        last = bisect_right(self._oldest, position_of(base.record.log_to)) - 1
        if last < first:
            return None
        best = self._farthest[last]
        holder = self._holders[best if best >= first else last]
        return Reached(end=holder.complete_to, holder=holder.backup)


def _age(backup: Backup) -> tuple[int, str]:
    return backup.createtxg, backup.record.backup
