"""Judge how an instance is, from what its backups, its pool and the daemon's memory say. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import zip_longest

from zbackup.model.backup import Backup
from zbackup.model.errors import KeyElsewhere, NotRecoverable, VerificationFailed
from zbackup.model.finding import Finding, Severity
from zbackup.model.log import LogDamage
from zbackup.model.moment import local_text
from zbackup.model.shipped import OtherKey
from zbackup.model.space import DatasetSettings, Pool
from zbackup.plan.due import DIFFERENT
from zbackup.plan.duration_text import length
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.plan.health.archive_health import ArchiveFacts, of_archives
from zbackup.plan.health.drill_health import GRACE, DrillFacts, of_drills
from zbackup.plan.health.pool_space import of_space
from zbackup.plan.health.unfinished_clones import Leftover, of_leftovers, of_those_down
from zbackup.plan.health.unreadable import unreadable, unreadable_clones

# A snapshot is late when the next one should have been there too; something is wrong when two are missing.
LATE, LOST = 2, 3

FAILURES_SERIOUS = 3

# Clocks of a database host that differ by more are wrong, not late.
FUTURE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """The recent results of a job of the daemon's. `error` is the name of the failure that counts."""

    job: str
    failures: int
    message: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """The lag of a destination: how far it is behind (None: nothing is there), and how far it may be (None:
    nobody said).

    `waiting` is how long the oldest backup has been here to be sent: where nothing is there yet, so much
    would be lost.
    """

    destination: str
    behind: timedelta | None
    most: timedelta | None
    waiting: timedelta = timedelta.max
    other_key: OtherKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceFacts:
    """`newest` is when the newest usable backup was taken; `written` bytes a day that go into snapshots, by
    dataset; `gaps` are reasons for moments of the promised window that cannot be restored, and `gap_keys`
    what each is known by; `lost` is how much of the promised window is out of reach although it was in reach
    once, or should have been, gaps included; `doubt` is why a prune does not count ages up to now; `alone`
    why no log leads on from the newest backup; `switched` are gaps that a switch made, and `silent` those of
    which the log does not show what was committed; `out_of_order` are
    transactions, each in a line, whose times contradict the order of the log; `leftovers` are clones that
    nobody finished, and `down` those that should
    run. `unreadable` are (snapshot, problem), `unreadable_clones` (dataset, problem)."""

    now: datetime
    newest: datetime | None
    unfinished: int
    broken: int
    future: tuple[str, ...]
    jobs: tuple[JobFacts, ...]
    daemon_runs: bool
    pool: Pool
    written: Mapping[str, float]
    gaps: tuple[str, ...] = ()
    gap_keys: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    switched: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    lost: timedelta = timedelta()
    doubt: str = ""
    lags: tuple[Lag, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    unreadable_clones: tuple[tuple[str, str], ...] = ()
    out_of_order: tuple[str, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
    down: tuple[str, ...] = ()
    drills: tuple[DrillFacts, ...] = ()
    archives: tuple[ArchiveFacts, ...] = ()
    settings: tuple[DatasetSettings, ...] = ()


def judge(facts: InstanceFacts, expected: Expected) -> tuple[Finding, ...]:
    """List the findings about an instance; nothing when all is ok."""
    found = (
        _age(facts, expected),
        *_gaps(facts),
        *_switched(facts),
        *_silent(facts),
        _short(facts),
        _alone(facts),
        _daemon(facts, expected),
        *of_jobs([job for job in facts.jobs if job.job not in {d.job for d in facts.drills if d.failed}]),
        *_lags(facts.lags),
        *of_archives(facts.archives, daemon_runs=facts.daemon_runs),
        *of_drills(facts.drills),
        _clock(facts),
        _doubt(facts),
        *log_times(facts.out_of_order),
        _left(facts),
        *of_leftovers(facts.leftovers),
        *of_those_down(facts.down),
        *unreadable(facts.unreadable),
        *unreadable_clones(facts.unreadable_clones),
        *of_space(facts.pool, facts.written, facts.settings),
    )
    return tuple(finding for finding in found if finding is not None)


def _age(facts: InstanceFacts, expected: Expected) -> Finding | None:
    if facts.newest is None:
        wanted = expected.snapshot_every or expected.max_age
        severity: Severity = "critical" if wanted else "warning"
        text = "there is no backup to restore from"
        return Finding(severity=severity, subject="snapshots", text=text, fix="zbackup snapshot", key="none")
    age = facts.now - facts.newest
    if expected.max_age is not None and age > timedelta(seconds=expected.max_age):
        most = length(timedelta(seconds=expected.max_age))
        return _late("critical", f"the newest is {length(age)} old, and may be {most} old")
    if expected.snapshot_every is None:
        return None
    if facts.now <= _by_then(expected, facts.newest, LATE) + GRACE:
        return None
    slots = expected.snapshot_slots
    due = (
        f'"{slots.cron.text}" wanted one at {local_text(slots.after(facts.newest), slots.zone)}'
        if slots
        else f"there should be one every {length(timedelta(seconds=expected.snapshot_every))}"
    )
    return _late(
        "critical" if facts.now > _by_then(expected, facts.newest, LOST) + GRACE else "warning",
        f"the newest is {length(age)} old, and {due}",
    )


def _by_then(expected: Expected, newest: datetime, count: int) -> datetime:
    """When `count` more should have been taken."""
    if expected.snapshot_slots:
        return expected.snapshot_slots.after(newest, count)
    return newest + count * timedelta(seconds=expected.snapshot_every or 0)


def _late(severity: Severity, text: str) -> Finding:
    return Finding(
        severity=severity,
        subject="snapshots",
        text=text,
        why="a restore replays all of the log since the newest snapshot before its moment, and the server "
        "may purge log that no snapshot holds",
        fix="zbackup snapshot",
        key="late",
    )


def _gaps(facts: InstanceFacts) -> list[Finding]:
    return [gap_in_window(why, key) for why, key in zip_longest(facts.gaps, facts.gap_keys, fillvalue="")]


def gap_in_window(why: str, key: str = "") -> Finding:
    """Return the finding about a gap in the recovery window; `why` is its cause."""
    return Finding(
        severity="critical",
        subject="window",
        text=f"there is a gap in the promised window: {why}",
        why="no moment in it can be restored, and nothing brings it back; see that no other follows",
        fix="zbackup window",
        exit_status=NotRecoverable.exit_status,
        key=key,
    )


def _switched(facts: InstanceFacts) -> list[Finding]:
    return [
        Finding(
            severity="advice",
            subject="window",
            text=f"there is a gap that a switch made: {why}",
            why="production was down then, or had no backup yet; it passes when it leaves the window",
        )
        for why in facts.switched
    ]


def _silent(facts: InstanceFacts) -> list[Finding]:
    return [
        Finding(
            severity="warning",
            subject="window",
            text=f"there is a gap in the promised window: {why}",
            why="no moment in the gap can be restored; if datasets were rolled back, the commits before that "
            "are lost; the warning ends when the gap leaves the window",
            fix="zbackup window",
            key=f"silent {why}",
        )
        for why in facts.silent
    ]


def _short(facts: InstanceFacts) -> Finding | None:
    # Without a backup, or with a gap, that is said already.
    if not facts.lost or facts.gaps or facts.newest is None:
        return None
    return Finding(
        severity="critical",
        subject="window",
        text=f"the window is {length(facts.lost)} shorter than promised",
        why="no moment of that time can be restored: backups are gone that no prune would have destroyed, or "
        "the log behind the newest one does not lead on",
        fix="zbackup window",
        key="shorter",
    )


def _alone(facts: InstanceFacts) -> Finding | None:
    if not facts.alone:
        return None
    return Finding(
        severity="warning",
        subject="window",
        text=f"no moment after the newest backup can be restored: {'; '.join(facts.alone)}",
        why="a backup can be restored as it is (zbackup restore --to-backup), and nothing that came after it",
        fix="zbackup check",
        key="no log",
    )


def _daemon(facts: InstanceFacts, expected: Expected) -> Finding | None:
    if facts.daemon_runs or not expected.daemon:
        return None
    return Finding(
        severity="critical",
        subject="daemon",
        text="it has a schedule, but no zbackup daemon runs",
        why="nothing happens on schedule",
        fix="systemctl start zbackup",
    )


def of_jobs(jobs: Sequence[JobFacts]) -> list[Finding]:
    """List the findings about the daemon's jobs that fail."""
    return [
        Finding(
            # That two sides differ does not pass.
            severity="critical" if job.failures >= FAILURES_SERIOUS or job.error == DIFFERENT else "warning",
            subject=job.job,
            key="different" if job.error == DIFFERENT else "",
            text=f"failed {job.failures} time{'s' * (job.failures > 1)} in a row, last: {job.message}",
        )
        for job in jobs
        if job.failures
    ]


def _lags(lags: Sequence[Lag]) -> list[Finding]:
    return [
        *(_other_key(lag.destination, found) for lag in lags if (found := lag.other_key)),
        *_behind(lags),
    ]


def _other_key(destination: str, found: OtherKey) -> Finding:
    text = f"the encryption root of {found.copy} at {destination} was changed to {found.root}"
    if found.overwritten:
        why = "a stream has arrived since, and now neither key opens it"
    else:
        why = f"nothing more is sent: with the key of {found.dataset}, neither key would open it"
    return Finding(
        severity="critical",
        subject="ship",
        text=text,
        why=f"{why}; zbackup check prints the remedy",
        fix="zbackup check",
        exit_status=KeyElsewhere.exit_status,
        key=f"{destination} key",
    )


def _behind(lags: Sequence[Lag]) -> list[Finding]:
    return [
        Finding(
            severity="critical",
            subject="ship",
            text=f"{lag.destination} "
            + (f"is {length(lag.behind)} behind" if lag.behind is not None else "has no backup yet")
            + f", and {length(lag.most)} was promised",
            why="what is not there is lost with this host",
            fix="zbackup ship",
            key=lag.destination,
        )
        for lag in lags
        if lag.most is not None and (lag.waiting if lag.behind is None else lag.behind) > lag.most
    ]


def _clock(facts: InstanceFacts) -> Finding | None:
    if not facts.future:
        return None
    return Finding(
        severity="warning",
        subject="clock",
        text=f"snapshots were taken in the future: {', '.join(facts.future)}",
        why="the host's clock is wrong now or was then: a moment given to a restore may not be the one meant",
        fix="timedatectl status",
    )


def _doubt(facts: InstanceFacts) -> Finding | None:
    if not facts.doubt:
        return None
    return Finding(
        severity="advice",
        subject="clock",
        text=facts.doubt,
        why="no backup is deleted for an age in doubt; with a synchronised clock no age is in doubt",
        fix="timedatectl set-ntp true",
    )


def no_log_behind(newest: Backup) -> Finding:
    """Give the finding where the newest backup was taken when the server kept no whole log."""
    return Finding(
        severity="warning",
        subject="log",
        text=f"no moment after {newest.name} can be restored: when it was taken, "
        f"{'; '.join(newest.record.blockers)}",
        why="whatever the server logs now, nothing leads there from that backup",
        fix="zbackup snapshot, once that is put right",
    )


def damaged_log(damage: LogDamage, *, running: bool) -> Finding:
    """Return the finding about the damage of the server's own log, behind the newest backup; `running`: the
    server runs."""
    if damage.unread:
        return Finding(severity="advice", subject="log", text=f"of the server's own log {damage.what}")
    if damage.torn and not running:
        return Finding(
            severity="warning",
            subject="log",
            text=f"the end of the server's log is torn: {damage.what}",
            why="the server was killed, or had no room, while it wrote that; restores end in front of it",
        )
    return Finding(
        severity="critical",
        subject="log",
        text=f"the server's log is damaged: {damage.what}",
        why="no moment behind that can be restored until there is a newer backup, which begins after it",
        fix="zbackup snapshot",
        exit_status=VerificationFailed.exit_status,
    )


def log_times(out_of_order: Sequence[str]) -> list[Finding]:
    """List the findings about transactions whose times contradict the order of the log."""
    return [
        Finding(
            severity="warning",
            subject="log times",
            text=f"times in the log contradict its order: {line}",
            why="a clock was wrong, or a session set its own time; a restore to a moment that this puts in "
            "doubt asks which of two transactions it is to stop before",
            fix="zbackup restore --to MOMENT --dry-run",
            key=line,
        )
        for line in out_of_order
    ]


def _left(facts: InstanceFacts) -> Finding | None:
    parts = [f"unfinished backups: {facts.unfinished}"] if facts.unfinished else []
    parts += [f"backups that miss a dataset: {facts.broken}"] if facts.broken else []
    if not parts:
        return None
    text = ", ".join(parts)
    # An unfinished one is put right by the next snapshot; whatever misses a dataset stays.
    key = f"incomplete {facts.broken}" if facts.broken else "unfinished"
    return Finding(severity="warning", subject="snapshots", text=text, fix="zbackup check", key=key)
