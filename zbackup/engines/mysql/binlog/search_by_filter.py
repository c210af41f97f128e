"""Search a log's files for the transactions that did something."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from zbackup.engines.mysql.binlog.compressed import COMPRESSED_TEXT
from zbackup.engines.mysql.binlog.contents import Contents, kinds_of, read_contents
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogEncrypted, BinlogTooOld
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    MARIADB_FLAGS_AT,
    MARIADB_STANDALONE,
    SIZE,
    Buffer,
)
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.lost_log import Complete, is_too_old, lost_before
from zbackup.engines.mysql.binlog.reader import describe, microseconds, opened
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.temporary_tables import OpenTables
from zbackup.model.log import LogPosition
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead, Told, Touched, nobody
from zbackup.model.table_name import EVERY_TABLE, separated
from zbackup.proc import secure_files

TOLD_EVERY: Final = 1 << 22
"""Bytes between two words on how far the reading is."""

NOTHING_KNOWN: Final[Complete] = MappingProxyType({})

_CHUNK: Final = 1 << 20


def search(
    files: Sequence[Path], wanted: LogFilter, told: Told = nobody, complete: Complete = NOTHING_KNOWN
) -> Iterator[LogEntry | LogRead]:
    """The transactions that are wanted, in log order, and behind those of each file what was read of it.

    `files` are of one log, oldest first. One that ends before the position `wanted.after` was begun again
    (RESET BINARY LOGS), and is read from its beginning. A file that is damaged, encrypted or gone
    does not keep the others from being read: its LogRead says so, and one of its own where log is lost
    between two, or in front of the first (`wanted.follows`). `told` hears how far the reading is.
    `complete` is what is known of them (see lost_log.Complete).
    """
    temporary = OpenTables(files)
    after = _still_there(files, LogPosition.parse(wanted.after)) if wanted.after else None
    numbered = list(enumerate(files))
    for number, path in reversed(numbered) if wanted.backwards else numbered:
        if after and sequence(path.name) < after.sequence:
            continue
        start = after.offset if after and after.file == path.name else FIRST_EVENT
        newest = number == len(files) - 1
        if not newest and is_too_old(files[number + 1], wanted):
            continue
        lacking = lost_before(files, number, wanted, after, complete)
        if not wanted.backwards:
            yield from lacking
        yield from _search_file(path, wanted, (start, newest), temporary, told)
        if wanted.backwards:
            yield from lacking


def _still_there(files: Sequence[Path], after: LogPosition) -> LogPosition | None:
    """The position, unless the log does not reach it any more."""
    try:
        end = LogPosition.of(files[-1].name, secure_files.size(files[-1])) if files else after
    except OSError:
        return after
    return after if after <= end else None


def _search_file(
    path: Path, wanted: LogFilter, where: tuple[int, bool], temporary: OpenTables, told: Told
) -> Iterator[LogEntry | LogRead]:
    start, newest = where
    size = reached = 0
    problem, damaged, torn = "", False, False
    try:
        size = secure_files.size(path)
        with opened(path, size) as scanner:
            try:
                yield from _search_spans(path, scanner, wanted, start, temporary, told)
            finally:
                reached = max(scanner.reached, start)
        if reached < size and not newest:
            torn = True
            problem = f"{path.name} ends within an event: its last {size - reached} bytes are no transaction"
    except BinlogDamaged as failure:
        damaged = True
        problem = f"{failure}: its last {size - reached} bytes were not read"
    except (BinlogEncrypted, BinlogTooOld) as failure:
        problem = str(failure)
    except OSError as failure:
        problem = f"{path.name} cannot be read: {failure.strerror}"
    end = str(LogPosition.of(path.name, max(reached, FIRST_EVENT)))
    yield LogRead(name=path.name, size=size, end=end, problem=problem, damaged=damaged, torn=torn)


def _search_spans(
    path: Path, scanner: Scanner, wanted: LogFilter, start: int, temporary: OpenTables, told: Told
) -> Iterator[LogEntry]:
    data = scanner.data
    since = microseconds(wanted.since) if wanted.since else 0
    until = microseconds(wanted.until) if wanted.until else 1 << 63
    may_matter = _suspicion(scanner, wanted)
    is_wanted = _WantedTables(wanted).is_wanted
    next_told = start
    # What is damaged might be what is wanted.
    for begin, end, committed in scanner.spans(start, prove=True):
        if begin >= next_told:
            told(path.name, begin, len(data))
            next_told = begin + TOLD_EVERY
        if since <= committed < until and may_matter(begin, end):
            opened_before = partial(_open_before, wanted, temporary, (path, begin))
            found = read_contents(scanner, (begin, end), opened_before, proven=True)
            if is_wanted(found):
                entry = found.entry(describe(path, scanner, (begin, end, committed)).described(), end - begin)
                if wanted.admits(entry):
                    yield entry


def _open_before(
    wanted: LogFilter, temporary: OpenTables, where: tuple[Path, int], thread: int, names: Iterable[str]
) -> set[str]:
    """The temporary tables of a thread; none where no table is wanted that one could hide."""
    if wanted.tables and not any(wanted.admits_name(name) for name in names):
        return set()
    return temporary.before(*where, thread)


class _WantedTables:
    """The decision whether a transaction's tables are wanted, asked once of each table and what is done to
    it."""

    def __init__(self, wanted: LogFilter) -> None:
        self._wanted, self._any = wanted, not (wanted.tables or wanted.kinds)
        self._known: dict[tuple[str, int], bool] = {}

    def is_wanted(self, found: Contents) -> bool:
        return self._any or any(map(self._table, found.tables.items()))

    def _table(self, pair: tuple[str, int]) -> bool:
        known = self._known.get(pair)
        if known is None:
            if len(self._known) > _CHUNK:
                self._known.clear()
            known = self._known[pair] = self._wanted.admits_table(Touched(pair[0], kinds_of(pair[1])))
        return known


def _suspicion(scanner: Scanner, wanted: LogFilter) -> Callable[[int, int], bool]:
    """Return what chooses the transactions to look into: the others have no name that is wanted in their
    bytes.

    Those of two events (on MariaDB: of one statement) are always looked into: it may drop a whole schema, and
    a compressed one hides its names. Where names differ in case only, or may be written in two ways, all are.
    """
    pairs = map(separated, wanted.tables)
    names = {schema if table in ("", EVERY_TABLE) else table for schema, table in pairs}
    plain = all(name.isascii() and "`" not in name and '"' not in name for name in names)
    if not names or not plain or wanted.fold:
        return _always
    data, mariadb = scanner.data, scanner.is_mariadb
    finders, servers, named = [Finder(data, name.encode()) for name in names], set[bytes](), -1
    size_at = partial(SIZE.unpack_from, data)

    def is_suspect(begin: int, end: int) -> bool:
        nonlocal named
        if mariadb and (server := data[begin + 5 : begin + 9]) not in servers:
            servers.add(server)
            finders.append(Finder(data, COMPRESSED_TEXT + server))
            named = -1
        if named < begin:
            named = min(finder.at(begin) for finder in finders)
        if named < end:
            return True
        if mariadb:
            return bool(data[begin + MARIADB_FLAGS_AT] & MARIADB_STANDALONE)
        second = begin + size_at(begin)[0]
        return bool(second + size_at(second)[0] >= end)

    return is_suspect


def _always(_begin: int, _end: int) -> bool:
    return True


class Finder:
    """Finds the next offset of some bytes, going forward.

    A mapped file's own find compares byte by byte.
    """

    def __init__(self, data: Buffer, wanted: bytes) -> None:
        self._data, self._wanted = data, wanted
        self._found = -1
        self._chunk, self._base = b"", 0

    def at(self, start: int) -> int:
        """The first offset from `start` on; one behind the data's end if there is none."""
        if self._found >= start:
            return self._found
        base, chunk = self._base, self._chunk
        at = max(start, base)
        while True:
            found = chunk.find(self._wanted, at - base) if at < base + len(chunk) else -1
            if found >= 0:
                break
            at = max(start, base + max(0, len(chunk) - len(self._wanted) + 1)) if chunk else start
            base, chunk = at, self._data[at : at + _CHUNK]
            if len(chunk) < len(self._wanted):
                self._found = len(self._data) + 1
                return self._found
        self._base, self._chunk = base, chunk
        self._found = base + found
        return self._found
