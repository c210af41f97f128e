"""Tell what happened, by the log among backups' files and the server's own."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.engines.mysql.recovery.covered_log import is_readable
from zbackup.engines.mysql.recovery.replay_bounds import files_of
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Refused
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead, Told


def history(parts: Sequence[BackupFiles], wanted: LogFilter, told: Told) -> Iterator[LogEntry | LogRead]:
    """See engines.base.Recovery. Raise Refused where the server keeps no log, or an encrypted one."""
    newest = parts[0][0]
    if not is_readable(newest):
        raise Refused(f"the log cannot be read: {'; '.join(newest.blockers)}")
    folded = replace(wanted, fold=newest.server.get("lower_case_table_names", "0") != "0")
    yield from search(files_of(parts), folded, told)
