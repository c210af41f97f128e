"""Remember what a copy that was cut short has finished: noted in production until the whole copy is through.

A collection keeps its UUID when it is renamed (MongoDB manual, "renameCollection"), so what has the noted
name and UUID is what the copy made, whatever was written to it since.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.production.writer import Writer
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.features.copyback.copying import CopyStep, CopyWish
from zbackup.features.copyback.mongodb.fill import filled
from zbackup.features.copyback.mongodb.plan_collection import WORK, CollectionJob, Sides, action_of, work_name
from zbackup.model.table_name import TableName

Note = Mapping[str, Any]


def notes_name(wish: CopyWish, schema: str) -> TableName:
    """Name the collection that a copy keeps its notes in; the same for the same copy alone."""
    parts = (wish.clone, str(wish.into), wish.where, *map(str, wish.tables))
    return TableName(schema, WORK + "done_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16])


def read_finished(production: Connection, wish: CopyWish) -> dict[TableName, Note]:
    """Read what earlier runs of this copy finished, or were about to."""
    found: dict[TableName, Note] = {}
    for schema in {} if wish.rows else wish.schemas:
        notes = notes_name(wish, schema)
        for row in production.find((schema, notes.table), {}, most=0):
            found[TableName(*row["source"])] = row
    return found


def note_finished(writer: Writer, wish: CopyWish, job: CollectionJob) -> None:
    """Note it just before it gets its name."""
    into = job.step.into
    made = None if job.step.action == "view" else collections.read_collection(writer.production, filled(job))
    source = job.step.source
    note = {
        "_id": str(source),
        "source": [source.schema, source.table],
        "into": [into.schema, into.table],
        "uuid": made and made.uuid,
    }
    notes = notes_name(wish, into.schema)
    updates = [{"q": {"_id": note["_id"]}, "u": note, "upsert": True}]
    writer.run(notes, {"update": notes.table, "updates": updates})


def forget_finished(production: Connection, wish: CopyWish) -> None:
    """The copy is through: the next of the same wish is another."""
    for schema in wish.schemas:
        notes = notes_name(wish, schema)
        if collections.read_collection(production, notes):
            production.run(schema, {"drop": notes.table})


def finished_job(sides: Sides, wish: CopyWish, name: TableName, note: Note | None) -> CollectionJob | None:
    """A job with nothing left to do; None unless production has what an earlier run made."""
    found = collections.read_collection(sides.clone, name) if note else None
    if not note or not found:
        return None
    into = TableName(*note["into"])
    there = collections.read_collection(sides.production, into)
    if there is None or there.type != found.type:
        return None
    if (there.options != found.options) if found.type == "view" else (there.uuid != note["uuid"]):
        return None
    step = CopyStep(
        source=name,
        into=into,
        action=action_of(found, into),
        statements=(),
        resumed=True,
        notes=("an earlier run of this copy finished it",),
    )
    return CollectionJob(step=step, collection=found, work=work_name(wish, name, into), finished=True)
