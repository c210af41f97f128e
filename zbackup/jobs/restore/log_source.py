"""Tell which log a restore reads: whether it leads on from the base, and whether its times tell where to
stop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context, live_files
from zbackup.model.anchors import Anchor
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.commit_times import micros
from zbackup.model.errors import ClockDisputed, NotRecoverable
from zbackup.model.log import Transaction, how_many
from zbackup.model.moment import local_text
from zbackup.model.recovery import ReplayRange
from zbackup.model.target import Stop, Time
from zbackup.plan.recovery.clock_anchors import END_OF_LOG, anchors_of


@dataclass(frozen=True, slots=True)
class Examined:
    """A log source, what would be replayed of it, and those that are to be tried after it."""

    log: Backup | None
    replay: ReplayRange | None
    others: tuple[Backup, ...]


def examined(
    ctx: Context,
    catalog: Catalog,
    known: tuple[Sequence[Backup], Backup, Sequence[Backup | None]],
    stop: Stop,
) -> Examined:
    """The first of the log sources that leads on from the base; None stands for the live log.

    `known` are all backups, the base and the log sources. Raise NotRecoverable, why the first does not, when
    none does.
    """
    backups, base, sources = known
    why: NotRecoverable | None = None
    files = base.files(catalog.all_datasets)
    for number, source in enumerate(sources, 1):
        where = source.browse(catalog.all_datasets) if source else live_files(catalog.datasets)
        record = source.record if source else base.record
        anchors = clock_anchors(ctx, backups, base, source)
        try:
            replay = ctx.log_reader.examine(files, BackupFiles(record, where), stop, anchors)
        except NotRecoverable as failure:
            why = why or failure
            continue
        return Examined(source, replay, tuple(b for b in sources[number:] if b))
    raise why or NotRecoverable("there is no log to continue with")


def nothing_replayed(target: datetime) -> ReplayRange:
    """What is replayed of a log for a backup as it is."""
    return ReplayRange(
        last_applied=None,
        first_skipped=None,
        transactions=0,
        log_bytes=0,
        out_of_order=0,
        effective_target=target,
    )


def clock_anchors(
    ctx: Context, backups: Sequence[Backup], base: Backup, source: Backup | None
) -> tuple[Anchor, ...]:
    """The clock readings there are for the log behind `base`, that of now for the server's own."""
    found = anchors_of(backups, base)
    if source is not None or ctx.engine_name == "mongodb":
        return found
    now = micros(ctx.clock.now())
    return (*found, Anchor(position=END_OF_LOG, earliest=now, latest=now, clock=ctx.clock.reading()))


def require_replayable(ctx: Context, replay: ReplayRange | None) -> None:
    """Raise NotRecoverable when something would be applied that no server can, with what can be had."""
    if replay is None or replay.stopped is None:
        return
    stop = replay.stopped
    at = local_text(stop.transaction.committed, ctx.zone)
    raise NotRecoverable(
        f"{stop.named} of {at} cannot be replayed: {stop.why}; what was before it can be restored (--before "
        f"{stop.named}), and what a backup holds that was taken after it"
    )


def require_undisputed(ctx: Context, replay: ReplayRange | None, stop: Stop) -> None:
    """Raise ClockDisputed when the log can be read in two ways there, unless its times are accepted."""
    if replay is None or replay.later is None or not isinstance(stop, Time) or stop.accept_clock:
        return
    first, later = replay.first_skipped, replay.later.first_skipped
    between = replay.later.transactions - replay.transactions
    where = f"before {_named(ctx, later)}" if later else "at the end of the log"
    ways = f"--before {later.start}" if later else "--to now"
    if first is None:
        raise AssertionError("a log that ends before the target has no later end")
    raise ClockDisputed(
        f"the log's times contradict its order around {local_text(stop.at, ctx.zone)}, so it is not known "
        f"where that is: before {_named(ctx, first)}, or {how_many(between)} later, {where}; look at them "
        f"with mysqlbinlog, then say --before {first.start} or {ways} instead of --to, or take the earlier "
        "with --accept-clock"
    )


def _named(ctx: Context, subject: Transaction) -> str:
    gtid = f"GTID {subject.gtid}, " if subject.gtid else ""
    return f"{subject.start} ({gtid}which says {local_text(subject.committed, ctx.zone)})"


def clock_warnings(replay: ReplayRange | None) -> tuple[str, ...]:
    """Warn of what a script should know, too: it reads no remarks."""
    if replay is None or not replay.out_of_order:
        return ()
    return (
        f"{how_many(replay.out_of_order)} behind the stop point say that they are from before the target; "
        "the order of the log is what counts",
    )
