"""Find the last statement that dropped or emptied a table, and the target just before it."""

from zbackup.engines.log_search import ServerSearch
from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.search_log import require_all_read
from zbackup.jobs.restore.source import Source
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, UsageError, ZbackupError
from zbackup.model.log import ClusterTime
from zbackup.model.log_entry import Kind, LogEntry, LogFilter
from zbackup.model.moment import local_text
from zbackup.model.target import RestoreTarget
from zbackup.model.transaction_name import parse_transaction
from zbackup.plan.recovery.last_drop import LastDrop

DEFINED: frozenset[Kind] = frozenset({"ddl", "drop", "truncate"})
ANY: frozenset[Kind] = frozenset()


def find_last_drop(ctx: Context, source: Source, table: str, kind: Kind) -> LogEntry:
    """The last transaction in the log that did this to SCHEMA.TABLE when there was something to do it to.

    The newest files are read first, and none behind the one that tells. A later change of the table's
    definition is told of. Raise NotFound, naming the last other change of the table's definition, when there
    is none; what require_all_read() raises when one may be where the log could not be read, with the way out.
    """
    if not all(table.partition(".")):
        raise UsageError(f'"{table}" is no SCHEMA.TABLE, such as shop.orders')
    # An oplog has no drop of a collection that was not there: its documents need not be looked at.
    sure = isinstance(ctx.log_search, ServerSearch)
    seen = _walk(ctx, source, LastDrop(table, kind, only_of_what_was_there=sure), DEFINED if sure else ANY)
    if seen.found is None:
        hint = ""
        if seen.defined is not None:
            hint = f"; the last change of its definition was {_words(ctx, seen.defined)}"
        if seen.renamed is not None:
            entry, new = seen.renamed
            hint = f"; it got the name {new} {_words(ctx, entry)}: ask for that one, or restore --before it"
        raise NotFound(
            f"no {kind} of {table} is in the log{hint}: see "
            f"{command_line('zbackup', 'log', '--table', table)}"
        )
    if seen.defined is not None and seen.defined != seen.found:
        ctx.progress.note(
            f"the definition of {table} was changed again after this {kind}, the last time "
            f"{_words(ctx, seen.defined)}: see {command_line('zbackup', 'log', '--table', table)}"
        )
    return seen.found


def just_before(ctx: Context, source: Source, entry: LogEntry, options: RestoreOptions) -> RestoreTarget:
    """The target that is everything before the transaction. Raise NotRecoverable when nothing leads there."""
    subject = entry.transaction
    if isinstance(ctx.log_search, ServerSearch):
        return ClusterTime.parse(subject.start.partition("@")[0])
    return source.transaction(ctx, parse_transaction(subject.gtid or subject.start), options.base)


def _words(ctx: Context, entry: LogEntry) -> str:
    at, name = local_text(entry.transaction.committed, ctx.zone), entry.transaction
    return f"at {at}, by {name.gtid or name.start}: {entry.text}"


def _walk(ctx: Context, source: Source, seen: LastDrop, kinds: frozenset[Kind]) -> LastDrop:
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
    return seen


def _by_hand(ctx: Context, source: Source, seen: LastDrop) -> str:
    """Tell how it is found, and restored to, by somebody who knows that it is none of what was not read."""
    from zbackup.jobs.restore.destination_source import DestinationSource

    server = isinstance(ctx.log_search, ServerSearch)
    name = "--to-timestamp SECONDS,INC" if server else "--before TRANSACTION"
    doubt = f"whether that holds a later {seen.kind} nobody can tell"
    there: tuple[str, ...] = ()
    if isinstance(source, DestinationSource):
        if source.address:
            # No other command looks into log there, as there is no configuration.
            option = command_line(f"--before-{seen.kind}", seen.table)
            return f"{doubt}. If you know which is meant, repeat this command with {name} instead of {option}"
        there = (source.destination.name,)
    look = ("zbackup", "log", ctx.instance, *(("--at", *there) if there else ()))
    then = ("zbackup", "restore", ctx.instance, *(("--from", *there) if there else ()))
    return (
        f"{doubt}. See what was read: "
        f"{command_line(*look, '--table', seen.table, '--kind', seen.kind)}, and name the one that is meant: "
        f"{command_line(*then)} {name}"
    )
