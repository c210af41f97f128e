"""The work on one table: planning makes it, and acting reads it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zbackup.engines.mysql.production.tables import ForeignKey, ServerTable
from zbackup.features.copyback.copying import CopyStep
from zbackup.features.copyback.mysql.creation import Creation
from zbackup.features.copyback.mysql.definition import Definition, DefinitionPiece, Key, add_foreign_key
from zbackup.model.table_name import TableName

LONGEST_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJob:
    """A step, and what acting on it needs. `work` is the table that is filled before it gets its name.

    `definition` is what it is in the end, but for its foreign keys; `keys` are the indexes that it gets when
    it is filled, `foreign_rest` what each of its foreign keys says; `as_lines`: production loads lines.
    `parents` are the tables that production's refers to, where rows are put into it. `named`: an
    earlier run has given it its name.
    """

    step: CopyStep
    table: ServerTable
    work: TableName
    create: str = ""
    definition: Definition | None = None
    keys: tuple[Key, ...] = ()
    as_lines: bool = False
    view: Creation | None = None
    foreign: tuple[ForeignKey, ...] = ()
    foreign_rest: tuple[DefinitionPiece, ...] = ()
    triggers: tuple[Creation, ...] = ()
    parents: frozenset[TableName] = frozenset()
    named: bool = False

    @property
    def foreign_sql(self) -> tuple[str, ...]:
        """The statements that make its foreign keys."""
        pairs = zip(self.foreign, self.foreign_rest, strict=True)
        return tuple(add_foreign_key(self.work, key.name, rest) for key, rest in pairs)


def shortened(name: str, ending: str) -> str:
    """A name with this ending, within the length that servers allow."""
    return name[: LONGEST_NAME - len(ending)] + ending


def parents_first(jobs: Mapping[TableName, TableJob]) -> list[TableJob]:
    """The jobs in an order in which rows find their parents; tables that refer to each other as they come."""
    left = list(jobs.values())
    ordered: list[TableJob] = []
    while left:
        waiting = {job.step.into for job in left}
        free = [job for job in left if not (job.parents - {job.step.into}) & waiting] or left[:1]
        ordered += free
        left = [job for job in left if job not in free]
    return ordered


def in_turn(jobs: Sequence[TableJob]) -> list[TableJob]:
    """Tables before views."""
    return sorted(jobs, key=lambda job: job.step.action == "view")
