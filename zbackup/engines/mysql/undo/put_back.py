"""Take rows of production's back to what they were, where they still are what the transaction left.

Each portion is one transaction: its rows are locked, compared, written and read again. A row that is
already as it was is left alone, so that a run that was cut short is just started again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from zbackup.engines.mysql.copy.brake import Brake
from zbackup.engines.mysql.copy.compare import NOT_TAKEN
from zbackup.engines.mysql.copy.insert_rows import BUSY, TRIES
from zbackup.engines.mysql.copy.patience import ended_if_silent
from zbackup.engines.mysql.copy.tables import Table, quoted_name
from zbackup.engines.mysql.server.connection import ConnectionLost, Row, RowConnection, StatementFailed
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.engines.mysql.undo import reverse
from zbackup.engines.mysql.undo.net_change import Key, Step
from zbackup.engines.mysql.undo.tables import Target
from zbackup.model.copying import TableName
from zbackup.model.errors import DatabaseError, VerificationFailed
from zbackup.model.progress import Progress
from zbackup.model.undoing import UndoneTable

PORTION = 1000
"""Rows in one transaction: fewer are taken back all at once, or not at all."""
PORTION_BYTES = 4 << 20
EXAMPLES = 100
ASKED = 500
_NO_TAKER = (*NOT_TAKEN, 1265, 1366, 1264, 1406, 1048)
"""Also what a column does not take in strict mode: a value that another sql_mode once let in."""

State = Literal["open", "already", "conflict"]
Rows = dict[TableName, dict[tuple[object, ...], Row]]


@dataclass(slots=True)
class Tally:
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

    def count(self, step: Step) -> None:
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


Tallies = dict[TableName, Tally]


def portions(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Steps in bounded numbers."""
    portion: list[Step] = []
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
    connection: RowConnection, targets: Mapping[TableName, Target], steps: Sequence[Step], *, locked: bool
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


def judge(target: Target, step: Step, rows: Rows) -> tuple[State, str]:
    """Tell whether production still has what the transaction left; if not, how it differs."""
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


def _is_back(table: Table, step: Step, rows: Rows) -> bool:
    if step.before is None:
        return True
    if step.key == step.key_before:
        return False
    there = rows[step.table].get(reverse.canonical_key(table, step.key_before))
    return there is not None and reverse.same_row(table, there, step.before)


def _open(step: Step, shown: str) -> tuple[State, str]:
    if reverse.writable(step.before):
        return "open", ""
    return "conflict", (
        f"{shown}: its JSON had parts whose type is not in their text (dates, times, binary, DECIMALs)"
    )


@dataclass(slots=True, kw_only=True)
class PutBack:
    """Writes to production. `firing` are tables whose triggers run."""

    production: RowConnection
    targets: Mapping[TableName, Target]
    firing: frozenset[TableName]
    brake: Brake
    progress: Progress
    schema: str = ""

    def run(self, steps: Sequence[Step]) -> Tallies:
        """All steps, in portions; what production did not take is tried again when all else is done."""
        tallies: Tallies = {step.table: Tally() for step in steps}
        left, done = list(steps), 0
        while left:
            refused: list[tuple[Step, str]] = []
            for portion in portions(left):
                self.brake.wait()
                refused += self._again(portion, tallies)
                done += len(portion)
                self.progress.advance(min(done, len(steps)), len(steps), "rows")
            if len(refused) == len(left):
                for step, why in refused:
                    tallies[step.table].refuse(why)
                break
            left = [step for step, _ in refused]
        return tallies

    def _again(self, portion: Sequence[Step], tallies: Tallies) -> list[tuple[Step, str]]:
        """One portion, again while somebody else holds a lock: our wait is short."""
        for tries in range(TRIES, -1, -1):
            fresh: Tallies = {step.table: Tally() for step in portion}
            try:
                with ended_if_silent(self.production):
                    refused = self._transaction(portion, fresh)
            except StatementFailed as failure:
                if failure.code not in BUSY or not tries:
                    raise
                continue
            _add(tallies, fresh)
            return refused
        raise AssertionError("unreachable")

    def _transaction(self, portion: Sequence[Step], tallies: Tallies) -> list[tuple[Step, str]]:
        """Raise VerificationFailed when a row does not come out as it was; nothing is changed then."""
        self.production.write(b"START TRANSACTION")
        try:
            refused: list[tuple[Step, str]] = []
            done: list[Step] = []
            # What triggers of the first wrote is seen when the others are looked at.
            for fires in (True, False):
                some = [step for step in portion if (step.table in self.firing) is fires]
                if some:
                    refused += self._some(some, done, tallies)
            self._prove(done, tallies)
            self.production.write(b"COMMIT")
            return refused
        except ConnectionLost:
            raise
        except DatabaseError:
            self.production.write(b"ROLLBACK")
            raise

    def _some(self, steps: Sequence[Step], done: list[Step], tallies: Tallies) -> list[tuple[Step, str]]:
        rows = current_rows(self.production, self.targets, steps, locked=True)
        left: list[Step] = []
        for step in steps:
            state, why = judge(self.targets[step.table], step, rows)
            if state == "open":
                left.append(step)
            elif state == "already":
                tallies[step.table].already += 1
            else:
                tallies[step.table].refuse(why)
        while True:
            refused = [(step, why) for step in left if (why := self._write(step, done, tallies))]
            if not refused or len(refused) == len(left):
                return refused
            left = [step for step, _ in refused]

    def _write(self, step: Step, done: list[Step], tallies: Tallies) -> str:
        """Take back one row that is locked; why production does not take it, "" if it does."""
        target = self.targets[step.table]
        shown = f"{step.table} {reverse.shown_key(target.table, step.key)}"
        if step.kind == "delete" and (why := self._children(target, step)):
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
        if count != 1:
            raise VerificationFailed(f"{shown}: {count} rows were changed instead of one; nothing was")
        done.append(step)
        tallies[step.table].count(step)
        return ""

    def _children(self, target: Target, step: Step) -> str:
        """Rows that would be deleted or changed with it, of which the transaction knew nothing."""
        values = dict(zip((c.name for c in target.table.stored), step.after or (), strict=True))
        by_name = {column.name: column for column in target.table.stored}
        for cascade in target.cascades:
            condition = " AND ".join(
                f"{identifier(own)} = {reverse.literal(by_name[parent], values[parent])}"
                for own, parent in cascade.columns
            )
            query = f"SELECT 1 FROM {quoted_name(cascade.child)} WHERE {condition} LIMIT 1 LOCK IN SHARE MODE"
            if self.production.read(query.encode()):
                return f"rows refer to it now, and would go with it: {cascade}"
        return ""

    def _prove(self, done: Sequence[Step], tallies: Tallies) -> None:
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
