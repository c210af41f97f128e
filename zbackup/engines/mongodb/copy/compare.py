"""Documents into the collection that production has: those whose _id it lacks, and those that differ."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import json_util
from bson.raw_bson import RawBSONDocument

from zbackup.engines.mongodb.copy import collections
from zbackup.engines.mongodb.copy.fill import Writer
from zbackup.engines.mongodb.copy.plan_collection import CollectionJob, Sides
from zbackup.model.copying import CopyWish, Difference, RowChange

EXAMPLES = 20
SHOWN = 60
DUPLICATE_KEY = 11000
UPDATED_AT_ONCE = 100

Pair = tuple[RawBSONDocument, RawBSONDocument | None]


@dataclass(slots=True)
class Tally:
    """What was put back, and what production did not take."""

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
    return Difference(missing=missing, changed=changed, examples=tuple(examples))


def put_back(sides: Sides, writer: Writer, job: CollectionJob, wish: CopyWish) -> Tally:
    """Insert and replace. What is right already is left alone: a run that was cut short is started again."""
    tally = Tally()
    for pairs in _pairs(sides, job, wish):
        lacking = [clone for clone, there in pairs if there is None] if wish.missing else []
        for batch in collections.batches(iter(_whole(sides, job, lacking))):
            _insert(sides, writer, job, batch, tally)
        if wish.changed:
            differing = [(c, t) for c, t in pairs if t is not None and c.raw != t.raw]
            for start in range(0, len(differing), UPDATED_AT_ONCE):
                _update(writer, job, differing[start : start + UPDATED_AT_ONCE], tally)
        writer.progress.advance(tally.inserted + tally.updated, 0, "documents put back")
    return tally


def _pairs(sides: Sides, job: CollectionJob, wish: CopyWish) -> Iterator[list[Pair]]:
    """The clone's documents beside production's of the same _id; without --changed their _id alone."""
    source, target = job.collection.name, job.step.into
    only_id = not wish.changed
    found = sides.clone.documents(
        (source.schema, source.table), condition(wish.where), ordered=True, only_id=only_id
    )
    for batch in collections.batches(found):
        wanted = collections.ids(batch)
        there = {
            collections.key(each): each
            for each in sides.production.documents((target.schema, target.table), wanted, only_id=only_id)
        }
        yield [(each, there.get(collections.key(each))) for each in batch]


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
    sides: Sides, writer: Writer, job: CollectionJob, batch: list[RawBSONDocument], tally: Tally
) -> None:
    errors = writer.insert(job.step.into, batch)
    tally.inserted += len(batch) - len(errors)
    for error in errors:
        document = batch[int(error["index"])]
        name = job.step.into
        if error.get("code") == DUPLICATE_KEY and sides.production.find(
            (name.schema, name.table), {"_id": document["_id"]}, fields=("_id",)
        ):
            continue  # somebody put it back meanwhile
        tally.refuse(document, error.get("errmsg"))


def _update(
    writer: Writer, job: CollectionJob, pairs: Sequence[tuple[RawBSONDocument, RawBSONDocument]], tally: Tally
) -> None:
    """Replace documents that are still what was compared."""
    updates = [
        {
            "q": {"_id": old["_id"], "$expr": {"$eq": ["$$ROOT", {"$literal": old}]}},
            "u": new,
        }
        for new, old in pairs
    ]
    writer.wait(sum(len(new.raw) for new, _ in pairs))
    for (new, _), update in zip(pairs, updates, strict=True):
        said = writer.run(job.step.into, {"update": job.step.into.table, "updates": [update]})
        if errors := said.get("writeErrors"):
            tally.refuse(new, errors[0].get("errmsg"))
        elif not said["n"]:
            tally.refuse(new, "it was changed meanwhile: run the command again")
        else:
            tally.updated += 1


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
