"""The facts that a page shows of a host, as plain values that travel over a socket."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from zbackup.model.finding import Health, Severity
from zbackup.model.retention import FOREVER

Kind = Literal["base", "log", "unsound"]
"""A backup; a snapshot that a restore took to read the log from; one that nothing can be restored from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewBackup:
    """A backup. `keep` are the tiers and other reasons for which it stays, () where it goes at the next
    prune, and before `until` no prune destroys it (None: nobody can tell; plan.retention.rules).
    `drill` is what the last drill of it proved, `used` what destroying it frees, in bytes."""

    name: str
    taken: datetime
    as_of: datetime | None
    kind: Kind
    tiers: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    label: str = ""
    drill: Literal["", "passed", "failed"] = ""
    used: int = 0
    opens: bool = True
    until: datetime | None = None

    @property
    def forever(self) -> bool:
        """Whether the policy keeps it without an end."""
        return self.until is not None and self.until >= FOREVER


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewRange:
    """Every moment after `after` and up to `to` can be restored; `live`: its end moves on with the log."""

    after: datetime
    to: datetime
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewGap:
    """No moment after `after` and up to `to` can be restored. `older` and `newer` are the backups at its ends
    ("": the live log)."""

    after: datetime
    to: datetime
    cause: str
    older: str
    newer: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewFinding:
    severity: Severity
    subject: str
    text: str
    why: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewDestination:
    """The copies at a destination. `lost` are the seconds that would be lost with this host, at most: what
    was committed since the newest backup there was taken, or since its log was `archived` (None: it is not).
    `max_lag` is how much that may be. None where nothing arrived, or nobody said."""

    name: str
    address: str
    newest: str
    taken: datetime | None
    as_of: datetime | None
    archived: datetime | None
    lost: float | None
    max_lag: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job of the daemon's, and how it went; `seconds` is how long its last run took. See jobs.journal."""

    job: str
    last: datetime | None
    seconds: float | None
    failures: int
    failed: datetime | None
    message: str
    next: datetime | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """A drill of a backup, at a destination ("" for one of this host), and what came of it. `unchecked` is
    how many tables the server would not check. `why` is why it failed, "" when it did not."""

    destination: str
    backup: str
    at: datetime
    to: datetime | None
    transactions: int | None
    tables: int | None
    seconds: float
    why: str
    unchecked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes. `free_share` is 0 to 1; `days` is how long the room lasts as of the last week, None: unknown."""

    pool: str
    data: int
    snapshots: int
    clones: int
    free: int
    free_share: float
    days: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewInstance:
    """An instance, as status, window and list have it. `note` says why the live log is not counted, ""
    where it is. `problem` is why nothing else is known of it, "" where it is. Its dev clones are kept for
    `clone_lease` seconds (None: until destroyed), may grow by `clone_quota` bytes (0: as the pool allows),
    and are masked in `clone_masks` steps."""

    name: str
    engine: str
    health: Health
    looked: datetime
    problem: str = ""
    findings: tuple[OverviewFinding, ...] = ()
    newest: str = ""
    newest_taken: datetime | None = None
    ranges: tuple[OverviewRange, ...] = ()
    gaps: tuple[OverviewGap, ...] = ()
    promised: datetime | None = None
    promise: str = ""
    lacking: tuple[tuple[datetime, datetime], ...] = ()
    note: str = ""
    unreadable: tuple[tuple[str, str], ...] = ()
    backups: tuple[OverviewBackup, ...] = ()
    destinations: tuple[OverviewDestination, ...] = ()
    jobs: tuple[Job, ...] = ()
    drills: tuple[Drill, ...] = ()
    room: Room | None = None
    working: str = ""
    paused: str = ""
    clone_lease: float | None = None
    clone_quota: int = 0
    clone_masks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewClone:
    """A clone, as `zbackup clone list` has it. `lease_ends` is None for never; `quota` is how far it may
    grow, in bytes, 0 as the pool allows."""

    name: str
    instance: str
    kind: str
    state: str
    running: bool
    created: datetime
    target: datetime | None
    origin: str
    port: int
    used: int
    connect: str
    lease_ends: datetime | None
    protected_until: datetime | None
    masked: bool
    quota: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All of it. `settings` are (name, value) of the effective configuration, without secrets.
    `may_clone`: clones may be made and destroyed from the page. `fleet`: others' backups arrive here."""

    host: str
    zone: str
    looked: datetime
    daemon_runs: bool
    instances: tuple[OverviewInstance, ...]
    clones: tuple[OverviewClone, ...] = ()
    unreadable_clones: tuple[tuple[str, str], ...] = ()
    clones_problem: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    may_clone: bool = False
    fleet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentPlan:
    """The plan of a restore to a moment. `log` is "" while the snapshot to read the log from is yet to be
    taken. `transactions` and `log_bytes` are what would be replayed, None where the engine tells only
    afterwards."""

    base: str
    log: str
    reason: str
    as_it_is: bool
    transactions: int | None
    log_bytes: int | None
    last_applied: str
    first_skipped: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A statement that changed what tables there are: `kind` is drop, truncate, partition or ddl. `name` is
    what `zbackup restore --before` calls it, and `text` is the statement, cut where it is long."""

    at: datetime
    kind: str
    tables: tuple[str, ...]
    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Marks, oldest first; `more`: there were too many, and the rest is left out. `problems` say what of the
    log was not read."""

    marks: tuple[Mark, ...]
    more: bool
    problems: tuple[str, ...]
