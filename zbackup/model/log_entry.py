"""Words for what a transaction in a server's log did, to which tables, and which transactions are wanted."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final, Literal, get_args

from zbackup.model.log import Transaction
from zbackup.model.table_name import EVERY_TABLE, separated

Kind = Literal["ddl", "drop", "truncate", "partition", "insert", "update", "delete"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
"""Kinds of changes of a table. A drop and a truncate are DDL, too.

So is `partition`: one was dropped, exchanged or made a table, and its rows went with it.
"""


@dataclass(frozen=True, slots=True)
class Touched:
    """A table (or collection) that a transaction touched, as SCHEMA.TABLE, and what was done to it.

    Names are written as by table_name.joined(): "shop.*" is all of a schema; "" is no table at
    all, such as what CREATE USER is about.
    """

    name: str
    kinds: tuple[Kind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One transaction of a log: `events` and `size` in bytes are of all of it, as it is stored.

    `text` is the statement, its secrets and data replaced: of DDL always, of others where the server logged
    it. `logged` is the same as it was logged, for root alone and for searches. `by_text`: the log holds
    statements and no rows, so that the tables are those that its text names. `thread` is the session's
    number, 0 where it was not logged; `user` who it was logged in as, "" likewise. `prepared`: it took
    effect, or not, by a later decision (XA COMMIT, commitTransaction). `stops_replay` says why a replay
    cannot go beyond it, "" where it can. `renames` are pairs of a table's name and its next one, in their
    order. `replaced` are tables that it made anew where it dropped them, `no_tables` are names among `tables`
    of views and sequences.
    """

    transaction: Transaction
    tables: tuple[Touched, ...]
    events: int
    size: int
    text: str = ""
    logged: str = field(default="", repr=False)
    thread: int = 0
    user: str = ""
    by_text: bool = False
    prepared: bool = False
    stops_replay: str = ""
    renames: tuple[tuple[str, str], ...] = ()
    replaced: tuple[str, ...] = ()
    no_tables: tuple[str, ...] = ()

    def kinds(self) -> tuple[Kind, ...]:
        """What it did to any table, in the order of KINDS."""
        done = {kind for each in self.tables for kind in each.kinds}
        return tuple(kind for kind in KINDS if kind in done)


@dataclass(frozen=True, kw_only=True)
class LogFilter:
    """The filter for transactions that are wanted: all that satisfy every part of it.

    `tables` are names as by table_name.joined(), SCHEMA.* for all of one: any of them, as any of `kinds` if
    some are given. `since` and `until` are commit times, the second not included. `grep` is in the text,
    whatever its case. Nothing up to the position `after` is read. `follows` is where the log in front of
    what is searched ended, "" where nobody knows of any: what lies between was not read, and is told. `ended`
    is up to when all is in that, None where it is not known. With
    `backwards` the newest files come first, each in its own order. `fold`: names that differ in case only are
    one (lower_case_table_names).
    """

    tables: tuple[str, ...] = ()
    kinds: frozenset[Kind] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    grep: str = ""
    fold: bool = False
    after: str = ""
    follows: str = ""
    ended: datetime | None = None
    backwards: bool = False

    def admits(self, entry: LogEntry) -> bool:
        """Whether the entry is wanted."""
        return (
            self.admits_time(entry.transaction.committed)
            and (not (self.tables or self.kinds) or any(map(self.admits_table, entry.tables)))
            and (not self.grep or self.grep.casefold() in (entry.logged or entry.text).casefold())
        )

    def admits_time(self, committed: datetime) -> bool:
        """Whether the commit time is wanted."""
        after = self.since is None or committed >= self.since
        return after and (self.until is None or committed < self.until)

    def admits_table(self, touched: Touched) -> bool:
        """Whether what was done to this table is wanted."""
        return self._is_kind(touched) and (not self.tables or self.admits_name(touched.name))

    def _is_kind(self, touched: Touched) -> bool:
        return not self.kinds or not self.kinds.isdisjoint(touched.kinds)

    def admits_name(self, name: str) -> bool:
        """Whether it is one of the tables that are named."""
        whole, schemas = self._names
        name = name.casefold() if self.fold else name
        schema, table = separated(name)
        return name in whole or schema in schemas or (table == EVERY_TABLE and schema in self._schemas)

    @cached_property
    def _names(self) -> tuple[frozenset[str], frozenset[str]]:
        """Tables, and schemas of which every table is wanted."""
        wanted = [name.casefold() if self.fold else name for name in self.tables]
        schemas = {schema for schema, table in map(separated, wanted) if table in ("", EVERY_TABLE)}
        return frozenset(wanted), frozenset(schemas)

    @cached_property
    def _schemas(self) -> frozenset[str]:
        return frozenset(separated(name)[0] for name in self._names[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Log that is nowhere any more: all of it was written from `since` to `until`; None where that is not
    known."""

    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRead:
    """The extent to which one file of a log, or one oplog, was read: up to `end` in the engine's own words.

    `problem` says what of it was not read, and why, "" where nothing was left out. `damaged`: it should have
    been readable; `torn`: what was not read is an end that its server had not finished writing.
    `lost`: it is about what was purged in front of the file, and of no file.
    """

    name: str
    size: int
    end: str
    problem: str = ""
    damaged: bool = False
    torn: bool = False
    lost: Lost | None = None


Told = Callable[[str, int, int], None]
"""Hears the name of a file that is being read, how many bytes of it were, and how many it has."""


def nobody(_: str, __: int, ___: int) -> None:
    """Hears how far a search is that nobody watches."""
