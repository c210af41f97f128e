"""A snapshot to read the log from, taken when a recovery needs one. The server is not asked.

A recovery must be possible while the server is down, and logs need no lock: whatever was acknowledged some
time before the snapshot is in them, and how long before, the engine knows.
"""

import time
import uuid
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from zbackup.catalog.local import Catalog
from zbackup.jobs.backup.complete_record import finish
from zbackup.jobs.backup.snapshot import UNLOCKED_LIMIT_S, find, free_name
from zbackup.jobs.context import Context, live_files, mounted
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.errors import DatabaseError
from zbackup.model.log import LOG_BEHIND
from zbackup.model.record import Record, to_properties

NOTHING_SAID: Final[Mapping[str, str]] = MappingProxyType({})


def snapshot_log(
    ctx: Context,
    catalog: Catalog,
    before: Sequence[Backup],
    like: Record,
    position: str = "",
    said: Mapping[str, str] = NOTHING_SAID,
) -> Backup:
    """Take it, with what `like` knows of the server, so that the log is found in it.

    `before` are the backups there are. `position` is up to where the log certainly leads, if that is known,
    and `said` what else is to be recorded of the server.
    """
    time.sleep(ctx.log_reader.log_delay_s)
    # A copy of the log has what was acknowledged before it is brought up to date, and maybe no more.
    taken, clock = ctx.clock.now(), ctx.clock.reading()
    if behind := log_behind(ctx, catalog, like):
        said = {**said, LOG_BEHIND: behind}
    members = tuple(sorted(mounted(catalog.datasets).items()))
    record = Record(
        backup=str(uuid.uuid4()),
        instance=ctx.instance,
        engine=like.engine,
        purpose="log",
        members=members,
        taken=taken,
        clock=clock,
        lock="none",
        server_uuid=like.server_uuid,
        server_version=like.server_version,
        role=like.role,
        position=position,
        server={**like.server, **said},
    )
    name = free_name(ctx, catalog)
    names = [f"{dataset}@{name}" for dataset, _ in members]
    ctx.zfs.snapshot(names, to_properties(record), timeout=UNLOCKED_LIMIT_S)
    return finish(ctx, find(ctx, record, names), catalog.all_datasets, before)


def log_behind(ctx: Context, catalog: Catalog, like: Record) -> str:
    """Have a log that is a copy brought up to date; return why it is not, as while the server is down."""
    try:
        ctx.log_reader.bring_up_to_date(BackupFiles(like, live_files(catalog.datasets)))
    except DatabaseError as failure:
        return " ".join(str(failure).split())
    return ""
