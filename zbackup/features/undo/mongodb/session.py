"""Take back one transaction: what ports.Undoer asks of MongoDB."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from bson import json_util
from bson.raw_bson import RawBSONDocument

from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.production.account import (
    MongoAccount,
    clone_options,
    require_deletes,
    require_primary,
    require_privileges,
)
from zbackup.engines.mongodb.production.writer import Writer, replacement, unaltered
from zbackup.engines.mongodb.server.connection import CommandRefused, Connection, connect
from zbackup.engines.mongodb.server.transacted import Transacted
from zbackup.features.undo.mongodb.images import (
    DocumentKey,
    DocumentStep,
    by_clone,
    by_pre_images,
    read,
    require_same_collections,
)
from zbackup.features.undo.mongodb.logged import Write, by_collection, find_transaction, writes
from zbackup.features.undo.undoing import ImagesIncomplete, UndoneTable, UndoPlan, UndoWish
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Refused, VerificationFailed, ZbackupError
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName

PORTION: Final = 1000
"""Documents in one transaction: fewer are taken back all at once, or not at all."""
PORTION_BYTES: Final = 4 << 20
EXAMPLES: Final = 100
TRIES: Final = 5
BUSY: Final = (24, 112, 246, 251)
"""LockTimeout, WriteConflict, SnapshotUnavailable, NoSuchTransaction: somebody else was there first."""
_SHOWN: Final = 60

State = Literal["open", "already", "conflict"]
Documents = dict[DocumentKey, RawBSONDocument]


class _NotTaken(ZbackupError):
    """Production did not take a document, which ended the transaction."""

    def __init__(self, step: DocumentStep, why: str) -> None:
        super().__init__(why)
        self.step = step


@dataclass(slots=True)
class UndoTally:
    """The counts of one collection's documents; see UndoneTable."""

    counts: dict[str, int] = field(default_factory=lambda: {"insert": 0, "update": 0, "delete": 0})
    already: int = 0
    refused: int = 0
    conflicts: list[str] = field(default_factory=list)

    def refuse(self, step: DocumentStep, why: str) -> None:
        """Count a document that is left alone, and say why."""
        self.refused += 1
        if len(self.conflicts) < EXAMPLES:
            self.conflicts.append(f"{step.name} _id={shown(step.id)}: {why}")

    def saw(self, step: DocumentStep, there: RawBSONDocument | None) -> bool:
        """Count a document as production has it; whether it is to be taken back."""
        state, why = judge(step, there)
        if state == "already":
            self.already += 1
        elif state == "conflict":
            self.refuse(step, why)
        return state == "open"

    def add(self, other: "UndoTally") -> None:
        """Count what the other counted, too."""
        for kind, count in other.counts.items():
            self.counts[kind] += count
        self.already += other.already
        self.refused += other.refused
        self.conflicts = (self.conflicts + other.conflicts)[:EXAMPLES]

    def undone(self, name: TableName) -> UndoneTable:
        """Convert to the model's types."""
        return UndoneTable(
            table=name,
            inserted=self.counts["insert"],
            updated=self.counts["update"],
            deleted=self.counts["delete"],
            already=self.already,
            refused=self.refused,
            conflicts=tuple(self.conflicts),
        )


Tallies = dict[TableName, UndoTally]


def portions(steps: Iterable[DocumentStep]) -> Iterator[list[DocumentStep]]:
    """Steps in bounded numbers."""
    portion: list[DocumentStep] = []
    size = 0
    for step in steps:
        if portion and (len(portion) == PORTION or size + step.size > PORTION_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(step)
        size += step.size
    if portion:
        yield portion


def judge(step: DocumentStep, there: RawBSONDocument | None) -> tuple[State, str]:
    """Whether production still has what the transaction left; if not, how it differs. Pure."""
    if _same(there, step.after):
        return "open", ""
    if _same(there, step.before):
        return "already", ""
    if there is None:
        return "conflict", "deleted since"
    return "conflict", "inserted again since" if step.after is None else "changed since"


def _same(one: RawBSONDocument | None, other: RawBSONDocument | None) -> bool:
    if one is None or other is None:
        return one is other
    return bool(one.raw == other.raw)


def command(step: DocumentStep) -> dict[str, Any]:
    """The command that takes one document back."""
    name, same = step.name.table, {"_id": {"$eq": step.id}}
    if step.before is None:
        return {"delete": name, "deletes": [{"q": same, "limit": 1}]}
    if step.after is not None:
        return {"update": name, "updates": [{"q": same, "u": replacement(step.before)}]}
    if collections.has_empty_timestamp(step.before):
        return unaltered(step.name, [step.before])
    return {"insert": name, "documents": [step.before]}


def statement(step: DocumentStep) -> str:
    """The same for mongosh."""
    text = json_util.dumps(command(step), json_options=json_util.CANONICAL_JSON_OPTIONS)
    return f"db.getSiblingDB({json.dumps(step.name.schema)}).runCommand(EJSON.parse({json.dumps(text)}));"


def shown(value: object) -> str:
    """A value for people."""
    text = str(json_util.dumps(value))
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def current_documents(connection: Connection, steps: Sequence[DocumentStep]) -> Documents:
    """Production's documents that the steps name."""
    found: Documents = {}
    for name, ids in _ids(steps).items():
        found.update(((name, collections.key(each)), each) for each in read(connection, name, ids))
    return found


def _ids(steps: Sequence[DocumentStep]) -> Mapping[TableName, list[Any]]:
    wanted: dict[TableName, list[Any]] = {}
    for step in steps:
        wanted.setdefault(step.name, []).append(step.id)
    return wanted


@dataclass(frozen=True, slots=True)
class PutBack:
    """Writes to production, each time to a majority of its members."""

    production: Connection
    writer: Writer

    def run(self, steps: Sequence[DocumentStep]) -> Tallies:
        """All steps, in portions."""
        tallies: Tallies = {step.name: UndoTally() for step in steps}
        done = 0
        for portion in portions(steps):
            self.writer.wait(sum(step.size for step in portion))
            for name, tally in self._portion(portion).items():
                tallies[name].add(tally)
            done += len(portion)
            self.writer.progress.advance(done, len(steps), "documents")
        return tallies

    def _portion(self, portion: Sequence[DocumentStep]) -> Tallies:
        """One portion, without what production does not take, and again while somebody else is faster."""
        refused: list[_NotTaken] = []
        tries = TRIES
        while True:
            left = [step for step in portion if step not in (each.step for each in refused)]
            fresh: Tallies = {step.name: UndoTally() for step in portion}
            for each in refused:
                fresh[each.step.name].refuse(each.step, str(each))
            try:
                with self.production.transaction() as inside:
                    self._some(inside, left, fresh)
                return fresh
            except _NotTaken as not_taken:
                refused.append(not_taken)
            except CommandRefused as failure:
                if failure.code not in BUSY or not tries:
                    raise
                tries -= 1

    def _some(self, inside: Transacted, steps: Sequence[DocumentStep], tallies: Tallies) -> None:
        there = _within(inside, steps)
        left = [step for step in steps if tallies[step.name].saw(step, there.get((step.name, step.key)))]
        for step in left:
            said = inside.run(step.name.schema, command(step))
            if errors := said.get("writeErrors"):
                raise _NotTaken(step, str(errors[0].get("errmsg")))
            if said["n"] != 1:
                raise VerificationFailed(f"{step.name} _id={shown(step.id)} was not written: nothing was")
            tallies[step.name].counts[step.kind] += 1
        there = _within(inside, left)
        for step in left:
            if not _same(there.get((step.name, step.key)), step.before):
                raise VerificationFailed(
                    f"{step.name} _id={shown(step.id)} did not come out as it was: nothing was changed"
                )


def _within(inside: Transacted, steps: Sequence[DocumentStep]) -> Documents:
    found: Documents = {}
    for name, ids in _ids(steps).items():
        rows = inside.documents((name.schema, name.table), {"_id": {"$in": ids}})
        found.update(((name, collections.key(each)), each) for each in rows)
    return found


MOST_DOCUMENTS: Final = 500_000
MOST_BYTES: Final = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoUndoer:
    """See ports.Undoer. It writes by the account that copies write by, and reads the oplog by the
    instance's own."""

    account: MongoAccount

    def find(self, at: ClusterTime) -> Transaction:
        with connect(self.account.usual) as connection:
            return find_transaction(connection, at)

    @contextmanager
    def session(
        self,
        subject: Transaction,
        files: Sequence[BackupFiles],
        wish: UndoWish,
        entrance: Entrance | None,
        progress: Progress,
    ) -> Iterator["MongoUndo"]:
        """See ports.Undoer. The running server alone has the oplog."""
        with ExitStack() as open_ones:
            production = open_ones.enter_context(connect(self.account.login))
            watch = open_ones.enter_context(connect(self.account.usual))
            clone = open_ones.enter_context(connect(clone_options(entrance))) if entrance else None
            require_primary(production)
            writer = self.account.writer(production, progress)
            yield MongoUndo(
                subject=subject,
                wish=wish,
                production=production,
                watch=watch,
                clone=clone,
                writer=writer,
                progress=progress,
            )


@dataclass(slots=True, kw_only=True)
class MongoUndo:
    subject: Transaction
    wish: UndoWish
    production: Connection
    watch: Connection
    clone: Connection | None
    writer: Writer
    progress: Progress
    _names: tuple[TableName, ...] = ()
    _steps: list[DocumentStep] = field(default_factory=list)

    def plan(self) -> UndoPlan:
        self.progress.phase("reading", f"what {self.wish.name} wrote")
        found = self._writes()
        grouped = by_collection(found)
        self._names = tuple(grouped)
        require_same_collections(self.production, grouped)
        require_privileges(self.production, tuple(dict.fromkeys(name.schema for name in grouped)))
        try:
            self._steps = (
                by_clone(self.clone, found)
                if self.clone
                else by_pre_images(self.production, self.subject, grouped)
            )
        except ImagesIncomplete as why:
            why.tables = self._names
            raise
        self._require_bounded(len(self._steps), sum(step.size for step in self._steps))
        deleting = (step.name.schema for step in self._steps if step.kind == "delete")
        require_deletes(self.production, tuple(dict.fromkeys(deleting)))
        count = sum(1 for _ in portions(self._steps))
        notes = []
        if count > 1:
            notes.append(
                f"{len(self._steps)} documents take {count} transactions, of {PORTION} at most: until the "
                "last is committed, a part of them is back"
            )
        return UndoPlan(tables=self._undone(self._compared()), transactions=count, notes=tuple(notes))

    def statements(self) -> Iterator[str]:
        for portion in portions(self._steps):
            there = current_documents(self.production, portion)
            for step in portion:
                if judge(step, there.get((step.name, step.key)))[0] == "open":
                    yield statement(step)

    def act(self) -> tuple[UndoneTable, ...]:
        self.progress.phase("putting documents back", ", ".join(map(str, self._names)))
        return self._undone(PutBack(self.production, self.writer).run(self._steps))

    def _writes(self) -> list[Write]:
        found: list[Write] = []
        size = 0
        try:
            for each in writes(self.watch, self.subject):
                found.append(each)
                size += len(each.operation.raw)
                self._require_bounded(len(found), size)
        except Refused as refused:
            raise Refused(f"{self.wish.name} cannot be taken back: {refused}") from None
        return found

    def _require_bounded(self, documents: int, size: int) -> None:
        if documents > MOST_DOCUMENTS or size > MOST_BYTES:
            raise Refused(
                f"{self.wish.name} changed more documents than zbackup takes back one by one: zbackup "
                "restore --to-timestamp, with --table, --missing and --changed, goes by whole collections"
            )

    def _compared(self) -> Tallies:
        self.progress.phase("comparing", "with production")
        tallies: Tallies = {}
        done = 0
        for portion in portions(self._steps):
            there = current_documents(self.production, portion)
            for step in portion:
                tally = tallies.setdefault(step.name, UndoTally())
                if tally.saw(step, there.get((step.name, step.key))):
                    tally.counts[step.kind] += 1
            done += len(portion)
            self.progress.advance(done, len(self._steps), "documents")
        return tallies

    def _undone(self, tallies: Tallies) -> tuple[UndoneTable, ...]:
        return tuple(tallies.get(name, UndoTally()).undone(name) for name in self._names)
