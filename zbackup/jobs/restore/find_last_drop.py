"""Find the last statement that dropped or emptied a table, and the target just before it."""

from collections.abc import Collection
from typing import Literal

from zbackup.engines.log_search import ServerSearch
from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.prove import has_table
from zbackup.jobs.restore.search_log import require_all_read
from zbackup.jobs.restore.source import BackupSource
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, Refused, UsageError, ZbackupError
from zbackup.model.log import ClusterTime, position_of
from zbackup.model.log_entry import Kind, LogEntry, LogFilter
from zbackup.model.moment import local_text
from zbackup.model.proof import ProofSubject
from zbackup.model.table_name import EVERY_TABLE, TableName, parse_table, separated
from zbackup.model.target import RestoreTarget
from zbackup.model.transaction_name import parse_transaction
from zbackup.plan.recovery.last_drop import LastDrop
from zbackup.plan.recovery.proof import was_missed

DEFINED: frozenset[Kind] = frozenset({"ddl", "drop", "truncate"})
ANY: frozenset[Kind] = frozenset()


def find_last_drop(
    ctx: Context, source: BackupSource, subject: ProofSubject, disproved: Collection[str] = ()
) -> LogEntry:
    """Return the last transaction in the log that dropped (or emptied) a table that existed.

    Files are read from the newest back, until the answer is known. A note reports a later change of the
    table's definition. Transactions at the positions in `disproved` do not count. Raise NotFound if there is
    no such transaction, with the last change of the definition; Refused if production shows that a later
    drop was missed; the errors of require_all_read(), with a remedy, if an unreadable part of the log may
    have a later one.
    """
    name, kind = subject.table, subject.kind
    assert name and kind
    table, look = (
        str(name),
        command_line("zbackup", "log", ctx.instance, "--table", name.typed(ctx.engine_name)),
    )
    # An oplog has no drop of a collection that was not there: its documents need not be looked at.
    sure = isinstance(ctx.log_search, ServerSearch)
    seen = LastDrop(table, kind, only_of_what_was_there=sure, disproved=disproved)
    _walk(ctx, source, seen, DEFINED if sure else ANY)
    if seen.found is None and seen.view is not None:
        return seen.view
    if seen.found is None:
        hint = ""
        if seen.defined is not None:
            hint = f"; the last change of its definition was {_words(ctx, seen.defined)}"
        if seen.renamed is not None:
            entry, new = seen.renamed
            hint = (
                f"; it got the name {new} {_words(ctx, entry)}: search for that name, or restore --before it"
            )
        raise NotFound(f"no {kind} of {table} is in the log{hint}. See its other entries:\n{look}")
    _require_none_missed(ctx, subject, seen, look)
    if seen.defined is not None and seen.defined != seen.found:
        ctx.progress.note(
            f"the definition of {table} was changed again after this {kind}, the last time "
            f"{_words(ctx, seen.defined)}. See: {look}"
        )
    view, found = seen.view, position_of(seen.found.transaction.start)
    if view is not None and position_of(view.transaction.start) > found:
        ctx.progress.note(f"a view or sequence {table} was dropped later, {_words(ctx, view)}")
    return seen.found


def searched_for(ctx: Context, typed: str, kind: Literal["drop", "truncate"]) -> ProofSubject:
    """Return the subject of a search for the last such statement. Raise UsageError if it names no table."""
    name = parse_table(typed, ctx.engine_name)
    if name.is_schema and not typed.strip().endswith(EVERY_TABLE):
        raise UsageError(f'"{typed}" is not of the form SCHEMA.TABLE, such as shop.orders')
    return ProofSubject(kind=kind, table=name)


def _require_none_missed(ctx: Context, subject: ProofSubject, seen: LastDrop, look: str) -> None:
    """Raise Refused if the table exists at the end of the log, but not in production."""
    if seen.found is None or seen.last is None or subject.kind != "drop" or not seen.there:
        return
    if was_missed(subject, seen.there, has_table(ctx, subject.table)):
        restore = command_line("zbackup", "restore", ctx.instance, "--before", "TRANSACTION")
        raise Refused(
            f"{subject.table} does not exist on the server, but in the log it exists after the last drop "
            f"found ({_words(ctx, seen.found)}). Its last entry in the log: {_words(ctx, seen.last)}. So "
            "zbackup missed a later drop, or the server did not log it (sql_log_bin = 0). Look into the log, "
            f"then restore to before the transaction that you mean:\n  {look}\n  {restore}"
        )


def just_before(
    ctx: Context, source: BackupSource, entry: LogEntry, options: RestoreOptions
) -> RestoreTarget:
    """The target that is everything before the transaction. Raise NotRecoverable when nothing leads there."""
    subject = entry.transaction
    if isinstance(ctx.log_search, ServerSearch):
        return ClusterTime.parse(subject.start.partition("@")[0])
    return source.transaction(ctx, parse_transaction(subject.gtid or subject.start), options.base)


def _words(ctx: Context, entry: LogEntry) -> str:
    at, name = local_text(entry.transaction.committed, ctx.zone), entry.transaction
    return f"at {at}, by {name.gtid or name.start}: {entry.text}"


def _walk(ctx: Context, source: BackupSource, seen: LastDrop, kinds: frozenset[Kind]) -> None:
    """Read file by file, the newest first, until it is known what was the last; files tell in their order."""
    for each in source.search(ctx, LogFilter(tables=(seen.table,), kinds=kinds, backwards=True)):
        if isinstance(each, LogEntry):
            seen.saw(each)
            continue
        try:
            require_all_read([each])
        except ZbackupError as problem:
            if seen.found is None:
                problem.args = (f"{problem}; {_by_hand(ctx, source, seen)}",)
                raise
            ctx.progress.note(f"that {seen.table} was there before it was not seen: {problem}")
            break
        if seen.ended_file():
            break


def _by_hand(ctx: Context, source: BackupSource, seen: LastDrop) -> str:
    """How it is found, and restored to, by somebody who knows that it is none of what was not read."""
    from zbackup.jobs.restore.destination_source import DestinationSource

    server = isinstance(ctx.log_search, ServerSearch)
    name = "--to-timestamp SECONDS,INC" if server else "--before TRANSACTION"
    table = TableName(*separated(seen.table)).typed(ctx.engine_name)
    doubt = f"whether that holds a later {seen.kind} nobody can tell"
    there: tuple[str, ...] = ()
    if isinstance(source, DestinationSource):
        if source.address:
            # No other command looks into log there, as there is no configuration.
            option = command_line(f"--before-{seen.kind}", table)
            return f"{doubt}. If you know which is meant, repeat this command with {name} instead of {option}"
        there = (source.destination.name,)
    look = ("zbackup", "log", ctx.instance, *(("--at", *there) if there else ()))
    then = ("zbackup", "restore", ctx.instance, *(("--from", *there) if there else ()))
    return (
        f"{doubt}. See what was read: "
        f"{command_line(*look, '--table', table, '--kind', seen.kind)}, and name the one that is meant: "
        f"{command_line(*then)} {name}"
    )
