"""Recover a mongod as of the target from a backup's files and a later holder of the oplog."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bson.timestamp import Timestamp

from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.file_owner import require_own_user
from zbackup.engines.mongodb.clone.accounts import replace_accounts
from zbackup.engines.mongodb.clone.clone_server import (
    START_LIMIT_S,
    CloneServer,
    Temporary,
    require_key,
    require_private,
)
from zbackup.engines.mongodb.clone.cluster_metadata import membership, rewrite
from zbackup.engines.mongodb.clone.identity import forget_replica_set, make_replica_set
from zbackup.engines.mongodb.clone.program import find_program
from zbackup.engines.mongodb.clone.server_options import LOOPBACK, OwnPaths
from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.append import add_commits, append
from zbackup.engines.mongodb.oplog.continuation import Continuation, continuation
from zbackup.engines.mongodb.oplog.find_stop import StopPoint, drift, find_stop, shortfall
from zbackup.engines.mongodb.oplog.oplog import Entry, Oplog, ServerOplog
from zbackup.engines.mongodb.oplog.oplog_entry import transaction
from zbackup.engines.mongodb.oplog.prepared import committed_behind
from zbackup.engines.mongodb.optime import recorded_optime, timestamp
from zbackup.engines.mongodb.recovery.added_oplog import add_oplog, archived_of, reached_by
from zbackup.engines.mongodb.recovery.as_it_is import (
    checkpoint,
    hand_over,
    replay_own,
    require_openable,
    require_replayed,
)
from zbackup.engines.mongodb.recovery.as_of import was_still
from zbackup.engines.mongodb.recovery.unfinished_indexes import drop_unfinished_indexes
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.engines.mongodb.server.named_collections import BUCKETS, named_collections, uuid_bytes
from zbackup.model.added_log import AddedFile
from zbackup.model.backup import BackupFiles
from zbackup.model.cloning import Adoption, PrivateServer
from zbackup.model.cluster import SHARD, TooLate, role_of
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.log import ClusterTime, LogSpan, Transaction
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.progress import Progress
from zbackup.model.proof import ProofSubject, Sight
from zbackup.model.record import ARCHIVED, Record
from zbackup.model.recovery import CheckedTables, Entrance, Recovered, RecoveryFiles, ReplayRange, Serving
from zbackup.model.target import Stop, time_of
from zbackup.proc.programs import require_elsewhere


def adopt(server: CloneServer, adoption: Adoption, progress: Progress) -> None:
    """See engines.base.Recovery.

    A member's collections are on disk as of its last checkpoint, and newer only in its oplog. A plain start
    would leave it at that; so it replays its own oplog first, up to where that has no holes, as it would
    after a crash. Raise VerificationFailed where it did not.
    """
    server.make_room()
    if "replica_set" in server.files.record.server and not adoption.recovered:
        progress.phase("recovering", f"the end of {server.files.record.called}")
        replay_own(server)
    progress.phase("preparing the server")
    with server.temporary("open") as opened:
        connection = opened.connection
        if not adoption.recovered:
            with opened.progressing():
                for index in drop_unfinished_indexes(connection):
                    progress.note(f"the index {index} was still being built: it is not there")
                forget_replica_set(connection)
        if adoption.prepare:
            progress.phase("masking", "on a socket that nobody else can reach")
            login = opened.login
            facts = {
                "ZBACKUP_SOCKET": login.socket,
                "ZBACKUP_USER": login.user,
                "ZBACKUP_PASSWORD": login.password() if login.password else "",
            }
            adoption.prepare(PrivateServer(facts=facts, execute=_no_sql))
        if adoption.login:
            with opened.progressing():
                replace_accounts(connection, adoption.login)
        opened.shut_down()
    progress.phase("starting the server")
    server.serve(adoption.serving).close()


def _no_sql(_: str) -> None:
    raise Refused("mongodb knows no SQL: mask with a program")


# A collection is read as a whole, with all of its indexes: the drill's own limit is what ends that.
VALIDATE_LIMIT_S = 7 * 86_400.0

# What is this server's alone, and no part of what is recovered.
OWN = ("local",)


def validate_collections(connection: Connection, progress: Progress) -> CheckedTables:
    """`validate` of every collection of all databases but the server's own."""
    found = [(d, c) for d in _databases(connection) if d not in OWN for c in _collections(connection, d)]
    damaged = []
    for number, (database, collection) in enumerate(found):
        progress.advance(number, len(found), "collections")
        said = connection.run(database, {"validate": collection}, limit_s=VALIDATE_LIMIT_S)
        if why := complaint(said):
            damaged.append(f"{database}.{collection}: {why}")
    progress.advance(len(found), len(found), "collections")
    return CheckedTables(tables=len(found), damaged=tuple(damaged))


def complaint(said: dict[str, Any]) -> str:
    """What `validate` found wrong with a collection; "" for nothing."""
    if said.get("valid"):
        return ""
    return "; ".join(str(error) for error in said.get("errors", ())) or "it is not valid"


def _databases(connection: Connection) -> list[str]:
    said = connection.command({"listDatabases": 1, "nameOnly": True})
    return [str(row["name"]) for row in said["databases"]]


def _collections(connection: Connection, database: str) -> Iterator[str]:
    wanted = {"listCollections": 1, "nameOnly": True, "filter": {"type": "collection"}}
    cursor = connection.run(database, wanted)["cursor"]
    yield from (str(row["name"]) for row in cursor["firstBatch"])
    while cursor["id"]:
        more = {"getMore": cursor["id"], "collection": "$cmd.listCollections"}
        cursor = connection.run(database, more)["cursor"]
        yield from (str(row["name"]) for row in cursor["nextBatch"])


def look(connection: Connection, proves: ProofSubject, following: Entry | None) -> tuple[Sight, ...]:
    """Return the sights before and, if the next entry shows it, after that entry."""
    if proves.table is None:
        return ()
    database, taken = proves.table.schema, _taken(following)
    found = named_collections(connection, proves.table)
    if proves.kind == "truncate":
        found = {name: uuid for name, uuid in found.items() if connection.find((database, name), {})}
    there = {(name.removeprefix(BUCKETS), uuid.hex()) for name, uuid in found.items() if uuid}
    before = Sight(tables=frozenset(there))
    if not taken:
        return (before,)
    return before, Sight(tables=frozenset(each for each in there if each[1] != taken.hex()))


def _taken(following: Entry | None) -> bytes:
    """Return the UUID of the collection that an entry drops or empties; b"" if it has none."""
    if following is None or following.get("op") != "c":
        return b""
    command = following["o"]
    if "renameCollection" in command:
        return uuid_bytes(command.get("dropTarget"))
    return uuid_bytes(following.get("ui")) if {"drop", "emptycapped"} & set(command) else b""


@contextmanager
def handed_over(server: CloneServer, serving: Serving | None, progress: Progress) -> Iterator[Temporary]:
    """A server for our own use while the body runs, and one of its users' afterwards, unless the body fails.

    With None there is none at the end.
    """
    with server.temporary("open") as finished:
        yield finished
        finished.shut_down()
    if serving:
        _serve_first(server, serving, progress)


def _serve_first(server: CloneServer, serving: Serving, progress: Progress) -> None:
    """Start it for its users; a new replica set is made by its member itself, once it runs."""
    if not serving.replica_set:
        server.serve(serving).close()
        return
    shared = serving.addresses.key if serving.addresses else ""
    if serving.host and serving.role == SHARD and serving.addresses:
        where = serving.addresses.connection(serving.addresses.config)
        progress.phase("starting the shard", f"which waits until the config server answers at {where}")
        # Its host may take hours longer than this one.
        server = replace(server, stall=START_LIMIT_S)
    login = server.by_key(shared) if server.asks_for_login else server.by_socket
    server.serve(serving).close()
    make_replica_set(login, serving.replica_set, f"{serving.host or LOOPBACK}:{serving.port}")


MOST_WORKERS = 8
"""More appliers gain nothing on one replayed log, and each has its own memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A base whose oplog has all it needs, and no more: what a server will do that starts to replay it.

    `end` is its last entry: the stop point's, or that of the last transaction behind it that belongs before
    it.
    """

    begin: Timestamp
    point: StopPoint
    end: OplogPosition
    replay: ReplayRange
    base_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoRecovery:
    """Recovery for MongoDB, from files only. See engines.base.Recovery.

    In the directories `closed` a recovered server finds nothing.
    """

    table: RecoveryTable
    closed: tuple[str, ...] = ()

    @property
    def memory(self) -> int:
        return self.table.memory

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
        require_openable(record)

    def check_serving(self, record: Record, serving: Serving) -> None:
        """Raise Refused when a port would let everybody in where the original asks for logins.

        Raise UsageError where members of a cluster lack a key.
        """
        require_private(self.table.login, record, serving)
        require_key(self.table.login, record, serving)

    def check_version(self, server: Mapping[str, str], version: str, members: Sequence[str] = ()) -> str:
        """The same for a running server whose datasets are mounted at `members`."""
        require_own_user(server)
        return require_elsewhere(find_program(self.table.server, server.get("mongod", ""), version), members)[
            0
        ]

    def only_reads(self, base: RecoveryFiles, log: BackupFiles) -> bool:
        """A mongod reads an oplog, and writes to do so."""
        return False

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
        """Merge the oplogs, let mongod recover to the stop point, and serve the result."""
        if skip is not None:
            raise Refused("nothing can be left out of an oplog")
        server = self.server_on(base)
        progress.phase("merging the oplogs", f"{base.record.called} and {log.record.called}")
        server.make_room()
        if ARCHIVED in log.record.server:
            merged = _merge_archived(server, log, stop, progress)
        else:
            merged = _merge_by_servers(server, self.server_on(log), stop, progress)
        for warning in filter(None, (shortfall(merged.point, stop), drift(merged.point, stop))):
            progress.note(warning)
        progress.phase("replaying", f"{merged.replay.transactions} oplog entries")
        with server.temporary("replay") as replayed:
            require_replayed(replayed, merged.begin, merged.end)
            replayed.shut_down()
        progress.phase("handing over")
        with handed_over(server, serving, progress) as finished:
            connection = finished.connection
            with finished.progressing():
                hand_over(connection, progress)
                role = role_of(log.record.server) or role_of(base.record.server)
                member = membership(connection, role) if role else None
                sights = look(connection, proves, merged.point.skipped) if proves else ()
                if serving and serving.addresses:
                    rewrite(connection, serving.role, serving.addresses)
        return Recovered(
            last_applied=merged.replay.last_applied,
            first_skipped=merged.replay.first_skipped,
            position=str(OplogPosition.of(merged.point.applied)),
            gtid="",
            base_exact=merged.base_exact,
            replay=merged.replay,
            clock_accepted=merged.point.disputed,
            member=member,
            sights=sights,
        )

    def step_on(
        self,
        files: RecoveryFiles,
        home: Path,
        log: Record,
        following: Transaction,
        proves: ProofSubject,
        progress: Progress,
    ) -> Sight:
        """See engines.base.Recovery. Not needed: an entry shows what it does to a collection, see sight."""
        raise Refused("the next entry of the oplog does not name the collection by its UUID")

    def open(self, base: RecoveryFiles, serving: Serving | None, progress: Progress) -> Recovered:
        server = self.server_on(base)
        progress.phase("opening the backup", base.record.called)
        server.make_room()
        reached = replay_own(server)
        progress.phase("handing over")
        with handed_over(server, serving, progress) as finished:
            connection = finished.connection
            with finished.progressing():
                hand_over(connection, progress)
        return Recovered(
            last_applied=transaction(reached) if reached else None,
            first_skipped=None,
            position=str(OplogPosition.of(reached)) if reached else "",
            gtid="",
            base_exact=was_still(base.record),
        )

    def add_log(self, files: BackupFiles, added: Sequence[AddedFile], progress: Progress) -> LogSpan:
        return add_oplog(files, added, progress)

    def contains(self, files: BackupFiles, position: str) -> bool:
        return archived_of(files).contains(OplogPosition.parse(position))

    def check_tables(self, files: RecoveryFiles, progress: Progress) -> CheckedTables:
        server = self.server_on(files)
        server.make_room()
        progress.phase("checking collections", files.record.called)
        with server.temporary("open", disposable=True) as opened:
            return validate_collections(opened.connection, progress)

    @contextmanager
    def entered(self, files: RecoveryFiles, progress: Progress) -> Iterator[Entrance]:
        server = self.server_on(files)
        server.make_room()
        progress.phase("starting the clone's server", "for zbackup alone")
        with server.temporary("open") as opened:
            opened.connection.close()
            login = opened.login
            yield Entrance(
                socket=login.socket, user=login.user, password=login.password() if login.password else ""
            )

    def adopt(self, files: RecoveryFiles, adoption: Adoption, progress: Progress) -> None:
        adopt(self.server_on(files), adoption, progress)

    def serve(self, files: RecoveryFiles, serving: Serving) -> None:
        """Start the server of a finished clone again."""
        server = self.server_on(files)
        server.make_room()
        server.serve(serving).close()

    def connection(self, run: Path, port: int, user: str = "") -> tuple[str, str]:
        """How to reach a clone's server: its socket's path, and a command line for people."""
        path = str(OwnPaths(home=run, run=run).socket)
        host = f"127.0.0.1:{port}" if port else quote(path, safe="")
        login = ("--username", user, "--authenticationDatabase", "admin") if user else ()
        return path, command_line("mongosh", f"mongodb://{host}/?directConnection=true", *login)

    def _program(self, record: Record) -> tuple[str, ...]:
        found = find_program(self.table.server, record.server.get("mongod", ""), record.server_version)
        return require_elsewhere(found, [mountpoint for _, mountpoint in record.members])

    def server_on(self, files: RecoveryFiles) -> CloneServer:
        """The mongod of a clone's files, which this does not start."""
        return CloneServer(
            program=self._program(files.record),
            files=files,
            memory=self.table.memory,
            workers=self.table.workers or min(os.cpu_count() or 1, MOST_WORKERS),
            login=self.table.login,
            closed=self.closed,
            stall=self.table.stall,
        )


def _merge_by_servers(server: CloneServer, source: CloneServer, stop: Stop, progress: Progress) -> Merged:
    """Merge with the oplog in a log source's files, read by a server on them."""
    source.make_room()
    record = source.files.record
    # Side by side: each takes a second to start, most of it waiting for the disk.
    with source.temporary("open", disposable=True) as reading, server.temporary("open") as opened:
        # Both answer before they are watched together: only then they have nothing to do but this.
        _, log = opened.connection, ServerOplog(reading.connection)
        with opened.progressing(reading.process):
            merged = _merge(opened, log, record, stop, record.taken, progress, whole=was_still(record))
        opened.shut_down()
    return merged


def _merge_archived(server: CloneServer, log: RecoveryFiles, stop: Stop, progress: Progress) -> Merged:
    """Merge with archived oplog, which takes no server to be read."""
    with server.temporary("open") as opened:
        _ = opened.connection
        with opened.progressing():
            merged = _merge(opened, archived_of(log), log.record, stop, reached_by(log), progress, whole=True)
        opened.shut_down()
    return merged


def _merge(
    opened: Temporary,
    log: Oplog,
    source: Record,
    stop: Stop,
    taken: datetime,
    progress: Progress,
    *,
    whole: bool,
) -> Merged:
    """Make the base's oplog end at the stop point, complete; see continuation for what is proved before.

    `source` is the log source's record, `taken` is when nothing of it was written any more, and `whole` says
    that it has no holes.
    """
    base = opened.connection
    begin = checkpoint(opened)
    continued = continuation(base, log, whole=whole)
    base_exact = _require_recorded(base, log, opened.server.files.record)
    point = find_stop(log, continued, begin, stop, taken)
    # A set that became a shard behind the base was none when that was taken.
    if isinstance(stop, ClusterTime) and (
        role_of(opened.server.files.record.server) or role_of(source.server)
    ):
        commits = _late_commits(ServerOplog(base), log, stop, continued, point)
    else:
        commits = ()
    entries, bytes_ = append(base, log, continued, point.applied["ts"], progress)
    end = add_commits(base, point.applied, commits, progress)
    oplog.end_at(base, timestamp(end))
    replay = ReplayRange(
        last_applied=transaction(point.applied),
        first_skipped=transaction(point.skipped) if point.skipped else None,
        transactions=entries,
        log_bytes=bytes_,
        out_of_order=point.behind,
        effective_target=time_of(stop),
    )
    return Merged(begin=begin, point=point, end=end, replay=replay, base_exact=base_exact)


def _late_commits(
    base: Oplog, log: Oplog, stop: ClusterTime, continued: Continuation, point: StopPoint
) -> tuple[bytes, ...]:
    """The commits that come later, for a cluster's member with a cluster time as target: see prepared."""
    if point.skipped is None:
        end = OplogPosition.of(point.applied)
        raise TooLate(
            f"the log source's oplog is sure up to {end}, and nothing in it is from {stop} on: that the "
            "member wrote no more before that is not known; take a snapshot and restore again, or restore "
            "every member to an earlier cluster time",
            ClusterTime(end.seconds, end.increment),
        )
    wanted = Timestamp(stop.seconds, stop.increment)
    return committed_behind(base, log, continued.anchor, wanted, continued.sure)


def _require_recorded(base: Connection, log: Oplog, record: Record) -> bool:
    """The entry that was recorded as the oplog's end must be in the log source, if not lost in the base too.

    Under a lock it is the base's own end, or behind a hole that the log source fills. Whether it was.
    """
    recorded = recorded_optime(record)
    if recorded is None:
        return False
    found = oplog.at(log, timestamp(recorded))
    if found is None or OplogPosition.of(found) != recorded:
        raise NotRecoverable(
            f"{recorded}, recorded as the end of the base's oplog, is not in the log source: it was rolled "
            "back; start from an older backup (--base)"
        )
    end = OplogPosition.of(oplog.last(ServerOplog(base)))
    return record.lock == "fsync" and end <= recorded
