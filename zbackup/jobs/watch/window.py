"""Report what can be restored: every range of moments, every gap with its cause. Looks only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zbackup.catalog.local import Catalog
from zbackup.destinations.copies import Copies
from zbackup.jobs.backup.prune import decide
from zbackup.jobs.context import Context, ShipDestination, live_files
from zbackup.jobs.ship.archived import ArchivedCopies, archived_copies, undisputed
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed, ZbackupError
from zbackup.model.log import position_of
from zbackup.model.relocation import Relocation
from zbackup.model.retention import Retention
from zbackup.model.silence import Silence
from zbackup.model.unreplayable import Unreplayable
from zbackup.plan.calendar import back
from zbackup.plan.recovery.coverage import first_break, log_known
from zbackup.plan.recovery.window import LiveLog, RecoveryWindow, recovery_window, usable_bases
from zbackup.plan.retention.retention import KeptBackup, plan_retention

MOST_READ = 32 << 20
"""Bytes of the live log: some tenths of a second of CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowReport:
    """The window at `now`; `promised` is the moment after which all should be in reach (None: nobody promised
    anything), and `lacking` what of it is not. `as_they_are` are the backups that can be restored without a
    log. `kept` are those that a prune by the rules `retention` would keep, with reasons. `note` says why the
    live log was not read, "" if it was, and `on_trust` what is believed that nobody proved. `unreadable`
    are (snapshot, problem). `promoted`: see Catalog."""

    now: datetime
    window: RecoveryWindow
    retention: Retention
    promised: datetime | None
    lacking: tuple[tuple[datetime, datetime], ...]
    kept: tuple[KeptBackup, ...]
    note: str
    on_trust: str = ""
    unreadable: tuple[tuple[str, str], ...] = ()
    as_they_are: tuple[Backup, ...] = ()
    promoted: tuple[tuple[str, str], ...] = ()
    closed: str = ""
    """Why no program on this host opens some of the backups: they do not count."""


def window(ctx: Context) -> WindowReport:
    """Look at all backups and at the live log."""
    catalog = ctx.catalog()
    now = ctx.clock.now()
    found, note = _window(ctx, catalog, now)
    promised = back(now, ctx.retention.window, ctx.zone)
    return WindowReport(
        now=now,
        window=found,
        retention=ctx.retention,
        promised=promised,
        lacking=found.lacking(promised, now),
        kept=decide(ctx, catalog.backups).keep,
        note=note,
        unreadable=catalog.unreadable,
        promoted=catalog.promoted,
        as_they_are=as_they_are(ctx, catalog.backups),
        closed="; ".join(of_closed_series(ctx, catalog.backups).values()),
    )


def of_closed_series(ctx: Context, backups: Sequence[Backup]) -> dict[str, str]:
    """The release series that some of the backups are of and no program on this host opens, each with why.

    Nothing is asked where all are of one series: whether a program opens that is for `check` to tell.
    """
    found = {_series(backup): backup for backup in backups}
    if len(found) < 2:
        return {}
    return {name: why for name, backup in found.items() if (why := _why_closed(ctx, backup))}


def _series(backup: Backup) -> str:
    return ".".join(backup.record.server_version.split(".")[:2])


def _why_closed(ctx: Context, backup: Backup) -> str:
    try:
        ctx.recovery.check_program(backup.record)
    except Refused as refusal:
        return str(refusal)
    return ""


def _open(ctx: Context, backups: Sequence[Backup]) -> tuple[Backup, ...]:
    """Those that a program on this host opens: after an upgrade, not those of before."""
    closed = of_closed_series(ctx, backups)
    return tuple(backup for backup in backups if _series(backup) not in closed)


def as_they_are(ctx: Context, backups: Sequence[Backup]) -> tuple[Backup, ...]:
    """The backups that can be restored as they are, with nothing replayed."""
    return tuple(b for b in usable_bases(_open(ctx, backups)) if _opens(ctx, b))


def _opens(ctx: Context, backup: Backup) -> bool:
    try:
        ctx.recovery.check_openable(backup.record)
    except Refused:
        return False
    return True


def inspect_destination(ctx: Context, destination: ShipDestination) -> tuple[Copies, RecoveryWindow]:
    """The backups committed at a destination, and what can be restored with them and the log archived
    there."""
    there, found = _at_destination(ctx, destination)
    return there.copies, found


def _at_destination(ctx: Context, destination: ShipDestination) -> tuple[ArchivedCopies, RecoveryWindow]:
    with destination.adapter.connect() as session:
        there = archived_copies(session, session.copies())
        try:
            backups = undisputed(session, there)
        except VerificationFailed as damaged:
            # A restore says it, too, and more of it.
            ctx.progress.note(f"in the log archive at {destination.adapter.address}: {damaged}")
            backups = there.with_holders.backups
    return there, recovery_window(backups, None, ctx.clock.now())


def _beyond(destination: ShipDestination, there: ArchivedCopies) -> str:
    """Return why what is after the last backup does not count, "" where archived log is counted."""
    address = destination.adapter.address
    if there.unknown:
        return f"the log archive at {address} cannot be read ({there.unknown})"
    return "" if there.carried else f"only what is at {address}"


def _on_trust(ctx: Context, destination: ShipDestination, there: ArchivedCopies) -> str:
    if not there.carried:
        return ""
    prove = command_line("zbackup", "verify", ctx.instance, "--at", destination.name, "--read", "all")
    return f"how far archived log reaches is what the listing says; {prove} proves it"


def window_at(ctx: Context, destination: ShipDestination) -> WindowReport:
    """The window that a destination's backups give, by its own retention."""
    there, found = _at_destination(ctx, destination)
    copies, now = there.copies, ctx.clock.now()
    promised = back(now, destination.retention.window, ctx.zone)
    return WindowReport(
        now=now,
        window=found,
        retention=destination.retention,
        promised=promised,
        lacking=found.lacking(promised, now),
        kept=plan_retention(copies.backups, destination.retention, now, ctx.zone, {}).keep,
        note=_beyond(destination, there),
        on_trust=_on_trust(ctx, destination, there),
        unreadable=copies.unreadable,
        as_they_are=as_they_are(ctx, copies.backups),
    )


def inspect(ctx: Context, catalog: Catalog) -> tuple[RecoveryWindow, str]:
    """The window, and why the live log is not part of it ("" if it was read)."""
    return _window(ctx, catalog, ctx.clock.now())


def _window(ctx: Context, catalog: Catalog, now: datetime) -> tuple[RecoveryWindow, str]:
    backups = _open(ctx, catalog.backups)
    newest = _newest(backups)
    if newest is not _newest(catalog.backups):
        return recovery_window(backups, None, now), "a newer backup is of a server that no program here opens"
    live, note = _live_log(ctx, catalog)
    return recovery_window(backups, live, now), note


def _live_log(ctx: Context, catalog: Catalog) -> tuple[LiveLog | None, str]:
    newest = _newest(catalog.backups)
    if newest is None:
        return None, "no backup says which log it holds"
    if broken := first_break(newest, None, catalog.backups):
        return LiveLog("", "", broken=broken.log_break), ""
    live = live_files(catalog.datasets)
    try:
        span = ctx.log_reader.live_log(newest.files(catalog.all_datasets), live)
    except NotRecoverable:
        return LiveLog("", ""), ""
    except (ZbackupError, OSError) as problem:
        return None, f"the live log cannot be read: {problem}"
    if span is None:
        return None, "the live log cannot be read from its files"
    if position_of(span.first) > position_of(newest.record.log_to):
        return LiveLog("", span.first), ""
    files = newest.files(catalog.all_datasets)
    return LiveLog(
        newest.record.log_id,
        span.first,
        _damage(ctx, files, live),
        live_stops(ctx, newest, live),
        silent=_silence(ctx, newest, live),
    ), ""


def _damage(ctx: Context, newest: BackupFiles, live: Relocation) -> str:
    """What is wrong with the log behind the newest backup, as far as that is cheap; `check` reads
    more."""
    try:
        found = ctx.log_reader.live_log_damage(newest, live, MOST_READ) or ()
    except (ZbackupError, OSError):
        return ""  # it changed meanwhile, and the next look tells
    return "; ".join(damage.what for damage in found if not damage.unread)


def live_stops(ctx: Context, newest: Backup, live: Relocation) -> tuple[Unreplayable, ...]:
    """List what is in the server's own log behind the newest backup and cannot be replayed, if it tells."""
    try:
        files = BackupFiles(newest.record, live)
        return ctx.log_reader.unreplayable(files, newest.record.log_to, live=True)
    except (ZbackupError, OSError):
        return ()


def _silence(ctx: Context, newest: Backup, live: Relocation) -> Silence | None:
    try:
        return ctx.log_reader.silence(newest.record, BackupFiles(newest.record, live))
    except (ZbackupError, OSError):
        return None  # it changed meanwhile, and the next look tells


def _newest(backups: Sequence[Backup]) -> Backup | None:
    known = [b for b in backups if b.complete and b.finished and log_known(b.record)]
    return max(known, key=lambda b: b.createtxg, default=None)
