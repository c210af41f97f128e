"""Compare what is at a destination with what is here: identities, records, and data read from both disks.

What is in a bucket is proven by itself: by listings, or by reading every byte.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zbackup.destinations.base import Provable, Readable, Session
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.archived import CheckedLog, check_log
from zbackup.jobs.ship.lag import ever_arrived, write_down_keys
from zbackup.jobs.ship.ship import destination_lock, never, other_key_text, source_datasets
from zbackup.model.backup import Backup
from zbackup.model.errors import (
    CommandFailed,
    ConnectionFailed,
    DatasetNotFound,
    KeyNotLoaded,
    Stopped,
    VerificationFailed,
)
from zbackup.model.event_log import log
from zbackup.model.shipping import CheckedCopy
from zbackup.model.snapshot import Snapshot
from zbackup.plan.ship.ship import other_keys
from zbackup.proc.pipeline import Command, Meter
from zbackup.zfs.stream_content import read_content
from zbackup.zfs.streams import ZfsStreams, content_argv, failure_of, wrong_key_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """A snapshot that was read on both sides: `size` bytes of its data, all of it if `whole`."""

    snapshot: Snapshot
    size: int
    whole: bool
    same: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """`compared` are the committed backups that are here, too, and `alone` those that are only there.

    `proven` are those that were looked at by themselves. `problems` are what is not as it must be, one line
    each; with none of them all is well. `log` is the archived log, None where there is none.
    """

    destination: ShipDestination
    compared: tuple[Backup, ...]
    alone: tuple[Backup, ...]
    read: tuple[ReadBack, ...]
    problems: tuple[str, ...]
    proven: tuple[CheckedCopy, ...] = ()
    log: CheckedLog | None = None


def verify_at(
    ctx: Context, destination: ShipDestination, *, most: int, stop: Callable[[], bool] = never
) -> VerifyReport:
    """Compare all that is committed there, and read the newest that is on both sides.

    `most` is how many bytes of each of its datasets are read, 0 for all, -1 for none; of a bucket all or
    nothing is read, never faster than the destination's limit. Nothing is changed on either side. Raise what
    connecting and reading raises, and Stopped when `stop` says so; a difference is a problem in the report.
    """
    with destination_lock(ctx, destination), destination.adapter.connect() as session:
        ctx.progress.phase("inspecting both sides", destination.adapter.address)
        copies = session.copies()
        mine = _backups(ctx)
        here = {b.record.backup: b for b in mine or ()}
        pairs = [(b, here[b.record.backup]) for b in copies.backups if b.record.backup in here]
        problems = [f"{name} cannot be read: {problem}" for name, problem in copies.unreadable]
        if not copies.backups:
            problems += [_nothing(ctx, destination)]
        problems += [text for there, mine in pairs for text in _differences(there, mine)]
        problems += _keys(ctx, destination, session, copies.backups, here=mine is not None)
        complete = [(there, mine) for there, mine in pairs if mine.complete]
        meter = Meter(limit=destination.limit, stop=stop)
        read: Sequence[ReadBack] = ()
        try:
            read = _read(ctx, session, *complete[-1], most, meter) if complete and most >= 0 else ()
        except KeyNotLoaded as failure:
            problems.append(
                f"{complete[-1][0].name} at {destination.adapter.address} cannot be read: {failure}"
            )
        proven = _prove(ctx, session, deep=most == 0, meter=meter)
        if mine is None and copies.backups:
            proven += _read_there(ctx, session, copies.backups[-1], most, meter)
        checked_log = check_log(ctx, session, copies, most, meter)
    problems += [f"{checked.name}: {text}" for checked in proven for text in checked.problems]
    problems += [
        f"{r.snapshot} holds other data at {destination.adapter.address}" for r in read if not r.same
    ]
    problems += list(checked_log.problems) if checked_log else []
    for text in problems:
        log.error("verify.different", destination=destination.name, problem=text)
    return VerifyReport(
        destination=destination,
        compared=tuple(there for there, _ in pairs),
        alone=tuple(b for b in copies.backups if b.record.backup not in here),
        read=tuple(read),
        problems=tuple(problems),
        proven=proven,
        log=checked_log,
    )


def prove_at(ctx: Context, destination: ShipDestination, stop: Callable[[], bool] = never) -> VerifyReport:
    """Verify as verify_at does, for who reads no report: raise VerificationFailed when anything is different,
    when nothing could be compared, and when data was to be read and none was."""
    report = verify_at(ctx, destination, most=destination.sample, stop=stop)
    problems = list(report.problems)
    if problems == [_nothing(ctx, destination)] and not _arrived_once(ctx, destination):
        log.info("verify.nothing_yet", destination=destination.name)
        return report
    if not problems and (why := uncompared(report)):
        problems = [why]
    elif not (problems or report.read or report.proven) and destination.sample >= 0:
        problems = ["no data was read: of no backup that is there all snapshots are here, too"]
    if problems:
        more = f" (and {len(problems) - 1} more)" if problems[1:] else ""
        raise VerificationFailed(f"{problems[0]}{more}")
    return report


def uncompared(report: VerifyReport) -> str:
    """Why nothing that is there was compared, nor proven by itself; "" where something was."""
    if report.compared or report.proven:
        return ""
    return f"none of the {len(report.alone)} backups that are there is here, too"


def _nothing(ctx: Context, destination: ShipDestination) -> str:
    return f"there is no committed backup of {ctx.instance} at {destination.adapter.address}"


def _arrived_once(ctx: Context, destination: ShipDestination) -> bool:
    """Whether there should be something. On a host that has nothing of the instance there should."""
    try:
        return ever_arrived(ctx, destination)
    except DatasetNotFound:
        return True


def _backups(ctx: Context) -> Sequence[Backup] | None:
    """None where nothing of the instance is: after the fire, what is there is proven by itself."""
    try:
        return ctx.catalog().backups
    except DatasetNotFound as gone:
        if ctx.members():
            raise
        ctx.progress.note(f"{gone}: what is there is not compared with anything, but read by itself")
        return None


def _read_there(
    ctx: Context, session: Session, newest: Backup, most: int, meter: Meter
) -> tuple[CheckedCopy, ...]:
    """Read the newest backup over there: ZFS proves each block of it. What cannot be read is its problem."""
    if not isinstance(session, Readable) or isinstance(session, Provable) or most < 0:
        return ()
    read, problems = 0, []
    for copy in newest.snapshots:
        ctx.progress.phase(f"reading {copy}", "at the destination")
        try:
            read += session.content(copy, most, meter).size
        except (ConnectionFailed, Stopped):
            raise
        except CommandFailed as failure:
            problems.append(f"{copy} cannot be read: {failure}")
    return (CheckedCopy(backup=newest.record.backup, name=newest.name, problems=tuple(problems), read=read),)


def _keys(
    ctx: Context, destination: ShipDestination, session: Session, there: Sequence[Backup], *, here: bool
) -> list[str]:
    """Which copies cannot be opened with the source's key, or not with the one that is loaded there."""
    if not isinstance(session, Readable) or not there:
        return []
    problems: list[str] = []
    sources = source_datasets(ctx) if here else ()
    if any(source.encrypted for source in sources):
        changed = other_keys(sources, session.inventory())
        write_down_keys(ctx, destination, changed)
        problems += [other_key_text(ctx.instance, destination, each) for each in changed]
    shut = {s.dataset: root for s in there[-1].snapshots if (root := session.unopened(s))}
    return problems + [
        wrong_key_text(f"{name} at {destination.adapter.address}", root) for name, root in shut.items()
    ]


def _prove(ctx: Context, session: Session, *, deep: bool, meter: Meter) -> tuple[CheckedCopy, ...]:
    if not isinstance(session, Provable):
        return ()
    meter = replace(meter, moved=lambda count: ctx.progress.advance(count, count))
    found = []
    for checked in session.verify(deep=deep, meter=meter):
        ctx.progress.phase("proven", checked.name)
        found.append(checked)
    return tuple(found)


def _differences(there: Backup, mine: Backup) -> list[str]:
    """A pruned part of a backup here is no difference."""
    found = []
    guids = {s.guid for s in there.snapshots}
    found += [f"{s} (guid {s.guid}) is another snapshot there" for s in mine.snapshots if s.guid not in guids]
    if mine.finished and there.record != mine.record:
        found.append(f"{there.name} says something else of itself there")
    return found


def _read(
    ctx: Context, session: Session, there: Backup, mine: Backup, most: int, meter: Meter
) -> Sequence[ReadBack]:
    if not isinstance(session, Readable):
        return ()
    copies = {s.guid: s for s in there.snapshots}
    streams = ZfsStreams(ctx.zfs.runner)
    found = []
    for snapshot in mine.snapshots:
        if snapshot.guid not in copies:
            continue
        ctx.progress.phase(f"reading {snapshot}", "on both sides")
        raw = streams.encrypted(snapshot.dataset)
        over_there = session.content(copies[snapshot.guid], most, meter, raw=raw)
        argv = content_argv(str(snapshot), raw=raw)
        here = read_content(_local(argv), most, meter)
        same = here == over_there
        found.append(ReadBack(snapshot=snapshot, size=here.size, whole=here.whole, same=same))
    return found


def _local(argv: tuple[str, ...]) -> Command:
    return Command(argv=argv, failure=lambda status, said: failure_of(argv, status, said))
