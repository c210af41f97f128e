"""Words for what a running database server says of itself."""

from dataclasses import dataclass, field
from typing import Literal

from zbackup.model.record import LockKind


@dataclass(frozen=True, slots=True)
class DataPath:
    """A file or directory the server keeps data in: what it is for (such as "redo log"), and its path."""

    what: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Settings that say how well a server and ZFS go together.

    `log_retention_s` is the age at which the server may purge its log (inf: never; None: not known),
    `retention_setting` its name and `keep_setting` how a setting is changed for good. `page_size` is in
    bytes, `data_directory` where the pages are, `double_write` whether each is written twice.
    """

    log_retention_s: float | None
    retention_setting: str
    page_size: int | None
    data_directory: str
    double_write: bool | None
    keep_setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OplogFacts:
    """A mongod's log: bytes that it holds and may hold, seconds from its oldest entry to the newest, and for
    how many seconds it keeps entries even if it grows larger. `data_directory` is where the data is."""

    used: int
    most: int
    span_s: float
    kept_s: float
    data_directory: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """One look at a server.

    `data_paths` is everything that must be inside the snapshot. `server` is what a temporary server needs
    later to open the files (see Record.server). `non_transactional` names user tables whose engine has no
    crash recovery (schema.table (engine)), at most a few, and `non_transactional_count` how many there are.
    `blockers` are reasons, in words for the operator, why no recovery could come of a snapshot (such as a
    replica that does not log what it applies); `warnings` are reasons for care.
    """

    flavor: Literal["mysql", "mariadb", "mongodb"]
    version: str
    server_uuid: str
    role: Literal["primary", "replica"]
    applier_running: bool
    data_paths: tuple[DataPath, ...]
    position: str
    gtid: str
    server: dict[str, str] = field(hash=False)
    non_transactional: tuple[str, ...] = ()
    non_transactional_count: int = 0
    blockers: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    tuning: Tuning | None = None
    oplog: OplogFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningQuery:
    """A statement in progress: connection id, user, seconds so far, its text, and what the server does."""

    id: int
    user: str
    seconds: float
    text: str
    state: str
    is_select: bool


@dataclass(frozen=True, slots=True)
class LockChoice:
    """The lock to take and why this one, in words for the operator."""

    kind: LockKind
    reason: str
