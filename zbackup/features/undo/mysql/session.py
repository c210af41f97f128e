"""Take back one transaction: what ports.Undoer asks of MySQL, Percona Server and MariaDB."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.table_map import TableMap
from zbackup.engines.mysql.binlog.transaction_events import Event, transaction_events
from zbackup.engines.mysql.production import statements, tables
from zbackup.engines.mysql.production.account import ProductionAccount, clone_options
from zbackup.engines.mysql.production.statements import SETTINGS
from zbackup.engines.mysql.production.tables import quoted_name
from zbackup.engines.mysql.production.throttle import PATIENCE, Throttle
from zbackup.engines.mysql.recovery.replay_bounds import paths_of
from zbackup.engines.mysql.server.connection import (
    Connection,
    RowConnection,
    connect,
    connect_rows,
    whole_number,
)
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.undo.mysql import reverse
from zbackup.features.undo.mysql.changes import (
    UNKNOWN,
    Change,
    Row,
    Unknown,
    changes,
    never_whole,
    touched_tables,
)
from zbackup.features.undo.mysql.foreign_keys import ACTING, Referring, RowId, concerned, troubled
from zbackup.features.undo.mysql.json_binary import Untold
from zbackup.features.undo.mysql.net_change import Key, NetChange, RowStep, in_turn, key_of
from zbackup.features.undo.mysql.put_back import (
    PORTION,
    PutBack,
    Rows,
    State,
    Tallies,
    UndoTally,
    current_rows,
    judge,
    portions,
    rows_at,
    too_large,
)
from zbackup.features.undo.mysql.referring_rows import ReferringRows, RowsGiven, row_id
from zbackup.features.undo.mysql.tables import Target, firing, read_target, require_delete
from zbackup.features.undo.undoing import ImagesIncomplete, UndoneTable, UndoPlan, UndoWish
from zbackup.model.backup import BackupFiles
from zbackup.model.command_line import command_line
from zbackup.model.errors import DatabaseError, NotRecoverable, Refused, UsageError, VerificationFailed
from zbackup.model.log import ClusterTime, LogPosition, Transaction
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName
from zbackup.model.transaction_name import FORMS

SCRATCH: Final = TableName("zbackup_undo", "as_new")
_LAX: Final = "SET SESSION sql_mode = ''"
_LITERAL: Final = re.compile(
    r"NULL|'.*'|[-+]?[0-9.]+(e[-+]?\d+)?|b'[01]*'|x'[0-9a-f]*'|0x[0-9a-f]*", re.I | re.S
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneSessions:
    """Sessions with the clone's server, and the tables as production has them."""

    session: Connection
    rows: RowConnection
    targets: dict[TableName, Target] = field(default_factory=dict)

    def require_unaltered(self) -> None:
        """Raise Refused for a table that had other columns before the transaction."""
        for name, target in self.targets.items():
            there = tables.read_table(self.session, name)
            if there is None or there.columns != target.table.columns:
                raise Refused(
                    f"the columns of {name} are others than before the transaction: it was altered since"
                )

    def defaults(self, name: TableName) -> Row:
        """The values that a new row has where its INSERT names no others; UNKNOWN where an expression gives
        them. Raise Refused where the server does not say."""
        computed = self._computed(name)
        stored = self.targets[name].table.stored
        plain = [column for column in stored if column.name not in computed]
        if not plain:
            return (UNKNOWN,) * len(stored)
        try:
            self.session.execute(f"CREATE DATABASE IF NOT EXISTS {identifier(SCRATCH.schema)}")
            self.session.execute(f"DROP TABLE IF EXISTS {quoted_name(SCRATCH)}")
            self.session.execute(f"CREATE TABLE {quoted_name(SCRATCH)} LIKE {quoted_name(name)}")
            self.session.execute(_LAX)
            self.session.execute(f"INSERT INTO {quoted_name(SCRATCH)} () VALUES ()")
            query = f"SELECT {reverse.selected(plain)} FROM {quoted_name(SCRATCH)}"
            (made,) = self.rows.read(query.encode())
        except (DatabaseError, ValueError) as failure:
            raise Refused(
                f"the log does not hold all of the rows that were inserted into {name} (binlog_row_image), "
                f"and what its columns have by default cannot be told: {failure}"
            ) from failure
        finally:
            self.session.execute(statements.SETTINGS)
        known = dict(zip((column.name for column in plain), made, strict=True))
        return tuple(known.get(column.name, UNKNOWN) for column in stored)

    def _computed(self, name: TableName) -> frozenset[str]:
        """The columns whose default is no constant."""
        found = self.session.rows(
            "SELECT COLUMN_NAME AS c, COLUMN_DEFAULT AS d, EXTRA AS e FROM information_schema.COLUMNS "
            "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
            (name.schema, name.table),
        )
        mariadb = "mariadb" in self.session.version.lower()
        return frozenset(
            str(row["c"])
            for row in found
            if "DEFAULT_GENERATED" in str(row["e"]).upper()
            or (mariadb and row["d"] is not None and not _LITERAL.fullmatch(str(row["d"])))
        )


@dataclass(slots=True)
class RowsBefore:
    """The clone's rows at the keys that a transaction names."""

    clone: CloneSessions
    _rows: dict[TableName, dict[tuple[object, ...], Row]] = field(default_factory=dict)
    _wanted: dict[TableName, dict[tuple[object, ...], Key]] = field(default_factory=dict)
    lacking: set[TableName] = field(default_factory=set)
    """Tables into which rows were inserted that the log does not hold whole."""

    def __len__(self) -> int:
        return sum(map(len, self._wanted.values()))

    def saw(self, change: Change) -> None:
        """Hear of a change: the row that it is about has to be read."""
        name = change.table
        target = self.clone.targets[name]
        if change.before is not None:
            key = key_of(change.before, target.key, name)
            self._wanted.setdefault(name, {})[reverse.canonical_key(target.table, key)] = key
        elif UNKNOWN in (change.after or ()):
            self.lacking.add(name)

    def read(self) -> int:
        """Read all of them; how many bytes they have."""
        size = 0
        for name, wanted in self._wanted.items():
            keys, there = list(wanted.items()), self._rows.setdefault(name, {})
            for start in range(0, len(keys), PORTION):
                some = dict(keys[start : start + PORTION])
                found = rows_at(self.clone.rows, self.clone.targets[name], some, locked=False)
                there.update(self._marked(name, found, some.values()))
                size += sum(len(v) for row in found.values() for v in row if isinstance(v, bytes))
        return size

    def __call__(self, name: TableName, key: Key) -> Row:
        """The row with this key. Raise VerificationFailed if the clone has none."""
        table = self.clone.targets[name].table
        row = self._rows.get(name, {}).get(reverse.canonical_key(table, key))
        if row is None:
            raise VerificationFailed(
                f"the clone has no row of {name} with {reverse.shown_key(table, key)}, which the "
                "transaction changed"
            )
        return row

    def _marked(
        self, name: TableName, found: Mapping[tuple[object, ...], Row], keys: Iterable[Key]
    ) -> Mapping[tuple[object, ...], Row]:
        """The rows, with what marks documents whose text does not tell all of their types."""
        table = self.clone.targets[name].table
        documents = [column for column in table.stored if column.data_type == "json"]
        if not (documents and found):
            return found
        marked = dict(found)
        asked = " OR ".join(f"({reverse.where(table, key)})" for key in keys)
        for column in documents:
            query = f"SELECT {reverse.selected(table.key)} FROM {quoted_name(name)} WHERE "
            query += f"({statements.types_lost(column)}) AND ({asked})"
            index = table.stored.index(column)
            for key in self.clone.rows.read(query.encode()):
                at = reverse.canonical_key(table, key)
                if at in marked and (value := marked[at][index]) is not None:
                    marked[at] = _with(marked[at], index, Untold(_bytes(value)))
        return marked


def unknown_columns(steps: Sequence[Row | None], target: Target) -> list[str]:
    """The columns that some of these rows have no value for."""
    indexes = {index for row in steps if row for index, value in enumerate(row) if value is UNKNOWN}
    return [target.table.stored[index].name for index in sorted(indexes)]


def _with(row: Row, index: int, value: bytes) -> Row:
    return (*row[:index], value, *row[index + 1 :])


def _bytes(value: bytes | Unknown) -> bytes:
    return value if isinstance(value, bytes) else b""


MOST_ROWS = 500_000
MOST_BYTES = 512 << 20
GAPS_LOCKED = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""Rows that are looked for under a lock and are not there cannot come before the transaction ends (both
manuals, "InnoDB Locking", gap locks)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlUndoer:
    """See ports.Undoer. It writes by the account that copies write by."""

    account: ProductionAccount

    def find(self, at: ClusterTime) -> Transaction:
        """See ports.Undoer: a binary log has no cluster times."""
        raise UsageError(f'"{at}" names no transaction of a binary log: write {FORMS}')

    @contextmanager
    def session(
        self,
        subject: Transaction,
        files: Sequence[BackupFiles],
        wish: UndoWish,
        entrance: Entrance | None,
        progress: Progress,
    ) -> Iterator["MysqlUndo"]:
        with self.of(log_of(subject, files), wish, entrance, progress) as session:
            yield session

    @contextmanager
    def of(
        self, log: "TransactionLog", wish: UndoWish, entrance: Entrance | None, progress: Progress
    ) -> Iterator["MysqlUndo"]:
        """The same of a transaction that stands in a file."""
        account = self.account.login
        with ExitStack() as open_ones:
            production = open_ones.enter_context(connect(account))
            rows = open_ones.enter_context(connect_rows(account))
            watch = open_ones.enter_context(connect(self.account.usual))
            clone = None
            if entrance is not None:
                options = clone_options(entrance)
                clone = CloneSessions(
                    session=open_ones.enter_context(connect(options)),
                    rows=open_ones.enter_context(connect_rows(options)),
                )
            both = (clone.session, clone.rows) if clone else ()
            for connection in (production, rows, *both, watch):
                connection.execute(PATIENCE)
            for connection in (production, rows, *both):
                connection.execute(SETTINGS)
            rows.execute(GAPS_LOCKED)
            if whole_number(production.one("SELECT @@global.read_only AS r"), "r"):
                raise Refused(
                    "the instance's server is read-only (a replica?): undo on the one that takes writes"
                )
            yield MysqlUndo(
                log=log,
                wish=wish,
                production=production,
                rows=rows,
                watch=watch,
                clone=clone,
                throttle=self.account.throttle(production, progress),
                progress=progress,
            )


@dataclass(frozen=True, slots=True)
class TransactionLog:
    """The file and position of the transaction."""

    file: Path
    start: LogPosition
    end: LogPosition

    def events(self) -> Iterator[Event]:
        return transaction_events(self.file, self.start, self.end)


def log_of(subject: Transaction, files: Sequence[BackupFiles]) -> TransactionLog:
    """Find the file that the transaction is in. Raise NotRecoverable when it has gone."""
    start, end = LogPosition.parse(subject.start), LogPosition.parse(subject.end)
    file = next((f for f in paths_of(files) if f.name == start.file), None)
    if file is None:
        raise NotRecoverable(f"{start.file} was purged or pruned just now")
    return TransactionLog(file, start, end)


@dataclass(slots=True, kw_only=True)
class MysqlUndo:
    log: TransactionLog
    wish: UndoWish
    production: Connection
    rows: RowConnection
    watch: Connection
    clone: CloneSessions | None
    throttle: Throttle
    progress: Progress
    _targets: dict[TableName, Target] = field(default_factory=dict)
    _steps: list[RowStep] = field(default_factory=list)
    _firing: frozenset[TableName] = frozenset()
    _packet: int = 0
    _left: dict[RowId, str] = field(default_factory=dict)
    """Rows that are not taken back because of others that refer to them, or of their size, and why."""

    def plan(self) -> UndoPlan:
        try:
            self._read()
        except ImagesIncomplete as why:
            why.tables = tuple(self._targets)
            raise
        except ValueError as wrong:
            raise VerificationFailed(f"{self.wish.name} cannot be read from the log: {wrong}") from wrong
        fired = firing(self._targets, self._steps)
        if fired and not self.wish.fire_triggers:
            names = "; ".join(f"{name}: {', '.join(triggers)}" for name, triggers in fired.items())
            raise Refused(
                f"production's triggers would run for each row that is put back ({names}): say "
                "--fire-triggers if they should, or drop them for the time being"
            )
        self._firing = frozenset(fired)
        self._steps = in_turn(self._steps, fired)
        deleting = dict.fromkeys(step.table.schema for step in self._steps if step.kind == "delete")
        require_delete(self.production, tuple(deleting))
        notes = [f"triggers run for each row of {name}: {', '.join(t)}" for name, t in fired.items()]
        count = sum(1 for _ in portions(self._steps))
        if count > 1:
            notes.append(
                f"{len(self._steps)} rows take {count} transactions, of {PORTION} rows at most: until "
                "the last is committed, a part of them is back"
            )
        return UndoPlan(tables=self._undone(self._compared()), transactions=count, notes=tuple(notes))

    def statements(self) -> Iterator[str]:
        yield SETTINGS + ";"
        for portion in portions(self._steps):
            found = current_rows(self.rows, self._targets, portion, locked=False)
            open_ones = [s for s in portion if self._judge(s, found)[0] == "open"]
            if open_ones:
                yield "START TRANSACTION;"
                for step in open_ones:
                    yield reverse.statement(self._targets[step.table].table, step) + ";"
                yield "COMMIT;"

    def act(self) -> tuple[UndoneTable, ...]:
        self.progress.phase("putting rows back", ", ".join(map(str, self._targets)))
        work = PutBack(
            production=self.rows,
            watch=self.watch,
            targets=self._targets,
            referring=self._referring(),
            firing=self._firing,
            packet=self._packet,
            throttle=self.throttle,
            progress=self.progress,
        )
        left = {id(step): why for step in self._steps if (why := self._left.get(self._row(step)))}
        tallies = work.run([step for step in self._steps if id(step) not in left])
        for step in self._steps:
            if id(step) in left:
                tallies.setdefault(step.table, UndoTally()).refuse(left[id(step)])
        return self._undone(tallies)

    def _read(self) -> None:
        """Read what the transaction did, and complete it by the clone where the log does not hold it all."""
        self._packet = int(self.production.one("SELECT @@session.max_allowed_packet AS n")["n"])
        maps = touched_tables(self.log.events())
        problems = []
        for name in maps:
            try:
                self._targets[name] = read_target(self.production, self.watch, name)
            except Refused as refused:
                problems.append(str(refused))
        if problems:
            raise Refused(f"{self.wish.name} cannot be taken back: {'; '.join(problems)}")
        if self.clone is None:
            self._require_named(maps)
        else:
            self.clone.targets.update(self._targets)
            self.clone.require_unaltered()
        self.progress.phase("reading", f"the rows of {self.wish.name}")
        net = self._net()
        for change in self._changes():
            net.saw(change)
            self._require_bounded(len(net))
        self._steps = [step for step in net.steps() if not self._is_nothing(step)]
        for name, target in self._targets.items():
            own = [row for step in self._steps if step.table == name for row in (step.before, step.after)]
            if lacking := unknown_columns(own, target):
                raise Refused(
                    f"{self.wish.name} cannot be taken back: the log does not hold what rows that were "
                    f"inserted into {name} had in {', '.join(lacking)}, whose default is an expression"
                )

    def _require_named(self, maps: Mapping[TableName, TableMap]) -> None:
        for name, read in maps.items():
            if (why := self.wish.altered.get(str(name).lower())) and not read.column_names:
                raise never_whole(f"{name} was altered since ({why}), and the log does not name its columns")

    def _net(self) -> NetChange:
        """An empty net change, which knows what the clone has of the rows that the transaction changed."""
        keys = {name: target.key for name, target in self._targets.items()}
        if self.clone is None:
            return NetChange(keys)
        before = RowsBefore(self.clone)
        for change in self._changes():
            before.saw(change)
            self._require_bounded(len(before))
        self._require_bounded(size=before.read())
        return NetChange(keys, before, {name: self.clone.defaults(name) for name in before.lacking})

    def _changes(self) -> Iterator[Change]:
        """Read what the log holds. Raise ImagesIncomplete where that is not all, and there is no clone."""
        size = 0
        for change in changes(self.log.events(), {n: t.table for n, t in self._targets.items()}):
            if self.clone is None and any(UNKNOWN in (row or ()) for row in (change.before, change.after)):
                raise ImagesIncomplete(
                    f"the log does not hold all that was overwritten in {change.table} (binlog_row_image)"
                )
            size += sum(
                len(v) for row in (change.before, change.after) for v in row or () if isinstance(v, bytes)
            )
            self._require_bounded(size=size)
            yield change

    def _require_bounded(self, rows: int = 0, *, size: int = 0) -> None:
        if rows > MOST_ROWS or size > MOST_BYTES:
            raise Refused(
                f"{self.wish.name} changed more rows than zbackup takes back one by one: "
                "zbackup restore --before it, with --table, --missing and --changed, goes by whole tables"
            )

    def _is_nothing(self, step: RowStep) -> bool:
        """Whether the row is as it was, however the clone and the log write its values."""
        if step.before is None or step.after is None or step.key != step.key_before:
            return False
        return reverse.same_row(self._targets[step.table].table, step.before, step.after)

    def _compared(self) -> Tallies:
        self.progress.phase("comparing", "with production")
        self._left = {}
        tallies: Tallies = {name: UndoTally() for name in self._targets}
        judged, done = list[tuple[RowStep, State, str]](), 0
        for portion in portions(self._steps):
            found = current_rows(self.rows, self._targets, portion, locked=False)
            judged += [(step, *judge(self._targets[step.table], step, found)) for step in portion]
            done += len(portion)
            self.progress.advance(done, len(self._steps), "rows")
        self._left = self._unwritable([step for step, state, _ in judged if state == "open"])
        for step, state, why in judged:
            if left := self._left.get(self._row(step)):
                state, why = "conflict", left
            tallies[step.table].judged(step, state, why)
        return tallies

    def _judge(self, step: RowStep, found: Rows) -> tuple[State, str]:
        if left := self._left.get(self._row(step)):
            return "conflict", left
        return judge(self._targets[step.table], step, found)

    def _unwritable(self, steps: Sequence[RowStep]) -> dict[RowId, str]:
        """The rows of these that are not taken back: other rows refer to them, or the server takes no
        statement of that size."""
        rows = [(self._row(step), step) for step in steps]
        large = {
            row: why
            for row, step in rows
            if (why := too_large(self._targets[step.table].table, step, self._packet))
        }
        rows = [(row, step) for row, step in rows if row not in large]
        production = self._referring()
        found: dict[RowId, Sequence[Referring]] = {
            row: referring
            for row, step in rows
            if (referring := production.of(step, most=PORTION, locked=False))
        }
        given = RowsGiven(self._targets, rows)
        needs = {row: need for row, step in rows if (need := production.needs(step, given))}
        tables = {name: target.table for name, target in self._targets.items()}
        shown = {
            row: f"{step.table} {reverse.shown_key(self._targets[step.table].table, step.key)}"
            for row, step in rows
        }
        split = self._followed(rows, found) if sum(1 for _ in portions(steps)) > 1 else {}
        rows = [(row, step) for row, step in rows if row not in split]
        left = split | troubled(rows, found, needs, tables)
        return large | {row: f"{shown[row]}: {why}" for row, why in left.items()}

    def _followed(
        self, rows: Sequence[tuple[RowId, RowStep]], found: Mapping[RowId, Sequence[Referring]]
    ) -> dict[RowId, str]:
        """Changed keys that other rows have followed: these go back with it in one transaction alone."""
        return {
            row: f"rows refer to it now, and the undo changes more than {PORTION} rows: "
            f"{each.reference.child} "
            f"({each.reference.described(step)})"
            for row, step in rows
            if step.kind == "update"
            for each in found.get(row, ())
            if each.reference.on_update in ACTING
        }

    def _row(self, step: RowStep) -> RowId:
        return row_id(self._targets[step.table], step)

    def _referring(self) -> ReferringRows:
        return ReferringRows(production=self.production, rows=self.rows, targets=self._targets)

    def _undone(self, tallies: Mapping[TableName, UndoTally]) -> tuple[UndoneTable, ...]:
        return tuple(
            tallies.get(name, UndoTally()).undone(name, self._unlogged(name)) for name in self._targets
        )

    def _unlogged(self, name: TableName) -> list[str]:
        """Name what a foreign key did to other rows without its being logged."""
        target = self._targets[name]
        if not target.unlogged:
            return []
        own = [step for step in self._steps if step.table == name]
        deleted = any(step.kind == "insert" for step in own)
        moved = {
            reference
            for step in own
            if step.kind == "update"
            for reference in concerned(target.table, target.references, step)
        }
        lines = []
        for reference in target.references:
            for verb, rule, happened in (
                ("DELETE", reference.on_delete, deleted),
                # By CASCADE they have the new key, and are found by that.
                ("UPDATE", reference.on_update, reference in moved and reference.on_update != "CASCADE"),
            ):
                if happened and rule in ACTING:
                    wanted = ("--table", reference.child, "--missing" if rule == "CASCADE" else "--changed")
                    back = command_line("zbackup", "restore", "--before", self.wish.name, *wanted)
                    lines.append(
                        f"rows of {reference.child} (foreign key {reference.name}, ON {verb} {rule}) that "
                        f"went with rows of {name} are not in the log: {back}"
                    )
        return lines
