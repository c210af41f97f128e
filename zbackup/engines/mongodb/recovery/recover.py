"""From a backup's files and a later holder of the oplog to a mongod as of the target."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.clone.clone_server import CloneServer, Temporary, require_private
from zbackup.engines.mongodb.clone.cluster_metadata import rewrite
from zbackup.engines.mongodb.clone.identity import make_replica_set
from zbackup.engines.mongodb.clone.program import find_program
from zbackup.engines.mongodb.clone.server_options import Place
from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.append import add_commits, append
from zbackup.engines.mongodb.oplog.continuation import Continuation, continuation
from zbackup.engines.mongodb.oplog.find_stop import Cut, find_stop, shortfall
from zbackup.engines.mongodb.oplog.oplog_entry import transaction
from zbackup.engines.mongodb.oplog.prepared import committed_behind
from zbackup.engines.mongodb.oplog.search_by_filter import search
from zbackup.engines.mongodb.optime import OpTime, recorded_optime
from zbackup.engines.mongodb.options import Login
from zbackup.engines.mongodb.recovery.adopt import adopt
from zbackup.engines.mongodb.recovery.as_it_is import (
    checkpoint,
    hand_over,
    replay_own,
    require_openable,
    require_replayed,
)
from zbackup.engines.mongodb.recovery.reach import was_still
from zbackup.engines.mongodb.recovery.validate import validate_collections
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.engines.owner import require_own_user
from zbackup.engines.stall import STALL_S
from zbackup.model.added_log import AddedFile
from zbackup.model.backup import BackupFiles
from zbackup.model.cloning import Adoption
from zbackup.model.cluster import TooLate, role_of
from zbackup.model.copying import Entrance
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.log import ClusterTime, LogSpan, Transaction
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.progress import Progress
from zbackup.model.record import Record
from zbackup.model.recovery import Checked, Files, Recovered, ReplayRange, Serving
from zbackup.model.target import Stop, time_of
from zbackup.proc.programs import require_elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A base whose oplog has all it needs, and no more: what a server will do that starts to replay it.

    `end` is its last entry: the cut's, or that of the last transaction behind it that belongs before it.
    """

    begin: Timestamp
    cut: Cut
    end: OpTime
    replay: ReplayRange
    base_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoRecovery:
    """Recovery for MongoDB, from files only. See engines.base.Recovery.

    In the directories `closed` a recovered server finds nothing.
    """

    server: tuple[str, ...] | None
    memory: int
    workers: int
    login: Login = "original"
    closed: tuple[str, ...] = ()
    stall: float = STALL_S

    # looking

    def check_program(self, record: Record) -> str:
        """The mongod that can open the backup's files. Raise Refused if there is none."""
        if record.server.get("encryption"):
            raise Refused(
                "the files are encrypted by mongod, and zbackup does not start a server with their key"
            )
        require_own_user(record.server)
        return self._program(record)[0]

    def check_openable(self, record: Record) -> None:
        """See engines.base.Recovery."""
        require_openable(record)

    def check_serving(self, record: Record, serving: Serving) -> None:
        """Raise Refused when a port would let everybody in where the original asks for logins."""
        require_private(self.login, record, serving)

    def check_version(self, server: Mapping[str, str], version: str, members: Sequence[str] = ()) -> str:
        """The same for a running server whose datasets are mounted at `members`."""
        require_own_user(server)
        return require_elsewhere(find_program(self.server, server.get("mongod", ""), version), members)[0]

    # acting

    def recover(
        self,
        base: Files,
        log: Files,
        stop: Stop,
        serving: Serving | None,
        progress: Progress,
        *,
        skip: Transaction | None = None,
    ) -> Recovered:
        """Merge the oplogs, let mongod recover to the cut, and serve the result."""
        if skip is not None:
            raise Refused("nothing can be left out of an oplog")
        server, source = self._server(base), self._server(log)
        progress.phase("merging the oplogs", f"{base.record.called} and {log.record.called}")
        server.make_room()
        source.make_room()
        # Side by side: each takes a second to start, most of it waiting for the disk.
        with source.temporary("open", disposable=True) as reading, server.temporary("open") as opened:
            # Both answer before they are watched together: only then they have nothing to do but this.
            _ = opened.connection, reading.connection
            with opened.progressing(reading.process):
                merged = _merge(opened, reading, stop, progress)
            opened.shut_down()
        if warning := shortfall(merged.cut, stop):
            progress.note(warning)
        progress.phase("replaying", f"{merged.replay.transactions} oplog entries")
        with server.temporary("replay") as replayed:
            require_replayed(replayed, merged.begin, merged.end)
            replayed.shut_down()
        progress.phase("handing over")
        with server.temporary("open") as finished:
            connection = finished.connection
            with finished.progressing():
                hand_over(connection, progress)
                if serving and serving.addresses:
                    rewrite(connection, serving.role, serving.addresses)
            finished.shut_down()
        if serving:
            _serve_first(server, serving)
        return Recovered(
            last_applied=merged.replay.last_applied,
            first_skipped=merged.replay.first_skipped,
            position=str(OpTime.of(merged.cut.applied)),
            gtid="",
            base_exact=merged.base_exact,
            replay=merged.replay,
            clock_accepted=merged.cut.disputed,
        )

    def open(self, base: Files, serving: Serving | None, progress: Progress) -> Recovered:
        """See engines.base.Recovery."""
        server = self._server(base)
        progress.phase("opening the backup", base.record.called)
        server.make_room()
        reached = replay_own(server)
        progress.phase("handing over")
        with server.temporary("open") as finished:
            connection = finished.connection
            with finished.progressing():
                hand_over(connection, progress)
            finished.shut_down()
        if serving:
            _serve_first(server, serving)
        return Recovered(
            last_applied=transaction(reached) if reached else None,
            first_skipped=None,
            position=str(OpTime.of(reached)) if reached else "",
            gtid="",
            base_exact=was_still(base.record),
        )

    def add_log(self, files: BackupFiles, added: Sequence[AddedFile], progress: Progress) -> LogSpan:
        """See engines.base.Recovery."""
        raise NotRecoverable("an archived oplog cannot be restored from yet")

    def history_of(self, files: Files, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        """See engines.base.Recovery."""
        server = self._server(files)
        server.make_room()
        with server.temporary("open", disposable=True) as reading:
            yield from search(reading.connection, wanted, files.record.called)

    def images(self, parts: Sequence[BackupFiles], subject: Transaction) -> Iterator[str]:
        """See engines.base.Recovery."""
        raise Refused("an oplog entry has no image of what was there before: restore to before it, and look")

    def check_tables(self, files: Files, progress: Progress) -> Checked:
        """See engines.base.Recovery."""
        server = self._server(files)
        server.make_room()
        progress.phase("checking collections", files.record.called)
        with server.temporary("open", disposable=True) as opened:
            return validate_collections(opened.connection, progress)

    @contextmanager
    def entered(self, files: Files, progress: Progress) -> Iterator[Entrance]:
        """See engines.base.Recovery."""
        server = self._server(files)
        server.make_room()
        progress.phase("starting the clone's server", "for zbackup alone")
        with server.temporary("open") as opened:
            opened.connection.close()
            login = opened.login
            yield Entrance(
                socket=login.socket, user=login.user, password=login.password() if login.password else ""
            )

    def adopt(self, files: Files, adoption: Adoption, progress: Progress) -> None:
        """See engines.base.Recovery."""
        adopt(self._server(files), adoption, progress)

    def serve(self, files: Files, serving: Serving) -> None:
        """Start the server of a finished clone again."""
        server = self._server(files)
        server.make_room()
        server.serve(serving).close()

    def connection(self, run: Path, port: int, user: str = "") -> tuple[str, str]:
        """Tell how to reach a clone's server: its socket's path, and a command line for people."""
        path = str(Place(home=run, run=run).socket)
        host = f"127.0.0.1:{port}" if port else quote(path, safe="")
        login = ("--username", user, "--authenticationDatabase", "admin") if user else ()
        return path, shlex.join(("mongosh", f"mongodb://{host}/?directConnection=true", *login))

    def _program(self, record: Record) -> tuple[str, ...]:
        found = find_program(self.server, record.server.get("mongod", ""), record.server_version)
        return require_elsewhere(found, [mountpoint for _, mountpoint in record.members])

    def _server(self, files: Files) -> CloneServer:
        return CloneServer(
            program=self._program(files.record),
            files=files,
            memory=self.memory,
            workers=self.workers,
            login=self.login,
            closed=self.closed,
            stall=self.stall,
        )


def _merge(
    opened: Temporary,
    reading: Temporary,
    stop: Stop,
    progress: Progress,
) -> Merged:
    """Make the base's oplog end at the cut, complete; see continuation for what is proved before."""
    base, log = opened.connection, reading.connection
    begin = checkpoint(opened)
    continued = continuation(base, log, whole=was_still(reading.server.files.record))
    base_exact = _require_recorded(base, log, opened.server.files.record)
    taken = reading.server.files.record.taken
    cut = find_stop(log, continued, begin, stop, taken)
    commits = _late_commits(log, opened.server.files.record, stop, continued, cut)
    entries, bytes_ = append(base, log, continued, cut.applied["ts"], progress)
    end = add_commits(base, cut.applied, commits, progress)
    oplog.end_at(base, end.ts)
    replay = ReplayRange(
        last_applied=transaction(cut.applied),
        first_skipped=transaction(cut.skipped) if cut.skipped else None,
        transactions=entries,
        log_bytes=bytes_,
        out_of_order=cut.behind,
        effective_target=time_of(stop),
    )
    return Merged(begin=begin, cut=cut, end=end, replay=replay, base_exact=base_exact)


def _late_commits(
    log: Connection, record: Record, stop: Stop, continued: Continuation, cut: Cut
) -> tuple[bytes, ...]:
    """Of a cluster's member that is cut at a cluster time: see prepared."""
    if not isinstance(stop, ClusterTime) or not role_of(record.server):
        return ()
    if cut.skipped is None:
        end = OpTime.of(cut.applied)
        raise TooLate(
            f"the log source's oplog is sure up to {end}, and nothing in it is from {stop} on: that the "
            "member wrote no more before that is not known; take a snapshot and restore again, or restore "
            "every member to an earlier cluster time",
            ClusterTime(end.seconds, end.increment),
        )
    return committed_behind(log, Timestamp(stop.seconds, stop.increment), continued.sure)


def _require_recorded(base: Connection, log: Connection, record: Record) -> bool:
    """The entry that was recorded as the oplog's end must be in the log source, if not lost in the base too.

    Under a lock it is the base's own end, or behind a hole that the log source fills. Whether it was.
    """
    recorded = recorded_optime(record)
    if recorded is None:
        return False
    found = oplog.at(log, recorded.ts)
    if found is None or OpTime.of(found) != recorded:
        raise NotRecoverable(
            f"{recorded}, recorded as the end of the base's oplog, is not in the log source: it was rolled "
            "back; start from an older backup (--base)"
        )
    end = OpTime.of(oplog.last(base))
    return record.lock == "fsync" and end <= recorded


def _serve_first(server: CloneServer, serving: Serving) -> None:
    """Start it for its users; a new replica set is made by its member itself, once it runs."""
    if not serving.replica_set:
        server.serve(serving).close()
        return
    shared = serving.addresses.key if serving.addresses else ""
    login = server.by_key(shared) if server.asks_for_login else server.by_socket
    server.serve(serving).close()
    make_replica_set(login, serving.replica_set, serving.port)
