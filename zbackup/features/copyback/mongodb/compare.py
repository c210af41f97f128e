"""Documents into the collection that production has: those whose _id it lacks, and those that differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import json_util
from bson.raw_bson import RawBSONDocument

from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.production.writer import Writer, replacement
from zbackup.features.copyback.copying import CopyWish, Difference, RowChange
from zbackup.features.copyback.mongodb.plan_collection import CollectionJob, Sides
from zbackup.model.table_name import TableName

EXAMPLES = 20
SHOWN = 60
DUPLICATE_KEY = 11000
UPDATED_AT_ONCE = 100
# An update names the document as it is and as it is to be, and may be as large as one document.
UPDATE_BYTES = 16 << 20

Counterpart = RawBSONDocument | None
Pair = tuple[RawBSONDocument, Counterpart]


@dataclass(slots=True)
class CopyTally:
    """The count of what was put back, and of what production did not take."""

    inserted: int = 0
    updated: int = 0
    refused: int = 0
    conflicts: list[str] = field(default_factory=list)

    def refuse(self, document: Mapping[str, Any], why: object) -> None:
        self.refused += 1
        if len(self.conflicts) < EXAMPLES:
            self.conflicts.append(f"_id={_shown(document['_id'])}: {why}")


def difference(sides: Sides, job: CollectionJob, wish: CopyWish, writer: Writer) -> Difference:
    """Compare, and change nothing."""
    missing = changed = seen = 0
    examples: list[RowChange] = []
    for pairs in _pairs(sides, job, wish):
        for clone, there in pairs:
            if there is None:
                missing += 1
            elif wish.changed and clone.raw != there.raw:
                changed += 1
                if len(examples) < EXAMPLES:
                    examples.append(_example(clone, there))
        seen += len(pairs)
        writer.progress.advance(seen, max(job.collection.count, seen), "documents")
    return Difference(
        missing=missing,
        changed=changed if wish.changed else None,
        inserts=wish.missing,
        examples=tuple(examples),
    )


def put_back(sides: Sides, writer: Writer, job: CollectionJob, wish: CopyWish) -> CopyTally:
    """Insert and replace. What is right already is left alone: a run that was cut short is started again."""
    tally = CopyTally()
    for pairs in _pairs(sides, job, wish):
        lacking = [clone for clone, there in pairs if there is None] if wish.missing else []
        for batch in collections.batches(iter(_whole(sides, job, lacking))):
            _insert(sides, writer, job, batch, tally)
        if wish.changed:
            differing = [(c, t) for c, t in pairs if t is not None and c.raw != t.raw]
            for start in range(0, len(differing), UPDATED_AT_ONCE):
                _update(writer, job, differing[start : start + UPDATED_AT_ONCE], tally)
        else:
            for clone, there in pairs:
                if there and collections.key(clone) != collections.key(there):
                    tally.refuse(clone, _same_key(there))
        writer.progress.advance(tally.inserted + tally.updated, 0, "documents put back")
    return tally


def _pairs(sides: Sides, job: CollectionJob, wish: CopyWish) -> Iterator[list[Pair]]:
    """The clone's documents beside production's of the same _id; without --changed their _id alone."""
    source, target = job.collection.name, job.step.into
    only_id = not wish.changed
    found = sides.clone.documents(
        (source.schema, source.table), condition(wish.where), ordered=True, only_id=only_id, lasting=True
    )
    for batch in collections.batches(found):
        wanted = collections.ids(batch)
        there = {
            collections.key(each): each
            for each in sides.production.documents((target.schema, target.table), wanted, only_id=only_id)
        }
        pairs = [(each, there.get(collections.key(each))) for each in batch]
        if len(there) > sum(found is not None for _, found in pairs):
            pairs = [(each, found or _equal(sides, target, each, only_id)) for each, found in pairs]
        yield pairs


def _equal(sides: Sides, target: TableName, document: RawBSONDocument, only_id: bool) -> Counterpart:
    """Production's document of an _id that is the same to the server: 1 as another type of number, or a word
    that the collection's collation does not tell apart."""
    wanted = collections.ids([document])
    found = sides.production.documents((target.schema, target.table), wanted, only_id=only_id)
    return next(iter(found), None)


def condition(where: str) -> dict[str, Any]:
    """The filter of --where, which is extended JSON. Raise ValueError if it is none."""
    found = json_util.loads(where) if where else {}
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _whole(sides: Sides, job: CollectionJob, lacking: Sequence[RawBSONDocument]) -> Sequence[RawBSONDocument]:
    """The clone's documents of which maybe only the _id was read."""
    if not lacking:
        return lacking
    source = job.collection.name
    return list(sides.clone.documents((source.schema, source.table), collections.ids(lacking)))


def _insert(
    sides: Sides, writer: Writer, job: CollectionJob, batch: list[RawBSONDocument], tally: CopyTally
) -> None:
    errors = writer.insert(job.step.into, batch)
    tally.inserted += len(batch) - len(errors)
    for error in errors:
        document = batch[int(error["index"])]
        if error.get("code") == DUPLICATE_KEY and _equal(sides, job.step.into, document, True):
            continue  # somebody put it back meanwhile
        tally.refuse(document, error.get("errmsg"))


def _update(
    writer: Writer,
    job: CollectionJob,
    pairs: Sequence[tuple[RawBSONDocument, RawBSONDocument]],
    tally: CopyTally,
) -> None:
    """Replace documents that are still what was compared."""
    writer.wait(sum(len(new.raw) for new, _ in pairs))
    for new, old in pairs:
        if len(new.raw) + len(old.raw) > UPDATE_BYTES:
            tally.refuse(
                new,
                "it is too large to be exchanged only if nobody changed it meanwhile: delete it in "
                "production, and bring it back with --missing",
            )
            continue
        same = {**collections.ids([old]), "$expr": {"$eq": ["$$ROOT", {"$literal": old}]}}
        updates = [{"q": same, "u": replacement(new)}]
        said = writer.run(job.step.into, {"update": job.step.into.table, "updates": updates})
        if errors := said.get("writeErrors"):
            tally.refuse(new, _why(new, old, errors[0]))
        elif not said["n"]:
            tally.refuse(new, "it was changed meanwhile: run the command again")
        else:
            tally.updated += 1


def _why(new: RawBSONDocument, old: RawBSONDocument, error: Mapping[str, Any]) -> str:
    said = str(error.get("errmsg"))
    if collections.key(new) == collections.key(old):
        return said
    return f"{_same_key(old)}: {said}"


def _same_key(there: RawBSONDocument) -> str:
    return f"production has it as _id={_shown(there['_id'])}, which is the same _id to the server"


def _example(clone: RawBSONDocument, there: RawBSONDocument) -> RowChange:
    names = dict.fromkeys((*there, *clone))
    nothing = object()
    values = []
    for name in names:
        old, new = there.get(name, nothing), clone.get(name, nothing)
        if old != new:
            shown = ["nothing" if each is nothing else _shown(each) for each in (old, new)]
            values.append((name, shown[0], shown[1]))
    return RowChange(key=f"_id={_shown(clone['_id'])}", values=tuple(values))


def _shown(value: object) -> str:
    text = str(json_util.dumps(value))
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
