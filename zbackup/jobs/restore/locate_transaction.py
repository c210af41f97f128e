"""Find the transaction before which a restore is to end, in the log of the server and of all backups."""

from collections.abc import Collection, Iterable, Mapping

from zbackup.catalog.local import Catalog
from zbackup.engines.log_search import FileSearch, ServerSearch
from zbackup.jobs.context import Context
from zbackup.jobs.restore.known_logs import UNKNOWN, KnownLog, known_logs, stored_logs
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable, UsageError, VerificationFailed
from zbackup.model.log import Searched, Transaction
from zbackup.model.moment import local_text
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import Gtid, TransactionName
from zbackup.plan.recovery.before_transaction import with_known_log


def locate(ctx: Context, name: TransactionName, base: str = "") -> BeforeTransaction:
    """Look it up; changes nothing. `base` names the backup to start from: only its log is looked at then.

    Raise UsageError when the name means nothing in such a log, NotRecoverable when it is in none of those
    that are left, or if several transactions have it: the message lists each with its time and position.
    """
    files = search_by_name(ctx, name)
    catalog = ctx.catalog()
    return _located(ctx, files, name, catalog, known_logs(ctx, catalog, base))


def search_by_name(ctx: Context, name: TransactionName) -> FileSearch:
    """Return what finds a transaction of that name. Raise UsageError when it means nothing in such a log."""
    if isinstance(ctx.log_search, ServerSearch):
        raise UsageError(
            f"{name} names nothing in MongoDB's oplog, where entries have cluster times: SECONDS,INCREMENT, "
            "as zbackup log shows them (zbackup restore --to-timestamp)"
        )
    ctx.log_search.check_name(name)
    return ctx.log_search


def locate_in(ctx: Context, name: TransactionName, catalog: Catalog) -> BeforeTransaction:
    """The same in the backups of a catalogue alone."""
    stored = stored_logs(catalog, with_known_log(catalog.backups))
    return _located(ctx, search_by_name(ctx, name), name, catalog, stored)


def _located(
    ctx: Context, files: FileSearch, name: TransactionName, catalog: Catalog, logs: Iterable[KnownLog]
) -> BeforeTransaction:
    searched = [(log, each) for log in logs if (each := _find(ctx, files, name, log))]
    if not searched:
        raise NotRecoverable("there is no finished backup to start from: run zbackup snapshot first")
    found: dict[Transaction, set[str]] = {}
    for log, each in searched:
        for one in filter(None, (each.found, *each.others)):
            found.setdefault(one, set()).add(log.id)
    if not found:
        raise NotRecoverable(_nowhere(ctx, name, [each for _, each in searched], catalog.backups))
    if len(found) > 1:
        raise NotRecoverable(_which(ctx, name, found))
    [transaction] = found
    return BeforeTransaction(name=name, transaction=transaction, logs=frozenset(found[transaction]))


def _which(ctx: Context, name: TransactionName, found: Mapping[Transaction, Collection[str]]) -> str:
    """Return the message that lists the transactions with this name, and how to choose one."""
    each = [f"{local_text(t.committed, ctx.zone)}  --before {t.start}" for t in found]
    logs = set().union(*map(set, found.values()))
    if len(logs) == 1:
        told = f"{name} is {len(found)} times in the log. Give the position of the one you mean:"
    else:
        told = (
            f"{name} is in {len(logs)} logs, and means {len(found)} different transactions. Choose one with "
            "--base (the backup to start from), or by its position:"
        )
    return "\n  ".join((told, *each))


def _find(ctx: Context, files: FileSearch, name: TransactionName, log: KnownLog) -> Searched | None:
    """None where the server's own log cannot be read, and no backup leads to it anyway."""
    try:
        return files.find(name, log.files)
    except (NotRecoverable, VerificationFailed, OSError) as problem:
        if log.id == UNKNOWN:
            ctx.progress.note(f"the live log cannot be read: {problem}")
            return None
        if not isinstance(problem, OSError):
            raise
        # Nobody is kept from working on the instance meanwhile, and a server purges when it wants to.
        gone = f"{problem}; if it was purged or pruned just now, try again"
        raise NotRecoverable(f"the log cannot be searched for {name}: {gone}") from problem


def _nowhere(
    ctx: Context, name: TransactionName, searched: list[Searched], backups: tuple[Backup, ...]
) -> str:
    without = isinstance(name, Gtid) and not any(b.record.gtid for b in backups)
    hint = "; no GTIDs were recorded with the backups: without them, give FILE:POSITION" if without else ""
    there = "; ".join(
        f"{each.why} (the log reaches from {each.first}{_since(ctx, each)} to {each.last})"
        for each in searched
    )
    return f"cannot restore to before {name}: {there}{hint}"


def _since(ctx: Context, each: Searched) -> str:
    return f", begun {local_text(each.begun, ctx.zone)}," if each.begun else ""
