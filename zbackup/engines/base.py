"""The protocols that every database engine offers to the jobs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from zbackup.engines.log_search import FileSearch, ServerSearch
from zbackup.model.added_log import AddedFile
from zbackup.model.anchors import Anchor
from zbackup.model.archive import ArchivedFile
from zbackup.model.backup import BackupFiles
from zbackup.model.cloning import Adoption
from zbackup.model.log import LogDamage, LogSpan, Transaction
from zbackup.model.progress import Progress
from zbackup.model.proof import ProofSubject, Sight
from zbackup.model.record import LockKind, Record
from zbackup.model.recovery import (
    CheckedTables,
    Entrance,
    Reach,
    Recovered,
    RecoveryFiles,
    ReplayRange,
    Serving,
)
from zbackup.model.relocation import Relocation
from zbackup.model.server import LockChoice, ServerFacts
from zbackup.model.silence import Silence
from zbackup.model.table_name import TableName
from zbackup.model.target import Stop
from zbackup.model.unreplayable import Unreplayable
from zbackup.model.written_log import LogBytes, WrittenFile


class DatabaseLock(Protocol):
    """A consistent state of the server, kept while the lock is.

    With lock "none" nothing is locked and the position is a lower bound; the same code serves both.
    """

    @property
    def position(self) -> str:
        """Where the log ends, in the engine's own words; "" if there is none. See Record.position."""

    @property
    def gtid(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, str]:
        """What is known only now, to be added to Record.server.

        It may grow until the lock is released.
        """

    @property
    def lock_wait_ms(self) -> int:
        """How long it took until the lock was granted."""

    @property
    def held_ms(self) -> int:
        """How long the lock was held; known once it is released."""

    def seconds_left(self) -> float:
        """How long the lock may still be held: the time limit for the snapshot command."""

    def confirm(self) -> None:
        """Raise LockNotTaken unless the lock was held without a break until now and the log stood still.

        The snapshot just taken must not be trusted, and be destroyed, if this raises.
        """


class Engine(Protocol):
    """One instance's database server, as zbackup's jobs see it."""

    def inspect(self) -> ServerFacts:
        """Connect and look; changes nothing. Raise DatabaseError when that cannot be done."""

    def has_table(self, name: TableName) -> bool:
        """Whether the table (or any table of the schema) exists. Raise DatabaseError if unknown."""

    def replicas(self) -> tuple[str, ...]:
        """List the connected replicas, or the other data-bearing members of the set. Raise DatabaseError."""

    def heal(self) -> None:
        """Undo what a run of zbackup that was killed may have left on the server, such as a stopped applier.

        A server that is down is nothing to heal; the caller finds out by itself.
        """

    def choose_lock(self, facts: ServerFacts) -> LockChoice:
        """The configured lock, or for "auto" the gentlest that is exact. Raise Refused if it cannot be."""

    def require_privileges(self, facts: ServerFacts, kind: LockKind) -> None:
        """Raise DatabaseError, naming them, when the account lacks privileges this lock needs."""

    def consistent(self, facts: ServerFacts, kind: LockKind) -> AbstractContextManager[DatabaseLock]:
        """Hold the server still (as `kind` says) while the body runs.

        Whatever happens to this process, the lock is gone within the configured ceiling, and a replica's
        applier that ran before runs again. Raise LockNotTaken when the lock is not granted in time.
        """


class ProductionAccess(Protocol):
    """The account that zbackup writes to production with, as far as everyone may ask for it."""

    @property
    def configured(self) -> bool:
        """Whether there is such an account."""

    def require_account(self, schemas: Sequence[str] = ()) -> str:
        """Say where the account may copy to.

        Raise Refused without one, DatabaseError if it may not copy into these, or into any if none is named.
        """


class LogReader(Protocol):
    """Reads one instance's log among files, as far as its engine can: the server may be gone.

    Who looks for what happened asks engines.log_search.
    """

    def reach(
        self, record: Record, where: Relocation, created: datetime, since: Record | None = None
    ) -> Reach:
        """How far a backup's data reaches, from its record and its files; `created` is the snapshot's
        time.

        It can be asked again at any time, with the server gone. `since` is of an older backup whose log is
        proven to go on in this one: what that one covers need not be read again, and the answer is the same.
        Raise VerificationFailed when the files are not what was recorded.
        """

    def log_span(self, record: Record, where: Relocation, since: Record | None = None) -> LogSpan | None:
        """The log among a backup's files, None when they do not tell; `since` as for `reach`."""

    def live_log(self, newest: BackupFiles, live: Relocation) -> LogSpan | None:
        """The server's own log as it is now, when it is the one that the newest backup holds.

        `live` is where the server's files are. None when that cannot be told from them. Raise NotRecoverable
        when it is another log, or there is none.
        """

    def live_log_damage(
        self, newest: BackupFiles, live: Relocation, most: int | None = None
    ) -> tuple[LogDamage, ...] | None:
        """What keeps the server's own log from being read behind the newest backup.

        Arguments and errors as for `live_log`; no more than `most` bytes are read (None: a few seconds'
        worth). () where it is sound, None where the server's files do not tell.
        """

    def bring_up_to_date(self, live: BackupFiles) -> None:
        """See to it that files have all of the server's log. Raise DatabaseError, or Refused."""

    @property
    def log_delay_s(self) -> float:
        """How long it may take until a write that was acknowledged is in the log on disk."""

    def is_same_log(self, older: BackupFiles, newer: BackupFiles) -> bool:
        """Whether the newer log holds the position where the older ended (Record.log_to), unchanged up
        to there.

        Names and numbers prove nothing here: after a reset or a failover another log has the same ones.
        """

    def effective_target(self, target: datetime) -> datetime:
        """Tell the target as the log's clock can: itself, or earlier as far as that clock is coarse."""

    def unreplayable(
        self, subject: BackupFiles, after: str, *, live: bool = False, base: Record | None = None
    ) -> tuple[Unreplayable, ...]:
        """The transactions behind a position in the log among the files that no server can replay on a clone,
        or that of the backup `base` (else of `subject` itself) can not.

        `live`: the server's own files, which are looked at again and again; each byte is read once.
        """

    def silence(self, end: Record, log: BackupFiles) -> Silence | None:
        """Return the period after the end of a backup's log for which the log in `log` does not show what was
        committed; None if it shows everything."""

    def written(self, position: str) -> datetime | None:
        """When what stands at a position of the log was written, as far as its own name tells."""

    def examine(
        self, base: BackupFiles, log: BackupFiles, stop: Stop, anchors: Sequence[Anchor] = ()
    ) -> ReplayRange | None:
        """What a replay would apply; changes nothing. Raise NotRecoverable when the log does not reach.

        `stop` is of a kind that the engine knows; `anchors` are clock readings that bound the times in the
        log. None when that cannot be known from files: the engine's log is read while recovering, on clones.
        """


class LogFollower(Protocol):
    """Reads one instance's log while it is written, for the log archive."""

    def scan(
        self,
        live: BackupFiles,
        older: Callable[[], Sequence[BackupFiles]],
        archived: Sequence[ArchivedFile],
        since: str,
        now: Callable[[], datetime],
    ) -> tuple[WrittenFile, ...]:
        """The files of the log that are there now, in their order and without a gap between them.

        `live` is where the server's own files are, with the record of its newest backup; `older` gives the
        backups, the newest first, for what the server has purged and is not archived yet. `archived` is what
        the archive has in its newest epoch: no more is looked at than is needed to go on from that. Where
        that is nothing, `since` is the position in the log (Record.log_to) that is wanted first. Raise
        Refused where the log cannot be read, NotRecoverable where there is none, DatabaseError where a
        server that has to be asked does not answer.
        """

    def read(self, file: WrittenFile, begin: int, end: int) -> LogBytes:
        """The bytes between two offsets, as they are to be archived.

        Of what was scanned last. Raise VerificationFailed when it is not there any more.
        """

    def forget(self) -> None:
        """Scan everything again the next time: what was remembered of the files may be wrong."""


class Recovery(Protocol):
    """Recovery of one instance's backups. Works on files alone: the instance's server may be gone."""

    def check_program(self, record: Record) -> str:
        """The server program that can open the backup's files. Raise Refused if there is none."""

    def check_openable(self, record: Record) -> None:
        """Raise Refused when what was wrong with the server keeps even the backup as it is from being opened.

        What only keeps a log from leading on from it (see Record.blockers) does not.
        """

    def check_serving(self, record: Record, serving: Serving) -> None:
        """Raise Refused when a server on the backup's files is not to be handed over like that."""

    def check_version(self, server: Mapping[str, str], version: str, members: Sequence[str] = ()) -> str:
        """The same for a running server: ServerFacts.server and .version, and where its datasets are."""

    def only_reads(self, base: RecoveryFiles, log: BackupFiles) -> bool:
        """Whether recover() only reads the files of this log, and so needs no clone of them."""

    def recover(
        self,
        base: RecoveryFiles,
        log: RecoveryFiles,
        stop: Stop,
        serving: Serving | None,
        progress: Progress,
        *,
        skip: Transaction | None = None,
        proves: ProofSubject | None = None,
    ) -> Recovered:
        """Bring the base's files to the target and leave a server running on them; none if `serving` is None.

        `stop` as for `LogReader.examine`; `skip` is left out. What the server shows of what it `proves` is in
        what is returned, and what step_on() takes is kept in the base's home. Raise VerificationFailed when
        the result is not what it must be, ClockDisputed when the log's times contradict it where `examine`
        cannot tell.
        """

    def step_on(
        self,
        files: RecoveryFiles,
        home: Path,
        log: Record,
        following: Transaction,
        proves: ProofSubject,
        progress: Progress,
    ) -> Sight:
        """Apply the first skipped transaction, and return what the server shows then.

        `files` are those of the second clone, `home` is that of the first one, and `log` is the log's
        record. Raise ReplayFailed if the server cannot apply it; VerificationFailed, Refused or DatabaseError
        if it could not be tried.
        """

    def open(self, base: RecoveryFiles, serving: Serving | None, progress: Progress) -> Recovered:
        """Bring the base's files to what the backup holds, with nothing replayed from any other's log.

        `serving` as for `recover`. Raise VerificationFailed when they are not what was recorded.
        """

    def add_log(self, files: BackupFiles, added: Sequence[AddedFile], progress: Progress) -> LogSpan:
        """Put log files that go on behind a backup's own into a clone of it; returns the log that is there.

        The first is the one that its log ends in (Record.log_to), and the others follow it. Raise
        NotRecoverable, before anything is changed, when it is another one.
        """

    def check_tables(self, files: RecoveryFiles, progress: Progress) -> CheckedTables:
        """Have a server read and check every table of a clone that was recovered and that no server runs on.

        The server is gone afterwards. Raise DatabaseError when it ends meanwhile.
        """

    @property
    def memory(self) -> int:
        """What one temporary server takes at least, in bytes."""

    def entered(self, files: RecoveryFiles, progress: Progress) -> AbstractContextManager[Entrance]:
        """Run a server that lets only us in, on a finished clone's files that no server runs on.

        Nothing that we brought along is left in the files afterwards, nor is the server.
        """

    def adopt(self, files: RecoveryFiles, adoption: Adoption, progress: Progress) -> None:
        """Make a clone's files a server with an identity of its own, and leave it running for its users.

        It replicates nobody, runs no events, and has the accounts that are wanted before anybody else gets
        in. Raise DatabaseError, VerificationFailed, or what `adoption.prepare` raises: then no server runs.
        """

    def serve(self, files: RecoveryFiles, serving: Serving) -> None:
        """Start the server of a finished clone."""

    def connection(self, run: Path, port: int, user: str = "") -> tuple[str, str]:
        """How to reach a clone's server: its socket's path, and a command line for people.

        `user` is whom to log in as; "" for whoever administrates the original.
        """


class Adapters(Protocol):
    """The parts of one engine. Each is imported when it is first asked for: `list` needs none of them."""

    @property
    def engine(self) -> Engine: ...

    @property
    def recovery(self) -> Recovery: ...

    @property
    def log_reader(self) -> LogReader: ...

    @property
    def log_search(self) -> FileSearch | ServerSearch: ...

    @property
    def follower(self) -> LogFollower:
        """Reads the log while it is written."""
