"""Fill a new collection with the clone's documents, and prove that it holds them."""

import hashlib
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.production.writer import (
    INDEX_LIMIT_S,
    MAJORITY,
    WRITE_LIMIT_S,
    Writer,
)
from zbackup.engines.mongodb.server.connection import CommandRefused
from zbackup.features.copyback.mongodb.plan_collection import CollectionJob, Sides
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.progress import Progress
from zbackup.model.table_name import TableName


def fill(sides: Sides, writer: Writer, job: CollectionJob, where: Mapping[str, Any]) -> int:
    """Write the documents that the new collection lacks behind its last; how many.

    Raise Refused for a time series of an earlier run that holds anything else than this run wrote.
    """
    target = filled(job)
    series = job.collection.type == "timeseries"
    lacking = _rest_of_series(sides, writer, job, where) if series else _rest(sides, writer, job, where)
    written = 0
    for batch in collections.batches(lacking):
        if refused := writer.insert(target, batch, ordered=series):
            raise CommandRefused(f"{target}: {refused[0].get('errmsg')}", int(refused[0].get("code", 0)))
        written += len(batch)
        writer.progress.advance(written, max(job.collection.count, written), "documents")
    return written


def _rest(
    sides: Sides, writer: Writer, job: CollectionJob, where: Mapping[str, Any]
) -> Iterator[RawBSONDocument]:
    """Return the documents that are missing from a collection that only we know of."""
    name, target = job.collection.name, job.work
    start = None
    if not job.step.resumed:
        _create(sides, writer, job)
    elif job.collection.in_order:
        start = sides.production.last_id((target.schema, target.table))
    else:
        # Nobody can tell which documents are there: begin again.
        _drop(sides, target)
        _create(sides, writer, job)
    there = None if start is None else collections.key(start)
    found = sides.clone.documents(
        (name.schema, name.table),
        where,
        ordered=job.collection.in_order,
        start=None if start is None else start["_id"],
        lasting=True,
    )
    return (each for each in found if there is None or collections.key(each) != there)


def _rest_of_series(
    sides: Sides, writer: Writer, job: CollectionJob, where: Mapping[str, Any]
) -> Iterator[RawBSONDocument]:
    """Return the documents that a time series lacks: it must hold the first of the clone's documents, and
    nothing else.

    The clone gives them in the same order each time. It is never dropped: applications know its name.
    """
    name, into = job.collection.name, job.step.into
    found = sides.clone.documents((name.schema, name.table), where, lasting=True)
    if not job.step.resumed:
        _create_series(sides, writer, job)
        return found
    there = _sum(sides.production.documents((into.schema, into.table), {}))
    if _sum(islice(found, there[0])) != there:
        raise Refused(
            f"{into} holds more than an earlier run of this copy put there, or something else: it is left as "
            "it is. Drop it, if nobody needs what is in it, or name another with --into"
        )
    return found


def filled(job: CollectionJob) -> TableName:
    """The collection that is filled: a time series cannot be renamed."""
    return job.step.into if job.collection.type == "timeseries" else job.work


def _create(sides: Sides, writer: Writer, job: CollectionJob) -> None:
    target = job.work
    writer.run(target, {"create": target.table, **job.collection.without_validator})


def _create_series(sides: Sides, writer: Writer, job: CollectionJob) -> None:
    """Make a time series, and note which one it is: until that is gone, it is not whole."""
    target = job.step.into
    _note(writer, job, None)
    writer.run(target, {"create": target.table, **job.collection.without_validator})
    made = collections.read_collection(sides.production, target)
    _note(writer, job, made and made.uuid)


def _note(writer: Writer, job: CollectionJob, uuid: object) -> None:
    mark = {"q": {"_id": "filling"}, "u": {"_id": "filling", "uuid": uuid}, "upsert": True}
    writer.run(job.work, {"update": job.work.table, "updates": [mark]})


def _drop(sides: Sides, name: TableName) -> None:
    if collections.read_collection(sides.production, name):
        sides.production.run(name.schema, {"drop": name.table})


def prove(sides: Sides, job: CollectionJob, where: Mapping[str, Any], progress: Progress) -> None:
    """Raise VerificationFailed unless it holds exactly the clone's documents.

    A collection that only we know of is gone then; a time series is left to whoever wrote to it.
    """
    target = filled(job)
    ordered = job.collection.in_order
    source = job.collection.name
    there = sides.clone.documents((source.schema, source.table), where, ordered=ordered)
    here = sides.production.documents((target.schema, target.table), {}, ordered=ordered)
    same = _same_in_order(there, here, job, progress) if ordered else _sum(there) == _sum(here)
    if same:
        return
    if job.collection.type == "timeseries":
        raise VerificationFailed(
            f"{target} does not hold what {source} holds in the clone: did somebody write to one of them "
            f"meanwhile? It is left as it is: drop {target}, if nobody needs what is in it, and copy again"
        )
    _drop(sides, target)
    raise VerificationFailed(
        f"{source} did not come out as it is in the clone; did somebody write to the clone meanwhile?"
    )


def _same_in_order(
    there: Iterator[RawBSONDocument],
    here: Iterator[RawBSONDocument],
    job: CollectionJob,
    progress: Progress,
) -> bool:
    for number, (one, other) in enumerate(zip_longest(there, here), 1):
        if one is None or other is None or one.raw != other.raw:
            return False
        if number % 1000 == 0:
            progress.advance(number, max(job.collection.count, number), "documents")
    return True


def _sum(documents: Iterator[RawBSONDocument]) -> tuple[int, int]:
    """Count the documents, and sum them up so that each counts, in whatever order they and their fields come.

    A time series keeps values by their names, and gives them back in an order of its own.
    """
    count = total = 0
    for each in documents:
        count += 1
        fields = bson.encode(dict(sorted(each.items())))
        total += int.from_bytes(hashlib.sha256(fields).digest(), "big")
    return count, total


def complete(writer: Writer, job: CollectionJob) -> None:
    """Give it its indexes and its validator."""
    target, found = filled(job), job.collection
    if found.indexes:
        building: dict[str, object] = {
            "createIndexes": target.table,
            "indexes": [dict(index) for index in found.indexes],
        }
        writer.run(target, building, INDEX_LIMIT_S)
    if found.validation:
        writer.run(target, {"collMod": target.table, **found.validation})


def give_name(sides: Sides, job: CollectionJob) -> None:
    """Let it be what it was copied for. A time series has its name: it only is not noted any more."""
    if job.collection.type == "timeseries":
        _drop(sides, job.work)
        return
    command: dict[str, object] = {
        "renameCollection": str(job.work),
        "to": str(job.step.into),
        "writeConcern": MAJORITY,
    }
    sides.production.command(command, limit_s=WRITE_LIMIT_S)
