"""Leave one transaction out of a restore: find it, and tell what came after it on the same tables."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from zbackup.engines.log_search import ServerSearch
from zbackup.jobs.context import Context
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.search_log import require_all_read, search_log
from zbackup.model.errors import Refused
from zbackup.model.log import Transaction, position_of
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.recovery import LeftOut
from zbackup.model.transaction_name import parse_transaction

_SHOWN = 10
_XA = ("XA COMMIT", "XA ROLLBACK")
_SET_BACK = timedelta(hours=1)
"""The most by which what stands behind a transaction in the log may say that it was committed before it."""


def without(ctx: Context, options: RestoreOptions, text: str) -> RestoreOptions:
    """The options of a restore that leaves this transaction out, from a backup that does not hold it.

    Raise Refused where none can be left out, UsageError when the text names none, NotRecoverable when it is
    in no log, or no backup leads to it.
    """
    if isinstance(ctx.log_search, ServerSearch):
        raise Refused(
            f"nothing can be left out of the oplog of {ctx.instance}: restore to before it (--to-timestamp)"
        )
    name = parse_transaction(text)
    found = LOCAL.transaction(ctx, name, options.base)
    subject = found.transaction
    if ctx.engine_name == "mysql" and not subject.gtid:
        raise Refused(
            f"{name} has no GTID, and without MySQL leaves nothing out (gtid_mode=ON): restore --before it"
        )
    return replace(options, base=LOCAL.plan(ctx, found, options).base.name, skip=subject)


def planned_without(ctx: Context, plan: RestorePlan, subject: Transaction | None) -> RestorePlan:
    """The plan, with what it leaves out and what that touched, which is told.

    Raise Refused unless the transaction is among those that would be applied, and not the last; what
    require_all_read() raises when the log cannot be searched for those that touched the same tables.
    """
    if subject is None:
        return plan
    last = require_within(plan, subject)
    found = _left_out(ctx, subject, last)
    ctx.progress.note(str(found))
    return replace(plan, left_out=found)


def require_within(plan: RestorePlan, subject: Transaction) -> Transaction:
    """Which is the last that is applied. Raise Refused unless this one is before it."""
    name = subject.gtid or subject.start
    last = plan.replay.last_applied if plan.replay else None
    if last is None or position_of(subject.start) > position_of(last.start):
        raise Refused(f"{name} is not before the target anyway: leave out --skip")
    if subject.start == last.start:
        raise Refused(f"{name} is the last before the target: use --before {name} instead of --skip")
    return last


def _left_out(ctx: Context, subject: Transaction, last: Transaction) -> LeftOut:
    moment = LogFilter(since=subject.committed, until=subject.committed + timedelta(seconds=1))
    entry = next(_from(ctx, subject, moment), None)
    if entry is None:
        raise Refused(f"{subject.start} was in the log just now, and is not any more: try again")
    if entry.prepared or entry.text.upper().startswith(_XA):
        raise Refused(
            f"{subject.gtid or subject.start} is one half of an XA transaction, which the log has in two (XA "
            "PREPARE, XA COMMIT): neither can be applied without the other, so restore --before the first"
        )
    tables = tuple(touched.name for touched in entry.tables if touched.name)
    found = LeftOut(transaction=subject, tables=tables)
    if not tables:
        return found
    since = subject.committed - _SET_BACK
    for each in _from(ctx, subject, LogFilter(tables=tables, since=since), last):
        there = each.transaction
        if position_of(there.start) > position_of(last.start):
            break
        if there.start != subject.start:
            found = replace(found, later=found.later + 1, first=(*found.first, there)[:_SHOWN])
    return found


def _from(
    ctx: Context, subject: Transaction, wanted: LogFilter, last: Transaction | None = None
) -> Iterator[LogEntry]:
    """From this transaction on, in the order of the log, up to the end of the file that holds the last one.

    Raise what kept that from being read as a whole: what is in front of it matters only if it is not found,
    and what is behind the last one not at all.
    """
    reads: list[LogRead] = []
    found = False
    for each in search_log(ctx, wanted):
        if isinstance(each, LogRead):
            reads.append(each)
            if found and last and _reaches(each, last):
                break
            continue
        if not found and _is(each.transaction, subject):
            found = True
            reads.clear()
        if found:
            yield each
    require_all_read(reads)


def _reaches(read: LogRead, last: Transaction) -> bool:
    sound = not read.problem or read.torn
    return sound and bool(read.end) and position_of(read.end) >= position_of(last.end)


def _is(one: Transaction, other: Transaction) -> bool:
    return (one.start, one.gtid, one.committed) == (other.start, other.gtid, other.committed)
