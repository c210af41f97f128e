"""Fill a new collection with the clone's documents, and prove that it holds them."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice, zip_longest
from typing import Any

import bson
from bson.raw_bson import RawBSONDocument

from zbackup.engines.mongodb.copy import collections
from zbackup.engines.mongodb.copy.plan_collection import CollectionJob, Sides
from zbackup.engines.mongodb.server.connection import CommandRefused, Connection, Document, PrivilegeMissing
from zbackup.model.errors import DatabaseError, Refused, VerificationFailed
from zbackup.model.progress import Progress
from zbackup.model.table_name import TableName

MAJORITY = {"w": "majority", "wtimeout": 60_000}
WRITE_LIMIT_S = 600
INDEX_LIMIT_S = 7 * 86_400.0
ASK_EVERY_S = 1.0
KEEP_EVERY_S = 60.0


@dataclass(slots=True)
class Writer:
    """Writes to production, each time to a majority of its members, and waits while one lags.

    `keep` is called while it waits, for whatever is read meanwhile.
    """

    production: Connection
    progress: Progress
    rate: int = 0
    max_lag: float = 10.0
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    keep: Callable[[], object] = lambda: None
    _kept: float = field(default=float("-inf"))
    _asked: float = field(default=float("-inf"))
    _since: float = 0.0
    _bytes: int = 0
    _told: set[str] = field(default_factory=set)

    def insert(
        self, name: TableName, documents: list[RawBSONDocument], *, ordered: bool = False
    ) -> list[Document]:
        """Insert them all, or with `ordered` up to the first that is refused; those that are refused come
        back as the server says why."""
        self.wait(sum(len(each.raw) for each in documents))
        errors: list[Document] = []
        before = 0
        for altered, group in groupby(documents, collections.has_empty_timestamp):
            alike = list(group)
            command = unaltered(name, alike) if altered else {"insert": name.table, "documents": alike}
            said = self.run(name, {**command, "ordered": ordered})
            errors += [{**each, "index": each["index"] + before} for each in said.get("writeErrors", ())]
            if errors and ordered:
                break
            before += len(alike)
        return errors

    def run(self, name: TableName, command: Mapping[str, Any], limit_s: float = WRITE_LIMIT_S) -> Document:
        """Raise CommandRefused when it did not reach a majority."""
        told = {**command, "writeConcern": MAJORITY}
        said = self.production.run(name.schema, told, limit_s=limit_s)
        if failed := said.get("writeConcernError"):
            raise CommandRefused(
                f"{name} was written, but not to a majority of the members: {failed.get('errmsg')}",
                int(failed.get("code", 0)),
            )
        return said

    def wait(self, size: int) -> None:
        """Return when `size` more bytes may be written."""
        if self.rate:
            now = self.now()
            self._since = self._since or now
            self._bytes += size
            if (ahead := self._bytes / self.rate - (now - self._since)) > 0:
                self._pause(ahead)
        if self.now() - self._asked < ASK_EVERY_S:
            return
        while (lag := self._lag()) > self.max_lag:
            self._tell(f"waiting: a member is {lag:.0f} s behind")
            self._pause(ASK_EVERY_S)
        self._asked = self.now()

    def _pause(self, seconds: float) -> None:
        """Sleep, and let nobody forget meanwhile that we are reading."""
        while seconds > 0:
            if self.now() - self._kept >= KEEP_EVERY_S:
                self.keep()
                self._kept = self.now()
            self.sleep(min(seconds, KEEP_EVERY_S))
            seconds -= KEEP_EVERY_S

    def _lag(self) -> float:
        try:
            status = self.production.command({"replSetGetStatus": 1})
        except PrivilegeMissing:
            self._tell("how far members lag is not known: the copy's account lacks clusterMonitor")
            return 0.0
        except DatabaseError:
            return 0.0  # no replica set
        return member_lag(status)

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.progress.note(text)


def unaltered(name: TableName, documents: list[RawBSONDocument]) -> dict[str, Any]:
    """An insert of exactly these documents; as with any insert, one that is there already is an error."""
    updates = [
        {
            "q": {"_id": {"$eq": each["_id"]}, "$nor": [{}]},
            "u": replacement(each),
            "upsert": True,
        }
        for each in documents
    ]
    return {"update": name.table, "updates": updates}


def replacement(document: RawBSONDocument) -> list[dict[str, Any]]:
    """An update to exactly this document: a plain one takes no fields that begin with $, and writes the time
    into empty timestamps."""
    return [{"$replaceWith": {"$literal": document}}]


def member_lag(status: Mapping[str, Any]) -> float:
    """Seconds by which the slowest member that answers and follows is behind the primary."""
    members = status.get("members", ())
    ahead = [m["optimeDate"] for m in members if m.get("stateStr") == "PRIMARY"]
    behind = [m["optimeDate"] for m in members if m.get("stateStr") == "SECONDARY" and m.get("health")]
    return max(((ahead[0] - each).total_seconds() for each in behind), default=0.0) if ahead else 0.0


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
