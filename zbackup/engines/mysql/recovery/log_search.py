"""Search a binary log among files, without any server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.contents import read_contents
from zbackup.engines.mysql.binlog.events import FIRST_EVENT, SHAPE
from zbackup.engines.mysql.binlog.lost_log import goes_on_at
from zbackup.engines.mysql.binlog.reader import opened
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.engines.mysql.clone.program import DIRECTORIES
from zbackup.engines.mysql.recovery.covered_log import covered_files, is_readable
from zbackup.engines.mysql.recovery.replay_bounds import complete_with, find_named, paths_of
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import NotRecoverable, Refused, UsageError
from zbackup.model.log import LogPosition, Searched, Transaction
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead, Told, nobody
from zbackup.model.transaction_name import Gtid, TransactionName
from zbackup.proc import programs
from zbackup.proc.unprivileged_filter import filtered

TOOLS: Final = {"mysql": ("mysqlbinlog",), "mariadb": ("mariadb-binlog", "mysqlbinlog")}
_FLAGS: Final = ("--no-defaults", "-vv", "--base64-output=DECODE-ROWS", "-")
_ROW: Final = "### "
_TABLE: Final = ("INSERT INTO ", "UPDATE ", "DELETE FROM ")
_OWN_TABLE: Final = tuple(f"{verb}`mysql`." for verb in _TABLE)
_LONGEST_NUMBER: Final = len("  @4096")
_CHUNK: Final = 1 << 20


def images(
    flavor: str,
    server: Sequence[str] | None,
    files: Sequence[BackupFiles],
    subject: Transaction,
) -> Iterator[str]:
    """What mysqlbinlog says of the rows, line by line; without rows, the statements. `server` is the
    configured server program.

    Raise Refused when there is no such tool that root may run, NotRecoverable when the log has gone.
    """
    start, end = LogPosition.parse(subject.start), LogPosition.parse(subject.end)
    file = next((f for f in paths_of(files) if f.name == start.file), None)
    if file is None:
        raise NotRecoverable(f"{start.file} was purged or pruned just now")
    beside = [str(Path(word).parent) for word in server or () if word.startswith("/")]
    recorded = files[0].record.server.get("mysqld", "")
    near = [*beside, *([str(Path(recorded).parent)] if recorded.startswith("/") else [])]
    remedy = f"install the client programs of {flavor}"
    tool = programs.find_program(None, TOOLS[flavor], "", (*near, *DIRECTORIES), remedy)
    rows = of_rows(filtered((*tool, *_FLAGS), _bytes(file, start.offset, end.offset)))
    if (first := next(rows, None)) is not None:
        yield first
        yield from rows
        return
    with opened(file, end.offset) as scanner:
        span = (start.offset, end.offset)
        found = read_contents(scanner, span)
    for statement in found.statements():
        yield from (line for line in statement.splitlines() if line.strip())


def of_rows(lines: Iterator[str]) -> Iterator[str]:
    """The lines that say what rows were and became, without the values of the server's own tables: accounts
    are among those. Pure."""
    own = False
    for line in lines:
        if not line.startswith(_ROW):
            continue
        text = line.removeprefix(_ROW)
        if text.startswith(_TABLE):
            own = text.startswith(_OWN_TABLE)
        # Of a value of several lines the rest has no number.
        yield f"{text.partition('=')[0][:_LONGEST_NUMBER]}=***" if own and text.startswith(" ") else text


def _bytes(file: Path, start: int, end: int) -> Iterator[bytes]:
    """The event that describes the file, and the transaction between the two offsets."""
    with opened(file, end) as scanner:
        described = FIRST_EVENT + SHAPE.unpack_from(scanner.data, FIRST_EVENT)[1]
        for begin, behind in ((0, described), (start, end)):
            for at in range(begin, behind, _CHUNK):
                yield scanner.data[at : min(at + _CHUNK, behind)]


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
