"""Decide how one table is copied, and refuse by name what would not come out right."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zbackup.engines.mysql.copy import tables
from zbackup.engines.mysql.copy.definition import (
    Definition,
    add_foreign_key,
    parse_definition,
    referring_to,
    trigger_on,
    view_named,
)
from zbackup.engines.mysql.copy.tables import ForeignKey, Table, quoted, quoted_name
from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.copying import Action, CopyStep, CopyWish, TableName
from zbackup.model.errors import NotFound, Refused, Taken

ENGINES = ("innodb", "myisam", "aria", "rocksdb")
WORK = "zbackup_copy_"
LONGEST_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJob:
    """A step, and what acting on it needs. `work` is the table that is filled before it gets its name."""

    step: CopyStep
    table: Table
    work: TableName
    create: str = ""
    foreign: tuple[ForeignKey, ...] = ()
    foreign_sql: tuple[str, ...] = ()
    triggers_sql: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sides:
    """The clone's server and production's."""

    clone: Connection
    production: Connection


def plan_table(sides: Sides, wish: CopyWish, name: TableName) -> TableJob:
    """Look at one table or view on both sides. Raise NotFound, Refused or Taken; changes nothing."""
    table = tables.read_table(sides.clone, name)
    if table is None:
        raise NotFound(f"the clone has no table {name}")
    try:
        if table.is_view:
            return _view(sides, wish, table)
        _require_copyable(table)
        into, there = _target(sides, wish, table)
        if wish.rows:
            return _rows(wish, table, into, there)
        return _whole(sides, wish, table, into, there)
    except Refused as refused:
        raise Refused(f"{name}: {refused}") from None


def _require_copyable(table: Table) -> None:
    if table.type == "SYSTEM VERSIONED":
        raise Refused("it keeps its history (system versioning), which a copy of rows would lose")
    if table.type == "SEQUENCE":
        raise Refused("it is a sequence: make it anew (CREATE SEQUENCE ... START WITH)")
    if table.engine.lower() not in ENGINES:
        raise Refused(f"zbackup copies no tables of the engine {table.engine or '(none)'}")


def _target(sides: Sides, wish: CopyWish, table: Table) -> tuple[TableName, Table | None]:
    """Under which name it comes to production, and what is there."""
    name = table.name
    if wish.into is not None:
        into = TableName(wish.into.schema, name.table if wish.into.is_schema else wish.into.table)
        there = tables.read_table(sides.production, into)
    else:
        into, there = name, tables.read_table(sides.production, name)
        if there and not (wish.rows or wish.replace):
            into = TableName(name.schema, shortened(name.table, "_restored"))
            there = tables.read_table(sides.production, into)
    if there and not (wish.rows or wish.replace):
        raise Taken(f"production has {into}: name another table with --into, or --replace it")
    return into, there


def shortened(name: str, ending: str) -> str:
    """A name with this ending, within the length that servers allow."""
    return name[: LONGEST_NAME - len(ending)] + ending


def _rows(wish: CopyWish, table: Table, into: TableName, there: Table | None) -> TableJob:
    """Rows into the table that production has."""
    if there is None:
        raise NotFound(f"production has no table {into}: leave out --missing and --changed")
    if not table.key:
        raise Refused(
            "it has no primary key (nor a unique one without NULLs) by which rows could be compared"
        )
    key = [c.name for c in table.key]
    if [c.name for c in there.key] != key:
        raise Refused(f"rows are compared by {', '.join(key)}, which is no such key of production's table")
    _require_same_columns(table, there)
    events = {event for event, wanted in (("INSERT", wish.missing), ("UPDATE", wish.changed)) if wanted}
    fired = [t.name for t in there.triggers if t.event in events]
    if fired and not wish.fire_triggers:
        raise Refused(
            f"production's table has triggers that would run for each row ({', '.join(fired)}): "
            "say --fire-triggers if they should, or copy it beside (leave out --missing and --changed)"
        )
    target, names = quoted_name(into), ", ".join(quoted(c.name) for c in table.stored)
    shown = []
    if wish.missing:
        shown.append(f"INSERT INTO {target} ({names}) VALUES ...;  -- rows whose key production lacks")
    if wish.changed:
        where = " AND ".join(f"{quoted(name)} = ..." for name in key)
        shown.append(f"UPDATE {target} SET ... WHERE {where};  -- one for each row that differs")
    notes = (f"triggers run for each row: {', '.join(fired)}",) if fired else ()
    step = CopyStep(
        source=table.name,
        into=into,
        action="rows",
        statements=tuple(shown),
        rows=table.rows,
        notes=notes,
    )
    return TableJob(step=step, table=table, work=into)


def _require_same_columns(table: Table, there: Table) -> None:
    known = {c.name: c for c in there.columns}
    for column in table.stored:
        other = known.get(column.name)
        if other is None:
            raise Refused(f"production's table has no column {column.name}: it was altered since")
        if (other.type, other.charset, other.generated) != (column.type, column.charset, False):
            raise Refused(
                f"the column {column.name} is {column.type} in the clone and {other.type} in production: it "
                "was altered since"
            )


def together(jobs: Mapping[TableName, TableJob]) -> dict[TableName, TableJob]:
    """The same jobs, with foreign keys among them on the tables that are filled: they follow these."""
    found = {}
    for name, job in jobs.items():
        keys, statements = [], []
        for key, statement in zip(job.foreign, job.foreign_sql, strict=True):
            parent = jobs.get(key.parent)
            if parent and parent.step.action in ("new", "replace"):
                statement = referring_to(statement, key.parent, parent.work)
                key = replace(key, parent=parent.work)
            keys.append(key)
            statements.append(statement)
        changed = replace(job, foreign=tuple(keys), foreign_sql=tuple(statements))
        if job.foreign:
            changed = replace(changed, step=replace(job.step, statements=tuple(_shown(changed))))
        found[name] = changed
    return found


def _whole(sides: Sides, wish: CopyWish, table: Table, into: TableName, there: Table | None) -> TableJob:
    """A table of its own, filled under a working name, and renamed when it is complete."""
    text = tables.definition(sides.clone, table.name)
    definition = parse_definition(text)
    own = into == table.name and not wish.bare
    action: Action = "replace" if there else ("new" if into == table.name else "beside")
    if there:
        _require_exchangeable(sides, there)
    work = TableName(into.schema, WORK + _mark(wish, table.name, into, text))
    if action != "new" and "mariadb" not in sides.production.version.lower():
        definition = definition.without_check_names()
    foreign, foreign_sql, renamed = _foreign(sides, wish, definition, table, work) if own else ((), (), ())
    triggers_sql = tuple(_triggers(sides, table, work)) if own else ()
    kept = TableName(into.schema, shortened(into.table, f"_before_{wish.moment}")) if there else None
    notes = [*renamed]
    if not own and (table.triggers or definition.foreign):
        left = [f"trigger {t.name}" for t in table.triggers] + [
            f"foreign key {n}" for n, _ in definition.foreign
        ]
        notes.append(f"{into} is made without {', '.join(left)}")
    resumed = tables.read_table(sides.production, work) is not None
    job = TableJob(
        step=CopyStep(
            source=table.name,
            into=into,
            action=action,
            statements=(),
            rows=table.rows,
            kept=kept,
            resumed=resumed,
            notes=tuple(notes),
        ),
        table=table,
        work=work,
        create=definition.create(work),
        foreign=foreign,
        foreign_sql=foreign_sql,
        triggers_sql=triggers_sql,
    )
    return replace(job, step=replace(job.step, statements=tuple(_shown(job))))


def _require_exchangeable(sides: Sides, there: Table) -> None:
    """Triggers and other tables' foreign keys follow a table that is renamed."""
    if there.is_view:
        raise Refused(f"{there.name} is a view in production")
    if there.triggers:
        names = ", ".join(t.name for t in there.triggers)
        raise Refused(
            f"production's table has triggers, which would stay with the old one ({names}): use --missing "
            "and --changed, or copy it beside and exchange them yourself"
        )
    if others := tables.foreign_keys(sides.production, there.name, of_others=True):
        names = ", ".join(f"{key.name} of {key.table}" for key in others)
        raise Refused(
            f"foreign keys of other tables refer to production's table, and would go on referring to the old "
            f"one ({names}): use --missing and --changed"
        )


def _mark(wish: CopyWish, name: TableName, into: TableName, text: str) -> str:
    """The same for the same copy alone: so a run that was cut short is found again."""
    parts = (wish.clone, str(name), str(into), text, wish.where, str(wish.bare))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _foreign(
    sides: Sides, wish: CopyWish, definition: Definition, table: Table, work: TableName
) -> tuple[tuple[ForeignKey, ...], tuple[str, ...], tuple[str, ...]]:
    """The foreign keys to be made, their statements, and notes on those that get another name."""
    known = {key.name: key for key in tables.foreign_keys(sides.clone, table.name, of_others=False)}
    taken = {
        str(row["name"])
        for row in sides.production.rows(
            "SELECT CONSTRAINT_NAME AS name FROM information_schema.TABLE_CONSTRAINTS "
            "WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME <> %s AND CONSTRAINT_TYPE = 'FOREIGN KEY'",
            (work.schema, work.table),
        )
    }
    keys, statements, notes = [], [], []
    for name, rest in definition.foreign:
        key = known[name]
        if key.parent not in wish.tables and tables.read_table(sides.production, key.parent) is None:
            raise Refused(
                f"its foreign key {name} refers to {key.parent}, which production lacks: copy that, too, or "
                "say --bare to leave out triggers and foreign keys"
            )
        # The same name each time, so that a run that goes on finds what is made.
        called = name if name not in taken else shortened(name, f"_{work.table[-8:]}")
        if called != name:
            notes.append(f"its foreign key {name} is called {called}, as the old table keeps that name")
        keys.append(replace(key, name=called))
        statements.append(add_foreign_key(work, called, rest))
    return tuple(keys), tuple(statements), tuple(notes)


def _triggers(sides: Sides, table: Table, work: TableName) -> list[str]:
    names = [TableName(table.name.schema, trigger.name) for trigger in table.triggers]
    return [trigger_on(tables.definition(sides.clone, name, "TRIGGER"), work) for name in names]


def _shown(job: TableJob) -> list[str]:
    names = ", ".join(quoted(c.name) for c in job.table.stored)
    shown = [] if job.step.resumed else [job.create + ";"]
    shown.append(
        f"INSERT INTO {quoted_name(job.work)} ({names}) VALUES ...;  -- about {job.table.rows} rows, "
        "in transactions of 1 MiB at most"
    )
    shown += [sql + ";" for sql in (*job.foreign_sql, *job.triggers_sql)]
    return [*shown, rename([job]) + ";", *released(job)]


def rename(jobs: Sequence[TableJob]) -> str:
    """The statement that gives finished tables their names, at once with the new names of the old ones."""
    moves: list[tuple[TableName, TableName | None]] = []
    for job in jobs:
        moves += [(job.step.into, job.step.kept)] if job.step.kept else []
        moves.append((job.work, job.step.into))
    return "RENAME TABLE " + ", ".join(f"{quoted_name(a)} TO {quoted_name(b)}" for a, b in moves if b)


def released(job: TableJob) -> list[str]:
    """Statements that take from the table that is kept what would hold up production."""
    kept = job.step.kept
    return (
        [] if kept is None else [f"-- and drop the foreign keys of {kept}, which would hold up their parents"]
    )


def _view(sides: Sides, wish: CopyWish, table: Table) -> TableJob:
    if wish.rows:
        raise Refused("it is a view: leave out --missing and --changed")
    into, there = _target(sides, wish, table)
    if there and not there.is_view:
        raise Refused(f"{into} is a table in production")
    create = view_named(tables.definition(sides.clone, table.name, "VIEW"), into, replace=bool(there))
    notes: tuple[str, ...] = ()
    if there:
        old = tables.definition(sides.production, into, "VIEW")
        notes = (f"the view {into} was until now: {old}",)
    step = CopyStep(source=table.name, into=into, action="view", statements=(create + ";",), notes=notes)
    return TableJob(step=step, table=table, work=into, create=create)
