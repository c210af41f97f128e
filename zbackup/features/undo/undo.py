"""Take back one transaction: find it, look at production, ask, act, report.

It goes by the log's row images. Where these are not whole, and of MongoDB, whose oplog holds differences, a
clone that is restored to just before the transaction tells the rest.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, cast
from zoneinfo import ZoneInfo

from zbackup.features.undo.ports import Undoer
from zbackup.features.undo.undoing import ImagesIncomplete, UndoneTable, UndoPlan, UndoWish
from zbackup.jobs.clones.claim import announce
from zbackup.jobs.clones.temporary import own_name, what_is_left
from zbackup.jobs.context import Context
from zbackup.jobs.restore.known_logs import known_logs
from zbackup.jobs.restore.locate_transaction import locate
from zbackup.jobs.restore.options import Finish, RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.jobs.restore.search_log import require_all_read, search_behind
from zbackup.model.backup import BackupFiles
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.event_log import log
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.log_entry import LogEntry, LogRead
from zbackup.model.moment import local_text
from zbackup.model.recovery import Entrance, RecoveryFiles
from zbackup.model.target import BeforeTransaction, RestoreTarget
from zbackup.model.transaction_name import TransactionName
from zbackup.plan.clones.clone_name import undo_names

Result = TypeVar("Result")


def on_a_clone(ctx: Context, before: RestoreTarget, use: Callable[[Entrance], Result]) -> Result:
    """Return what `use` does with a server that has everything up to the target.

    The clone is never finished, so that the next run removes what a killed one leaves of it. Raise what
    restore() raises, and what `use` does.
    """
    done: list[Result] = []

    def hand_over(files: RecoveryFiles, clone: Clone) -> Clone:
        with ctx.recovery.entered(files, ctx.progress) as entrance:
            done.append(use(entrance))
        return clone

    finish = Finish(begin=partial(announce, ctx), hand_over=hand_over)
    with own_name(ctx, undo_names(ctx.instance), "zbackup undo") as name:
        restore(ctx, before, RestoreOptions(name=name, finish=finish), locked=True)
    what_is_left(ctx, name)
    return done[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReport:
    """`tables` say what was done, or after a dry run what would be; `statements` are the reverse then."""

    instance: str
    name: str
    transaction: Transaction
    plan: UndoPlan
    tables: tuple[UndoneTable, ...]
    statements: tuple[str, ...] = ()

    @property
    def left(self) -> int:
        """Count what is not taken back."""
        return sum(table.left for table in self.tables)


Confirm = Callable[[UndoReport], None]
"""Asked before production's rows are changed; raises what ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOptions:
    """With `dry_run` nothing is changed in production; `fire_triggers`: its triggers may run for each row."""

    dry_run: bool = False
    fire_triggers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _UndoneTransaction:
    """The transaction, and a target that is everything `before` it. `altered` says of tables how their
    definition was changed since."""

    name: str
    transaction: Transaction
    before: RestoreTarget
    altered: Mapping[str, str] = field(default_factory=dict)


def undo(
    ctx: Context, name: TransactionName | ClusterTime, options: UndoOptions, confirm: Confirm
) -> UndoReport:
    """Put back the rows that a transaction changed, where production still has what it wrote.

    Raise UsageError, NotRecoverable or Refused before anything is changed; DatabaseError or
    VerificationFailed when it could not be finished: the same command continues it.
    """
    if ctx.undoer is None or ctx.copier is None:
        raise Refused(
            f"zbackup takes back no transactions of {ctx.engine_name}: zbackup restore --before ..."
        )
    ctx.copier().require_account()
    ctx.progress.phase("finding", str(name))
    undoer = cast("Undoer", ctx.undoer())
    subject = _subject(ctx, undoer, name)
    work = _Work(ctx=ctx, undoer=undoer, subject=subject, options=options, confirm=confirm)
    try:
        report = _whole(ctx, work)
    except ImagesIncomplete as why:
        tables = [word for table in why.tables for word in ("--table", table)]
        option = "--to-timestamp" if isinstance(name, ClusterTime) else "--before"
        what = (option, name, *tables, "--missing", "--changed")
        raise Refused(
            f"{why}: {command_line('zbackup', 'restore', ctx.instance, *what)} puts back all that differs "
            "from then"
        ) from why
    log.info("undo.finished", transaction=str(name), left=report.left, dry_run=options.dry_run)
    return report


def _whole(ctx: Context, work: "_Work") -> UndoReport:
    """Undo by the log alone, or by a clone as well. Raise ImagesIncomplete where both are not enough."""
    try:
        return work.done()
    except ImagesIncomplete as why:
        if not why.by_clone:
            raise
        ctx.progress.note(f"{why}: a server is restored to just before it, and tells the rest")
        return on_a_clone(ctx, work.subject.before, work.done)


def _subject(ctx: Context, undoer: Undoer, name: TransactionName | ClusterTime) -> _UndoneTransaction:
    if isinstance(name, ClusterTime):
        return _UndoneTransaction(name=str(name), transaction=undoer.find(name), before=name)
    found = locate(ctx, name)
    altered = altered_by(search_behind(ctx, found, frozenset({"ddl"})), ctx.zone)
    return _UndoneTransaction(name=str(name), transaction=found.transaction, before=found, altered=altered)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One undo, and all that is known of it."""

    ctx: Context
    undoer: Undoer
    subject: _UndoneTransaction
    options: UndoOptions
    confirm: Confirm

    def done(self, entrance: Entrance | None = None) -> UndoReport:
        """Look, ask and act, in sessions that are opened here; `entrance` leads to a clone."""
        subject = self.subject
        wish = UndoWish(name=subject.name, altered=subject.altered, fire_triggers=self.options.fire_triggers)
        # A restore meanwhile may have pruned what was read before it.
        files = _log_files(self.ctx, subject.before) if isinstance(subject.before, BeforeTransaction) else ()
        opened = self.undoer.session(subject.transaction, files, wish, entrance, self.ctx.progress)
        with opened as session:
            plan = session.plan()
            for note in plan.notes:
                self.ctx.progress.note(note)
            report = UndoReport(
                instance=self.ctx.instance,
                name=subject.name,
                transaction=subject.transaction,
                plan=plan,
                tables=plan.tables,
            )
            if self.options.dry_run:
                return replace(report, statements=tuple(session.statements()))
            if plan.changes:
                self.confirm(report)
                report = replace(report, tables=session.act())
            return report


def _log_files(ctx: Context, found: BeforeTransaction) -> tuple[BackupFiles, ...]:
    """The log that holds the transaction."""
    for known in known_logs(ctx, ctx.catalog()):
        if known.id in found.logs:
            return tuple(known.files)
    raise NotRecoverable(f"the log that holds {found.name} was pruned just now")


def altered_by(found: Iterable[LogEntry | LogRead], zone: ZoneInfo) -> dict[str, str]:
    """Map tables to the first change of their definition in this log, by their names in small letters.

    Raise what kept the log from being read as a whole.
    """
    altered: dict[str, str] = {}
    reads = []
    for each in found:
        if isinstance(each, LogRead):
            reads.append(each)
            continue
        at, name = local_text(each.transaction.committed, zone), each.transaction
        for touched in each.tables:
            if set(touched.kinds) - {"truncate"} == {"ddl"} and "truncate" in touched.kinds:
                continue  # its columns are as they were
            altered.setdefault(touched.name.lower(), f"at {at}, by {name.gtid or name.start}: {each.text}")
    require_all_read(reads)
    return altered
