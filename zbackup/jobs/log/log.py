"""Show what happened, by the log of the server and of its backups. Looks only."""

import heapq
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial

from zbackup.engines.log_search import ServerSearch
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.restore.known_logs import known_logs
from zbackup.jobs.restore.locate_transaction import locate, search_by_name
from zbackup.jobs.restore.search_log import images_by_servers, search_further, search_log
from zbackup.model.errors import NotRecoverable, UsageError, VerificationFailed
from zbackup.model.log import ClusterTime, position_of
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.transaction_name import FORMS, TransactionName
from zbackup.plan.calendar import back

POLL_S = 0.5


def promised_from(ctx: Context, wanted: LogFilter, destination: ShipDestination | None) -> datetime | None:
    """From when on all is to be seen, by the retention here or at a destination; None where it is asked from
    when on.

    Older backups are thinned out, and what the log held between those that are left is lost by intent.
    """
    if wanted.since:
        return None
    retention = destination.retention if destination else ctx.retention
    return back(ctx.clock.now(), retention.window, ctx.zone)


def was_promised(read: LogRead, promised: datetime | None) -> bool:
    """Whether what was not read may be to be seen: what is known to be from before then is not."""
    return not (promised and read.lost and read.lost.until and read.lost.until <= promised)


def follow(ctx: Context, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
    """All that is wanted, and then what comes, until somebody interrupts it."""
    after, told = "", {""}
    for each in search_log(ctx, wanted):
        if isinstance(each, LogRead):
            after = each.end or after
            told.add(each.problem)
        yield each
    further = _further(ctx)
    while True:
        time.sleep(POLL_S)
        for each in further(replace(wanted, after=after, follows=after)):
            if isinstance(each, LogEntry):
                yield each
            elif each.damaged:
                raise VerificationFailed(each.problem)
            else:
                if each.problem not in told and not each.torn:
                    told.add(each.problem)
                    yield each
                if each.end and position_of(each.end) < position_of(after):
                    ctx.progress.note("the server began its log again, which is shown from its beginning")
                after = each.end or after


def _further(ctx: Context) -> Callable[[LogFilter], Iterator[LogEntry | LogRead]]:
    """Return what tells what the server has written since. Raise NotRecoverable where nothing does."""
    search = ctx.log_search
    if isinstance(search, ServerSearch):
        return search.live
    found = next((log for log in known_logs(ctx, ctx.catalog()) if log.live), None)
    if found is None:
        raise NotRecoverable("the server's own log cannot be read here, so there is nothing to follow")
    return partial(search_further, ctx, search, found.files[0])


def largest(found: Iterator[LogEntry | LogRead], count: int) -> Iterator[LogEntry | LogRead]:
    """The `count` transactions with most bytes of those found, the largest first; behind what was read."""
    heap: list[tuple[int, int, LogEntry]] = []
    for number, each in enumerate(found):
        if isinstance(each, LogRead):
            yield each
            continue
        heapq.heappush(heap, (each.size, -number, each))
        if len(heap) > count:
            heapq.heappop(heap)
    yield from (entry for _, _, entry in sorted(heap, reverse=True))


def rows_of(ctx: Context, name: TransactionName | ClusterTime) -> Iterator[str]:
    """The rows of one transaction before and after, or its operations, in lines.

    Raise NotRecoverable when it is in no log, UsageError when nothing is called like that in this engine's.
    """
    if isinstance(name, ClusterTime):
        if not isinstance(ctx.log_search, ServerSearch):
            raise UsageError(f"{name} is a cluster time, as MongoDB has them: write {FORMS}")
        yield from images_by_servers(ctx, ctx.log_search, name)
        return
    search, before = search_by_name(ctx, name), locate(ctx, name)
    for log in known_logs(ctx, ctx.catalog()):
        if log.id in before.logs:
            yield from search.images(log.files, before.transaction)
            return
    raise NotRecoverable(f"the log that {name} is in was not found again: try again")
