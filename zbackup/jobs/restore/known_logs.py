"""Tell which logs there are: of the server, and of its backups."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context, live_files
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.errors import NotFound, NotRecoverable, ZbackupError
from zbackup.model.log import position_of
from zbackup.plan.recovery.before_transaction import covering, with_known_log

UNKNOWN = ""
"""In place of the id of a log of which no backup holds the beginning."""


@dataclass(frozen=True, slots=True)
class KnownLog:
    """One log, by its id, and where its files are, the newest first; `live`: that is the server's own.

    `backups` are those of the other files, in the same order.
    """

    id: str
    files: list[BackupFiles]
    live: bool = False
    backups: tuple[Backup, ...] = ()


def known_logs(
    ctx: Context, catalog: Catalog, base: str = "", unread: Callable[[str], None] | None = None
) -> Iterator[KnownLog]:
    """Every log that backups hold, the newest first; the server's own is part of the one that it goes on.

    `base` names the backup whose log alone is meant. `unread` is told why the server's own log is not among
    them; without it that is a note.
    Raise NotFound when there is none of that name.
    """
    holders = sorted(with_known_log(catalog.backups), key=lambda b: b.createtxg, reverse=True)
    if not holders:
        return
    wanted = {b.record.log_id for b in holders if base in ("", b.name)}
    if not wanted:
        raise NotFound(f"there is no finished backup {base} to start from: see zbackup list")
    live, live_id = _live(ctx, catalog, holders[0], unread or _noted(ctx))
    if live and live_id == UNKNOWN and not base:
        yield KnownLog(UNKNOWN, [live], live=True)
    for log in stored_logs(catalog, [b for b in holders if b.record.log_id in wanted]):
        here = live if live_id == log.id else None
        yield KnownLog(log.id, [here, *log.files], True, log.backups) if here else log


def stored_logs(catalog: Catalog, holders: Sequence[Backup]) -> Iterator[KnownLog]:
    """The logs that these hold, in their order."""
    for log_id in dict.fromkeys(b.record.log_id for b in holders):
        found = covering([b for b in holders if b.record.log_id == log_id])
        yield KnownLog(log_id, [b.files(catalog.all_datasets) for b in found], backups=tuple(found))


def _noted(ctx: Context) -> Callable[[str], None]:
    return lambda problem: ctx.progress.note(f"the live log cannot be read: {problem}")


def _live(
    ctx: Context, catalog: Catalog, newest: Backup, unread: Callable[[str], None]
) -> tuple[BackupFiles | None, str]:
    """The log that the server writes now, None when it cannot be read, and its id."""
    live = live_files(catalog.datasets)
    files = BackupFiles(newest.record, live)
    try:
        span = ctx.log_reader.live_log(newest.files(catalog.all_datasets), live)
    except NotRecoverable:
        return files, UNKNOWN
    except (ZbackupError, OSError) as problem:
        unread(str(problem))
        return None, UNKNOWN
    if span is None or position_of(span.first) > position_of(newest.record.log_to):
        return files, UNKNOWN
    return files, newest.record.log_id
