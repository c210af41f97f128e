"""No undo lets a foreign key touch rows of others: the planner, over random graphs of foreign keys.

The judge is a database in memory that does what the rules say, row by row, and refuses as a server does.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zbackup.engines.mysql.production.tables import Column, ServerTable
from zbackup.features.undo.mysql.foreign_keys import (
    ACTING,
    Reference,
    Referring,
    RowId,
    concerned,
    covered,
    trouble,
    troubled,
)
from zbackup.features.undo.mysql.net_change import RowStep
from zbackup.model.table_name import TableName

NAMES = [TableName("s", f"t{n}") for n in range(2)]
RULES = ("CASCADE", "SET NULL", "RESTRICT", "NO ACTION")
KEYS = [b"1", b"2", b"3"]
Row = tuple[bytes | None, ...]


ID, UP = (Column(name=name, type="int", data_type="int") for name in ("id", "up"))


def _table(name: TableName) -> ServerTable:
    return ServerTable(
        name=name, type="BASE TABLE", engine="InnoDB", rows=0, row_bytes=0,
        columns=(ID, UP), key=(ID,), index="PRIMARY",
    )  # fmt: skip


TABLES = {name: _table(name) for name in NAMES}


class _Refused(Exception):
    pass


@dataclass
class Database:
    """Rows (id, up) by table; each table's `up` refers to the id of one table, by rules."""

    parents: dict[TableName, TableName]
    on_delete: dict[TableName, str]
    on_update: dict[TableName, str]
    rows: dict[TableName, dict[bytes, Row]] = field(default_factory=lambda: {name: {} for name in NAMES})
    touched: set[tuple[TableName, bytes]] = field(default_factory=set)

    def copy(self) -> "Database":
        rows = {name: dict(found) for name, found in self.rows.items()}
        return Database(self.parents, self.on_delete, self.on_update, rows)

    def references(self, name: TableName) -> list[Reference]:
        return [
            Reference(
                name=f"of_{child.table}", child=child, on_delete=self.on_delete[child],
                on_update=self.on_update[child], columns=(("up", "id"),),
            )
            for child, parent in self.parents.items() if parent == name
        ]  # fmt: skip

    def children(self, name: TableName, key: bytes) -> list[tuple[TableName, bytes]]:
        return [
            (child, row[0] or b"")
            for child, parent in self.parents.items() if parent == name
            for row in self.rows[child].values() if row[1] == key
        ]  # fmt: skip

    def insert(self, name: TableName, row: Row) -> None:
        if row[0] in self.rows[name]:
            raise _Refused
        if (
            row[1] is not None
            and row[1] not in self.rows[self.parents[name]]
            and not (self.parents[name] == name and row[0] == row[1])
        ):
            raise _Refused
        self.rows[name][row[0] or b""] = row

    def delete(self, name: TableName, key: bytes) -> None:
        row = self.rows[name].pop(key)
        for child, number in self.children(name, key):
            rule = self.on_delete[child]
            if rule not in ACTING:
                self.rows[name][key] = row
                raise _Refused
            if number not in self.rows[child]:
                continue
            self.touched.add((child, number))
            if rule == "CASCADE":
                self.delete(child, number)
            else:
                self.rows[child][number] = (number, None)

    def update(self, name: TableName, key: bytes, row: Row) -> None:
        old = self.rows[name][key]
        if row[0] != key and row[0] in self.rows[name]:
            raise _Refused
        if row[1] is not None and row[1] != old[1] and row[1] not in self.rows[self.parents[name]]:
            raise _Refused
        del self.rows[name][key]
        self.rows[name][row[0] or b""] = row
        if row[0] == key:
            return
        for child, number in self.children(name, key):
            rule = self.on_update[child]
            if rule not in ACTING or child == name:  # a table that refers to itself: as RESTRICT
                raise _Refused
            self.touched.add((child, number))
            self.rows[child][number] = (number, row[0] if rule == "CASCADE" else None)

    def all(self) -> set[tuple[TableName, Row]]:
        return {(name, row) for name, found in self.rows.items() for row in found.values()}


def _do(database: Database, action: tuple[int, TableName, bytes, bytes, bytes | None]) -> None:
    kind, name, key, other, up = action
    trial = database.copy()
    try:
        if kind == 0:
            trial.insert(name, (key, up))
        elif key not in trial.rows[name]:
            return
        elif kind == 1:
            trial.delete(name, key)
        elif kind == 2:
            trial.update(name, key, (other, trial.rows[name][key][1]))
        else:
            trial.update(name, key, (key, up))
    except _Refused:
        return
    database.rows = trial.rows


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 0, 1, 2, 2, 3]), st.sampled_from(NAMES), st.sampled_from(KEYS),
        st.sampled_from(KEYS), st.sampled_from([*KEYS, *KEYS, None]),
    ),
    min_size=2, max_size=6,
)  # fmt: skip


def _steps(before: Database, after: Database) -> list[tuple[RowId, RowStep]]:
    """By keys alone: a row that got another is one that went and one that came, or a moved one where that is
    clear."""
    found = []
    for name in NAMES:
        old, new = before.rows[name], after.rows[name]
        gone, come = [k for k in old if k not in new], [k for k in new if k not in old]
        if len(gone) == len(come) == 1:
            found.append(RowStep(name, (come[0],), (gone[0],), old[gone[0]], new[come[0]]))
            gone, come = [], []
        found += [RowStep(name, (k,), (k,), old[k], None) for k in gone]
        found += [RowStep(name, (k,), (k,), None, new[k]) for k in come]
        found += [RowStep(name, (k,), (k,), old[k], new[k]) for k in old if k in new and old[k] != new[k]]
    return [((s.table, tuple(int(k or 0) for k in s.key)), s) for s in found]


def _referring(database: Database, step: RowStep) -> list[Referring]:
    return [
        Referring(
            reference=reference,
            rows=tuple((reference.child, (int(key),)) for key in keys),
            shown=tuple(key.decode() for key in keys),
        )
        for reference in concerned(TABLES[step.table], database.references(step.table), step)
        if (keys := [k for k, row in database.rows[reference.child].items() if row[1] == step.key[0]])
    ]


@settings(max_examples=600, deadline=None)
@given(
    parents=st.tuples(*[st.sampled_from(NAMES)] * 2),
    on_delete=st.tuples(*[st.sampled_from(RULES)] * 2),
    on_update=st.tuples(*[st.sampled_from(RULES)] * 2),
    first=ACTIONS, then=ACTIONS, since=ACTIONS,
)  # fmt: skip
def test_nothing_of_others_is_touched(
    parents: Any, on_delete: Any, on_update: Any, first: Any, then: Any, since: Any
) -> None:
    before = Database(*(dict(zip(NAMES, each, strict=True)) for each in (parents, on_delete, on_update)))
    for action in first:
        _do(before, action)
    after = before.copy()
    for action in then:
        _do(after, action)
    now = after.copy()
    for action in since:
        _do(now, action)
    steps = [
        (row, step)
        for row, step in _steps(before, after)
        if (now.rows[step.table].get(step.key[0] or b"") == step.after)
        and (step.key == step.key_before or step.key_before[0] not in now.rows[step.table])
    ]
    found = {row: referring for row, step in steps if (referring := _referring(now, step))}
    left = troubled(steps, found, {}, TABLES)
    taken = [step for row, step in steps if row not in left]
    own = {(step.table, key[0]) for step in taken for key in (step.key, step.key_before)}
    done, waiting = now.copy(), taken
    still = {row: step for row, step in steps if row not in left}
    while waiting:
        refused = [
            step
            for step in waiting
            if trouble(step, _referring(done, step), still, TABLES, now=True) or not _taken(done, step)
        ]
        if len(refused) == len(waiting):
            break
        waiting = refused
    assert done.touched <= own, "a row of others went, changed or lost its key"
    others = {(name, row) for name, row in now.all() if (name, row[0]) not in own}
    assert others <= done.all()


def _taken(database: Database, step: RowStep) -> bool:
    trial = database.copy()
    key = step.key[0] or b""
    try:
        if step.after is None:
            trial.insert(step.table, step.before or ())  # type: ignore[arg-type]
        elif step.before is None:
            if key in trial.rows[step.table]:
                trial.delete(step.table, key)
        elif key in trial.rows[step.table]:
            trial.update(step.table, key, step.before)  # type: ignore[arg-type]
    except _Refused:
        return False
    database.rows = trial.rows
    database.touched |= trial.touched
    return True


def _step(before: Row | None, after: Row | None) -> RowStep:
    key, was = ((row or ())[:1] for row in (after or before, before or after))
    return RowStep(NAMES[0], key, was, before, after)


def test_what_covers_a_row_is_what_leaves_nothing_of_it() -> None:
    cascade = Reference(
        name="k", child=NAMES[0], on_delete="CASCADE", on_update="SET NULL", columns=(("up", "id"),)
    )
    parent = _step(None, (b"1", None))
    moved = _step((b"1", None), (b"2", None))
    table = TABLES[NAMES[0]]
    for now in (True, False):
        assert not covered(table, cascade, parent, None, now=now)
        assert covered(table, cascade, parent, _step(None, (b"5", b"1")), now=now)
        # One that refers to another row when it is taken back must be, before this one goes.
        assert covered(table, cascade, parent, _step((b"5", None), (b"5", b"1")), now=now) is not now
        assert covered(table, cascade, moved, _step((b"5", b"1"), (b"5", b"2")), now=now)
        # The log does not hold what the foreign key did then.
        assert not covered(table, cascade, moved, _step((b"5", b"2"), (b"5", b"2")), now=now)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("then", [0, 2])
def test_a_row_that_came_since_keeps_what_it_refers_to(rule: str, then: int) -> None:
    """A new parent, and one that got another key."""
    parent, other = NAMES
    rules = {name: rule for name in NAMES}
    before = Database({parent: parent, other: parent}, rules, rules)
    if then == 2:
        _do(before, (0, parent, b"1", b"1", None))
    after = before.copy()
    _do(after, (then, parent, b"2" if then == 0 else b"1", b"2", None))
    steps = _steps(before, after)
    assert troubled(steps, {row: _referring(after, step) for row, step in steps}, {}, TABLES) == {}
    now = after.copy()
    _do(now, (0, other, b"1", b"1", b"2"))
    left = troubled(steps, {row: _referring(now, step) for row, step in steps}, {}, TABLES)
    assert list(left) == [(parent, (2,))] and "s.t1 1" in left[parent, (2,)]
