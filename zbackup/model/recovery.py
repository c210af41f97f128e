"""Words for a recovery: what is asked of an engine, and what came of it."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from zbackup.model.cluster import Addresses, ClusterMembership
from zbackup.model.log import Transaction, how_many
from zbackup.model.proof import Sight
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation
from zbackup.model.unreplayable import Unreplayable


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The reach of a backup's data: nothing committed after `as_of` is inside, and everything committed
    before `complete_to` is. Times are those at the origin. `out_of_order` are transactions whose times
    contradict the log's order, as far as it was read, each in a line for people."""

    as_of: datetime
    complete_to: datetime
    out_of_order: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterStop:
    """The position where the replay stops if its times are read the other way: in front of `first_skipped`,
    None at its end, and this many `transactions` are applied."""

    first_skipped: Transaction | None
    transactions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRange:
    """The part of the log between a base and a target: an engine's look before anything is changed.

    `last_applied` is None when the base itself is the newest state before the target. `first_skipped` is
    None when the log ends before the target. `out_of_order` counts transactions behind the stop point whose
    recorded time is before the target all the same. `later` is not None when the log's times contradict its
    order around the target: then it may be that the replay has to stop there instead.
    `outside` are directories off the instance's datasets in which tables are made, and `stopped` the first of
    what would be applied that no server can apply.
    """

    last_applied: Transaction | None
    first_skipped: Transaction | None
    transactions: int
    log_bytes: int
    out_of_order: int
    effective_target: datetime
    later: LaterStop | None = None
    outside: tuple[str, ...] = ()
    stopped: Unreplayable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A transaction that a replay passes over, the `tables` it touched, as SCHEMA.TABLE, and how many of
    those behind it that are applied touched the same tables: `first` are the first of these."""

    transaction: Transaction
    tables: tuple[str, ...]
    later: int = 0
    first: tuple[Transaction, ...] = ()

    def __str__(self) -> str:
        """For people."""
        name = self.transaction.gtid or self.transaction.start
        did = f"left out: {name}, which changed {', '.join(self.tables) or 'no table'}"
        if not self.later:
            return f"{did}; nothing touched the same tables later" if self.tables else did
        shown = ", ".join(each.gtid or each.start for each in self.first)
        more = f" and {self.later - len(self.first)} more" if self.later > len(self.first) else ""
        return (
            f"{did}; {how_many(self.later)} touched the same tables later ({shown}{more}): a row that one of "
            "those wrote is as the log has it, with what was left out in it"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryFiles:
    """A backup's files, where they are now, and the mounts a server on them must see.

    `home` is a directory of the clone's own for a server's log, relay log and scratch files; `run` a short
    path for its socket. `hide` are mountpoints that the server must not see; `beside` are homes of
    other clones, whose files a recovery works on, too.
    """

    record: Record
    where: Relocation
    home: Path
    run: Path
    hide: tuple[str, ...]
    beside: tuple[Path, ...] = ()

    def own(self, *, for_users: bool) -> tuple[str, ...]:
        """The directories that a server on them may write to."""
        beside = () if for_users else self.beside
        return tuple(str(directory) for directory in dict.fromkeys((self.home, self.run, *beside)))

    @property
    def process(self) -> Path:
        return process_note(self.run)


OUTSIDE = "outside"
"""In a clone's home: directories in place of the host's that are on none of the instance's datasets."""


def process_note(run: Path) -> Path:
    """Where it is noted which process is the server of the clone with the run directory `run`.

    Beside that directory and not in it: the server may write there, and whoever stops a clone's server
    sends signals, as root, to the process that is noted.
    """
    return run.with_name(f"{run.name}.process")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of what a server may take of the machine: `nice` is added to its priority's number.

    `memory` is in bytes, all it uses, and `cpu` in percent of one CPU; 0: no limit. These two are systemd's
    to hold.
    """

    nice: int = 0
    memory: int = 0
    cpu: int = 0


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """The way in which a recovered server is to be handed over: `port` 0 means by its socket only.

    `replica_set` is the name of a set to be made of it alone; "" for a server that is in none. `memory` is in
    bytes, 0 for what recovered servers get. `events_off`: events cannot even be turned on; `login`: it asks
    for logins, whatever the original did. `restricted`: its accounts are developers'. `follows`: it is a
    replica, and goes on being one. `role` is a member's in a sharded cluster, "" outside of one, and
    `addresses` where its members are; None once that is written in the files. `host` is where members on
    other hosts reach the port, "" for 127.0.0.1 alone.
    """

    port: int = 0
    read_only: bool = False
    replica_set: str = ""
    memory: int = 0
    limits: Limits = NO_LIMITS
    role: str = ""
    host: str = ""
    addresses: Addresses | None = None
    events_off: bool = False
    login: bool = False
    restricted: bool = False
    follows: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The point that a recovery reached, as the recovered server itself reports it.

    `base_exact` says that it was checked that the base was exactly (not only at least) what was recorded.
    `replay` is what was applied, from an engine that could not tell before, and `clock_accepted` that its log
    could have ended elsewhere, too. `other_zone` is why local times that were replayed may be others, ""
    where they are not, `other_settings` why statements may have given something else, and `other_tables`
    which tables were created or dropped without the log. `member` is what it is in a sharded cluster; None
    outside of one. `sights` are what it shows of what is to be proved, and one transaction later, as far as
    the engine could tell.
    """

    last_applied: Transaction | None
    first_skipped: Transaction | None
    position: str
    gtid: str
    base_exact: bool
    replay: ReplayRange | None = None
    clock_accepted: bool = False
    other_zone: str = ""
    other_settings: str = ""
    other_tables: str = ""
    member: ClusterMembership | None = None
    sights: tuple[Sight, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedTables:
    """The server's own check of its tables or collections: how many it checked, which are damaged, each in a
    line, and which it did not check although they hold something."""

    tables: int
    damaged: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """The way in which zbackup itself gets into a clone's server: by its socket, as this user; "" for no
    login."""

    socket: str
    user: str = ""
    password: str = field(default="", repr=False)
