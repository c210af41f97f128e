"""A table made in production has the clone's definition, as both servers print it, or none is filled.

What production's own settings decide is no difference: the next AUTO_INCREMENT, and encryption that its
default adds.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from zbackup.engines.mysql.production import tables
from zbackup.features.copyback.mysql.definition import (
    Definition,
    DefinitionPiece,
    parse_definition,
    qualified_reference,
)
from zbackup.features.copyback.mysql.job import TableJob
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

Said = tuple[str, ...]

_COLUMNS: Final = (
    "SELECT COLUMN_NAME AS name, COLUMN_TYPE AS type, IS_NULLABLE AS nullable, EXTRA AS extra, "
    "IF(EXTRA LIKE '%%DEFAULT_GENERATED%%', '', COLUMN_DEFAULT) AS usual, "
    "COALESCE(GENERATION_EXPRESSION, '') <> '' AS made, CHARACTER_SET_NAME AS charset, "
    "COLLATION_NAME AS sorted, COLUMN_COMMENT AS comment FROM information_schema.COLUMNS "
    "WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s ORDER BY ORDINAL_POSITION"
)
"""MySQL has the text of an expression as it was when the column was made, with the character sets of that
session: SHOW CREATE TABLE has it as it is understood, and is compared, too."""
_TRIGGERS: Final = (
    "SELECT TRIGGER_NAME AS name, ACTION_TIMING AS timing, EVENT_MANIPULATION AS event, "
    "ACTION_STATEMENT AS statement, DEFINER AS definer, SQL_MODE AS mode, CHARACTER_SET_CLIENT AS charset, "
    "COLLATION_CONNECTION AS sorted FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s "
    "AND EVENT_OBJECT_TABLE = %s ORDER BY ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER"
)
_ENCRYPTED: Final = ("ENCRYPTION", "=", "'Y'")


def require_shape(sides: Sides, job: TableJob) -> None:
    """Raise Refused unless the working table is the clone's, but for indexes and foreign keys that it gets
    when it is filled."""
    _require_none(job, _differences(sides, job, later={key.piece.said for key in job.keys}))


def require_whole(sides: Sides, job: TableJob) -> None:
    """Raise Refused unless the working table is the clone's, with its indexes, foreign keys and triggers."""
    _require_none(job, _differences(sides, job))
    wanted = sides.clone.rows(_TRIGGERS, _named(job.table.name)) if job.triggers else []
    made = sides.production.rows(_TRIGGERS, _named(job.work))
    _require_none(job, iter(() if wanted == made else ("its triggers differ",)))


def _require_none(job: TableJob, differences: Iterator[str]) -> None:
    if first := next(differences, ""):
        raise Refused(
            f"{job.step.source}: production created its copy with another definition than the "
            f"clone's: {first}"
        )


def _differences(sides: Sides, job: TableJob, later: Collection[Said] | None = None) -> Iterator[str]:
    """What differs, for people. `later`: items that may be missing as yet; then foreign keys may, too."""
    if job.definition is None:
        return
    made = parse_definition(tables.definition(sides.production, job.work))
    yield from differences(job, made, later)
    wanted = sides.clone.rows(_COLUMNS, _named(job.table.name))
    there = sides.production.rows(_COLUMNS, _named(job.work))
    for ours, theirs in zip(there, wanted, strict=False):
        if ours != theirs:
            yield f"column {ours['name']}"
    if len(there) != len(wanted):
        yield f"it has {len(there)} columns instead of {len(wanted)}"


def differences(job: TableJob, made: Definition, later: Collection[Said] | None = None) -> Iterator[str]:
    """Compare what production printed with what was meant, token by token; see `_differences`. Pure."""
    meant = job.definition
    assert meant is not None
    if any(piece.words[0] == "CHECK" for piece in meant.items):
        made = made.without_check_names()
    columns = [piece.said for piece in made.items if piece.is_column]
    if columns != [piece.said for piece in meant.items if piece.is_column]:
        yield "its columns: " + ", ".join(said[0] for said in columns)
    wanted, there = (Counter(p.said for p in d.items if not p.is_column) for d in (meant, made))
    yield from (f"it has {_shown(said)}" for said in there - wanted)
    yield from (f"it lacks {_shown(said)}" for said in wanted - there if said not in (later or ()))
    keys = {key.name: qualified_reference(rest, job.work.schema).said for key, rest in _foreign_of(job)}
    for key in made.foreign:
        if keys.pop(key.name, None) != qualified_reference(key.rest, job.work.schema).said:
            yield f"it has the foreign key {key.name}"
    if later is None:
        yield from (f"it lacks the foreign key {name}" for name in keys)
    options = _options(made.tail)
    if _ENCRYPTED not in zip(meant.tail.said, meant.tail.said[1:], meant.tail.said[2:], strict=False):
        options = _without(options, _ENCRYPTED)
    if options != _options(meant.tail):
        yield f"its options: {_shown(options)}"


def _foreign_of(job: TableJob) -> Iterator[tuple[tables.ForeignKey, DefinitionPiece]]:
    return zip(job.foreign, job.foreign_rest, strict=True)


def _options(tail: DefinitionPiece) -> Said:
    """The options without the number that AUTO_INCREMENT gives next."""
    at = tail.find("AUTO_INCREMENT")
    return tail.said if at < 0 else (*tail.said[:at], *tail.said[at + 3 :])


def _without(said: Said, out: Said) -> Said:
    for at in range(len(said)):
        if said[at : at + len(out)] == out:
            return (*said[:at], *said[at + len(out) :])
    return said


def _shown(said: Said) -> str:
    text = " ".join(said)
    return text if len(text) <= 200 else text[:200] + "..."


def _named(name: TableName) -> tuple[str, str]:
    return name.schema, name.table
