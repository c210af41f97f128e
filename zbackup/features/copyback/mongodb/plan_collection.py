"""Decide how one collection is copied, and refuse by name what would not come out right."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bson import json_util

from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.production.collections import Collection
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.features.copyback.copying import Action, CopyStep, CopyWish
from zbackup.model.errors import NotFound, Refused, Taken
from zbackup.model.table_name import TableName

WORK = "zbackup_copy_"
READ_BY = ("viewOn", "from", "coll", "$unionWith")


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionJob:
    """A step, and what acting on it needs. `work` is the collection that is filled before it gets its name;
    of a time series, which cannot be renamed, the one that notes that it is being filled. `finished`: an
    earlier run did it all."""

    step: CopyStep
    collection: Collection
    work: TableName
    finished: bool = False


@dataclass(frozen=True, slots=True)
class Sides:
    """The clone's server and production's."""

    clone: Connection
    production: Connection


def plan_collection(sides: Sides, wish: CopyWish, name: TableName) -> CollectionJob:
    """Look at one collection on both sides. Raise NotFound, Refused or Taken; changes nothing."""
    found = collections.read_collection(sides.clone, name)
    if found is None:
        raise NotFound(f"the clone has no collection {name}")
    try:
        _require_copyable(found, wish)
        into, there = _target(sides, wish, found)
        if wish.rows:
            return _rows(wish, found, into, there)
        return _whole(sides, wish, found, into, there)
    except Refused as refused:
        raise Refused(f"{name}: {refused}") from None


def _require_copyable(found: Collection, wish: CopyWish) -> None:
    if "encryptedFields" in found.options:
        raise Refused(
            "it has encrypted fields, whose collections of keys and states would have to come along"
        )
    if wish.replace:
        raise Refused(
            "MongoDB cannot exchange two collections and keep the old one: use --missing and --changed, or "
            "copy it beside, and rename that yourself (renameCollection with dropTarget drops the old one)"
        )
    if wish.rows and not found.in_order:
        raise Refused(
            "--missing and --changed compare documents by _id, in collections that are neither views, time "
            "series, capped nor clustered"
        )


def _target(sides: Sides, wish: CopyWish, found: Collection) -> tuple[TableName, Collection | None]:
    """Under which name it comes to production, and what is there.

    A time series is filled under the name that it keeps. Its own is one that production's applications write
    to, maybe while it is filled: it comes beside, unless --into says otherwise.
    """
    name = found.name
    if wish.into is not None:
        into = TableName(wish.into.schema, name.table if wish.into.is_schema else wish.into.table)
        there = collections.read_collection(sides.production, into)
    else:
        into, there = name, collections.read_collection(sides.production, name)
        if found.type == "timeseries" or (there and not wish.rows):
            into = TableName(name.schema, f"{name.table}_restored")
            there = collections.read_collection(sides.production, into)
    if there and not wish.rows and not _unfinished(sides, wish, found, into, there):
        raise Taken(f"production has {into}: name another collection with --into")
    return into, there


def _unfinished(sides: Sides, wish: CopyWish, found: Collection, into: TableName, there: Collection) -> bool:
    """Whether an earlier run was filling that time series, or had come no further than to make it."""
    if there.type != "timeseries":
        return False
    note = work_name(wish, found.name, into)
    noted = sides.production.find((note.schema, note.table), {"_id": "filling"})
    return any(row.get("uuid") in (None, there.uuid) for row in noted) and there.options == found.options


def work_name(wish: CopyWish, name: TableName, into: TableName) -> TableName:
    """The same for the same copy alone: so a run that was cut short is found again."""
    parts = (wish.clone, str(name), str(into), wish.where)
    mark = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return TableName(into.schema, WORK + mark)


def _rows(wish: CopyWish, found: Collection, into: TableName, there: Collection | None) -> CollectionJob:
    if there is None:
        raise NotFound(f"production has no collection {into}: leave out --missing and --changed")
    if there.type != "collection":
        raise Refused(f"{into} is a {there.type} in production")
    shown = []
    if wish.missing:
        shown.append(_shown({"insert": into.table, "documents": ["those whose _id production lacks"]}))
    if wish.changed:
        update = {"q": {"_id": "...", "$expr": "as it was compared"}, "u": "the clone's document"}
        shown.append(_shown({"update": into.table, "updates": [update]}))
    step = CopyStep(source=found.name, into=into, action="rows", statements=tuple(shown), rows=found.count)
    return CollectionJob(step=step, collection=found, work=into)


def _whole(
    sides: Sides, wish: CopyWish, found: Collection, into: TableName, there: Collection | None
) -> CollectionJob:
    work = work_name(wish, found.name, into)
    view, series = found.type == "view", found.type == "timeseries"
    begun = there if series else collections.read_collection(sides.production, work)
    step = CopyStep(
        source=found.name,
        into=into,
        action=action_of(found, into),
        statements=tuple(_shown(each) for each in commands(found, work, into)),
        rows=found.count,
        resumed=not view and begun is not None,
        notes=_notes(wish, found, into),
    )
    return CollectionJob(step=step, collection=found, work=work)


def action_of(found: Collection, into: TableName) -> Action:
    """Name the action of a copy of the whole of it."""
    return "view" if found.type == "view" else "new" if into == found.name else "beside"


def in_order(jobs: Sequence[CollectionJob]) -> list[CollectionJob]:
    """Views last, each behind those that it reads: the server compares their collations."""
    views = {job.step.source.table: job for job in jobs if job.collection.type == "view"}
    ordered: dict[TableName, CollectionJob] = {}

    def add(job: CollectionJob, behind: tuple[str, ...] = ()) -> None:
        name = job.step.source.table
        for read in sorted(read_by(job.collection.options) & views.keys() - {*behind, name}):
            add(views[read], (*behind, name))
        ordered.setdefault(job.step.source, job)

    for job in views.values():
        add(job)
    return [*(job for job in jobs if job.collection.type != "view"), *ordered.values()]


def read_by(options: Mapping[str, Any]) -> set[str]:
    """The collections and views that a view reads, also in $lookup, $graphLookup and $unionWith."""
    found: set[str] = set()
    left: list[Any] = [options]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            found |= {v for k, v in each.items() if k in READ_BY and isinstance(v, str)}
            left += each.values()
        elif isinstance(each, list):
            left += each
    return found


def _notes(wish: CopyWish, found: Collection, into: TableName) -> tuple[str, ...]:
    expiring = [index["name"] for index in found.indexes if "expireAfterSeconds" in index]
    notes = [
        f"the index {name} lets documents expire: those that are old enough go when it is built"
        for name in expiring
    ]
    if found.type == "timeseries" and wish.into is None:
        notes.append(
            f"a time series cannot be renamed, and production may write to {found.name}: it comes as {into}"
        )
    return tuple(notes)


def commands(found: Collection, work: TableName, into: TableName) -> list[dict[str, object]]:
    """List the commands that production is given, in order; of the documents their shape."""
    if found.type == "view":
        return [{"create": into.table, **found.options}]
    series = found.type == "timeseries"
    filled = into if series else work
    told: list[dict[str, object]] = [{"create": filled.table, **found.without_validator}]
    told.append({"insert": filled.table, "documents": [f"about {found.count}"]})
    if found.indexes:
        told.append({"createIndexes": filled.table, "indexes": [dict(i) for i in found.indexes]})
    if found.validation:
        told.append({"collMod": filled.table, **found.validation})
    if not series:
        told.append({"renameCollection": str(work), "to": str(into)})
    return told


def _shown(command: dict[str, object]) -> str:
    return str(json_util.dumps(command))
