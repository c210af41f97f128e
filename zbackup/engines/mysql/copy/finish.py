"""Give a filled table its foreign keys, its triggers and its name."""

import time
from collections.abc import Sequence

from zbackup.engines.mysql.copy import tables
from zbackup.engines.mysql.copy.compare import BUSY
from zbackup.engines.mysql.copy.plan_table import Sides, TableJob, rename
from zbackup.engines.mysql.copy.tables import ForeignKey, quoted, quoted_name
from zbackup.engines.mysql.server.connection import Connection, StatementFailed
from zbackup.model.copying import TableName
from zbackup.model.errors import Refused
from zbackup.model.progress import Progress

RENAME_TRIES = 12
PAUSE_S = 5.0
BINLOG_UNSAFE = 1419
"""Triggers are for who has SUPER, unless log_bin_trust_function_creators is on (MySQL manual, there)."""


def add_extras(sides: Sides, job: TableJob) -> None:
    """Its foreign keys and triggers, as far as an earlier run has not made them.

    Raise Refused when rows have no parent any more. The server does not check the rows that are there: that
    would stop everybody from writing to the parent meanwhile. So they are checked afterwards, when the keys
    keep parents from going.
    """
    production = sides.production
    there = {key.name for key in tables.foreign_keys(production, job.work, of_others=False)}
    for key, statement in zip(job.foreign, job.foreign_sql, strict=True):
        if key.name not in there:
            # The names of its indexes are those of the definition, so that the server makes no others.
            production.execute("SET SESSION foreign_key_checks = 0")
            try:
                _when_free(production, statement)
            finally:
                production.execute("SET SESSION foreign_key_checks = 1")
    for key in job.foreign:
        _require_parents(production, job, key)
    if not job.triggers_sql:
        return
    made = {trigger.name for trigger in _triggers(production, job.work)}
    for trigger, statement in zip(job.table.triggers, job.triggers_sql, strict=True):
        if trigger.name not in made:
            production.execute(f"USE {quoted(job.work.schema)}")
            try:
                _when_free(production, statement)
            except StatementFailed as failure:
                if failure.code != BINLOG_UNSAFE:
                    raise
                raise Refused(
                    f"the trigger {trigger.name}: {failure}; set it for the time of the copy, make "
                    "the trigger as an administrator, or say --bare to leave out triggers and foreign keys"
                ) from None


def _triggers(production: Connection, name: TableName) -> tuple[tables.Trigger, ...]:
    found = tables.read_table(production, name)
    return found.triggers if found else ()


def _require_parents(production: Connection, job: TableJob, key: ForeignKey) -> None:
    parent = key.parent
    same = " AND ".join(f"c.{quoted(a)} = p.{quoted(b)}" for a, b in key.columns)
    given = " AND ".join(f"c.{quoted(a)} IS NOT NULL" for a, _ in key.columns)
    found = production.one(
        f"SELECT COUNT(*) AS n FROM {quoted_name(job.work)} AS c LEFT JOIN {quoted_name(parent)} AS p "
        f"ON {same} WHERE {given} AND p.{quoted(key.columns[0][1])} IS NULL"
    )
    if int(found["n"]):
        raise Refused(
            f"{found['n']} rows have no partner in {key.parent}, to which {key.name} refers: bring that back "
            f"first (--missing), or say --bare to leave out triggers and foreign keys"
        )


def exchange(sides: Sides, jobs: Sequence[TableJob], progress: Progress) -> None:
    """Give filled tables their names, at once with the old ones' new names."""
    if not jobs:
        return
    _when_free(sides.production, rename(jobs), progress)
    for job in jobs:
        if job.step.kept:
            release_kept(sides.production, job.step.kept)


def release_kept(production: Connection, kept: TableName) -> None:
    """Drop the old table's foreign keys, which would keep rows of their parents from being deleted."""
    for key in tables.foreign_keys(production, kept, of_others=False):
        _when_free(production, f"ALTER TABLE {quoted_name(kept)} DROP FOREIGN KEY {quoted(key.name)}")


def _when_free(production: Connection, statement: str, progress: Progress | None = None) -> None:
    """Run a statement that needs a table for itself. It waits briefly, for everybody else waits behind it."""
    for left in range(RENAME_TRIES, -1, -1):
        try:
            production.execute(statement)
            return
        except StatementFailed as failure:
            if failure.code not in BUSY or not left:
                raise
            if progress:
                progress.note("waiting: others use the table")
            time.sleep(PAUSE_S)
