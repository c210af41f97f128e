"""Search a binary log among files, without any server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from zbackup.engines.mysql.binlog.lost_log import goes_on_at
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.engines.mysql.recovery.covered_log import covered_files, is_readable
from zbackup.engines.mysql.recovery.images import images
from zbackup.engines.mysql.recovery.replay_bounds import complete_with, find_named, paths_of
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Refused, UsageError
from zbackup.model.log import Searched, Transaction
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead, Told, nobody
from zbackup.model.transaction_name import Gtid, TransactionName


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlLogSearch:
    """Searches the log of MySQL, Percona Server and MariaDB. `server` is the configured server program."""

    flavor: str
    server: tuple[str, ...] | None = None

    def check_name(self, name: TransactionName) -> None:
        """A GTID has to be of the flavour."""
        if isinstance(name, Gtid) and name.flavor != self.flavor:
            words = {"mysql": "UUID:NUMBER", "mariadb": "DOMAIN-SERVER-NUMBER"}[self.flavor]
            raise UsageError(f"{name} is no GTID of a {self.flavor} server: there they are {words}")

    def find(self, name: TransactionName, files: Sequence[BackupFiles]) -> Searched:
        return find_named(name, files)

    def history(
        self, files: Sequence[BackupFiles], wanted: LogFilter, told: Told = nobody
    ) -> Iterator[LogEntry | LogRead]:
        """See engines.log_search.FileSearch.

        Raise Refused where the server keeps no log, or an encrypted one.
        """
        newest = files[0].record
        if not is_readable(newest):
            raise Refused(f"the log cannot be read: {'; '.join(newest.blockers)}")
        folded = replace(wanted, fold=newest.server.get("lower_case_table_names", "0") != "0")
        yield from search(paths_of(files), folded, told, complete_with(files))

    def goes_on_at(self, newest: BackupFiles) -> str:
        return goes_on_at(covered_files(*newest)[-1], newest.record.log_to)

    def images(self, files: Sequence[BackupFiles], subject: Transaction) -> Iterator[str]:
        return images(self.flavor, self.server, files, subject)
