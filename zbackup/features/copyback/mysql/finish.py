"""Give a filled table its foreign keys, its triggers and its name."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from zbackup.engines.mysql.production import tables
from zbackup.engines.mysql.production.statements import BUSY
from zbackup.engines.mysql.production.tables import ForeignKey, quoted_name
from zbackup.engines.mysql.production.throttle import Throttle
from zbackup.engines.mysql.server.connection import Connection, StatementFailed
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.copyback.mysql import definition
from zbackup.features.copyback.mysql.attached import referring, require_unattached
from zbackup.features.copyback.mysql.creation import create
from zbackup.features.copyback.mysql.definition import Key
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.features.copyback.mysql.plan_table import rename
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.model.errors import DatabaseError, Refused
from zbackup.model.progress import Progress
from zbackup.model.table_name import TableName

RENAME_TRIES = 12
PAUSE_S = 5.0
THERE_ALREADY = 1061
NO_SPACE_TO_SORT = frozenset({1878, 1030, 1034})
"""Errors of building an index where a server has no space to sort: on both 1878 (temporary file write
failure), MySQL's 1030 (error 100 of InnoDB) and MariaDB's 1034, which calls the index corrupt."""
BINLOG_UNSAFE = 1419
"""Triggers are for who has SUPER, unless log_bin_trust_function_creators is on (MySQL manual, there)."""


def add_keys(production: Connection, job: TableJob, throttle: Throttle) -> None:
    """Build the indexes that a filled table lacks, as far as an earlier run has not.

    Where the server has no space to sort all of them at once, one after the other is built, which takes the
    space of the largest. Raise DatabaseError with what to do where that is too much.
    """
    for keys in definition.built_at_once(job.keys):
        throttle.wait()
        if not _built(production, job, keys):
            for key in keys:
                throttle.wait()
                _built(production, job, [key])


def _built(production: Connection, job: TableJob, keys: Sequence[Key]) -> bool:
    """Build several indexes, or tell that there is no space to sort all of them at once."""
    try:
        _when_free(partial(_add_missing, production, job, keys))
    except StatementFailed as failure:
        if failure.code not in NO_SPACE_TO_SORT:
            raise
        if len(keys) == 1:
            raise DatabaseError(
                f"the index {keys[0].name} of {job.step.into} cannot be built: {failure}; the server may "
                "lack space where it sorts (innodb_tmpdir, or else tmpdir): make space there, or set it to "
                "another directory, and run the same command again"
            ) from None
        return False
    return True


def _add_missing(production: Connection, job: TableJob, keys: Sequence[Key]) -> None:
    """Look each time: the server may still be at what a killed run began, and others wait."""
    missing = _missing(production, job, keys)
    while missing:
        try:
            production.execute(definition.add_keys(job.work, missing))
        except StatementFailed as failure:
            left = _missing(production, job, keys)
            if failure.code != THERE_ALREADY or len(left) >= len(missing):
                raise
            missing = left
        else:
            return


def _missing(production: Connection, job: TableJob, keys: Sequence[Key]) -> list[Key]:
    there = tables.index_names(production, job.work)
    return [key for key in keys if key.name not in there]


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
                _when_free(partial(production.execute, statement))
            finally:
                production.execute("SET SESSION foreign_key_checks = 1")
    for key in job.foreign:
        _require_parents(production, job, key)
    if not job.triggers:
        return
    made = {trigger.name for trigger in _triggers(production, job.work)}
    for trigger, creation in zip(job.table.triggers, job.triggers, strict=True):
        if trigger.name not in made:
            sides.production_rows.execute(f"USE {identifier(job.work.schema)}")
            try:
                _when_free(partial(create, sides.production_rows, creation))
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
    same = " AND ".join(f"c.{identifier(a)} = p.{identifier(b)}" for a, b in key.columns)
    given = " AND ".join(f"c.{identifier(a)} IS NOT NULL" for a, _ in key.columns)
    found = production.one(
        f"SELECT COUNT(*) AS n FROM {quoted_name(job.work)} AS c LEFT JOIN {quoted_name(parent)} AS p "
        f"ON {same} WHERE {given} AND p.{identifier(key.columns[0][1])} IS NULL"
    )
    if int(found["n"]):
        raise Refused(
            f"{found['n']} rows refer to missing rows of {key.parent} ({key.name}): copy {key.parent} first "
            f"(--missing), or leave out triggers and foreign keys (--bare)"
        )


def exchange(sides: Sides, jobs: Sequence[TableJob], marker: TableName | None, progress: Progress) -> None:
    """Give filled tables their names, at once with the old ones' new names.

    `marker` gets its final name with them: see `left`. Raise Refused when something was attached to a table
    of production's since it was planned.
    """
    if not jobs:
        return
    replaced = [(job.step.into, job.step.kept) for job in jobs if job.step.kept]
    for job in jobs:
        if job.step.kept:
            keep_counting(sides.production, job.step.into, job.work)

    def rename_unattached() -> None:
        for into, _ in replaced:
            require_unattached(sides, into)
        sides.production.execute(rename(jobs, marker))

    _when_free(rename_unattached, progress)
    for into, kept in replaced:
        release(sides.production, into, kept)
    for into, kept in replaced:
        _require_left_alone(sides, into, kept)


def _require_left_alone(sides: Sides, into: TableName, kept: TableName) -> None:
    """Raise DatabaseError when something was attached in the instant before the old table was renamed."""
    old = tables.read_table(sides.production, kept)
    found = [*(f"trigger {t.name}" for t in (old.triggers if old else ())), *referring(sides, kept)]
    if found:
        raise DatabaseError(
            f"{', '.join(found)} was created on {into} while it was being renamed to {kept}: recreate it on "
            f"{into} and drop it from {kept}"
        )


def release(production: Connection, into: TableName, kept: TableName) -> None:
    """Take from the old table what would hold up production: its foreign keys, which would keep rows of their
    parents from being deleted. Raise DatabaseError with what is left to do."""
    left = release_statements(production, kept)
    try:
        while left:
            _when_free(partial(production.execute, left[0]))
            left = left[1:]
        keep_counting(production, kept, into)
    except StatementFailed as failure:
        raise DatabaseError(
            f"{into} is there, but {kept} still has foreign keys, which keep rows of their parents from "
            f"being deleted ({failure}): run the same command again, or {'; '.join(left)}"
            if left
            else f"{into} is there, but may give numbers again that {kept} gave ({failure}): run the same "
            "command again"
        ) from None


def release_statements(production: Connection, kept: TableName) -> list[str]:
    """The statements that drop its foreign keys."""
    return [
        f"ALTER TABLE {quoted_name(kept)} DROP FOREIGN KEY {identifier(key.name)}"
        for key in tables.foreign_keys(production, kept, of_others=False)
    ]


def keep_counting(production: Connection, old: TableName, new: TableName) -> None:
    """Let the new table's AUTO_INCREMENT go on where the old one's is, if that is farther: a number that was
    given to a row must not be given to another."""
    there, here = (_counter(production, name) for name in (old, new))
    if there > here:
        statement = f"ALTER TABLE {quoted_name(new)} AUTO_INCREMENT = {there}"
        _when_free(partial(production.execute, statement))


def _counter(production: Connection, name: TableName) -> int:
    return definition.counter(tables.definition(production, name))


def _when_free(action: Callable[[], None], progress: Progress | None = None) -> None:
    """Do what needs a table for itself. It waits briefly, for everybody else waits behind it."""
    for left in range(RENAME_TRIES, -1, -1):
        try:
            action()
            return
        except StatementFailed as failure:
            if failure.code not in BUSY or not left:
                raise
            if progress:
                progress.note("waiting: others use the table")
            time.sleep(PAUSE_S)
