"""Search the logs of an instance for what happened: the server's own, and what its backups hold of it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain, islice

from zbackup.catalog.local import Catalog
from zbackup.engines.log_search import FileSearch, ServerSearch
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.temporary import log_clone, own_name
from zbackup.jobs.context import Context, live_files
from zbackup.jobs.restore.known_logs import UNKNOWN, KnownLog, known_logs
from zbackup.jobs.restore.locate_transaction import search_by_name
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.clone import Clone
from zbackup.model.errors import DatabaseError, NotRecoverable, Refused, VerificationFailed, ZbackupError
from zbackup.model.log import ClusterTime, position_of
from zbackup.model.log_entry import Kind, LogEntry, LogFilter, LogRead
from zbackup.model.recovery import RecoveryFiles
from zbackup.model.target import BeforeTransaction
from zbackup.plan.clones.clone_name import search_names
from zbackup.plan.recovery.coverage import log_known
from zbackup.plan.recovery.lost_log import lost_behind, newest

EntryOrRead = LogEntry | LogRead
"""An item of a search: what it found, or how far it has read."""


def search_log(ctx: Context, wanted: LogFilter) -> Iterator[EntryOrRead]:
    """Every transaction that is wanted, the oldest log first and each in its own order.

    What was read of each file stands behind what was found in it. Where something is wanted after a position,
    that is one in the newest log. Changes nothing, but for clones that are gone afterwards, where only
    a server can read the log. Raise NotRecoverable where no backup says where the log is.
    """
    catalog = ctx.catalog()
    if not any(log_known(b.record) for b in catalog.backups if b.finished):
        raise NotRecoverable("no finished backup says where the log is: run zbackup snapshot first")
    search = ctx.log_search
    if isinstance(search, ServerSearch):
        yield from _through_servers(ctx, search, catalog, wanted)
        return
    unread: list[str] = []
    logs = list(known_logs(ctx, catalog, unread=unread.append))
    lacking = [] if _in_backups(catalog, wanted) else [_not_read(ctx, wanted, why) for why in unread]
    if wanted.backwards:
        yield from lacking
    chosen = logs[:1] if wanted.after else logs
    for log in chosen if wanted.backwards else reversed(chosen):
        before = None if wanted.after else _in_front(log, logs, wanted.until)
        asked = wanted if wanted.after else _behind(search, catalog, wanted, before)
        yield from _in_files(ctx, search, log.files, asked)
    if not wanted.backwards:
        yield from lacking


def search_behind(ctx: Context, subject: BeforeTransaction, kinds: frozenset[Kind]) -> Iterator[EntryOrRead]:
    """What of these kinds was done behind a transaction, and what was read of each file.

    Its own log tells by its order, which is exact. Nothing orders the transaction and another log (of the
    time before a RESET, or of a server that took over): whatever has its commit time or a later one counts.
    """
    search = search_by_name(ctx, subject.name)
    unread: list[str] = []
    catalog, end = ctx.catalog(), subject.transaction.end
    logs = list(known_logs(ctx, catalog, unread=unread.append))
    by_order = LogFilter(kinds=kinds, after=end, follows=end)
    by_time = LogFilter(kinds=kinds, since=subject.transaction.committed)
    for log in reversed(logs):
        # A log of which no backup holds the beginning may be another one by now.
        own = log.id != UNKNOWN and log.id in subject.logs
        before = None if log.id in subject.logs else _in_front(log, logs)
        asked = by_order if own else _behind(search, catalog, by_time, before)
        yield from _in_files(ctx, search, log.files, asked)
    yield from (_not_read(ctx, by_time, why) for why in unread)


def in_one_backup(
    ctx: Context, catalog: Catalog, backup: Backup, wanted: LogFilter, name: str
) -> Iterator[EntryOrRead]:
    """The same of what one backup of the catalogue holds. Whoever asks holds the lock of this `name` of a
    search's."""
    search = ctx.log_search
    if isinstance(search, ServerSearch):
        with _clone_of(ctx, catalog, backup, name) as files:
            yield from search.on_clone(files, wanted)
    else:
        yield from _in_files(ctx, search, [backup.files(catalog.all_datasets)], wanted)


def images_by_servers(ctx: Context, search: ServerSearch, at: ClusterTime) -> Iterator[str]:
    """The operations of one transaction, by the running server, or by one on a clone of a backup.

    Raise NotRecoverable when neither has it.
    """
    ctx.progress.phase("reading", "the server's own log")
    try:
        lines = _begun(search.images(at))
    except (DatabaseError, Refused, NotRecoverable) as problem:
        why = str(problem)
    else:
        yield from lines
        return
    catalog = ctx.catalog()
    held = [b for log in known_logs(ctx, catalog) for b in log.backups if _holds(b, at)]
    # Of the end of an oplog, and of a log-only snapshot's, it is not recorded what is inside.
    held = held or [b for b in catalog.backups if b.complete and b.record.taken >= at.at]
    if not held:
        raise NotRecoverable(f"{at} is in no backup's log, and {why}")
    # The oldest has the most of what was written before.
    oldest = min(held, key=lambda b: b.createtxg)
    with (
        own_name(ctx, search_names(ctx.instance), "zbackup log") as name,
        _clone_of(ctx, catalog, oldest, name) as files,
    ):
        yield from search.images(at, files)


def _begun(lines: Iterator[str]) -> Iterator[str]:
    """The same lines, of which the first was asked for: what keeps all of them from being told is raised."""
    return chain(list(islice(lines, 1)), lines)


def _holds(backup: Backup, at: ClusterTime) -> bool:
    first, last = position_of(backup.record.log_from), position_of(backup.record.log_to)
    return first[:2] <= (at.seconds, at.increment) <= last[:2]


def sooner(backups: Sequence[Backup], wanted: LogFilter) -> list[Backup]:
    """The backups in the order in which their logs are to be read."""
    return sorted(backups, key=lambda b: b.createtxg, reverse=wanted.backwards)


def search_further(
    ctx: Context, search: FileSearch, live: BackupFiles, wanted: LogFilter
) -> Iterator[EntryOrRead]:
    """What the server itself has written since wanted.after; `live` is where its own log is read.

    Raise DatabaseError where it has to be asked and does not answer.
    """
    ctx.log_reader.bring_up_to_date(live)
    yield from search.history([live], wanted)


def require_all_read(reads: Sequence[LogRead]) -> None:
    """Raise what kept the search from having seen all there is, unless it was only an unfinished end."""
    problems = [read for read in reads if read.problem and not read.torn]
    if not problems:
        return
    said = "; ".join(read.problem for read in problems)
    failure: type[ZbackupError] = VerificationFailed if any(p.damaged for p in problems) else Refused
    raise failure(f"not all of the log was read: {said}")


def _in_front(log: KnownLog, logs: Sequence[KnownLog], until: datetime | None = None) -> Backup | None:
    """The backup behind whose log some may be lost in front of this one; None if none is.

    A log that goes on is taken for another one when what leads up to it was purged. Of one of which no backup
    holds the beginning, its files tell whether that is so.
    """
    others = [backup for each in logs if each is not log for backup in each.backups]
    return lost_behind(log.backups[-1], others, until) if log.backups else newest(others, until)


def _behind(search: FileSearch, catalog: Catalog, wanted: LogFilter, before: Backup | None) -> LogFilter:
    """The same of a log that should go on where that of this backup ended."""
    if before is None:
        return replace(wanted, follows="")
    try:
        follows = search.goes_on_at(before.files(catalog.all_datasets))
    except (ZbackupError, OSError):
        follows = before.record.log_to
    return replace(wanted, follows=follows, ended=before.record.complete_to)


def _in_files(
    ctx: Context, search: FileSearch, files: Sequence[BackupFiles], wanted: LogFilter
) -> Iterator[EntryOrRead]:
    """A log that cannot be read does not keep the others from being read."""
    try:
        yield from search.history(files, wanted, _ReadingProgress(ctx))
    except (Refused, NotRecoverable, VerificationFailed, OSError) as problem:
        gone = isinstance(problem, OSError)
        why = f"{problem}; if it was purged or pruned just now, try again" if gone else str(problem)
        yield LogRead(name=files[0].record.called, size=0, end="", problem=why)


class _ReadingProgress:
    """Tells whoever watches how far the reading is."""

    def __init__(self, ctx: Context) -> None:
        self._progress, self._name = ctx.progress, ""

    def __call__(self, name: str, done: int, total: int) -> None:
        if name != self._name:
            self._progress.phase("reading", name)
            self._name = name
        self._progress.advance(done, total)


def _through_servers(
    ctx: Context, search: ServerSearch, catalog: Catalog, wanted: LogFilter
) -> Iterator[EntryOrRead]:
    """What the running server has, and what only a backup's files hold."""
    if wanted.after:
        yield from _live(ctx, search, wanted)
        return
    held = [backup for log in known_logs(ctx, catalog) for backup in log.backups]
    older = _older(ctx, catalog, held, wanted)
    own = replace(wanted, follows=_end(newest(older, wanted.until)))
    if wanted.backwards:
        yield from _live(ctx, search, own)
    after = ""
    for backup in sooner(_needed(older, wanted), wanted):
        front = _end(lost_behind(backup, held, wanted.until))
        asked = replace(wanted, after=after, follows=front)
        for each in _locked(ctx, catalog, backup, asked):
            if isinstance(each, LogRead) and not wanted.backwards:
                after = each.end or after
            yield each
    if not wanted.backwards:
        yield from _live(ctx, search, replace(own, after=after))


def _end(backup: Backup | None) -> str:
    return backup.record.log_to if backup else ""


def _live(ctx: Context, search: ServerSearch, wanted: LogFilter) -> Iterator[EntryOrRead]:
    ctx.progress.phase("reading", "the server's own log")
    try:
        yield from search.live(wanted)
    except (DatabaseError, Refused) as problem:
        yield _not_read(ctx, wanted, str(problem))


def _not_read(ctx: Context, wanted: LogFilter, why: str) -> LogRead:
    """The server's own log, which the server has to be asked for."""
    said = f"the server's own log was not read: {why}"
    return LogRead(name=ctx.instance, size=0, end=wanted.after, problem=said)


def _in_backups(catalog: Catalog, wanted: LogFilter) -> bool:
    """Whether all that was committed up to the last moment that is wanted is in a backup."""
    return wanted.until is not None and any(b.finished and b.reaches(wanted.until) for b in catalog.backups)


def _older(ctx: Context, catalog: Catalog, held: Sequence[Backup], wanted: LogFilter) -> list[Backup]:
    """Choose those that hold log which the running server has no more; none where it has all that is
    wanted."""
    try:
        last = max((b for b in catalog.backups if log_known(b.record)), key=lambda b: b.createtxg)
        live = ctx.log_reader.live_log(last.files(catalog.all_datasets), live_files(catalog.datasets))
    except ZbackupError:
        live = None
    if live is None:
        return list(held)
    begun = ctx.log_reader.written(live.first)
    if begun and wanted.since and begun <= wanted.since:
        return []
    return [b for b in held if position_of(b.record.log_from) < position_of(live.first)]


def _needed(older: Sequence[Backup], wanted: LogFilter) -> list[Backup]:
    """Leave out those that are from before what is wanted."""
    return [b for b in older if not wanted.since or b.record.taken >= wanted.since]


def _locked(ctx: Context, catalog: Catalog, backup: Backup, wanted: LogFilter) -> Iterator[EntryOrRead]:
    with own_name(ctx, search_names(ctx.instance), "zbackup log") as name:
        yield from in_one_backup(ctx, catalog, backup, wanted, name)


@contextmanager
def _clone_of(ctx: Context, catalog: Catalog, backup: Backup, name: str) -> Iterator[RecoveryFiles]:
    """Files of a backup, on a clone. Whoever asks holds the lock of its name."""
    ctx.recovery.check_program(backup.record)
    ctx.progress.phase("reading", f"the log in {backup.name}, by a server on a clone")
    clone = Clone(
        id=clone_datasets.new_id(),
        name=name,
        instance=ctx.instance,
        engine=backup.record.engine,
        kind="log",
        state="building",
        created=ctx.clock.now(),
        backup=backup.name,
    )
    with log_clone(ctx, catalog, clone, backup, keep=False) as made:
        yield made[0]
