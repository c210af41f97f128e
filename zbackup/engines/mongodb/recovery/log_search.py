"""Search an oplog by a mongod: the one that runs, or one on a clone's files."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from zbackup.engines.mongodb.oplog.oplog import ServerOplog
from zbackup.engines.mongodb.oplog.search_by_filter import (
    Pending,
    live_history,
    live_operations,
    operations,
    search,
)
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.recovery.added_oplog import archived_of, reaches_back
from zbackup.engines.mongodb.recovery.recover import MongoRecovery
from zbackup.model.errors import Refused
from zbackup.model.log import ClusterTime
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.record import ARCHIVED
from zbackup.model.recovery import RecoveryFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoLogSearch:
    """Searches the oplog of one instance. `connect` leads to the running server, None where nobody said."""

    recovery: MongoRecovery
    connect: ConnectOptions | None = None

    def live(self, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        return live_history(self._reached(), wanted)

    def on_clone(self, files: RecoveryFiles, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        """See engines.log_search.ServerSearch. Archived entries that were added to a clone take no server."""
        server, name = self.recovery.server_on(files), files.record.called
        archived = archived_of(files) if ARCHIVED in files.record.server else None
        pending: Pending = {}
        alone = archived is not None and reaches_back(archived, files.record, wanted)
        added = wanted if alone else replace(wanted, follows="")
        if archived and wanted.backwards:
            yield from search(archived, added, name)
        if not alone:
            server.make_room()
            with server.temporary("open", disposable=True) as reading:
                yield from search(ServerOplog(reading.connection), wanted, name, archived, pending)
        if archived and not wanted.backwards:
            yield from search(archived, added, name, pending=pending)

    def images(self, at: ClusterTime, files: RecoveryFiles | None = None) -> Iterator[str]:
        if files is None:
            yield from live_operations(self._reached(), at)
            return
        server = self.recovery.server_on(files)
        server.make_room()
        with server.temporary("open", disposable=True) as reading:
            yield from operations(ServerOplog(reading.connection), at, files.record.called)

    def _reached(self) -> ConnectOptions:
        if self.connect is None:
            raise Refused("the configuration does not say how to reach the server")
        return self.connect
