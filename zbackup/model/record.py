"""Words for what zbackup writes down with every snapshot, as ZFS user properties.

Whatever a recovery needs is here, so that the snapshots alone are enough: no catalogue can be lost.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Literal, TypeVar

from zbackup.model import bounds
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.log import LogSpan
from zbackup.model.long_value import joined, split
from zbackup.model.silence import Silence
from zbackup.model.silence import from_lines as silences_in
from zbackup.model.silence import to_lines as silences_as_lines
from zbackup.model.unreplayable import Unreplayable, from_lines, to_lines

T = TypeVar("T")

# Of what `server` holds, paths of programs on the host that the backup was taken on.
PROGRAMS = ("mysqld", "mongod")

VERSION = "1"
PREFIX = "zbackup:"

# Bounds of what is read back: a record may have been written by anybody.
MOST_NAME = 256
MOST_POSITION = 512
MOST_PATH = 4096
MOST_MEMBERS = 10_000
MOST_FACTS = 1000
MOST_MS = 10**12

STOPPED = "stopped_for"
"""In Record.server: the switch that the server had been stopped for, so that its log ends there."""

TIMES_OUT_OF_ORDER = "times_out_of_order"
"""In Record.server: transactions behind the backup before whose times contradict the order of the log."""

LABEL = "label"
"""In Record.server: what whoever took the backup calls it, such as before-deploy."""

KEEP_UNTIL = "keep_until"
"""In Record.server: until when no prune destroys it, whatever the retention policy says."""

REPLAY_STOPS = "replay_stops"
"""In Record.server: what is in the log behind the backup before and cannot be replayed, a line each."""

LOG_HEAD = "log_head"
"""In Record.server: the head (LogFileId.head) of the file in which the log inside ends."""

LOG_SIZE = "log_size"
"""In Record.server: the bytes of that file."""

SILENCES = "log_silent"
"""In Record.server: the times of which the log does not show what was committed, a line each."""

OF_DATA_ALONE = ("InnoDB's redo log is disabled", "innodb_flush_log_at_trx_commit = 0")
"""Beginnings of the blockers that leave the server's log whole: others lead across such a backup."""

ENDS_LOG = ("the binlog is off", "this server runs alone and keeps no oplog")
"""Beginnings of the blockers with which the log is whole up to its end, and goes on no farther."""

LEAVES_OUT = (
    "this replica does not log what it applies",
    "the binlog leaves databases out",
    "the binlog is kept inside InnoDB",
)
"""Beginnings of the blockers with which the log goes on, and lacks what was committed."""

LOG_ENDED = "log_ended"
"""In Record.server: why the server wrote no log any more when its log was kept. What it wrote is in none."""

LOG_RESTARTS = "log_restarts"
"""In Record.server: why the log in front of this backup does not count for what follows."""

ARCHIVED = "archived"
"""In Record.server: log that was archived behind the backup is part of it. Never written down."""

LockKind = Literal["ftwrl", "backup-stage", "backup-lock", "fsync", "none"]


def ends_log(blocker: str) -> bool:
    """Whether the log is whole up to its end, and goes on no farther."""
    return blocker.startswith(ENDS_LOG)


def leaves_out(blocker: str) -> bool:
    """Whether the log goes on, and lacks what was committed."""
    return blocker.startswith(LEAVES_OUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The facts of one backup: one atomic snapshot of all datasets of an instance.

    `backup` is its identity, the same on every dataset's snapshot; `members` are the datasets by name as
    they were, with where they were mounted. `server_uuid` tells this server's log from all others.
    `position` (where the log ended, in the engine's own words, "" if there is none) and `gtid` were read
    from the server: exact when it was locked, a lower bound with lock "backup-lock" or "none". `as_of` says
    that nothing committed after it is inside: the origin's commit time of the last transaction, or what is
    certain instead (None: not yet known, see jobs.backup.complete_record). `complete_to` says that everything
    committed before it is inside. `log_from` and `log_to` are the ends of the log inside, in the engine's
    own words, and `log_id` is the same for backups of which each was proven to continue the log of the one
    before; all are "" where that is not known. `server` is what a temporary server needs to open the files,
    in the engine's own words. `purpose` "log" marks a snapshot taken without asking the server, good as a
    source of log only. `clock` is what else was known of the moment `taken`, and `since` the `as_of` of the
    first backup in an unbroken row of backups up to this one, whether it is still there or not (None of both:
    not recorded). `name` is what the snapshots are called that the record was read from, for people; it is
    not part of what is written. Times are UTC.
    """

    backup: str
    instance: str
    engine: str
    purpose: Literal["base", "log"] = "base"
    members: tuple[tuple[str, str], ...]
    taken: datetime
    lock: LockKind
    server_uuid: str
    server_version: str
    role: str = ""
    position: str = ""
    gtid: str = ""
    as_of: datetime | None = None
    complete_to: datetime | None = None
    log_id: str = ""
    log_from: str = ""
    log_to: str = ""
    lock_wait_ms: int | None = None
    lock_held_ms: int | None = None
    clock: Reading | None = None
    since: datetime | None = None
    server: dict[str, str] = field(default_factory=dict, hash=False)
    name: str = field(default="", compare=False)

    def fact(self, name: str) -> str:
        """Return what a temporary server needs to know. Raise VerificationFailed if it is not there."""
        if name not in self.server:
            raise VerificationFailed(f"the record of {self.called} does not say {name}")
        return self.server[name]

    @property
    def as_of_or_taken(self) -> datetime:
        return self.as_of or self.taken

    @property
    def called(self) -> str:
        """The backup, for people: nobody knows it by its identity."""
        return self.name or f"the backup of {self.taken:%Y-%m-%d %H:%M:%S} UTC"

    @property
    def blockers(self) -> tuple[str, ...]:
        """Return why no moment can be reached from the backup, as no log leads on; () for nothing."""
        return tuple(self.server.get("blockers", "").splitlines())

    @property
    def breaks_log(self) -> bool:
        """Whether the log may lack what was committed when this was taken: none leads across it."""
        return any(not blocker.startswith(OF_DATA_ALONE) for blocker in self.blockers)

    @property
    def log_ended(self) -> str:
        """Return why the log inside was not written any more, so that none leads beyond it; "" if it was."""
        return self.server.get(LOG_ENDED, "")

    @property
    def log_lacks(self) -> str:
        """Return why the log may lack what was committed when this was taken; "" if it does not."""
        return "; ".join(self.blockers) or self.log_ended

    @property
    def stopped_for(self) -> str:
        """The switch that the server had been stopped for when this was taken; "" for none."""
        return self.server.get(STOPPED, "")

    @property
    def label(self) -> str:
        """What whoever took it calls it; "" for nothing."""
        return self.server.get(LABEL, "")

    @property
    def keep_until(self) -> datetime | None:
        """Until when no prune destroys it; None where nobody said, or nobody can tell."""
        try:
            return bounds.moment(self.server[KEEP_UNTIL])
        except (KeyError, ValueError):
            return None

    @property
    def without_date(self) -> dict[str, str]:
        """What `server` is when nothing but the retention policy keeps the backup."""
        return {name: value for name, value in self.server.items() if name != KEEP_UNTIL}

    @property
    def unreplayable(self) -> tuple[Unreplayable, ...]:
        """List what is in the log behind the backup before and cannot be replayed."""
        return from_lines(self.server.get(REPLAY_STOPS, ""))

    def with_unreplayable(self, stops: Sequence[Unreplayable]) -> "Record":
        """Return the same record, with the first of these."""
        return replace(self, server=self.server | {REPLAY_STOPS: to_lines(stops)}) if stops else self

    @property
    def silences(self) -> tuple[Silence, ...]:
        """List the times of which the log, up to this backup, does not show what was committed."""
        return silences_in(self.server.get(SILENCES, ""))

    def with_silences(self, silences: Sequence[Silence]) -> "Record":
        """Return the same record, with the newest of these."""
        if not silences:
            return self
        return replace(self, server=self.server | {SILENCES: silences_as_lines(silences)})

    def with_end(self, *, as_of: datetime, complete_to: datetime) -> "Record":
        """The same record, finished: how far its data reaches is known."""
        return replace(self, as_of=as_of, complete_to=complete_to)

    def from_elsewhere(self) -> "Record":
        """The same record as it is believed when others could write it: it names no program to be run.

        A path means another file on another host, and whoever ships backups must not choose what root runs.
        """
        kept = {name: value for name, value in self.server.items() if name not in PROGRAMS}
        return replace(self, server=kept)

    def with_log(self, log_id: str, span: LogSpan) -> "Record":
        """The same record, with the log that is inside."""
        server = self.server | ({LOG_HEAD: span.head, LOG_SIZE: str(span.size)} if span.head else {})
        return replace(self, log_id=log_id, log_from=span.first, log_to=span.last, server=server)


PROPERTIES = frozenset(("version", *(f.name for f in fields(Record) if f.compare)))
"""Names that to_properties writes, without the prefix and without the numbers of chunks."""


def to_properties(record: Record) -> dict[str, str]:
    """All that is known, as `zbackup:*` user properties. Long ones are split into numbered chunks."""
    values: dict[str, str | None] = {
        "version": VERSION,
        "backup": record.backup,
        "instance": record.instance,
        "engine": record.engine,
        "purpose": record.purpose,
        "members": json.dumps([list(m) for m in record.members], separators=(",", ":")),
        "taken": record.taken.isoformat(),
        "lock": record.lock,
        "server_uuid": record.server_uuid,
        "server_version": record.server_version,
        "role": record.role or None,
        "position": record.position or None,
        "gtid": record.gtid or None,
        "as_of": record.as_of.isoformat() if record.as_of else None,
        "complete_to": record.complete_to.isoformat() if record.complete_to else None,
        "log_id": record.log_id or None,
        "log_from": record.log_from or None,
        "log_to": record.log_to or None,
        "lock_wait_ms": None if record.lock_wait_ms is None else str(record.lock_wait_ms),
        "lock_held_ms": None if record.lock_held_ms is None else str(record.lock_held_ms),
        "clock": str(record.clock) if record.clock else None,
        "since": record.since.isoformat() if record.since else None,
        "server": json.dumps(record.server, separators=(",", ":"), sort_keys=True),
    }
    return {PREFIX + k: part for name, v in values.items() if v is not None for k, part in split(name, v)}


def readable_properties(record: Record) -> dict[str, str]:
    """Write to_properties(). Raise Refused when the record would not be taken when it is read back."""
    properties = to_properties(record)
    try:
        from_properties(properties)
    except ValueError as out_of_bounds:
        raise Refused(
            f"a backup of {record.instance} could not be read back, so that none is taken: {out_of_bounds}"
        ) from out_of_bounds
    return properties


def from_properties(properties: dict[str, str]) -> Record | None:
    """The record written by to_properties; None if this is not a snapshot of zbackup's.

    Raise ValueError when it is one but cannot be understood (a newer version, a damaged value).
    """
    if PREFIX + "version" not in properties:
        return None
    if properties[PREFIX + "version"] != VERSION:
        raise ValueError(
            f"written by a newer zbackup (record version {bounds.shown(properties[PREFIX + 'version'])})"
        )
    get = _ValueReader({k.removeprefix(PREFIX): v for k, v in properties.items() if k.startswith(PREFIX)})
    try:
        return Record(
            backup=get.needed("backup", _name),
            instance=get.needed("instance", _name),
            engine=get.needed("engine", _name),
            purpose=get.needed("purpose", _purpose),
            members=get.needed("members", _members),
            taken=get.needed("taken", bounds.moment),
            lock=get.needed("lock", _lock_kind),
            server_uuid=get.needed("server_uuid", _name),
            server_version=get.needed("server_version", _name),
            role=get.known("role", _name) or "",
            position=get.known("position", _position) or "",
            gtid=get.known("gtid", bounds.numbered) or "",
            as_of=get.known("as_of", bounds.moment),
            complete_to=get.known("complete_to", bounds.moment),
            log_id=get.known("log_id", _name) or "",
            log_from=get.known("log_from", _position) or "",
            log_to=get.known("log_to", _position) or "",
            lock_wait_ms=get.known("lock_wait_ms", _milliseconds),
            lock_held_ms=get.known("lock_held_ms", _milliseconds),
            clock=get.known("clock", Reading.parse),
            since=get.known("since", bounds.moment),
            server=get.needed("server", _texts),
        )
    except KeyError as missing:
        raise ValueError(f"property zbackup:{missing.args[0]} is missing") from missing


def _name(text: str) -> str:
    return bounds.plain(text, MOST_NAME)


def _position(text: str) -> str:
    return bounds.numbered(text, MOST_POSITION)


def _milliseconds(text: str) -> int:
    return bounds.count(text, MOST_MS)


def _members(text: str) -> tuple[tuple[str, str], ...]:
    value = bounds.from_json(text)
    if not isinstance(value, list) or not value or not all(_is_pair(item) for item in value):
        raise ValueError("it is not a list of datasets and mountpoints")
    if len(value) > MOST_MEMBERS:
        raise ValueError(f"it names {len(value)} datasets, and {MOST_MEMBERS} are the most")
    return tuple(
        (bounds.zfs_name(dataset), bounds.no_nul(mountpoint, MOST_PATH)) for dataset, mountpoint in value
    )


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _texts(text: str) -> dict[str, str]:
    value = bounds.from_json(text)
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ValueError("it is not a table of texts")
    if len(value) > MOST_FACTS:
        raise ValueError(f"it has {len(value)} entries, and {MOST_FACTS} are the most")
    return {bounds.no_nul(name): bounds.no_nul(fact) for name, fact in value.items()}


def _purpose(text: str) -> Literal["base", "log"]:
    match text:
        case "base" | "log":
            return text
    raise ValueError(f"unknown purpose {bounds.shown(text)}")


def _lock_kind(text: str) -> LockKind:
    match text:
        case "ftwrl" | "backup-stage" | "backup-lock" | "fsync" | "none":
            return text
    raise ValueError(f"unknown lock {bounds.shown(text)}")


@dataclass(frozen=True, slots=True)
class _ValueReader:
    values: dict[str, str]

    def optional(self, name: str) -> str | None:
        """The value, put together again; None if it was never written. Raise KeyError if a part is lost."""
        return _understood(f"{name}.parts", name, lambda key: joined(self.values, key))

    def text(self, name: str) -> str:
        found = self.optional(name)
        if found is None:
            raise KeyError(name)
        return found

    def needed(self, name: str, meaning: Callable[[str], T]) -> T:
        """What the value means.

        Raise KeyError if there is none, ValueError, naming it, if it is damaged.
        """
        return _understood(name, self.text(name), meaning)

    def known(self, name: str, meaning: Callable[[str], T]) -> T | None:
        """The same of a value that may not be there."""
        text = self.optional(name)
        return _understood(name, text, meaning) if text else None


def _understood(name: str, text: str, meaning: Callable[[str], T]) -> T:
    try:
        return meaning(text)
    except ValueError as damaged:
        raise ValueError(f"property {PREFIX}{name} is damaged: {damaged}") from damaged
