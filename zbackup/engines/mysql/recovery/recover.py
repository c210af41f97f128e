"""Recover a server as of the target from a backup's files and a later holder of the log."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.file_owner import require_own_user
from zbackup.engines.mysql.binlog.contents import Contents
from zbackup.engines.mysql.binlog.find_stop import StopPoint
from zbackup.engines.mysql.binlog.position import described
from zbackup.engines.mysql.binlog.reader import last_in_file, opened
from zbackup.engines.mysql.binlog.temporary_tables import find_doubtful
from zbackup.engines.mysql.binlog.torn_end import torn_at
from zbackup.engines.mysql.clone.clone_server import CloneServer, Temporary
from zbackup.engines.mysql.clone.program import find_program
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG
from zbackup.engines.mysql.recovery import memory_tables, packets, prepared_xa, replay_mariadb, replay_mysql
from zbackup.engines.mysql.recovery.added_log import add_log
from zbackup.engines.mysql.recovery.adopt import adopt, forget_replication
from zbackup.engines.mysql.recovery.check_tables import check_tables
from zbackup.engines.mysql.recovery.covered_log import covered_files, end_of, is_readable
from zbackup.engines.mysql.recovery.given_settings import GivenSettings
from zbackup.engines.mysql.recovery.prepared_xa import Prepared
from zbackup.engines.mysql.recovery.replay import LogRange, applier_threads
from zbackup.engines.mysql.recovery.replay_bounds import effective_stop, find_stop_behind_base, tables_outside
from zbackup.engines.mysql.recovery.replication_source import replication_source
from zbackup.engines.mysql.recovery.sight import look
from zbackup.engines.mysql.recovery.unlogged import find_unlogged_tables, require_all_logged
from zbackup.engines.mysql.recovery.verify_replay import (
    as_it_is,
    outcome,
    require_openable,
    require_recorded_state,
)
from zbackup.engines.mysql.server import plugins, system_zone
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.server.server_facts import newest_thread
from zbackup.engines.mysql.sql.lexer import tokens
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.added_log import AddedFile
from zbackup.model.backup import BackupFiles
from zbackup.model.cloning import Adoption
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.log import LogPosition, LogSpan, Transaction, how_many
from zbackup.model.progress import Progress
from zbackup.model.proof import NEXT, ProofSubject, Sight
from zbackup.model.record import Record
from zbackup.model.recovery import CheckedTables, Entrance, Recovered, RecoveryFiles, Serving
from zbackup.model.target import Stop
from zbackup.proc import secure_files
from zbackup.proc.programs import require_elsewhere

_ARCHIVE: Final = "ARCHIVE"
_UNSAFE: Final = frozenset({"big5", "cp932", "gb18030", "gbk", "shift_jis"})
"""Character sets of which a letter's second byte can be a backslash. A server writes the strings that a
prepared statement was given in these as hexadecimal, and does not say of which set they were
(append_query_string in sql_string.cc): they then are no letters, but bytes."""


@dataclass(slots=True)
class LoggedStatements:
    """`in_order`: transactions have to follow each other. `hexed`: the first statement with a string that may
    have been letters, "" where there is none."""

    in_order: bool = False
    hexed: str = ""

    def take(self, contents: Contents) -> None:
        """Note what one transaction's statements tell."""
        for text, told in contents.said:
            if not self.in_order and _ARCHIVE in text.upper():
                words = {(token.name or token.text.strip("'\"")).upper() for token in tokens(text)}
                self.in_order = {"ENGINE", _ARCHIVE} <= words
            if not self.hexed and told and told.codec in _UNSAFE and contents.by_text and _has_hex(text):
                self.hexed = told.codec

    def doubt(self) -> str:
        """Why rows may differ from what they were; "" if not."""
        if not self.hexed:
            return ""
        return (
            f"a session in the character set {self.hexed} logged a string as X'...': where a prepared "
            "statement was given it for a column of another character set, its letters are lost in the log"
        )


def _has_hex(text: str) -> bool:
    before = ""
    for token in tokens(text):
        if token.kind == "string" and before == "X":
            return True
        before = token.word
    return False


def has_archive(connection: Connection, recorded: Mapping[str, str]) -> bool:
    """Whether a MySQL has tables of the engine ARCHIVE, or makes them where nothing else is said.

    Its appliers work side by side at what was committed together, or has no key in common. Such a table lets
    writers in at the same time and locks no rows, and takes no AUTO_INCREMENT value below its highest
    (ha_archive.cc, store_lock and write_row): each has to come when it came. `recorded` is Record.server.
    """
    there = "SELECT COUNT(*) AS n FROM information_schema.TABLES WHERE ENGINE = 'ARCHIVE'"
    given = recorded.get("default_storage_engine", "")
    return given.upper() == _ARCHIVE or bool(connection.one(there)["n"])


MOST_NAMED = 20


def tell(connection: Connection, flavor: str, progress: Progress, of_base: Prepared | None = None) -> None:
    """Note events that were disabled, and transactions that are prepared and neither committed nor not.

    Those that a MySQL's replay left so are rolled back, see prepared_xa; `of_base` were so in the base, None
    where nothing was replayed.
    """
    if events := _disabled_events(connection):
        progress.note(f"events disabled as on a replica, until ALTER EVENT ... ENABLE: {_some(events)}")
    doubtful = dict(prepared_xa.prepared(flavor, connection))
    if flavor == "mysql" and of_base is not None:
        replayed = {xid: name for xid, name in doubtful.items() if xid not in of_base}
        left = prepared_xa.roll_back(connection, replayed) if replayed else {}
        gone = [name for xid, name in replayed.items() if xid not in left]
        doubtful = {xid: name for xid, name in doubtful.items() if xid in of_base or xid in left}
        _tell_of(progress, gone, "rolled back")
    _tell_of(progress, list(doubtful.values()), "still in doubt, see XA RECOVER")


def _tell_of(progress: Progress, names: Sequence[str], end: str) -> None:
    if names:
        progress.note(f"XA transactions that were prepared but not committed then are {end}: {_some(names)}")


def _disabled_events(connection: Connection) -> list[str]:
    """An applier gives every event it creates or alters this state, whatever the statement said.

    So one event does not run on source and replica (MySQL manual, "Replication of Invoked Features").
    """
    rows = connection.rows(
        "SELECT EVENT_SCHEMA AS s, EVENT_NAME AS e FROM information_schema.EVENTS "
        "WHERE STATUS IN ('SLAVESIDE_DISABLED', 'REPLICA_SIDE_DISABLED') ORDER BY 1, 2"
    )
    return [f"{row['s']}.{row['e']}" for row in rows]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


@dataclass(frozen=True, slots=True)
class Hole:
    """A transaction that is not applied, from `start` to `end`."""

    subject: Transaction
    start: LogPosition
    end: LogPosition

    @classmethod
    def of(cls, subject: Transaction, begin: LogPosition, point: StopPoint) -> "Hole":
        """The hole in a replay from `begin` to the stop point. Raise Refused unless it lies within."""
        start, end = LogPosition.parse(subject.start), LogPosition.parse(subject.end)
        name = subject.gtid or subject.start
        if start < begin:
            raise Refused(f"the base holds {name} already: start from an older one (--base)")
        if end > point.stop:
            raise Refused(f"{name} is not before the target anyway: leave out --skip")
        if end == point.stop:
            raise Refused(f"{name} is the last before the target: use --before {name} instead of --skip")
        return cls(subject, start, end)

    def fill(self, connection: Connection) -> None:
        """Put an empty transaction in its place."""
        for statement in (
            f"SET SESSION gtid_next = {literal(self.subject.gtid)}",
            "BEGIN",
            "COMMIT",
            "SET SESSION gtid_next = 'AUTOMATIC'",
        ):
            connection.execute(statement)

    def around(self, span: LogRange) -> Iterator[LogRange]:
        """The parts that are replayed before it, and behind it; nothing where there is no transaction."""
        names = [file.name for file in span.files]
        at = names.index(self.start.file)
        if span.start != self.start:
            yield replace(span, files=span.files[: at + 1], stop=self.start, ends_file=False)
        yield replace(span, files=span.files[at:], start=self.end)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say of a replay that fails what is missing there."""
        try:
            yield
        except VerificationFailed as failure:
            name = self.subject.gtid or self.subject.start
            raise VerificationFailed(
                f"what follows {name} cannot be applied without it ({failure}): restore --before it, and "
                "bring back what is needed with zbackup copy"
            ) from failure


_AT_ONCE: Final = 1 << 20


def copy_part(
    file: Path, copy: Path, part: tuple[int, int], *, in_place: bool, owner: tuple[int, int], mode: int
) -> None:
    """Copy what stands between two offsets of a file behind its head into a new one.

    `in_place`: at the same offsets, with a hole before them. A server cannot read such a file, which it reads
    from its beginning.
    """
    begin, end = part
    with opened(file) as scanner:
        # In front of a hole is a transaction: what comes behind the head is looked at, too.
        head = min(next((span[in_place] for span in scanner.spans()), begin), begin)
    secure_files.write_new(copy, b"", mode=mode, owner=owner)
    with secure_files.open_regular(file) as source:
        _append(source, copy, 0, head)
        if in_place:
            secure_files.truncate(copy, begin, owner[0])
        _append(source, copy, begin, end)


def _append(source: IO[bytes], copy: Path, begin: int, end: int) -> None:
    source.seek(begin)
    with secure_files.open_to_append(copy) as sink:
        left = end - begin
        while chunk := source.read(min(_AT_ONCE, left)):
            sink.write(chunk)
            left -= len(chunk)


LARGEST: Final = 64 << 20
"""The size limit of such a transaction, in bytes."""


def take_out(log: Sequence[Path], transaction: Transaction, home: Path, flavor: str) -> None:
    """Copy the transaction's log to a clone's home, unless it is too large."""
    start, stop = _ends(transaction)
    if stop.offset - start.offset > LARGEST:
        return
    file, owner = next(f for f in log if f.name == start.file), secure_files.stat(home)
    secure_files.make_directory(home / NEXT, mode=0o700)
    copy_part(
        file,
        home / NEXT / file.name,
        (start.offset, stop.offset),
        # MySQL reads the file itself. MariaDB is sent events, which say where they stood.
        in_place=flavor == "mariadb",
        owner=(owner.st_uid, owner.st_gid),
        mode=0o600,
    )


def taken_out(transaction: Transaction, home: Path) -> LogRange:
    """Return the range that take_out() kept, the end of its file. Raise Refused if it kept none."""
    start, stop = _ends(transaction)
    file = home / NEXT / start.file
    if not secure_files.exists(file):
        raise Refused(f"the transaction is larger than {LARGEST >> 20} MiB")
    end = secure_files.size(file)
    begin = LogPosition.of(file.name, end - (stop.offset - start.offset))
    return LogRange(files=(file,), start=begin, stop=LogPosition.of(file.name, end), ends_file=True)


def _ends(transaction: Transaction) -> tuple[LogPosition, LogPosition]:
    return LogPosition.parse(transaction.start), LogPosition.parse(transaction.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlRecovery:
    """Recovery for MySQL, Percona Server and MariaDB. Needs the files only, never the running server.

    In the directories `closed` a recovered server finds nothing.
    """

    flavor: str
    table: RecoveryTable
    closed: tuple[str, ...] = ()

    @property
    def memory(self) -> int:
        return self.table.memory

    # looking

    def check_program(self, record: Record) -> str:
        """The server program that can open the backup's files. Raise Refused if there is none."""
        require_own_user(record.server)
        return self._program(record)[0]

    def check_openable(self, record: Record) -> None:
        require_openable(record)

    def check_serving(self, record: Record, serving: Serving) -> None:
        """Any way will do: the server asks for logins as the original did."""

    def check_version(self, server: Mapping[str, str], version: str, members: Sequence[str] = ()) -> str:
        """The same for a running server whose datasets are mounted at `members`."""
        require_own_user(server)
        return require_elsewhere(find_program(self.table.server, self.flavor, server, version), members)[0]

    def _program(self, record: Record) -> tuple[str, ...]:
        found = find_program(self.table.server, record.engine, record.server, record.server_version)
        return require_elsewhere(found, [mountpoint for _, mountpoint in record.members])

    def only_reads(self, base: RecoveryFiles, log: BackupFiles) -> bool:
        """MariaDB gets a log through the network, MySQL copies of a small one, or one that is root's."""
        newest = covered_files(base.record, base.where)[-1]
        return _is_given(base.record, newest, covered_files(log.record, log.where))

    # acting

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
        """Open the base, prove it is what was recorded, replay to the target, and serve the result."""
        progress.phase("starting the temporary server", f"crash recovery of {base.record.called}")
        base_files, log_files = covered_files(base.record, base.where), covered_files(log.record, log.where)
        _tell_of_plugins(base, progress)
        server = self._server(_out_of_sight(base, base_files[-1], log_files))
        server.make_room()
        server.forget_identity()
        server.name_log_files()
        server.make_room_outside(tables_outside(base.record, base_files[-1], log_files))
        with server.recovering(serving) as temporary:
            with temporary.progressing():
                require_recorded_state(temporary.connection, base.record, base_files[-1])
                forget_replication(server.flavor, temporary.connection)
                doubtful = prepared_xa.prepared(server.flavor, temporary.connection)
                given = GivenSettings.give(temporary.connection, base.record.server)
            start = end_of(base.record, base.where, base_files)
            stop = effective_stop(base.record.engine, stop)
            point = find_stop_behind_base(start, base_files, BackupFiles(log.record, log.where), stop)
            hole = Hole.of(skip, start, point) if skip else None
            following = described(point.first_skipped) if proves else None
            if following:
                take_out(log_files, following, base.home, server.flavor)
            other = _other_zone(temporary, base, progress) if point.transactions else ""
            others = _other_tables(temporary, (base, log), start, progress) if point.transactions else ""
            aside = memory_tables.set_aside(temporary.connection, base.record, temporary.progressing)
            with aside, hole.explained() if hole else nullcontext():
                said = LoggedStatements()
                steps = self._replay(temporary, log, start, point, progress, said, hole=hole)
            doubts = [given.doubt(log.record.server, steps, progress), said.doubt()]
            if steps.text:
                span, newest = (start, point.stop), newest_thread(base.record)
                doubts.append(find_doubtful(log_files, span, lambda: base_files, newest))
            doubt = "; ".join(filter(None, doubts))
            progress.phase("verifying", f"that it ends at {point.stop}")
            with temporary.progressing():
                recovered = outcome(temporary.connection, base.record, point)
                recovered = replace(recovered, other_zone=other, other_settings=doubt, other_tables=others)
                if proves and following:
                    seen = look(temporary.connection, base.record, proves, following, behind=False)
                    recovered = replace(recovered, sights=(seen,))
                tell(temporary.connection, server.flavor, progress, doubtful)
                given.give_later(temporary.connection)
            progress.phase("handing over")
        return recovered

    def step_on(
        self,
        files: RecoveryFiles,
        home: Path,
        log: Record,
        following: Transaction,
        proves: ProofSubject,
        progress: Progress,
    ) -> Sight:
        span, server = taken_out(following, home), self._server(files)
        server.make_room()
        server.forget_identity()
        with server.temporary(recovers=True) as temporary:
            with temporary.progressing():
                GivenSettings.give(temporary.connection, files.record.server)
            with memory_tables.set_aside(temporary.connection, files.record, temporary.progressing):
                self._apply(temporary, log, (span, packets.one_step(span)), progress)
            with temporary.progressing():
                seen = look(temporary.connection, files.record, proves, following, behind=True)
            temporary.discard()
        return seen

    def open(self, base: RecoveryFiles, serving: Serving | None, progress: Progress) -> Recovered:
        _tell_of_plugins(base, progress)
        server = self._server(base)
        progress.phase("starting the temporary server", f"crash recovery of {base.record.called}")
        server.make_room()
        server.forget_identity()
        server.name_log_files()
        files = covered_files(base.record, base.where) if is_readable(base.record) else []
        with server.recovering(serving) as temporary:
            with temporary.progressing():
                recovered = as_it_is(temporary.connection, base.record, base.where, files)
                forget_replication(server.flavor, temporary.connection)
                GivenSettings.give(temporary.connection, base.record.server).give_later(temporary.connection)
                tell(temporary.connection, server.flavor, progress)
            progress.phase("handing over")
        return recovered

    def add_log(self, files: BackupFiles, added: Sequence[AddedFile], progress: Progress) -> LogSpan:
        return add_log(files, added, progress)

    def check_tables(self, files: RecoveryFiles, progress: Progress) -> CheckedTables:
        server = self._server(files)
        server.make_room()
        progress.phase("checking tables", files.record.called)
        with server.temporary() as temporary:
            return check_tables(temporary.connection, progress)

    @contextmanager
    def entered(self, files: RecoveryFiles, progress: Progress) -> Iterator[Entrance]:
        server = self._server(files)
        server.make_room()
        progress.phase("starting the clone's server", "for zbackup alone")
        failed: BaseException | None = None
        with server.temporary() as temporary:
            account = temporary.account
            account.drop_leftovers(temporary.connection)
            try:
                yield Entrance(socket=str(server.own.socket), user=account.user, password=account.password)
            except BaseException as failure:  # noqa: BLE001  whatever it is, the account has to go first
                failed = failure
            temporary.hand_over()
        if failed is not None:
            raise failed

    def adopt(self, files: RecoveryFiles, adoption: Adoption, progress: Progress) -> None:
        adopt(self._server(files), adoption, progress)

    def serve(self, files: RecoveryFiles, serving: Serving) -> None:
        """Start the server of a finished clone again."""
        server = self._server(files)
        server.make_room()
        server.serve(serving)

    def connection(self, run: Path, port: int, user: str = "") -> tuple[str, str]:
        """How to reach a clone's server: its socket's path, and a command line for people."""
        path = str(run / "mysqld.sock")
        client = "mysql" if self.flavor == "mysql" else "mariadb"
        where = ("--host=127.0.0.1", f"--port={port}") if port else (f"--socket={path}",)
        return path, command_line(client, *where, f"--user={user or 'root'}", "--password")

    def _server(self, files: RecoveryFiles) -> CloneServer:
        return CloneServer(
            flavor=files.record.engine,
            program=self._program(files.record),
            files=files,
            memory=self.table.memory,
            workers=self.table.workers or applier_threads(files.record.engine),
            closed=self.closed,
            stall=self.table.stall,
        )

    def _replay(
        self,
        temporary: Temporary,
        log: RecoveryFiles,
        start: LogPosition,
        point: StopPoint,
        progress: Progress,
        said: LoggedStatements,
        *,
        hole: Hole | None,
    ) -> packets.PacketSteps:
        if not point.transactions:
            return packets.NONE
        files = covered_files(log.record, log.where)
        within = [
            f for f in files if start.sequence <= LogPosition.of(f.name, 0).sequence <= point.stop.sequence
        ]
        last = last_in_file(within[-1])
        ends_file = last is not None and last.end == point.stop
        torn: dict[str, int] = {}
        for file in within:
            if (end := torn_at(file)) is not None:
                progress.note(f"{file.name} ends within an event, at {end}: what is behind it is left out")
                torn[file.name] = end
        span = LogRange(files=tuple(within), start=start, stop=point.stop, ends_file=ends_file, torn=torn)
        with temporary.progressing():
            require_all_logged(temporary.connection, span, said.take)
        progress.phase("replaying", how_many(point.transactions))
        in_place = log.home in temporary.server.files.beside
        given = temporary.server.files.record.server
        steps = packets.steps_of(span, given)
        if temporary.server.flavor == "mysql" and (said.in_order or has_archive(temporary.connection, given)):
            temporary.connection.execute("SET GLOBAL replica_parallel_workers = 1")
        self._apply(temporary, log.record, (span, steps), progress, hole=hole, in_place=in_place)
        return steps

    def _apply(
        self,
        temporary: Temporary,
        log: Record,
        wanted: tuple[LogRange, packets.PacketSteps],
        progress: Progress,
        *,
        hole: Hole | None = None,
        in_place: bool = False,
    ) -> None:
        """Have the server apply the range of a log; `in_place`: it sees these files, which are its own."""
        span, steps = wanted
        given = temporary.server.files.record.server
        if temporary.server.flavor == "mysql":
            relay = temporary.server.own.relay
            if in_place:
                replay_mysql.cut_torn(span, temporary.server.owner[0])
            else:
                span = replay_mysql.copied(span, relay)
            if hole:
                hole.fill(temporary.connection)
            with temporary.progressing() as told:
                replay_mysql.replay(temporary.connection, span, steps.steps, relay, progress, told)
            return
        recorded, version = log.server, log.server_version
        # A log is looked through once for this, where nothing is left out.
        stretches = [(s, packets.steps_of(s, given)) for s in hole.around(span)] if hole else [(span, steps)]
        for stretch, packet in (part for s, each in stretches for part in packets.parts(s, each.steps)):
            with (
                replication_source(temporary.process, stretch, recorded, version) as source,
                temporary.progressing() as told,
            ):
                replay_mariadb.replay(temporary.connection, source, stretch, packet, progress, told)


def _tell_of_plugins(base: RecoveryFiles, progress: Progress) -> None:
    for line in plugins.not_here(base.record.server):
        progress.note(line)


def _other_zone(temporary: Temporary, base: RecoveryFiles, progress: Progress) -> str:
    """Why statements that mean SYSTEM as a time zone may write other times than they did; "" if not."""
    recorded = base.record.server
    if not (years := system_zone.years_of(recorded)):
        return ""
    with temporary.progressing():
        why = system_zone.why_other(recorded, system_zone.ask(temporary.connection, years))
    if why:
        progress.note(f"warning: {why}")
    return why


def _other_tables(
    temporary: Temporary, files: tuple[RecoveryFiles, RecoveryFiles], start: LogPosition, progress: Progress
) -> str:
    """Which tables were created or dropped without the log, as far as that is found; "" if none."""
    base, log = (BackupFiles(each.record, each.where) for each in files)
    with temporary.progressing():
        told = find_unlogged_tables(temporary.connection, base, log, start)
    if told:
        progress.note(f"warning: {told}")
    return told


def _out_of_sight(base: RecoveryFiles, newest: Path, log: Sequence[Path]) -> RecoveryFiles:
    """The base's files, for a server that does not see the clone of the log, where it need not.

    `newest` is the base's own newest file of the log.
    """
    if not _is_given(base.record, newest, log):
        return base
    others = tuple(str(home) for home in base.beside if home != base.home)
    return replace(base, beside=(), hide=(*base.hide, *others))


def _is_given(record: Record, newest: Path, log: Sequence[Path]) -> bool:
    """Whether the server gets what is replayed, and need not see where it lies."""
    since = LogPosition.of(newest.name, 0).sequence
    replayed = [file for file in log if LogPosition.of(file.name, 0).sequence >= since]
    return bool(record.engine != "mysql" or record.server.get(PLAIN_LOG) or replay_mysql.is_small(replayed))
