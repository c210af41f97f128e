"""Tell what is known of an oplog without a server on its files: a mongod alone can read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from zbackup.engines.mongodb.oplog.covered_log import is_same_log, live_span, span_of
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.recovery.as_of import JOURNAL_LAG, reach
from zbackup.model.anchors import Anchor
from zbackup.model.backup import BackupFiles
from zbackup.model.log import LogDamage, LogSpan
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import Record
from zbackup.model.recovery import Reach, ReplayRange
from zbackup.model.relocation import Relocation
from zbackup.model.silence import Silence
from zbackup.model.target import Stop
from zbackup.model.unreplayable import Unreplayable


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoLogReader:
    """Knows of MongoDB's log what was recorded of it.

    `connect` leads to the running server, which is asked for nothing but how far its oplog goes.
    """

    connect: ConnectOptions | None = None

    def reach(
        self, record: Record, where: Relocation, created: datetime, since: Record | None = None
    ) -> Reach:
        """From the record alone: the files can be read by a mongod only."""
        return reach(record, created)

    def log_span(self, record: Record, where: Relocation, since: Record | None = None) -> LogSpan | None:
        return span_of(record)

    def live_log(self, newest: BackupFiles, live: Relocation) -> LogSpan | None:
        """Ask the server, as nobody else can read its files. Raise DatabaseError if it is down."""
        return live_span(self.connect, newest.record) if self.connect else None

    def live_log_damage(
        self, newest: BackupFiles, live: Relocation, most: int | None = None
    ) -> tuple[LogDamage, ...] | None:
        """Nobody can tell: a mongod alone can read its files, and ends where it cannot."""
        return None

    def bring_up_to_date(self, live: BackupFiles) -> None:
        """See engines.base.LogReader: the oplog is the server's own."""

    @property
    def log_delay_s(self) -> float:
        """A write that did not ask for the journal is there with the next commit of it."""
        return JOURNAL_LAG.total_seconds()

    def is_same_log(self, older: BackupFiles, newer: BackupFiles) -> bool:
        return is_same_log(older.record, newer.record)

    def effective_target(self, target: datetime) -> datetime:
        """The target itself: what the oplog's clock tells is finer than a base's `as_of` has to be."""
        return target

    def unreplayable(
        self, subject: BackupFiles, after: str, *, live: bool = False, base: Record | None = None
    ) -> tuple[Unreplayable, ...]:
        """None: an oplog has no statements."""
        return ()

    def silence(self, end: Record, log: BackupFiles) -> Silence | None:
        """None: what was rolled back is of another term."""
        return None

    def written(self, position: str) -> datetime | None:
        """Take the time from the position's seconds: they are the primary's clock."""
        return datetime.fromtimestamp(OplogPosition.parse(position).seconds, UTC)

    def examine(
        self,
        base: BackupFiles,
        log: BackupFiles,
        stop: Stop,
        anchors: Sequence[Anchor] = (),
    ) -> ReplayRange | None:
        """Nothing: an oplog can be read by a mongod only, on a clone of its own."""
        return None
