"""Find the last statement that dropped or emptied a table, and the target just before it."""

from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.search_log import require_all_read
from zbackup.jobs.restore.source import Source
from zbackup.model.errors import NotFound, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.log_entry import Kind, LogEntry, LogFilter, LogRead
from zbackup.model.moment import local_text
from zbackup.model.target import RestoreTarget
from zbackup.model.transaction_name import parse_transaction


def last_statement(ctx: Context, source: Source, table: str, kind: Kind) -> LogEntry:
    """The last transaction in the log that did this to the table, SCHEMA.TABLE.

    The newest files are read first, and none behind the one that it is in. Raise NotFound, naming the last
    other change of the table's definition, when there is none; what require_all_read() raises when one may
    be where the log could not be read.
    """
    if not all(table.partition(".")):
        raise UsageError(f'"{table}" is no SCHEMA.TABLE, such as shop.orders')
    if found := _last(ctx, source, LogFilter(tables=(table,), kinds=frozenset({kind}), backwards=True)):
        return found
    hint = ""
    if other := _last(ctx, source, LogFilter(tables=(table,), kinds=frozenset({"ddl"}), backwards=True)):
        at, name = local_text(other.transaction.committed, ctx.zone), other.transaction
        hint = f"; the last change of its definition was at {at}, by {name.gtid or name.start}: {other.text}"
    raise NotFound(f"no {kind} of {table} is in the log{hint}: see zbackup log --table {table}")


def just_before(ctx: Context, source: Source, entry: LogEntry, options: RestoreOptions) -> RestoreTarget:
    """The target that is everything before the transaction. Raise NotRecoverable when nothing leads there."""
    subject = entry.transaction
    if not ctx.log_reader.reads_files:
        return ClusterTime.parse(subject.start.partition("@")[0])
    return source.transaction(ctx, parse_transaction(subject.gtid or subject.start), options.base)


def _last(ctx: Context, source: Source, wanted: LogFilter) -> LogEntry | None:
    """The last that is wanted; files come newest first, and what was read of each behind what is in it."""
    found: LogEntry | None = None
    for each in source.search(ctx, wanted):
        if isinstance(each, LogEntry):
            found = each
            continue
        require_all_read([each] if isinstance(each, LogRead) else [])
        if found is not None:
            return found
    return found
