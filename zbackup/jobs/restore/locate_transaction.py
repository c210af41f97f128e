"""Find the transaction before which a restore is to end, in the log of the server and of all backups."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context, live_files
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.errors import NotFound, NotRecoverable, VerificationFailed, ZbackupError
from zbackup.model.log import Searched, Transaction, place
from zbackup.model.moment import local_text
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import Gtid, TransactionName
from zbackup.plan.recovery.before_transaction import covering, log_holders

UNKNOWN = ""
"""In place of the id of a log of which no backup holds the beginning."""


@dataclass(frozen=True, slots=True)
class _Log:
    """One log, by its id, and where its files are, the newest part first."""

    id: str
    parts: list[BackupFiles]


def locate(ctx: Context, name: TransactionName, base: str = "") -> BeforeTransaction:
    """Look it up; changes nothing. `base` names the backup to start from: only its log is looked at then.

    Raise UsageError when the name means nothing in such a log, NotRecoverable when it is in none of those
    that are left, or stands for one transaction in this log and for another in that.
    """
    ctx.log_reader.check_name(name)
    catalog = ctx.catalog()
    return _located(ctx, name, catalog, _logs(ctx, catalog, base))


def locate_in(ctx: Context, name: TransactionName, catalog: Catalog) -> BeforeTransaction:
    """The same in the backups of a catalogue alone."""
    return _located(ctx, name, catalog, _stored(catalog, log_holders(catalog.backups)))


def _located(
    ctx: Context, name: TransactionName, catalog: Catalog, logs: Iterable[_Log]
) -> BeforeTransaction:
    searched = [(log, each) for log in logs if (each := _find(ctx, name, log))]
    if not searched:
        raise NotRecoverable("there is no finished backup to start from: run zbackup snapshot first")
    found: dict[Transaction, set[str]] = {}
    for log, each in searched:
        if each.found:
            found.setdefault(each.found, set()).add(log.id)
    if not found:
        raise NotRecoverable(_nowhere(ctx, name, [each for _, each in searched], catalog.backups))
    if len(found) > 1:
        times = " and ".join(local_text(t.committed, ctx.zone) for t in found)
        raise NotRecoverable(
            f"{name} is in {len(found)} logs, committed {times}: "
            "say which with --base, the backup to start from"
        )
    [(transaction, held_by)] = found.items()
    return BeforeTransaction(name=name, transaction=transaction, logs=frozenset(held_by))


def _find(ctx: Context, name: TransactionName, log: _Log) -> Searched | None:
    """None where the server's own log cannot be read, and no backup leads to it anyway."""
    try:
        return ctx.log_reader.find(name, log.parts)
    except (NotRecoverable, VerificationFailed, OSError) as problem:
        if log.id == UNKNOWN:
            ctx.progress.note(f"the live log cannot be looked at: {problem}")
            return None
        if not isinstance(problem, OSError):
            raise
        # Nobody is kept from working on the instance meanwhile, and a server purges when it wants to.
        gone = f"{problem}; if it was purged or pruned just now, try again"
        raise NotRecoverable(f"the log cannot be searched for {name}: {gone}") from problem


def _logs(ctx: Context, catalog: Catalog, base: str) -> Iterator[_Log]:
    """Every log that backups hold, the newest first; the server's own is part of the one that it goes on."""
    holders = sorted(log_holders(catalog.backups), key=lambda b: b.createtxg, reverse=True)
    if not holders:
        return
    wanted = {b.record.log_id for b in holders if base in ("", b.name)}
    if not wanted:
        raise NotFound(f"there is no finished backup {base} to start from: see zbackup list")
    live, live_id = _live(ctx, catalog, holders[0])
    if live and live_id == UNKNOWN and not base:
        yield _Log(UNKNOWN, [live])
    for log in _stored(catalog, [b for b in holders if b.record.log_id in wanted]):
        yield _Log(log.id, [live, *log.parts]) if live and live_id == log.id else log


def _stored(catalog: Catalog, holders: Sequence[Backup]) -> Iterator[_Log]:
    """The logs that these hold, in their order."""
    for log_id in dict.fromkeys(b.record.log_id for b in holders):
        parts = covering([b for b in holders if b.record.log_id == log_id])
        yield _Log(log_id, [b.files(catalog.places) for b in parts])


def _live(ctx: Context, catalog: Catalog, newest: Backup) -> tuple[BackupFiles | None, str]:
    """The log that the server writes now, None when it cannot be read, and its id."""
    live = live_files(catalog.datasets)
    part = BackupFiles(newest.record, live)
    try:
        span = ctx.log_reader.live_log(newest.files(catalog.places), live)
    except NotRecoverable:
        return part, UNKNOWN
    except (ZbackupError, OSError) as problem:
        ctx.progress.note(f"the live log cannot be looked at: {problem}")
        return None, UNKNOWN
    if span is None or place(span.first) > place(newest.record.log_to):
        return part, UNKNOWN
    return part, newest.record.log_id


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
