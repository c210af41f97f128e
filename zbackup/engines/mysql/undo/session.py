"""Take back one transaction: what engines.base.Undoer asks of MySQL, Percona Server and MariaDB."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.binlog.transaction_events import Event, transaction_events
from zbackup.engines.mysql.copy import tables
from zbackup.engines.mysql.copy.brake import Brake
from zbackup.engines.mysql.copy.session import PATIENCE, MysqlCopier, clone_options
from zbackup.engines.mysql.copy.statements import SETTINGS
from zbackup.engines.mysql.recovery.replay_bounds import files_of
from zbackup.engines.mysql.server.connection import Connection, RowConnection, connect, connect_rows
from zbackup.engines.mysql.undo import reverse
from zbackup.engines.mysql.undo.changes import UNKNOWN, changes, touched_tables
from zbackup.engines.mysql.undo.net_change import NetChange, Step, in_turn
from zbackup.engines.mysql.undo.put_back import PORTION, PutBack, Tallies, Tally, judge, look, portions
from zbackup.engines.mysql.undo.tables import Target, firing, read_target, require_delete
from zbackup.model.backup import BackupFiles
from zbackup.model.copying import Entrance, TableName
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed
from zbackup.model.log import Transaction
from zbackup.model.progress import Progress
from zbackup.model.undoing import ImagesIncomplete, UndoneTable, UndoPlan, UndoWish

MOST_ROWS = 500_000
MOST_BYTES = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlUndoer:
    """See engines.base.Undoer. It writes by the account that copies write by."""

    copier: MysqlCopier

    @contextmanager
    def session(
        self,
        subject: Transaction,
        parts: Sequence[BackupFiles],
        wish: UndoWish,
        entrance: Entrance | None,
        progress: Progress,
    ) -> Iterator["MysqlUndo"]:
        """See engines.base.Undoer."""
        with self.of(log_of(subject, parts), wish, entrance, progress) as session:
            yield session

    @contextmanager
    def of(
        self, log: "TransactionLog", wish: UndoWish, entrance: Entrance | None, progress: Progress
    ) -> Iterator["MysqlUndo"]:
        """The same of a transaction that stands in a file."""
        account = self.copier.require_options()
        with ExitStack() as open_ones:
            production = open_ones.enter_context(connect(account))
            rows = open_ones.enter_context(connect_rows(account))
            watch = open_ones.enter_context(connect(self.copier.watch)) if self.copier.watch else None
            clone = None
            if entrance is not None:
                options = clone_options(entrance)
                clone = (
                    open_ones.enter_context(connect(options)),
                    open_ones.enter_context(connect_rows(options)),
                )
            for connection in (production, rows, *(clone or ()), *([watch] if watch else [])):
                connection.execute(PATIENCE)
            for connection in (production, rows, *(clone or ())):
                connection.execute(SETTINGS)
            if int(production.one("SELECT @@global.read_only AS r")["r"]):
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
                brake=Brake(production, self.copier.brake, progress),
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


def log_of(subject: Transaction, parts: Sequence[BackupFiles]) -> TransactionLog:
    """Find the file that the transaction is in. Raise NotRecoverable when it has gone."""
    start, end = LogPosition.parse(subject.start), LogPosition.parse(subject.end)
    file = next((f for f in files_of(parts) if f.name == start.file), None)
    if file is None:
        raise NotRecoverable(f"{start.file} was purged or pruned just now")
    return TransactionLog(file, start, end)


@dataclass(slots=True, kw_only=True)
class MysqlUndo:
    """See engines.base.UndoSession."""

    log: TransactionLog
    wish: UndoWish
    production: Connection
    rows: RowConnection
    watch: Connection | None
    clone: tuple[Connection, RowConnection] | None
    brake: Brake
    progress: Progress
    _targets: dict[TableName, Target] = field(default_factory=dict)
    _steps: list[Step] = field(default_factory=list)
    _firing: frozenset[TableName] = frozenset()

    def plan(self) -> UndoPlan:
        """See engines.base.UndoSession."""
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
        """See engines.base.UndoSession."""
        yield SETTINGS + ";"
        for portion in portions(self._steps):
            found = look(self.rows, self._targets, portion, locked=False)
            open_ones = [s for s in portion if judge(self._targets[s.table], s, found)[0] == "open"]
            if open_ones:
                yield "START TRANSACTION;"
                for step in open_ones:
                    yield reverse.statement(self._targets[step.table].table, step) + ";"
                yield "COMMIT;"

    def act(self) -> tuple[UndoneTable, ...]:
        """See engines.base.UndoSession."""
        self.progress.phase("putting rows back", ", ".join(map(str, self._targets)))
        work = PutBack(
            production=self.rows,
            targets=self._targets,
            firing=self._firing,
            brake=self.brake,
            progress=self.progress,
        )
        return self._undone(work.run(self._steps))

    def _read(self) -> None:
        """Read what the transaction did, and complete it by the clone where the log does not hold it all."""
        maps = touched_tables(self.log.events())
        problems = []
        for name in maps:
            try:
                self._targets[name] = read_target(self.production, self.watch, name)
            except Refused as refused:
                problems.append(str(refused))
        if problems:
            raise Refused(f"{self.wish.name} cannot be taken back: {'; '.join(problems)}")
        for name, read in maps.items():
            if self.clone:
                _require_unaltered(self.clone[0], self._targets[name])
            elif (why := self.wish.altered.get(str(name).lower())) and not read.column_names:
                raise ImagesIncomplete(
                    f"{name} was altered since ({why}), and the log does not name its columns"
                )
        net = NetChange({name: target.key for name, target in self._targets.items()})
        self.progress.phase("reading", f"the rows of {self.wish.name}")
        size = 0
        for change in changes(self.log.events(), {n: t.table for n, t in self._targets.items()}):
            if self.clone is None and any(UNKNOWN in (row or ()) for row in (change.before, change.after)):
                raise ImagesIncomplete(
                    f"the log does not hold all that was overwritten in {change.table} (binlog_row_image)"
                )
            net.saw(change)
            size += sum(
                len(v) for row in (change.before, change.after) for v in row or () if isinstance(v, bytes)
            )
            if len(net) > MOST_ROWS or size > MOST_BYTES:
                raise Refused(
                    f"{self.wish.name} changed more rows than zbackup takes back one by one: "
                    "zbackup restore --before it, with --table, --missing and --changed, goes by whole tables"
                )
        self._steps = self._completed(net.steps())

    def _completed(self, steps: list[Step]) -> list[Step]:
        lacking = [step for step in steps if step.lacks]
        if not self.clone or not lacking:
            return steps
        known: dict[int, Step] = {}
        for portion in portions(lacking):
            # Production's rows and the clone's are read the same way, by the keys of before.
            asked = [replace(step, key=step.key_before) for step in portion]
            rows = look(self.clone[1], self._targets, asked, locked=False)
            for step in portion:
                table = self._targets[step.table].table
                row = rows[step.table].get(reverse.canonical_key(table, step.key_before))
                if row is None:
                    raise VerificationFailed(
                        f"the clone has no row of {step.table} with "
                        f"{reverse.shown_key(table, step.key_before)}, which the transaction changed"
                    )
                known[id(step)] = step.completed(row)
        return [known.get(id(step), step) for step in steps]

    def _compared(self) -> Tallies:
        self.progress.phase("comparing", "with production")
        tallies: Tallies = {name: Tally() for name in self._targets}
        done = 0
        for portion in portions(self._steps):
            found = look(self.rows, self._targets, portion, locked=False)
            for step in portion:
                state, why = judge(self._targets[step.table], step, found)
                if state == "open":
                    tallies[step.table].count(step)
                elif state == "already":
                    tallies[step.table].already += 1
                else:
                    tallies[step.table].refuse(why)
            done += len(portion)
            self.progress.advance(done, len(self._steps), "rows")
        return tallies

    def _undone(self, tallies: Mapping[TableName, Tally]) -> tuple[UndoneTable, ...]:
        return tuple(tallies.get(name, Tally()).undone(name, self._unlogged(name)) for name in self._targets)

    def _unlogged(self, name: TableName) -> list[str]:
        """Name what went with deleted rows without being logged."""
        target = self._targets[name]
        deletes = any(step.kind == "insert" and step.table == name for step in self._steps)
        if not (deletes and target.unlogged):
            return []
        return [
            f"rows of {cascade} that went with rows of {name} are not in the log: zbackup restore --before "
            f"{self.wish.name} --table {cascade.child} "
            + ("--missing" if cascade.rule == "CASCADE" else "--changed")
            for cascade in target.cascades
        ]


def _require_unaltered(clone: Connection, target: Target) -> None:
    """Raise Refused where the table had other columns before the transaction."""
    name = target.table.name
    there = tables.read_table(clone, name)
    if there is None or there.columns != target.table.columns:
        raise Refused(f"the columns of {name} are others than before the transaction: it was altered since")
