"""Find how far a backup's data reaches, by its own binlog and the clock when it was taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.position import LoggedTransaction, LogPosition
from zbackup.engines.mysql.binlog.reader import begun, describe, microseconds, moment, opened
from zbackup.engines.mysql.recovery.verify_replay import is_exact
from zbackup.model.commit_times import Rules
from zbackup.model.log import LOG_BEHIND
from zbackup.model.log_order import Contradiction, FileSpan, OrderWatch
from zbackup.model.moment import utc_text
from zbackup.model.record import Record
from zbackup.model.recovery import Reach

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
