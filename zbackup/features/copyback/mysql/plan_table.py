"""Decide how one table is copied, and refuse by name what would not come out right."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from zbackup.engines.mysql.production import tables
from zbackup.engines.mysql.production.statements import loses_types
from zbackup.engines.mysql.production.tables import ForeignKey, ServerTable, quoted_name
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.copyback.copying import Action, CopyStep, CopyWish
from zbackup.features.copyback.mysql import load_data_lines
from zbackup.features.copyback.mysql.attached import require_unattached
from zbackup.features.copyback.mysql.creation import Creation, read_creation
from zbackup.features.copyback.mysql.definition import (
    ENGINES,
    Definition,
    DefinitionPiece,
    Key,
    add_keys,
    built_at_once,
    parse_definition,
    referring_to,
)
from zbackup.features.copyback.mysql.encryption import require_keys
from zbackup.features.copyback.mysql.job import LONGEST_NAME, TableJob, shortened
from zbackup.features.copyback.mysql.marker import marker_named
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.features.copyback.mysql.stored_text import StoredText, trigger_on, view_named
from zbackup.model.errors import NotFound, Refused, Taken, UsageError
from zbackup.model.table_name import TableName


def plan_rows(
    sides: Sides, wish: CopyWish, table: ServerTable, into: TableName, there: ServerTable | None
) -> TableJob:
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
    lines = (
        not (wish.changed or wish.where or fired)
        and load_data_lines.are_possible(table)
        and load_data_lines.are_possible(there)
        and load_data_lines.loads(sides.production)
    )
    notes = (f"triggers run for each row: {', '.join(fired)}",) if fired else ()
    step = CopyStep(
        source=table.name,
        into=into,
        action="rows",
        statements=tuple(_shown_rows(wish, table, into, lines=lines)),
        rows=table.rows,
        notes=notes,
    )
    parents = {key.parent for key in tables.foreign_keys(sides.production, into, of_others=False)}
    return TableJob(step=step, table=table, work=into, as_lines=lines, parents=frozenset(parents))


def _shown_rows(wish: CopyWish, table: ServerTable, into: TableName, *, lines: bool) -> Iterator[str]:
    if wish.missing:
        names = ", ".join(identifier(c.name) for c in table.stored)
        insert = f"INSERT INTO {quoted_name(into)} ({names}) VALUES ..."
        how = load_data_lines.load(into, table).decode() if lines else insert
        yield f"{how};  -- rows whose key production lacks"
    if wish.changed:
        where = " AND ".join(f"{identifier(c.name)} = ..." for c in table.key)
        yield f"UPDATE {quoted_name(into)} SET ... WHERE {where};  -- one for each row that differs"


def _require_same_columns(table: ServerTable, there: ServerTable) -> None:
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


WORK = "zbackup_copy_"
KEYS_LATER_BYTES = 2 << 30
"""Up to this size, a table gets its indexes when it is filled. Each is one statement, which a replica is busy
with for as long as production was: of larger tables for longer than anybody could stop it."""


def plan_table(sides: Sides, wish: CopyWish, name: TableName) -> TableJob:
    """Look at one table or view on both sides. Raise NotFound, Refused or Taken; changes nothing."""
    table = tables.read_table(sides.clone, name)
    if table is None:
        raise NotFound(f"the clone has no table {name}")
    try:
        if table.is_view:
            return _view(sides, wish, table)
        _require_copyable(table)
        _require_true_json(sides, wish, table)
        into, there = _target(sides, wish, table)
        if wish.rows:
            return plan_rows(sides, wish, table, into, there)
        return _whole(sides, wish, table, into, there)
    except Refused as refused:
        raise Refused(f"{name}: {refused}") from None


def _require_copyable(table: ServerTable) -> None:
    if table.type == "SYSTEM VERSIONED":
        raise Refused("it keeps its history (system versioning), which a copy of rows would lose")
    if table.type == "SEQUENCE":
        raise Refused("it is a sequence: make it again (CREATE SEQUENCE ... START WITH)")
    if table.engine.lower() not in ENGINES:
        raise Refused(f"zbackup copies no tables of the engine {table.engine or '(none)'}")


def _require_true_json(sides: Sides, wish: CopyWish, table: ServerTable) -> None:
    """MariaDB's JSON is text. MySQL's has types, of which its text holds some only."""
    for column in table.stored:
        if column.data_type != "json":
            continue
        ask = loses_types(table.name, column, wish.where)
        if (lost := int(sides.clone_rows.read(ask)[0][0] or 0)) > 0:
            raise Refused(
                f"{lost} values of its JSON column {column.name} have parts whose type is not in their text "
                "(dates, times, binary, DECIMALs that end in 0), and would come back as others: leave "
                "those rows out with --where"
            )


def _target(sides: Sides, wish: CopyWish, table: ServerTable) -> tuple[TableName, ServerTable | None]:
    """Under which name it comes to production, and what is there."""
    name = table.name
    if wish.into is not None:
        into = TableName(wish.into.schema, name.table if wish.into.is_schema else wish.into.table)
        for word in (into.schema, into.table):
            if len(word) > LONGEST_NAME:
                raise UsageError(f"--into: {word} has more than the {LONGEST_NAME} letters of a name")
        there = tables.read_table(sides.production, into)
    else:
        into, there = name, tables.read_table(sides.production, name)
        if there and not (wish.rows or wish.replace):
            into = TableName(name.schema, shortened(name.table, "_restored"))
            there = tables.read_table(sides.production, into)
    if there and not (wish.rows or wish.replace):
        raise Taken(f"production has {into}: name another table with --into, or --replace it")
    return into, there


def together(jobs: Mapping[TableName, TableJob]) -> dict[TableName, TableJob]:
    """The same jobs, with foreign keys among them on the tables that are filled: they follow these."""
    found = {}
    for name, job in jobs.items():
        keys, rests = [], []
        for key, rest in zip(job.foreign, job.foreign_rest, strict=True):
            parent = jobs.get(key.parent)
            if parent and parent.step.action in ("new", "replace"):
                rest = referring_to(rest, parent.work)
                key = replace(key, parent=parent.work)
            keys.append(key)
            rests.append(rest)
        changed = replace(job, foreign=tuple(keys), foreign_rest=tuple(rests))
        if job.foreign:
            changed = replace(changed, step=replace(job.step, statements=tuple(_shown(changed))))
        found[name] = changed
    return found


def _whole(
    sides: Sides, wish: CopyWish, table: ServerTable, into: TableName, there: ServerTable | None
) -> TableJob:
    """A table of its own, filled under a working name, and renamed when it is complete."""
    require_keys(sides.production, table)
    text = tables.definition(sides.clone, table.name)
    definition = parse_definition(text)
    own = into == table.name and not wish.bare
    action: Action = "replace" if there else ("new" if into == table.name else "beside")
    if there:
        require_unattached(sides, into)
    work = TableName(into.schema, WORK + _mark(wish, table.name, into, text))
    if action != "new" and "mariadb" not in sides.production.version.lower():
        definition = definition.without_check_names()
    resumed = tables.read_table(sides.production, work) is not None
    shape, keys = _keys_apart(sides, table, definition, work, resumed=resumed)
    foreign, rests, renamed = _foreign(sides, wish, definition, table, work) if own else ((), (), ())
    triggers = tuple(_triggers(sides, table, work)) if own else ()
    kept = TableName(into.schema, shortened(into.table, f"_before_{wish.moment}")) if there else None
    notes = [*renamed] if own else _left_out(table, into, definition)
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
        create=shape.create(work),
        definition=definition,
        keys=tuple(keys),
        as_lines=not wish.where
        and load_data_lines.are_possible(table)
        and load_data_lines.loads(sides.production),
        foreign=foreign,
        foreign_rest=rests,
        triggers=triggers,
    )
    return replace(job, step=replace(job.step, statements=tuple(_shown(job))))


def _left_out(table: ServerTable, into: TableName, definition: Definition) -> list[str]:
    """Note what a table of another name is made without."""
    left = [f"trigger {t.name}" for t in table.triggers] + [
        f"foreign key {key.name}" for key in definition.foreign
    ]
    return [f"{into} is made without {', '.join(left)}"] if left else []


def _keys_apart(
    sides: Sides, table: ServerTable, definition: Definition, work: TableName, *, resumed: bool
) -> tuple[Definition, Sequence[Key]]:
    """The definition to begin with, and the indexes to be built behind the rows, but for those that an
    earlier run has built."""
    # The size is an estimate: an earlier run may have found another, and left the indexes for the end.
    later = resumed or table.rows * table.row_bytes <= KEYS_LATER_BYTES
    if not later or table.index != "PRIMARY" or not _is_innodb(table):
        return definition, ()
    shape, keys = definition.without_keys()
    if resumed and keys:
        built = tables.index_names(sides.production, work)
        keys = tuple(key for key in keys if key.name not in built)
    return shape, keys


def _is_innodb(table: ServerTable) -> bool:
    return table.engine.lower() == "innodb"


def _mark(wish: CopyWish, name: TableName, into: TableName, text: str) -> str:
    """The same for the same copy alone: so a run that was cut short is found again."""
    parts = (wish.clone, str(name), str(into), text, wish.where, str(wish.bare))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _foreign(
    sides: Sides, wish: CopyWish, definition: Definition, table: ServerTable, work: TableName
) -> tuple[tuple[ForeignKey, ...], tuple[DefinitionPiece, ...], tuple[str, ...]]:
    """The foreign keys to be made, what each says, and notes on those that get another name."""
    known = {key.name: key for key in tables.foreign_keys(sides.clone, table.name, of_others=False)}
    taken = {
        str(row["name"])
        for row in sides.production.rows(
            "SELECT CONSTRAINT_NAME AS name FROM information_schema.TABLE_CONSTRAINTS "
            "WHERE CONSTRAINT_SCHEMA = %s AND TABLE_NAME <> %s AND CONSTRAINT_TYPE = 'FOREIGN KEY'",
            (work.schema, work.table),
        )
    }
    keys, rests, notes = [], [], []
    for name, rest in ((each.name, each.rest) for each in definition.foreign):
        if (key := known.get(name)) is None:
            raise Refused(f"the clone's server does not list its foreign key {name}")
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
        rests.append(rest)
    return tuple(keys), tuple(rests), tuple(notes)


def _triggers(sides: Sides, table: ServerTable, work: TableName) -> list[Creation]:
    def changed(text: str, mode: str) -> StoredText:
        modes = mode.split(",")
        escapes = "NO_BACKSLASH_ESCAPES" not in modes
        return trigger_on(text, work, ansi_quotes="ANSI_QUOTES" in modes, backslash_escapes=escapes)

    names = [TableName(table.name.schema, trigger.name) for trigger in table.triggers]
    return [read_creation(sides, name, "TRIGGER", changed) for name in names]


def _shown(job: TableJob) -> list[str]:
    names = ", ".join(identifier(c.name) for c in job.table.stored)
    shown = [] if job.step.resumed else [job.create + ";"]
    rows = f"INSERT INTO {quoted_name(job.work)} ({names}) VALUES ..."
    if job.as_lines:
        rows = load_data_lines.load(job.work, job.table).decode()
    shown.append(f"{rows};  -- about {job.table.rows} rows, in transactions of about 1 MiB")
    shown += [add_keys(job.work, keys) + ";" for keys in built_at_once(job.keys)]
    shown += [sql + ";" for sql in (*job.foreign_sql, *(made.shown for made in job.triggers))]
    shown.append(rename([job]) + ";")
    # No name is in a comment: one with a line end would end it, where people hand these to a server.
    if job.step.kept:
        shown.append("-- and drop the old table's foreign keys, which would hold up their parents")
    return shown


def rename(jobs: Sequence[TableJob], marker: TableName | None = None) -> str:
    """The statement that gives finished tables their names, at once with the new names of the old ones."""
    moves: list[tuple[TableName, TableName | None]] = []
    for job in jobs:
        moves += [(job.step.into, job.step.kept)] if job.step.kept else []
        moves.append((job.work, job.step.into))
    moves += [(marker, marker_named(marker))] if marker else []
    return "RENAME TABLE " + ", ".join(f"{quoted_name(a)} TO {quoted_name(b)}" for a, b in moves if b)


def _view(sides: Sides, wish: CopyWish, table: ServerTable) -> TableJob:
    if wish.rows:
        raise Refused("it is a view: leave out --missing and --changed")
    into, there = _target(sides, wish, table)
    if there and not there.is_view:
        raise Refused(f"{into} is a table in production")
    made = read_creation(
        sides, table.name, "VIEW", lambda text, _: view_named(text, into, replace=bool(there))
    )
    notes = []
    if there:
        old = tables.definition(sides.production, into, "VIEW")
        notes.append(f"the view {into} was until now: {old}")
    if into.schema != table.name.schema:
        notes.append(f"the view {into} reads what its text names, and no copies in {into.schema}")
    step = CopyStep(
        source=table.name,
        into=into,
        action="view",
        statements=(made.shown + ";",),
        overwrites=bool(there),
        notes=tuple(notes),
    )
    return TableJob(step=step, table=table, work=into, view=made)
