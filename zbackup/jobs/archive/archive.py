"""Archive a server's log at a destination while it is written: look, compare, plan, append, again and again.

Nothing is asked of the server where its files can be read, and nothing is kept back for the archive: what
the server has purged meanwhile comes from a snapshot that holds it. Of what a killed run left, the next look
at the destination tells.
"""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from zbackup.catalog.local import Catalog
from zbackup.destinations.base import Archiving
from zbackup.engines.base import LogFollower
from zbackup.jobs.archive.clock_watch import ClockWatch
from zbackup.jobs.context import Context, ShipDestination, live_files
from zbackup.model.archive import WRITER, ArchivedFile, ArchiveInventory, Chunk, server_key
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, Refused, Taken, VerificationFailed, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.log import position_of
from zbackup.model.record import LOG_RESTARTS, PREFIX, Record
from zbackup.model.shipped import arrived
from zbackup.model.written_log import WrittenFile
from zbackup.plan.archive import Append, ArchivePlan, is_behind, newest_epoch, plan_archive
from zbackup.plan.recovery.archived import stranded
from zbackup.plan.recovery.before_transaction import with_known_log
from zbackup.plan.recovery.coverage import first_break
from zbackup.proc.lock import exclusive
from zbackup.proc.pipeline import Meter, Pace

ARCHIVER: Final = f"{PREFIX}archiver"
"""On an instance's first dataset, set there: no stream brings it to another host."""
_MOST_SKIPPED: Final = 100
_WAIT_S: Final = 30


def writer_of(ctx: Context) -> str:
    """Return the name by which this host archives the instance's log, and write it down where it has none."""
    dataset = ctx.datasets[0]
    with exclusive(ctx.shared / f"{ctx.instance}.archiver.lock", "zbackup archive", wait=_WAIT_S):
        found = ctx.zfs.own_settings(dataset).get(ARCHIVER, "")
        if not WRITER.fullmatch(found):
            found = secrets.token_hex(16)
            ctx.zfs.set_properties(dataset, {ARCHIVER: found})
    return found


def free_epoch(session: Archiving, server: str, newest: int, writer: str) -> int:
    """Take the first epoch behind the newest that nobody else has. Raise Refused when there is none."""
    for epoch in range(newest + 1, newest + 1 + _MOST_SKIPPED):
        if session.claim_log(server, epoch, writer) == writer:
            return epoch
    raise Refused(f"the {_MOST_SKIPPED} epochs behind {newest} of {server} are others' already")


def taken(ctx: Context, destination: ShipDestination, epoch: int) -> Taken:
    """The error where another archives the epoch."""
    return Taken(
        f"the log archive of {ctx.instance} at {destination.adapter.address} is another host's (epoch "
        f"{epoch}), which may still write to it: when that host is gone, or should not archive there, "
        f"{command_line('zbackup', 'archive', ctx.instance, '--take-over')} begins a new epoch for this one"
    )


def append_all(
    session: Archiving,
    follower: LogFollower,
    plan: ArchivePlan,
    inventory: ArchiveInventory,
    appended: Callable[[ArchiveInventory, Chunk], None],
) -> ArchiveInventory:
    """Append what is planned; `appended` hears of each append, when it is durable, and may raise to stop.

    Return what is there then. Raise what the session and the follower raise: what was appended stays.
    """
    for append in plan.appends:
        inventory, chunk = _append(session, follower, append, inventory)
        appended(inventory, chunk)
    return inventory


def _append(
    session: Archiving, follower: LogFollower, append: Append, inventory: ArchiveInventory
) -> tuple[ArchiveInventory, Chunk]:
    source = append.source
    data, tail = follower.read(source, append.begin, append.end)
    chunk = Chunk(
        begin=append.begin,
        end=append.end,
        sha256=hashlib.sha256(data).hexdigest(),
        tail=tail,
        read=source.read,
        complete_to=append.complete_to,
        closed=append.closed,
    )
    stored = session.append_log(append.file, chunk, data)
    return inventory.with_append(append.file, chunk, stored), chunk


SUBJECT_S = 60.0
"""Seconds for which what is known of the instance's backups is believed."""
INVENTORY_S = 600.0
"""Seconds for which it is believed that nobody else has changed what is at the destination."""
SIGN_S = 60.0
"""Seconds between two marks at the destination that nothing was written."""


def never() -> bool:
    """Nobody wants it to stop."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of one look, when all of it was done.

    `looked`: everything acknowledged before that is archived. It is what the clock said before the look, or a
    little less. `end` is the archive's newest file (None: nothing is archived), `appended` how many bytes
    were. `new_epoch` and `gap` are clauses as in plan.archive.ArchivePlan, and `stranded` is one on why what
    is archived cannot be restored from there ("": a backup there leads to it). `more`: not all there is was
    looked at, and the next look need not wait.
    """

    looked: datetime
    end: ArchivedFile | None
    appended: int = 0
    appends: int = 0
    new_epoch: str = ""
    gap: str = ""
    stranded: str = ""
    more: bool = False


@dataclass(frozen=True, slots=True)
class _ArchivedLog:
    """The log that is archived: where it is, with a record that tells what it is called, and all backups.

    `restart` is of the first backup after the data was rolled back: the files in front of the one that its
    log ends in may hold two histories (None: it was not)."""

    live: BackupFiles
    catalog: Catalog
    since: str
    at: float
    restart: Record | None = None

    @property
    def why(self) -> str:
        """Why the log restarts, "" where it does not."""
        return self.restart.server[LOG_RESTARTS] if self.restart else ""


@dataclass(slots=True)
class Archiver:
    """Archives one instance's log at one destination; remembers between looks what did not change.

    `take_over`: where it is another host's archive, begin a new epoch.
    """

    ctx: Context
    destination: ShipDestination
    stop: Callable[[], bool] = never
    take_over: bool = False
    watch: ClockWatch = field(default_factory=ClockWatch)
    _ours: set[tuple[str, int]] = field(default_factory=set, init=False)
    _subject: _ArchivedLog | None = field(default=None, init=False)
    _inventory: ArchiveInventory | None = field(default=None, init=False)
    _listed: float = field(default=0.0, init=False)
    _stranded: str = field(default="", init=False)
    _judged: float = field(default=-INVENTORY_S, init=False)

    def round(self, session: Archiving) -> Round:
        """Look once, and append what there is. After a failure the next call looks at everything again."""
        follower = self.ctx.follower
        try:
            return self._round(session, follower)
        except BaseException:
            self._subject = self._inventory = None
            follower.forget()
            raise

    def _round(self, session: Archiving, follower: LogFollower) -> Round:
        ctx, fresh = self.ctx, self._subject is None
        subject = self._current()
        server = server_key(subject.live.record.server_uuid)
        inventory = self._known(session)
        archived = inventory.of(server)
        epoch = newest_epoch(archived)
        begin = self._taken_over(session, server, epoch, there=bool(archived))
        why = "the log archived before is from another host"
        looked = ctx.clock.now()
        if not begin and self._restarts(follower, subject, archived, looked):
            begin, why = free_epoch(session, server, epoch, writer_of(ctx)), subject.why
        if begin:
            archived = ()
        current = [f for f in archived if f.file.epoch == epoch]
        here = self._here(follower, subject, current, looked)
        if here and current and not fresh and here[-1].number > max(f.file.number for f in current):
            # A server that was rolled back in part writes to a new file: what backups there are, says it.
            self._subject = None
            return self._round(session, follower)
        plan = _with_sign(plan_archive(server, archived, here, begin=(begin, why)), archived, here)
        for each in sorted({append.file.epoch for append in plan.appends}):
            self._require_ours(session, server, each)
        self._tell(plan)
        pace = Pace(Meter(limit=self.destination.limit, stop=self.stop))
        count = 0

        def appended(now: ArchiveInventory, chunk: Chunk) -> None:
            nonlocal count
            self._inventory = now
            count += chunk.size
            pace.passed(chunk.size)

        inventory = append_all(session, follower, plan, inventory, appended)
        self._inventory, self.take_over = inventory, False
        ends = inventory.of(server)
        return Round(
            looked=min(looked, here[-1].acknowledged or looked) if here else looked,
            end=ends[-1] if ends else None,
            appended=count,
            appends=len(plan.appends) if is_behind(plan) else 0,
            new_epoch=plan.new_epoch,
            gap=plan.gap,
            stranded=self._judge(session, inventory, server, changed=bool(plan.new_epoch or plan.gap)),
            more=any(each.more for each in here),
        )

    def _restarts(
        self,
        follower: LogFollower,
        subject: _ArchivedLog,
        archived: tuple[ArchivedFile, ...],
        looked: datetime,
    ) -> bool:
        """Whether the newest epoch was begun in front of the file that the log restarts in. Not where
        the log was reset since, and has no file of that number yet."""
        if subject.restart is None:
            return False
        number = position_of(subject.restart.log_to)[-2]
        epoch = newest_epoch(archived)
        if not any(f.file.epoch == epoch and not f.file.begin and f.file.number < number for f in archived):
            return False
        here = self._here(follower, subject, [], looked)
        return not here or here[-1].number >= number

    def _here(
        self, follower: LogFollower, subject: _ArchivedLog, current: list[ArchivedFile], looked: datetime
    ) -> tuple[WrittenFile, ...]:
        """List the log's files that lead on from the epoch's `current` ones; complete up to no moment where
        the clock leapt."""
        believed = self.watch.believes(looked, self.ctx.clock.reading())
        here = follower.scan(
            subject.live, lambda: _older(subject.catalog), current, subject.since, lambda: looked
        )
        if believed:
            return here
        log.warning("archive.clock_leapt", **self._about)
        return tuple(replace(each, complete_to=None) for each in here)

    @property
    def _about(self) -> dict[str, str]:
        return {"instance": self.ctx.instance, "destination": self.destination.name}

    def _judge(self, session: Archiving, inventory: ArchiveInventory, server: str, *, changed: bool) -> str:
        """Why what is archived cannot be restored from there; "" where it can, or nothing is known."""
        now = self.ctx.clock.monotonic()
        if changed or now - self._judged > (SUBJECT_S if self._stranded else INVENTORY_S):
            self._judged = now
            with suppress(ZbackupError):
                self._stranded = stranded(session.copies().backups, inventory, server)
        return self._stranded

    def _known(self, session: Archiving) -> ArchiveInventory:
        now = self.ctx.clock.monotonic()
        if self._inventory is None or now - self._listed > INVENTORY_S:
            self._inventory, self._listed = session.archived(), now
            self._ours.clear()
        return self._inventory

    def _taken_over(self, session: Archiving, server: str, newest: int, *, there: bool) -> int:
        """Return the epoch that is to be begun in place of another host's, 0 for none. Raise Taken where that
        goes on."""
        if not there:
            return 0
        if not self.take_over:
            self._require_ours(session, server, newest)
            return 0
        writer = writer_of(self.ctx)
        return free_epoch(session, server, newest, writer)

    def _require_ours(self, session: Archiving, server: str, epoch: int) -> None:
        """Nobody else archives this epoch from now on. Raise Taken where somebody does."""
        if (server, epoch) not in self._ours:
            writer = writer_of(self.ctx)
            if session.claim_log(server, epoch, writer) != writer:
                raise taken(self.ctx, self.destination, epoch)
            self._ours.add((server, epoch))

    def _current(self) -> _ArchivedLog:
        now = self.ctx.clock.monotonic()
        if self._subject is None or now - self._subject.at > SUBJECT_S:
            self._subject = _subject(self.ctx, self.destination, now)
        return self._subject

    def _tell(self, plan: ArchivePlan) -> None:
        if plan.new_epoch:
            log.warning("archive.new_epoch", why=plan.new_epoch, **self._about)
        if plan.gap:
            log.error("archive.gap", what=plan.gap, **self._about)


def archive_once(
    ctx: Context, destination: ShipDestination, stop: Callable[[], bool] = never, *, take_over: bool = False
) -> Round:
    """Bring the archive at the destination up to date. Raise Taken while another run archives there.

    Of another host's archive, too: unless `take_over`, which begins a new epoch.
    """
    with archive_lock(ctx, destination), destination.adapter.connect() as session:
        ctx.progress.phase("archiving the log", destination.adapter.address)
        archiver = Archiver(ctx, destination, stop, take_over)
        found = archiver.round(require_archiving(destination, session))
        again = bool(found.gap or found.new_epoch or found.appends)
        while found.more and not stop():
            found = _together(found, archiver.round(session))  # type: ignore[arg-type]
        if again:
            # What is behind a gap, or was written meanwhile.
            found = _together(found, archiver.round(session))  # type: ignore[arg-type]
        return found


def ready(ctx: Context, destination: ShipDestination) -> str:
    """How it is with the archive at the destination, in words; changes nothing.

    Raise what archive_once() would raise before it appends anything.
    """
    follower = ctx.follower
    with destination.adapter.connect() as session:
        inventory = require_archiving(destination, session).archived()
    if inventory.problems:
        raise VerificationFailed(f"{inventory.address}: {inventory.problems[0]}")
    subject = _subject(ctx, destination, ctx.clock.monotonic())
    server = server_key(subject.live.record.server_uuid)
    archived = inventory.of(server)
    current = [each for each in archived if each.file.epoch == newest_epoch(archived)]
    here = follower.scan(subject.live, lambda: _older(subject.catalog), current, subject.since, ctx.clock.now)
    plan_archive(server, archived, here)
    if not archived:
        return "nothing is archived yet"
    return f"archived up to {archived[-1].end}"


def archive_destinations(ctx: Context) -> tuple[ShipDestination, ...]:
    """The destinations that the log is archived at. Raise NotFound when none is configured."""
    wanted = ctx.archive.to if ctx.archive else ()
    if not wanted:
        raise NotFound(f"{ctx.instance}: its log is archived nowhere; add [instance.{ctx.instance}.archive]")
    return tuple(destination for destination in ctx.destinations if destination.name in wanted)


def require_archiving(destination: ShipDestination, session: object) -> Archiving:
    """Raise Refused where no log can be archived."""
    if not isinstance(session, Archiving):
        raise Refused(f"{destination.adapter.address} takes no log archive")
    return session


@contextmanager
def archive_lock(ctx: Context, destination: ShipDestination) -> Iterator[None]:
    """One run at a time for an instance and a destination."""
    path = ctx.shared / f"{ctx.instance}.archive.{destination.name}.lock"
    with exclusive(path, "zbackup archive", wait=1):
        yield


def _subject(ctx: Context, destination: ShipDestination, now: float) -> _ArchivedLog:
    catalog = ctx.catalog()
    holders = with_known_log(catalog.backups)
    if not holders:
        _require_readable(ctx, catalog)
        raise NotFound(
            f"{ctx.instance} has no backup yet that says which log is its own: "
            + command_line("zbackup", "snapshot", ctx.instance)
        )
    newest = max(holders, key=lambda b: b.createtxg)
    if broken := first_break(newest, None, [b for b in catalog.backups if b.lost_parts]):
        raise Refused(
            f"the log of {ctx.instance} cannot be archived beyond {newest.name}, because it may hold two "
            f"histories: {broken.log_break}. Take a new backup: "
            + command_line("zbackup", "snapshot", ctx.instance)
        )
    live = BackupFiles(newest.record, live_files(catalog.datasets))
    restart = _restart(holders, newest)
    since = max(_since(ctx, destination, holders), restart.log_to if restart else "", key=position_of)
    return _ArchivedLog(live, catalog, since, now, restart)


def _restart(holders: list[Backup], newest: Backup) -> Record | None:
    """The record of the newest backup that the server's log restarts with; None where there is none, or where
    the log was reset since: its numbers say nothing of the files that there are now."""
    same = [b for b in holders if b.record.server_uuid == newest.record.server_uuid]
    first = max((b for b in same if LOG_RESTARTS in b.record.server), key=lambda b: b.createtxg, default=None)
    if first is None:
        return None
    behind = [position_of(b.record.log_to) for b in same if b.createtxg >= first.createtxg]
    return first.record if min(behind) == position_of(first.record.log_to) else None


def _require_readable(ctx: Context, catalog: Catalog) -> None:
    """Raise Refused where the newest backup says that no log can be read: another backup would say the
    same."""
    newest = max(catalog.backups, key=lambda b: b.createtxg, default=None)
    if newest and newest.record.log_lacks:
        raise Refused(
            f"the log of {ctx.instance} cannot be archived: {newest.record.log_lacks} (by {newest.name}, the "
            "newest backup)"
        )


def _since(ctx: Context, destination: ShipDestination, holders: list[Backup]) -> str:
    """Return where the log begins that the backups at the destination do not hold; "" for all that there
    is."""
    there = arrived(ctx.zfs.own_settings(ctx.datasets[0])).get(destination.name)
    known = (b for b in holders if there and (b.name, b.record.taken) == (there.name, there.taken))
    return next((b.record.log_to for b in known), "")


def _older(catalog: Catalog) -> list[BackupFiles]:
    """List the files of the backups that hold the log, the newest first; without those that nobody can look
    into."""
    found = []
    for backup in sorted(with_known_log(catalog.backups), key=lambda b: b.createtxg, reverse=True):
        try:
            found.append(backup.files(catalog.all_datasets))
        except ZbackupError:
            continue
    return found


def _with_sign(
    plan: ArchivePlan, archived: tuple[ArchivedFile, ...], here: tuple[WrittenFile, ...]
) -> ArchivePlan:
    """Add a sign to the plan that nothing was written for a while: else nobody could tell it there."""
    if plan.appends or not archived or not here:
        return plan
    end, newest = archived[-1], here[-1]
    # Also where the clock went back: what was said by a wrong one is to be put right.
    quiet = abs(newest.read - end.last.read) >= timedelta(seconds=SIGN_S)
    if end.closed or not quiet or newest.complete_to != newest.read or newest.size != end.size:
        return plan
    sign = Append(
        file=end.file,
        source=newest,
        begin=end.size,
        end=end.size,
        complete_to=newest.complete_to,
        closed=False,
    )
    return ArchivePlan(appends=(sign,))


def _together(one: Round, other: Round) -> Round:
    return Round(
        looked=other.looked,
        end=other.end,
        appended=one.appended + other.appended,
        appends=one.appends + other.appends,
        new_epoch=one.new_epoch or other.new_epoch,
        gap="; ".join(each for each in (one.gap, other.gap) if each),
        stranded=other.stranded,
        more=other.more,
    )
