"""Take back one transaction: what ports.Undoer asks of MongoDB."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from zbackup.engines.mongodb.production.account import (
    MongoAccount,
    clone_options,
    require_deletes,
    require_primary,
    require_privileges,
)
from zbackup.engines.mongodb.production.writer import Writer
from zbackup.engines.mongodb.server.connection import Connection, connect
from zbackup.features.undo.mongodb.images import (
    DocumentStep,
    by_clone,
    by_pre_images,
    require_same_collections,
)
from zbackup.features.undo.mongodb.logged import Write, by_collection, find_transaction, writes
from zbackup.features.undo.mongodb.put_back import (
    PORTION,
    PutBack,
    Tallies,
    UndoTally,
    current_documents,
    judge,
    portions,
    statement,
)
from zbackup.features.undo.undoing import ImagesIncomplete, UndoneTable, UndoPlan, UndoWish
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Refused
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName

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
