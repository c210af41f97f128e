"""Backups as a server's life makes them: purges, resets, failovers, odd clocks, remains."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import strategies as st

from tests.unit.samples import NOON, PLAIN, lacking_one
from zbackup.model.backup import Backup
from zbackup.model.log import Transaction, position_of
from zbackup.model.retention import CONDEMNED, Retention, Span, Tier
from zbackup.model.snapshot import Snapshot
from zbackup.model.unreplayable import Unreplayable
from zbackup.plan.recovery.coverage import continues, log_known


@dataclass(frozen=True, slots=True)
class History:
    """`backups` in order of creation, and the time it is after them."""

    backups: list[Backup]
    now: datetime


def at_hour(hours: float) -> datetime:
    """That many hours after noon."""
    return NOON + timedelta(hours=hours)


def made(
    number: int,
    taken: datetime,
    *,
    as_of: datetime | None = None,
    log: tuple[str, int, int] = ("log", 1, 0),
    purpose: str = "base",
) -> Backup:
    """Backup `number` with a log (identity, oldest file, newest file), finished; 0 is the number."""
    identity, first, last = log
    as_of = as_of or taken
    record = replace(
        PLAIN,
        backup=f"backup-{number}",
        purpose=purpose,  # type: ignore[arg-type]
        taken=taken,
        as_of=as_of,
        complete_to=max(as_of, taken),
        log_id=identity,
        log_from=f"binlog.{first:06}:4" if identity else "",
        log_to=f"binlog.{last or number:06}:100" if identity else "",
    )
    name = f"zbackup-{number}"
    snapshots = (
        Snapshot(dataset=d, name=name, guid=number * 1000 + n, createtxg=number, created=taken)
        for n, (d, _) in enumerate(record.members)
    )
    return Backup(record=record, snapshots=tuple(snapshots))


def condemned(whole: Backup) -> Backup:
    """The same after a prune was killed between its first snapshot and its last."""
    first = whole.snapshots[0]
    marked = replace(first, properties=(*first.properties, (CONDEMNED, "2024-05-01T12:00:00+00:00")))
    return Backup(record=whole.record, snapshots=(marked,))


gaps = st.one_of(
    st.timedeltas(timedelta(seconds=1), timedelta(minutes=20)),
    st.timedeltas(timedelta(minutes=1), timedelta(hours=12)),
    st.timedeltas(timedelta(hours=1), timedelta(days=40)),
)
# Built once: to build a strategy costs several times what it costs to draw from one.
file_steps = st.integers(0, 3)
log_events = st.sampled_from(["purge", "keep", "keep", "keep", "keep", "reset", "unknown"])
purposes = st.sampled_from(["base", "base", "base", "log"])
lags = st.sampled_from([timedelta(), timedelta(), timedelta(minutes=3), timedelta(hours=2)])
spoilings = st.sampled_from(["good"] * 8 + ["lacking", "condemned", "unfinished", "moved", "clock"])
clock_errors = st.timedeltas(timedelta(days=-90), timedelta(days=90))


@st.composite
def sound_histories(draw: st.DrawFn, most: int = 25) -> History:
    """Everything complete and finished, with a clock that goes right; logs are purged, reset, kept."""
    backups: list[Backup] = []
    at, identity, first, file = NOON, 0, 1, 1
    for number in range(1, draw(st.integers(0, most)) + 1):
        at += draw(gaps)
        file += draw(file_steps)
        match draw(log_events):
            case "purge":
                first = draw(st.integers(first, file))
                if backups and first > _last_file(backups[-1]):
                    identity += 1
            case "reset":
                identity, first, file = identity + 1, 1, 1
            case "unknown":
                backups.append(made(number, at, log=("", 0, 0)))
                continue
        purpose = draw(purposes)
        lag = draw(lags)
        log = (f"log {identity}", first, file)
        backups.append(made(number, at, as_of=at - lag, log=log, purpose=purpose))
    return History(backups, at + draw(gaps))


all_sound = sound_histories()


def _last_file(backup: Backup) -> int:
    known = backup.record.log_to.rpartition(":")[0].rpartition(".")[2]
    return int(known) if known else 0


@st.composite
def histories(draw: st.DrawFn, *, clocks_are_right: bool = False) -> History:
    """The same with remains, unfinished backups, foreign ones, and a clock that was wrong now and then."""
    sound = draw(all_sound)
    backups = []
    for one in sound.backups:
        match draw(spoilings):
            case "lacking":
                backups.append(lacking_one(one))
            case "condemned":
                backups.append(condemned(one))
            case "unfinished":
                record = replace(one.record, as_of=None, complete_to=None, log_id="", log_from="", log_to="")
                backups.append(replace(one, record=record))
            case "moved":
                snapshots = tuple(replace(s, dataset="other/" + s.dataset) for s in one.snapshots)
                backups.append(replace(one, snapshots=snapshots))
            case "clock" if not clocks_are_right:
                taken = one.record.taken + draw(clock_errors)
                backups.append(replace(one, record=replace(one.record, taken=taken)))
            case _:
                backups.append(one)
    return History(backups, sound.now)


units = st.sampled_from(["minute", "hour", "day", "week", "month", "year"])
spans = st.builds(Span, st.integers(1, 40), units)
tiers = st.builds(lambda step, span: Tier(step=step, span=span), spans, st.none() | spans)
policies = st.builds(
    lambda tiers, last, minimum, window: Retention(
        tiers=tuple(tiers), last=last, minimum=minimum, window=window
    ),
    st.lists(tiers, max_size=4),
    st.integers(0, 4),
    st.integers(1, 4),
    spans,
)


def blocked(backup: Backup, why: str = "the binlog leaves databases out (binlog_ignore_db: audit)") -> Backup:
    """The same, taken when no log led on."""
    facts = backup.record.server | {"blockers": why}
    return replace(backup, record=replace(backup.record, server=facts))


gap_kinds = st.sampled_from(["whole"] * 5 + ["log", "data"])
one_in_four = st.integers(0, 3)


@st.composite
def histories_with_gaps_in_the_log(draw: st.DrawFn) -> History:
    """Sound ones in which the log was not whole now and then, or the data alone was not."""
    sound = draw(all_sound)
    found = []
    for one in sound.backups:
        match draw(gap_kinds) if one.record.log_id else "whole":
            case "log":
                one = blocked(one)
            case "data":
                one = blocked(one, "InnoDB's redo log is disabled: ALTER INSTANCE ENABLE INNODB REDO_LOG")
        found.append(one)
    return History(found, sound.now)


@st.composite
def histories_with_replay_stops(draw: st.DrawFn) -> History:
    """Sound ones in whose log there is, just before a backup now and then, what cannot be replayed."""
    sound = draw(all_sound)
    found: list[Backup] = []
    for one in sound.backups:
        before = [b for b in found if b.record.log_id == one.record.log_id != ""]
        if before and before[-1].record.log_to != one.record.log_to and draw(one_in_four) == 0:
            end = one.record.log_to
            done = Transaction(
                start=end.replace(":100", ":50"), end=end, committed=one.record.as_of or one.record.taken
            )
            record = one.record.with_unreplayable([Unreplayable(done, "why")])
            one = replace(one, record=record)
        found.append(one)
    return History(found, sound.now)


def _stopped(base: Backup, moment: datetime, backups: list[Backup]) -> bool:
    stops = [s for b in backups if b.record.log_id == base.record.log_id for s in b.record.unreplayable]
    return any(
        position_of(s.transaction.start) >= position_of(base.record.log_to)
        and s.transaction.committed < moment
        for s in stops
    )


def reaches(backups: list[Backup], moment: datetime, known: list[Backup] | None = None) -> bool:
    """Whether the moment can be restored with these snapshots alone, told in the plainest way there is.

    `known` are those that say what cannot be replayed, gone or not: it stays so.
    """
    sound = [b for b in backups if b.complete and b.finished]
    telling = [b for b in (backups if known is None else known) if b.record.unreplayable]
    return any(
        base.record.purpose == "base"
        and not base.record.blockers
        and base.record.as_of is not None
        and base.record.as_of < moment
        and holder.reaches(moment)
        and not (log_known(base.record) and _stopped(base, moment, telling))
        and (holder is base or continues(holder, base))
        and not any(_breaks(b, base) and b.createtxg <= holder.createtxg for b in sound)
        for base in sound
        for holder in sound
    )


def _breaks(backup: Backup, base: Backup) -> bool:
    return (
        "the binlog leaves databases out" in backup.record.server.get("blockers", "")
        and backup.record.log_id == base.record.log_id
        and backup.createtxg > base.createtxg
    )
