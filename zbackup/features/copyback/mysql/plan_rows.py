"""Decide how rows are put into the table that production has."""

from collections.abc import Iterator

from zbackup.engines.mysql.production import tables
from zbackup.engines.mysql.production.tables import ServerTable, quoted_name
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.copyback.copying import CopyStep, CopyWish
from zbackup.features.copyback.mysql import made_lines
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.model.errors import NotFound, Refused
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
        and made_lines.are_possible(table)
        and made_lines.are_possible(there)
        and made_lines.loads(sides.production)
    )
    notes = (f"triggers run for each row: {', '.join(fired)}",) if fired else ()
    step = CopyStep(
        source=table.name,
        into=into,
        action="rows",
        statements=tuple(_shown(wish, table, into, lines=lines)),
        rows=table.rows,
        notes=notes,
    )
    parents = {key.parent for key in tables.foreign_keys(sides.production, into, of_others=False)}
    return TableJob(step=step, table=table, work=into, as_lines=lines, parents=frozenset(parents))


def _shown(wish: CopyWish, table: ServerTable, into: TableName, *, lines: bool) -> Iterator[str]:
    if wish.missing:
        names = ", ".join(identifier(c.name) for c in table.stored)
        insert = f"INSERT INTO {quoted_name(into)} ({names}) VALUES ..."
        how = made_lines.load(into, table).decode() if lines else insert
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
