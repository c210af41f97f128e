"""Read a binary log among files, without any server."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogEncrypted, BinlogTooOld
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.find_unreplayable import LIVE, find_unreplayable
from zbackup.engines.mysql.binlog.position import LoggedTransaction, described
from zbackup.engines.mysql.binlog.reader import begun, check_events, describe, microseconds, moment, opened
from zbackup.engines.mysql.binlog.required_plugins import DIRECTORY, Need
from zbackup.engines.mysql.binlog.temporary_tables import find_foreign
from zbackup.engines.mysql.clone.outside_directories import why_not
from zbackup.engines.mysql.plain_log.plain_log import PlainLog, require_current
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
from zbackup.engines.mysql.recovery.replay_bounds import (
    effective_stop,
    find_stop_behind_base,
    rules_for,
    tables_outside,
)
from zbackup.engines.mysql.recovery.verify_replay import end_found, is_exact, require_recorded_end
from zbackup.engines.mysql.server.plugins import lacking
from zbackup.engines.mysql.server.server_facts import newest_thread
from zbackup.model.anchors import Anchor
from zbackup.model.backup import BackupFiles
from zbackup.model.commit_times import SLOW_AMONG, Rules, Span
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import LOG_BEHIND, LogDamage, LogPosition, LogSpan
from zbackup.model.moment import utc_text
from zbackup.model.record import Record
from zbackup.model.recovery import Reach, ReplayRange
from zbackup.model.relocation import Relocation
from zbackup.model.silence import Silence
from zbackup.model.target import Stop, Time, time_of
from zbackup.model.unreplayable import Unreplayable
from zbackup.proc import secure_files

WRITING_S = 1.0
"""A server that is writing an event has written more of it after so long."""
MOST_READ = 2 << 30
"""A few seconds of CPU; where backups are taken as often as they should be there is less."""


def damage(
    newest: BackupFiles, live: Relocation, writing_s: float = WRITING_S, most: int | None = None
) -> tuple[LogDamage, ...]:
    """What is wrong with the log behind the newest backup.

    Raise GapError or DifferentLog when it is not the one that `newest` holds and ends in.

    Files are read from the newest on while that is no more than `most` bytes together: else the first of
    what is returned says so (`unread`). Without it the newest is always read, and more while it is cheap.
    A file that is not the newest may end in the middle of an event, after a crash: restores know that.
    """
    record, _ = newest
    live_span(newest, live)
    known = LogPosition.parse(record.log_to)
    files = covered_files(record, live)
    found: list[LogDamage] = []
    read = 0
    for file in reversed([f for f in files if sequence(f.name) >= known.sequence]):
        start = known.offset if known.file == file.name else FIRST_EVENT
        read += secure_files.size(file) - start
        if read > (most or MOST_READ) and (most or file != files[-1]):
            read_all = (
                f"only the files after {file.name} were read" if file != files[-1] else "it was not read"
            )
            what = f"{read_all}, for it is large"
            found.append(LogDamage(what, unread=True))
            break
        try:
            if file != files[-1]:
                check_events(file, start=start)
            elif (end := _stuck(file, start, writing_s)) is not None:
                size = secure_files.size(file)
                what = f"{file.name} ends in the middle of an event, at {end} of {size} bytes"
                found.append(LogDamage(what, torn=True))
        except (BinlogDamaged, BinlogTooOld) as damaged:
            found.append(LogDamage(str(damaged)))
        except BinlogEncrypted:
            found.append(LogDamage(f"{file.name} is encrypted, and so is the log behind the newest backup"))
            break
    return tuple(reversed(found))


def _stuck(file: Path, start: int, writing_s: float) -> int | None:
    """Where the last whole event ends, if there is more behind it that nobody is writing; else None."""
    end, size = check_events(file, start=start), secure_files.size(file)
    if end >= size:
        return None
    time.sleep(writing_s)
    again = check_events(file, start=start), secure_files.size(file)
    return end if again == (end, size) else None


MOST: Final = 20
"""More are counted, and not kept."""

FileSpan = tuple[int, Span]
"""A log file's number, and the transaction."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`ahead` has a time that is later than that of `behind`, which follows it, or (None) than any that there
    was: the clock when the log was looked at."""

    ahead: FileSpan
    behind: FileSpan | None


class OrderWatch:
    """Looks at transactions in the order of their log. Times later than `ceiling` are certainly wrong."""

    def __init__(self, ceiling: int, rules: Rules) -> None:
        self._ceiling, self._rules = ceiling, rules
        self._newest: FileSpan | None = None
        self._run = 0
        self.latest: int | None = None
        """The latest time that can be right."""
        self.open_end = False
        """True while the last transactions have no time that can be right."""
        self.found: list[Contradiction] = []
        self.more = 0

    def add(self, file: int, spans: Iterable[Span]) -> None:
        """Read a file's transactions."""
        ceiling, tolerance = self._ceiling, self._rules.tolerance
        # On MariaDB single ones are behind because their statements were slow.
        telling = SLOW_AMONG if self._rules.starts else 1
        latest = -1 if self.latest is None else self.latest
        newest, run = self._newest, self._run
        for span in spans:
            committed = span[2]
            if committed > ceiling:
                if not self.open_end:
                    self._note(Contradiction((file, span), None))
                self.open_end = True
                continue
            self.open_end = False
            if committed >= latest:
                latest, newest, run = committed, (file, span), 0
            elif committed < latest - tolerance:
                run += 1
                if run == telling and newest:
                    self._note(Contradiction(newest, (file, span)))
            else:
                run = 0
        self.latest = latest if latest >= 0 else None
        self._newest, self._run = newest, run

    def _note(self, found: Contradiction) -> None:
        if len(self.found) < MOST:
            self.found.append(found)
        else:
            self.more += 1


# ZFS knows whole seconds of a snapshot's making.
CREATED_WITHIN: Final = timedelta(seconds=1)
_TOLD: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndSeen:
    """The testimony of a log's newest files: the `latest` commit time that can be right (None: there is
    none), if the last transactions have no such (`open_end`), when the newest file was `begun`, and what
    contradicts the log's order. `torn`: the newest file ends within a transaction, which says that it was
    committed at `torn_at`, if that much of it is there."""

    latest: datetime | None
    open_end: bool = False
    begun: datetime | None = None
    out_of_order: tuple[str, ...] = ()
    torn: bool = False
    torn_at: datetime | None = None


def latest_certain(record: Record, created: datetime) -> datetime:
    """Nothing that is in a snapshot was committed later, by the clock of this host."""
    return max(record.taken, created + CREATED_WITHIN)


def scan(files: Sequence[Path], known: LogPosition | None, ceiling: datetime, rules: Rules) -> LogEndSeen:
    """Read the log behind `known`; without that the newest file in which there is a transaction."""
    watch = OrderWatch(microseconds(ceiling) + rules.tolerance, rules)
    torn, torn_at = False, None
    if known:
        for file in files:
            if sequence(file.name) >= known.sequence:
                end = _read(watch, file, known.offset if file.name == known.file else FIRST_EVENT)
                torn, torn_at = end if file == files[-1] else (torn, torn_at)
    else:
        for file in reversed(files):
            end = _read(watch, file, FIRST_EVENT)
            torn, torn_at = end if file == files[-1] else (torn, torn_at)
            if watch.latest is not None or watch.open_end:
                break
    latest = watch.latest
    return LogEndSeen(
        latest=None if latest is None else moment(latest),
        open_end=watch.open_end,
        begun=begun(files[-1]),
        out_of_order=_told(watch, {sequence(file.name): file for file in files}),
        torn=torn,
        torn_at=None if torn_at is None else moment(torn_at),
    )


def reach(record: Record, seen: LogEndSeen, ceiling: datetime, since: Record | None = None) -> Reach:
    """From the last commit in a backup's log, and the newest file's beginning.

    A log that holds no transaction says nothing of when the last one was, but it was not after the snapshot.
    A primary's data may be younger than the last commit in its log: that of a recovered server put to work
    came with the files. All of it was there when the server began its newest log file. A replica's log
    carries its source's times, and what the source had committed may not have reached it yet; what a server
    wrote that had stopped to log is not there either. `ceiling` is
    the latest that can be right; `since` was read before, up to where `seen` begins.
    """
    earlier = since.as_of if since else None
    known = [each for each in (seen.latest, min(earlier, ceiling) if earlier else None) if each]
    if not known and not seen.open_end:
        torn = (seen.torn_at or seen.begun) if seen.torn else None
        return Reach(as_of=record.taken, complete_to=min(record.taken, torn or record.taken))
    last = max(known, default=ceiling)
    as_of = ceiling if seen.open_end else last
    if record.role == "replica" or record.log_ended or record.server.get(LOG_BEHIND):
        return Reach(as_of=as_of, complete_to=min(last, as_of), out_of_order=seen.out_of_order)
    begun = min(seen.begun, ceiling) if seen.begun else as_of
    # What was being written when the snapshot was taken is not in it, though it had its commit time before.
    complete = min(record.taken, seen.torn_at or last) if seen.torn else record.taken
    return Reach(as_of=max(as_of, begun), complete_to=complete, out_of_order=seen.out_of_order)


def reach_without_log(record: Record, created: datetime) -> Reach:
    """Return how far a backup reaches of which no log is read: what was committed before the server was
    looked at is inside, and nothing from after the snapshot.

    Under a lock that stops commits the two are the same.
    """
    as_of = record.taken if is_exact(record) else latest_certain(record, created)
    return Reach(as_of=as_of, complete_to=record.taken)


def _read(watch: OrderWatch, file: Path, start: int) -> tuple[bool, int | None]:
    """Whether the file ends within a transaction, and when that says it was committed."""
    with opened(file) as scanner:
        watch.add(sequence(file.name), scanner.spans(start))
        return scanner.torn(start)


def _told(watch: OrderWatch, files: dict[int, Path]) -> tuple[str, ...]:
    told = [_words(each, files) for each in watch.found[:_TOLD]]
    more = len(watch.found) + watch.more - len(told)
    return (*told, *([f"and {more} more"] if more else []))


def _words(found: Contradiction, files: dict[int, Path]) -> str:
    ahead = _named(found.ahead, files)
    if found.behind is None:
        return f"{ahead}, later than the snapshot that holds it"
    return f"{ahead}, and behind it {_named(found.behind, files)}"


def _named(at: FileSpan, files: dict[int, Path]) -> str:
    file = files[at[0]]
    with opened(file) as scanner:
        said: LoggedTransaction = describe(file, scanner, at[1])
    return f"{said.start}{f' (GTID {said.gtid})' if said.gtid else ''} says {utc_text(said.committed)}"


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
