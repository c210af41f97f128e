"""Read a binary log among files, without any server."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from zbackup.engines.mysql.binlog.find_unreplayable import LIVE, find_unreplayable
from zbackup.engines.mysql.binlog.needs import DIRECTORY, Need
from zbackup.engines.mysql.binlog.position import LogPosition, described
from zbackup.engines.mysql.binlog.reader import begun
from zbackup.engines.mysql.binlog.temporary_tables import find_foreign
from zbackup.engines.mysql.clone.outside_directories import why_not
from zbackup.engines.mysql.plain_log.plain_log import PlainLog, require_current
from zbackup.engines.mysql.recovery.as_of import latest_certain, reach, reach_without_log, scan
from zbackup.engines.mysql.recovery.covered_log import (
    begun_after_standstill,
    covered_files,
    end_of,
    is_readable,
    is_same_log,
    live_span,
    read_from,
    span_of,
)
from zbackup.engines.mysql.recovery.live_end import damage
from zbackup.engines.mysql.recovery.replay_bounds import (
    effective_stop,
    find_stop_behind_base,
    rules_for,
    tables_outside,
)
from zbackup.engines.mysql.recovery.verify_replay import end_found, require_recorded_end
from zbackup.engines.mysql.server.plugins import lacking
from zbackup.engines.mysql.server.server_facts import newest_thread
from zbackup.model.anchors import Anchor
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import LogDamage, LogSpan
from zbackup.model.record import Record
from zbackup.model.recovery import Reach, ReplayRange
from zbackup.model.relocation import Relocation
from zbackup.model.silence import Silence
from zbackup.model.target import Stop, Time, time_of
from zbackup.model.unreplayable import Unreplayable


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlLogReader:
    """Reads the log of MySQL, Percona Server and MariaDB.

    `plain`: it is a copy, which is made of what the server sends.
    """

    flavor: str
    plain: PlainLog | None = None

    def reach(
        self, record: Record, where: Relocation, created: datetime, since: Record | None = None
    ) -> Reach:
        """See engines.base.LogReader.

        Raise VerificationFailed when the log does not end where it was recorded to under a lock.
        """
        if not is_readable(record):
            return reach_without_log(record, created)
        files = covered_files(record, where)
        require_recorded_end(record, end_found(record, files[-1]))
        usable = since if since and since.as_of and since.role == record.role else None
        known = read_from(usable, files) if usable else None
        ceiling = latest_certain(record, created)
        seen = scan(files, known, ceiling, rules_for(record))
        counts = known and (known.file == files[-1].name or seen.latest is None)
        found = reach(record, seen, ceiling, usable if counts else None)
        if record.role == "replica" and usable and usable.as_of:
            # Another source's may be later than all that is in the newest files.
            found = replace(found, as_of=max(found.as_of, min(usable.as_of, ceiling)))
        return found

    def log_span(self, record: Record, where: Relocation, since: Record | None = None) -> LogSpan | None:
        """None where there is no log that can be read."""
        return span_of(record, where, since) if is_readable(record) else None

    def live_log(self, newest: BackupFiles, live: Relocation) -> LogSpan:
        self.bring_up_to_date(BackupFiles(newest.record, live))
        return live_span(newest, live)

    def live_log_damage(
        self, newest: BackupFiles, live: Relocation, most: int | None = None
    ) -> tuple[LogDamage, ...]:
        self.bring_up_to_date(BackupFiles(newest.record, live))
        return damage(newest, live, most=most)

    def bring_up_to_date(self, live: BackupFiles) -> None:
        """See engines.base.LogReader. Nothing is to be done where the server's own files are read."""
        require_current(self.plain, live)

    @property
    def log_delay_s(self) -> float:
        """Return 0.0: a commit is in the binlog's file before it is acknowledged, without delay."""
        return 0.0

    def is_same_log(self, older: BackupFiles, newer: BackupFiles) -> bool:
        return is_same_log(older, newer)

    def effective_target(self, target: datetime) -> datetime:
        """The target as the log's clock can tell it: see effective_stop."""
        return time_of(effective_stop(self.flavor, Time(target)))

    def unreplayable(
        self, subject: BackupFiles, after: str, *, live: bool = False, base: Record | None = None
    ) -> tuple[Unreplayable, ...]:
        if not is_readable(subject.record):
            return ()
        if live:
            self.bring_up_to_date(subject)
        files, seen = covered_files(*subject), LIVE if live else None
        lacks = partial(_lacking, base=base or subject.record)
        return tuple(find_unreplayable(files, LogPosition.parse(after), seen=seen, lacking=lacks))

    def silence(self, end: Record, log: BackupFiles) -> Silence | None:
        if not end.log_to or not is_readable(log.record):
            return None
        return _silence(end, LogPosition.parse(end.log_to), covered_files(*log))

    def written(self, position: str) -> datetime | None:
        """A position says nothing of times."""
        return None

    def examine(
        self,
        base: BackupFiles,
        log: BackupFiles,
        stop: Stop,
        anchors: Sequence[Anchor] = (),
    ) -> ReplayRange:
        """What a replay from `base` would apply; changes nothing.

        Raise NotRecoverable when the log has a gap, is another server's, or the base is already past it.
        """
        stop = effective_stop(base.record.engine, stop)
        start = end_of(*base)
        point = find_stop_behind_base(start, covered_files(*base), log, stop, anchors)
        if isinstance(stop, Time) and point.last_applied is None:
            _require_no_standstill(base.record, start, covered_files(*log), stop.at)
        lacks = partial(_lacking, base=base.record)
        files = covered_files(*log)
        stops = find_unreplayable(files, start, point.stop, lacking=lacks)
        newest, mysql = newest_thread(base.record), base.record.engine == "mysql"
        foreign = find_foreign(
            files, (start, point.stop), lambda: covered_files(*base), newest, drops_fail=mysql
        )
        stops = sorted(
            (*stops, *filter(None, [foreign])), key=lambda s: LogPosition.parse(s.transaction.start)
        )
        return ReplayRange(
            last_applied=described(point.last_applied),
            first_skipped=described(point.first_skipped),
            transactions=point.transactions,
            log_bytes=point.log_bytes,
            out_of_order=point.out_of_order,
            effective_target=time_of(stop),
            later=point.later,
            outside=tables_outside(base.record, covered_files(*base)[-1], covered_files(*log), point),
            stopped=stops[0] if stops else None,
        )


def _lacking(need: Need, *, base: Record) -> str:
    """Why a server on a clone of the base cannot do what needs this; "" where that is not known."""
    if need.what == DIRECTORY:
        return why_not(need.name, [mountpoint for _, mountpoint in base.members])
    return lacking(need, base.server)


def _require_no_standstill(base: Record, end: LogPosition, files: Sequence[Path], target: datetime) -> None:
    """Raise NotRecoverable for a moment that a log rolled back with its server would not tell of."""
    found = _silence(base, end, files)
    if found and found.after < target <= found.to:
        raise NotRecoverable(f"{found.told}. To restore the state of that backup: --to-backup {base.called}")


def _silence(base: Record, end: LogPosition, files: Sequence[Path]) -> Silence | None:
    """A log that was rolled back with its server is silent from the backup up to the file that was begun
    then."""
    following = begun_after_standstill(end, files)
    since = begun(following) if following else None
    if since is None:
        return None
    # A file tells the whole second in which it was begun: the last moment of that is the last in doubt.
    to = since + timedelta(seconds=1) - timedelta(microseconds=1)
    return Silence(str(end), base.complete_to or base.taken, to)
