"""Views, which are made when all tables are there; and what an earlier run has left to do."""

from collections.abc import Sequence

from zbackup.engines.mysql.production import tables
from zbackup.engines.mysql.production.tables import ServerTable
from zbackup.engines.mysql.server.connection import PrivilegeMissing, StatementFailed
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.copyback.copying import CopiedTable, CopyStep, CopyWish
from zbackup.features.copyback.mysql.creation import create
from zbackup.features.copyback.mysql.finish import release_statements
from zbackup.features.copyback.mysql.job import TableJob, shortened
from zbackup.features.copyback.mysql.plan_table import plan_table
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.model.errors import NotFound, Taken
from zbackup.model.table_name import TableName

LACKS_SOMETHING = (1049, 1054, 1146, 1305, 1356)
"""A schema, column, table, function or another view that it reads is not there."""


def make_views(sides: Sides, jobs: Sequence[TableJob]) -> list[CopiedTable]:
    """Make them in whatever order they need each other, and say which production did not take.

    Raise PrivilegeMissing when the account may not make some, after all others.
    """
    done: list[CopiedTable] = []
    left = list(jobs)
    while left:
        failures: list[tuple[TableJob, StatementFailed | PrivilegeMissing]] = []
        for job in left:
            try:
                _make(sides, job)
                done.append(_copied(job.step))
            except (StatementFailed, PrivilegeMissing) as failure:
                if isinstance(failure, StatementFailed) and failure.code not in LACKS_SOMETHING:
                    raise
                failures.append((job, failure))
        if len(failures) == len(left):
            if denied := [why for _, why in failures if isinstance(why, PrivilegeMissing)]:
                raise denied[0]
            done += [_copied(job.step, f"the view {job.step.into}: {why}") for job, why in failures]
            break
        left = [job for job, _ in failures]
    return done


def _make(sides: Sides, job: TableJob) -> None:
    if job.view:
        sides.production_rows.execute(f"USE {identifier(job.step.into.schema)}")
        create(sides.production_rows, job.view)


def _copied(step: CopyStep, *conflicts: str) -> CopiedTable:
    return CopiedTable(
        source=step.source,
        into=step.into,
        action="view",
        refused=len(conflicts),
        conflicts=conflicts,
        notes=step.notes,
    )


def plan_rest(sides: Sides, wish: CopyWish, name: TableName, moment: str) -> TableJob | None:
    """Plan what is left to do for a table or view when an earlier run, of that moment, has named the tables.

    None for a view that is there. Raise NotFound, Refused or Taken.
    """
    table = tables.read_table(sides.clone, name)
    if table is None:
        raise NotFound(f"the clone has no table {name}")
    into = name
    if wish.into is not None:
        into = TableName(wish.into.schema, name.table if wish.into.is_schema else wish.into.table)
    if table.is_view:
        return None if _is_there(sides, name, into) else _planned(sides, wish, name)
    return _named(sides, table, into, moment)


def _is_there(sides: Sides, name: TableName, into: TableName) -> bool:
    there = tables.read_table(sides.production, into)
    if there is None or not there.is_view:
        return False
    return tables.definition(sides.production, into, "VIEW") == tables.definition(sides.clone, name, "VIEW")


def _planned(sides: Sides, wish: CopyWish, name: TableName) -> TableJob | None:
    try:
        return plan_table(sides, wish, name)
    except Taken:
        return None


def _named(sides: Sides, table: ServerTable, into: TableName, moment: str) -> TableJob:
    beside = TableName(into.schema, shortened(into.table, "_restored"))
    kept = TableName(into.schema, shortened(into.table, f"_before_{moment}"))
    was = tables.read_table(sides.production, kept)
    if was is None and tables.read_table(sides.production, beside):
        into = beside
    step = CopyStep(
        source=table.name,
        into=into,
        action="replace" if was else "new",
        statements=tuple(f"{sql};" for sql in release_statements(sides.production, kept)) if was else (),
        kept=kept if was else None,
        resumed=True,
        notes=("an earlier run gave it its name",),
    )
    return TableJob(step=step, table=table, work=into, named=True)
