"""Take rows of production's back to what they were, where they still are what the transaction left.

Each portion is one transaction: its rows are locked, compared, written and read again. A row that is
already as it was is left alone, so that a run that was cut short is just started again.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from zbackup.engines.mysql.production.statements import BUSY, NOT_TAKEN
from zbackup.engines.mysql.production.tables import ServerTable
from zbackup.engines.mysql.production.throttle import Throttle, ended_if_silent
from zbackup.engines.mysql.server.connection import (
    Connection,
    ConnectionLost,
    Row,
    RowConnection,
    StatementFailed,
)
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.undo.mysql import reverse
from zbackup.features.undo.mysql.foreign_keys import ACTING, RowId, trouble
from zbackup.features.undo.mysql.net_change import Key, RowStep
from zbackup.features.undo.mysql.referring_rows import ReferringRows, row_id
from zbackup.features.undo.mysql.tables import Target
from zbackup.features.undo.undoing import UndoneTable
from zbackup.model.errors import DatabaseError, VerificationFailed
from zbackup.model.progress import Progress
from zbackup.model.table_name import TableName

PORTION = 1000
"""Rows in one transaction: fewer are taken back all at once, or not at all."""
PORTION_BYTES = 4 << 20
EXAMPLES = 100
ASKED = 500
_NO_TAKER = (*NOT_TAKEN, 1265, 1366, 1264, 1406, 1048)
"""Also what a column does not take in strict mode: a value that another sql_mode once let in."""

COUNTED_AFTER_S: Final = (0.0, 0.15, 0.3, 0.6)
"""Seconds before each look at a transaction's count: what InnoDB shows of it may be 0.1 s old (MySQL
reference manual, "Persistence and Consistency of InnoDB Transaction and Locking Information")."""
_STATEMENT_BYTES: Final = 64 << 10
"""More than a statement has beside its values."""

State = Literal["open", "already", "conflict"]
Rows = dict[TableName, dict[tuple[object, ...], Row]]


@dataclass(slots=True)
class UndoTally:
    """The counts of one table's rows; see UndoneTable."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    already: int = 0
    refused: int = 0
    conflicts: list[str] = field(default_factory=list)

    def refuse(self, line: str) -> None:
        self.refused += 1
        if len(self.conflicts) < EXAMPLES:
            self.conflicts.append(line)

    def judged(self, step: RowStep, state: "State", why: str) -> None:
        match state:
            case "open":
                self.count(step)
            case "already":
                self.already += 1
            case "conflict":
                self.refuse(why)

    def count(self, step: RowStep) -> None:
        match step.kind:
            case "insert":
                self.inserted += 1
            case "update":
                self.updated += 1
            case "delete":
                self.deleted += 1

    def undone(self, name: TableName, unlogged: Sequence[str] = ()) -> UndoneTable:
        """Convert to the model's types."""
        return UndoneTable(
            table=name,
            inserted=self.inserted,
            updated=self.updated,
            deleted=self.deleted,
            already=self.already,
            refused=self.refused,
            conflicts=tuple(self.conflicts),
            unlogged=tuple(unlogged),
        )


Tallies = dict[TableName, UndoTally]


def portions(steps: Sequence[RowStep]) -> Iterator[list[RowStep]]:
    """Steps in bounded numbers."""
    portion: list[RowStep] = []
    size = 0
    for step in steps:
        portion.append(step)
        size += sum(len(v) for row in (step.before, step.after) for v in row or () if isinstance(v, bytes))
        if len(portion) >= PORTION or size >= PORTION_BYTES:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def current_rows(
    connection: RowConnection, targets: Mapping[TableName, Target], steps: Sequence[RowStep], *, locked: bool
) -> Rows:
    """Production's rows at all keys that the steps name."""
    wanted: dict[TableName, dict[tuple[object, ...], Key]] = {}
    for step in steps:
        table = targets[step.table].table
        for key in (step.key, step.key_before):
            wanted.setdefault(step.table, {})[reverse.canonical_key(table, key)] = key
    found: Rows = {}
    for name, keys in wanted.items():
        found[name] = rows_at(connection, targets[name], keys, locked=locked)
    return found


def rows_at(
    connection: RowConnection, target: Target, keys: Mapping[tuple[object, ...], Key], *, locked: bool
) -> dict[tuple[object, ...], Row]:
    """A table's rows at these keys, as far as there are any. Both are by what reverse.canonical_key gives."""
    table, there = target.table, {}
    asked = list(keys.values())
    for start in range(0, len(asked), ASKED):
        for row in connection.read(reverse.select(table, asked[start : start + ASKED], locked=locked)):
            key = tuple(row[index] for index in target.key)
            there[reverse.canonical_key(table, key)] = row
    if there.keys() - keys.keys():
        # A key that is another in bytes, and the same in its collation: only the server knows.
        for canonical, key in keys.items():
            if canonical not in there:
                rows = connection.read(reverse.select(table, [key], locked=locked))
                there.update((canonical, row) for row in rows)
    return there


def judge(target: Target, step: RowStep, rows: Rows) -> tuple[State, str]:
    """Whether production still has what the transaction left; if not, how it differs."""
    table = target.table
    there = rows[step.table].get(reverse.canonical_key(table, step.key))
    shown = f"{step.table} {reverse.shown_key(table, step.key)}"
    if step.after is None:
        if there is None:
            return _open(step, shown)
        if step.before is not None and reverse.same_row(table, there, step.before):
            return "already", ""
        return "conflict", f"{shown}: inserted again since"
    if there is None:
        return ("already", "") if _is_back(table, step, rows) else ("conflict", f"{shown}: deleted since")
    if not (changed := reverse.differing(table, there, step.after)):
        return _open(step, shown)
    if step.before is not None and (
        reverse.same_row(table, there, step.before) or _is_back(table, step, rows)
    ):
        return "already", ""
    index = table.stored.index(changed[0])
    now, left = (reverse.shown(changed[0], row[index]) for row in (there, step.after))
    return "conflict", f"{shown}: changed since ({changed[0].name} is {now}, and was left as {left})"


def _is_back(table: ServerTable, step: RowStep, rows: Rows) -> bool:
    if step.before is None:
        return True
    if step.key == step.key_before:
        return False
    there = rows[step.table].get(reverse.canonical_key(table, step.key_before))
    return there is not None and reverse.same_row(table, there, step.before)


def _open(step: RowStep, shown: str) -> tuple[State, str]:
    if reverse.writable(step.before):
        return "open", ""
    return "conflict", (
        f"{shown}: its JSON had parts whose type is not in their text (dates, times, binary, DECIMALs)"
    )


def too_large(table: ServerTable, step: RowStep, packet: int) -> str:
    """Tell that the server would not take the statement, whose limit is `packet` bytes; "" if it would."""
    if 2 * sum(len(v) for v in step.before or () if isinstance(v, bytes)) + _STATEMENT_BYTES < packet:
        return ""
    size = len(reverse.statement(table, step).encode())
    if size < packet:
        return ""
    return (
        f"{step.table} {reverse.shown_key(table, step.key)}: the statement that restores the row has {size} "
        f"bytes, but the server accepts only {packet}: raise max_allowed_packet"
    )


class _CoverLost(Exception):
    """Rows were not taken back that others relied on: a foreign key has changed them by then."""

    def __init__(self, rows: Mapping[RowId, str]) -> None:
        super().__init__(f"{len(rows)} rows")
        self.rows = rows


@dataclass(slots=True)
class _Count:
    """The rows that a transaction may change: a row that gets another key is two to InnoDB."""

    least: int = 0
    most: int = 0

    def wrote(self, table: ServerTable, step: RowStep) -> None:
        moves = step.kind == "update" and (step.key != step.key_before or table.index != "PRIMARY")
        self.least += 1
        self.most += 1 + moves


@dataclass(slots=True, kw_only=True)
class PutBack:
    """Writes to production. `firing` are tables whose triggers run; `watch` sees what a transaction of
    `production` changes; a statement has `packet` bytes at most."""

    production: RowConnection
    watch: Connection
    targets: Mapping[TableName, Target]
    referring: ReferringRows
    firing: frozenset[TableName]
    packet: int
    throttle: Throttle
    progress: Progress
    schema: str = ""
    _count: _Count = field(default_factory=_Count)
    _relied: set[RowId] = field(default_factory=set)
    """Rows of this transaction that a foreign key has changed, and whose own step puts them right."""

    def run(self, steps: Sequence[RowStep]) -> Tallies:
        """All steps, in portions; what production did not take is tried again when all else is done."""
        tallies: Tallies = {step.table: UndoTally() for step in steps}
        left, done = list(steps), 0
        while left:
            refused: list[tuple[RowStep, str]] = []
            for portion in portions(left):
                self.throttle.wait()
                refused += self._again(portion, tallies)
                done += len(portion)
                self.progress.advance(min(done, len(steps)), len(steps), "rows")
            if len(refused) == len(left):
                for step, why in refused:
                    tallies[step.table].refuse(why)
                break
            left = [step for step, _ in refused]
        return tallies

    def _again(self, portion: Sequence[RowStep], tallies: Tallies) -> list[tuple[RowStep, str]]:
        """One portion, again while somebody else holds a lock: our wait is short."""
        barred: dict[RowId, str] = {}
        tries = 5
        while True:
            fresh: Tallies = {step.table: UndoTally() for step in portion}
            try:
                with ended_if_silent(self.production):
                    refused = self._transaction(portion, fresh, barred)
            except _CoverLost as lost:
                barred |= lost.rows
                continue
            except StatementFailed as failure:
                if failure.code not in BUSY or not tries:
                    raise
                tries -= 1
                continue
            _add(tallies, fresh)
            return refused

    def _transaction(
        self, portion: Sequence[RowStep], tallies: Tallies, barred: Mapping[RowId, str]
    ) -> list[tuple[RowStep, str]]:
        """Raise VerificationFailed when a row does not come out as it was, or the server changed others;
        nothing is changed then. Those that are `barred` are not tried."""
        self._count, self._relied = _Count(), set()
        self.production.write(b"START TRANSACTION")
        try:
            refused: list[tuple[RowStep, str]] = []
            done: list[RowStep] = []
            rows = {id(step): row_id(self.targets[step.table], step) for step in portion}
            refused += [(step, barred[rows[id(step)]]) for step in portion if rows[id(step)] in barred]
            portion = [step for step in portion if rows[id(step)] not in barred]
            # What triggers of the first wrote is seen when the others are looked at.
            for fires in (True, False):
                some = [step for step in portion if (step.table in self.firing) is fires]
                if some:
                    refused += self._some(some, done, tallies)
            lost = {row: why for step, why in refused if (row := rows[id(step)]) in self._relied}
            if lost:
                raise _CoverLost(lost)
            self._prove(done, tallies)
            self._require_counted()
            self.production.write(b"COMMIT")
            return refused
        except ConnectionLost:
            raise
        except (DatabaseError, VerificationFailed, _CoverLost):
            self.production.write(b"ROLLBACK")
            raise

    def _some(
        self, steps: Sequence[RowStep], done: list[RowStep], tallies: Tallies
    ) -> list[tuple[RowStep, str]]:
        rows = current_rows(self.production, self.targets, steps, locked=True)
        left: list[RowStep] = []
        for step in steps:
            state, why = judge(self.targets[step.table], step, rows)
            if state == "open":
                left.append(step)
            elif state == "already":
                tallies[step.table].already += 1
            else:
                tallies[step.table].refuse(why)
        own = {row_id(self.targets[step.table], step): step for step in left}
        while True:
            refused = [(step, why) for step in left if (why := self._write(step, own, done, tallies))]
            if not refused or len(refused) == len(left):
                return refused
            left = [step for step, _ in refused]

    def _write(
        self, step: RowStep, own: Mapping[RowId, RowStep], done: list[RowStep], tallies: Tallies
    ) -> str:
        """Take back one row that is locked; why production does not take it, "" if it does."""
        target = self.targets[step.table]
        shown = f"{step.table} {reverse.shown_key(target.table, step.key)}"
        if why := too_large(target.table, step, self.packet):
            return why
        touched: set[RowId] = set()
        if why := self._trouble(step, own, touched):
            return f"{shown}: {why}"
        if step.table.schema != self.schema:
            # Statements of a log that holds statements are filtered by the default schema on replicas.
            self.production.write(f"USE {identifier(step.table.schema)}".encode())
            self.schema = step.table.schema
        try:
            count = self.production.write(reverse.statement(target.table, step).encode())
        except StatementFailed as failure:
            if failure.code not in _NO_TAKER:
                raise
            return f"{shown}: {failure}"
        if count == 0 and self._came_back(target, step):
            count = 1
        elif count == 1:
            self._count.wrote(target.table, step)
            self._count.most += 2 * len(touched)
            self._relied |= touched
        if count != 1:
            raise VerificationFailed(f"{shown}: {count} rows were changed instead of one; nothing was")
        done.append(step)
        tallies[step.table].count(step)
        return ""

    def _came_back(self, target: Target, step: RowStep) -> bool:
        """Whether a foreign key has taken the row back with another that was."""
        if row_id(target, step) not in self._relied:
            return False
        rows = current_rows(self.production, self.targets, [step], locked=True)
        return judge(target, step, rows)[0] == "already"

    def _trouble(self, step: RowStep, own: Mapping[RowId, RowStep], touched: set[RowId]) -> str:
        """Which rows of others would go or change with it, through however many tables; `touched` are
        those of `own` that do. None comes to them before the transaction ends."""
        found = self.referring.of(step, most=len(own), locked=True)
        if why := trouble(step, found, own, self._tables, now=True):
            return why
        for referring in found:
            if referring.reference.rule(step) not in ACTING:
                continue
            for row in referring.rows:
                if row not in touched:
                    touched.add(row)
                    if own[row] is not step and (why := self._trouble(own[row], own, touched)):
                        return why
        return ""

    @property
    def _tables(self) -> dict[TableName, ServerTable]:
        return {name: target.table for name, target in self.targets.items()}

    def _require_counted(self) -> None:
        """Raise VerificationFailed when the transaction has changed more rows than were to be changed, or
        fewer. Triggers change what they like."""
        names = {name for name, target in self.targets.items() if target.table.engine.lower() != "innodb"}
        if self.firing or names or not self._count.most:
            return
        count, least, most = None, self._count.least, self._count.most
        for wait_s in COUNTED_AFTER_S:
            time.sleep(wait_s)
            found = self.watch.one(
                "SELECT TRX_ROWS_MODIFIED AS n FROM information_schema.INNODB_TRX "
                "WHERE TRX_MYSQL_THREAD_ID = %s",
                (self.production.id,),
            )
            count = int(found["n"]) if found else None
            if count is not None and least <= count <= most:
                return
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise VerificationFailed(
            f"the server changed {'an unknown number of' if count is None else count} rows instead "
            f"of {wanted}: everything was rolled back"
        )

    def _prove(self, done: Sequence[RowStep], tallies: Tallies) -> None:
        rows = current_rows(self.production, self.targets, done, locked=True)
        for step in done:
            target = self.targets[step.table]
            shown = f"{step.table} {reverse.shown_key(target.table, step.key)}"
            there = rows[step.table].get(reverse.canonical_key(target.table, step.key_before))
            right = (
                there is None
                if step.before is None
                else there is not None and reverse.same_row(target.table, there, step.before)
            )
            if right:
                continue
            if not self.firing:
                raise VerificationFailed(f"{shown} did not come out as it was: nothing was changed")
            tallies[step.table].refuse(f"{shown}: put back, and then changed by a trigger")


def _add(tallies: Tallies, fresh: Tallies) -> None:
    for name, tally in fresh.items():
        known = tallies[name]
        known.inserted += tally.inserted
        known.updated += tally.updated
        known.deleted += tally.deleted
        known.already += tally.already
        known.refused += tally.refused
        known.conflicts = (known.conflicts + tally.conflicts)[:EXAMPLES]
