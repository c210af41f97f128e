"""The documents as they were before a transaction and after it: by pre-images, or by a clone.

The clone was restored to just before the transaction. There its server itself does once more what the oplog
holds, so that nobody else has to know what a logged difference means.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from zbackup.engines.mongodb.optime import timestamp
from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.server.connection import CommandRefused, Connection
from zbackup.features.undo.mongodb.logged import Write
from zbackup.features.undo.undoing import ImagesIncomplete
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.log import Transaction
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.table_name import TableName

APPLY_BYTES: Final = 8 << 20
APPLY_OPS: Final = 1000
APPLY_LIMIT_S: Final = 600.0
Document = RawBSONDocument | None
DocumentKey = tuple[TableName, bytes]


@dataclass(frozen=True, slots=True)
class DocumentStep:
    """One document that is taken back: it was `before`, and the transaction left it as `after`. None: there
    was no such document."""

    name: TableName
    key: bytes
    before: Document
    after: Document

    @property
    def kind(self) -> str:
        """The command that takes it back."""
        if self.before is None:
            return "delete"
        return "insert" if self.after is None else "update"

    @property
    def id(self) -> Any:
        """Its _id."""
        there = self.before if self.before is not None else self.after
        assert there is not None
        return there["_id"]

    @property
    def size(self) -> int:
        return sum(len(each.raw) for each in (self.before, self.after) if each is not None)


def steps(seen: Iterable[tuple[DocumentKey, Document, Document]]) -> list[DocumentStep]:
    """The net change of each document, given each change in order; the last changed comes first. Pure."""
    was: dict[DocumentKey, Document] = {}
    now: dict[DocumentKey, Document] = {}
    for key, before, after in seen:
        was.setdefault(key, before)
        now.pop(key, None)  # it comes last now
        now[key] = after
    return [
        DocumentStep(*key, was[key], after)
        for key, after in reversed(now.items())
        if _raw(was[key]) != _raw(after)
    ]


def _raw(document: Document) -> bytes | None:
    return None if document is None else bytes(document.raw)


def by_clone(clone: Connection, found: Sequence[Write]) -> list[DocumentStep]:
    """Read the documents, let the clone's server do it, and read them again.

    Raise VerificationFailed where the clone does not have what the transaction changed.
    """
    keys = list(dict.fromkeys((each.name, each.key) for each in found))
    before = _documents(clone, found)
    first = {(each.name, each.key): each for each in reversed(found)}
    for key, each in first.items():
        if (each.kind == "i") is (key in before):
            has = "has already a" if key in before else "has no"
            raise VerificationFailed(f"the clone {has} document of {each.name} with _id {each.id!r}")
    for some in _portions(found):
        said = clone.command(
            {"applyOps": [_as_told(each) for each in some], "alwaysUpsert": False}, limit_s=APPLY_LIMIT_S
        )
        if not all(said.get("results", ())):
            raise VerificationFailed(f"the clone did not take what was done to {some[0].name}")
    after = _documents(clone, found)
    order = {key: number for number, key in enumerate((each.name, each.key) for each in found)}
    changed = sorted(keys, key=lambda key: order[key])
    return steps((key, before.get(key), after.get(key)) for key in changed)


def _as_told(write: Write) -> dict[str, Any]:
    """The operation, without what ties it to its session."""
    told = write.operation
    return {name: told[name] for name in ("op", "ns", "ui", "o", "o2") if name in told}


def _portions(found: Sequence[Write]) -> Iterator[list[Write]]:
    some: list[Write] = []
    size = 0
    for each in found:
        length = len(each.operation.raw)
        if some and (size + length > APPLY_BYTES or len(some) == APPLY_OPS):
            yield some
            some, size = [], 0
        some.append(each)
        size += length
    if some:
        yield some


def _documents(connection: Connection, found: Sequence[Write]) -> dict[DocumentKey, RawBSONDocument]:
    wanted: dict[TableName, dict[bytes, Any]] = {}
    for each in found:
        wanted.setdefault(each.name, {})[each.key] = each.id
    there: dict[DocumentKey, RawBSONDocument] = {}
    for name, ids in wanted.items():
        for document in read(connection, name, list(ids.values())):
            there[name, collections.key(document)] = document
    return there


def read(connection: Connection, name: TableName, ids: Sequence[Any]) -> Iterator[RawBSONDocument]:
    """The documents with these _ids, as far as there are any."""
    for start in range(0, len(ids), APPLY_OPS):
        some = {"_id": {"$in": ids[start : start + APPLY_OPS]}}
        yield from connection.documents((name.schema, name.table), some)


def by_pre_images(
    production: Connection, subject: Transaction, found: Mapping[TableName, Sequence[Write]]
) -> list[DocumentStep]:
    """Ask production's change streams. Raise ImagesIncomplete where they do not tell all."""
    events: dict[TableName, Iterator[RawBSONDocument]] = {}
    for name in found:
        about = collections.read_collection(production, name)
        kept = about and about.options.get("changeStreamPreAndPostImages", {}).get("enabled")
        if not kept:
            raise ImagesIncomplete(f"{name} keeps no pre-images (changeStreamPreAndPostImages)")
    seen: list[tuple[DocumentKey, Document, Document]] = []
    at = timestamp(OplogPosition.parse(subject.start))
    for name, written in found.items():
        try:
            events[name] = production.changes((name.schema, name.table), at)
            seen += _paired(name, written, events[name], at)
        except CommandRefused as refused:
            # Pre-images expire, and events may be too large.
            raise ImagesIncomplete(f"the pre-images of {name} are not there: {refused}") from refused
    return steps(seen)


def _paired(
    name: TableName, written: Sequence[Write], events: Iterator[RawBSONDocument], at: Timestamp
) -> Iterator[tuple[DocumentKey, Document, Document]]:
    """Each write with the event that tells of it."""
    for each in written:
        event = next(events, None)
        if (
            event is None
            or event["clusterTime"] != at
            or collections.key(event["documentKey"]) != each.key
            or event["operationType"] not in _EVENTS[each.kind]
        ):
            raise ImagesIncomplete(f"the change stream of {name} does not tell all that the oplog does")
        before = event.get("fullDocumentBeforeChange")
        after = None if each.kind == "d" else event.get("fullDocument")
        if (before is None and each.kind != "i") or (after is None and each.kind != "d"):
            raise ImagesIncomplete(f"a pre-image of {name} is not there")
        yield (name, each.key), before if each.kind != "i" else None, after


_EVENTS: Final = {"i": ("insert",), "u": ("update", "replace"), "d": ("delete",)}


def require_same_collections(production: Connection, found: Mapping[TableName, Sequence[Write]]) -> None:
    """Raise Refused for a collection that is not there any more, or is another one of the same name."""
    for name, written in found.items():
        about = collections.read_collection(production, name)
        if about is None:
            raise Refused(
                f"{name} is not in production any more: {command_line('zbackup', 'restore', '--table', name)}"
            )
        if about.type != "collection" or about.options.get("capped"):
            what = "a capped collection" if about.type == "collection" else f"a {about.type}"
            raise Refused(f"{name} is {what} in production: its documents cannot be taken back")
        if any(each.collection not in (None, about.uuid) for each in written):
            raise Refused(f"{name} is another collection than then: it was dropped or renamed since")
