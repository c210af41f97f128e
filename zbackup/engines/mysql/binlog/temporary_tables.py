"""Follow the temporary tables of each session through a log, and find statements that use one which the
server they are replayed on cannot have.

A session's temporary table hides the real one of its name. It is in no backup: its later statements, where
they are logged as text, would hit a real table of that name, or none. A server marks what it logs of a
session's temporary tables, and of CONNECTION_ID(), as of that thread alone (LOG_EVENT_THREAD_SPECIFIC_F; what
mysqlbinlog prints "pseudo_thread_id" for), and replays statements by their threads' numbers. Those of a
server grow until it is started again, which ends all sessions.
"""

import struct
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Final

from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.compressed import (
    LARGEST,
    QUERY_COMPRESSED,
    hides_text,
    inner_events,
    uncompress,
)
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    HEADER_SIZE,
    QUERY,
    TRANSACTION_PAYLOAD,
    Buffer,
)
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.position import described
from zbackup.engines.mysql.binlog.query_status import QueryStatus, read_status
from zbackup.engines.mysql.binlog.reader import describe, opened
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.span_memory import Span
from zbackup.engines.mysql.binlog.word_finder import WordFinder
from zbackup.engines.mysql.sql.grammar import Kinds, Statement
from zbackup.engines.mysql.sql.lexer import Token
from zbackup.model.errors import ZbackupError
from zbackup.model.log import LogPosition, Transaction
from zbackup.model.table_name import joined, separated
from zbackup.model.unreplayable import Unreplayable
from zbackup.proc import secure_files

OF_ONE_THREAD: Final = 4
"""Flag of an event that is logged as of one thread alone. MariaDB sets it for whatever drops a table, too."""

_HEAD: Final = Struct("<4x B 4x I 4x H")
_QUERY_HEAD: Final = Struct("<I 4x B 2x H")
_QUERY_FIXED: Final = 13
_LOAD_FIXED: Final = 13
_EXECUTE_LOAD_QUERY: Final = 18
_QUERIES: Final = frozenset({QUERY, QUERY_COMPRESSED, _EXECUTE_LOAD_QUERY})
_CREATED: Final = slice(FIRST_EVENT + HEADER_SIZE + 52, FIRST_EVENT + HEADER_SIZE + 56)
"""The time at which the server was started, in a format description; 0 in all files but its first."""
_LONGEST: Final = 1 << 16
_NO_TOKEN: Final = Token("symbol", "", 0)
_FRAME: Final = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA", "RELEASE"})
_MOST_NAMED: Final = 3
_COPIES: Final = frozenset({"LIKE", "SELECT"})
_REPLACED: Final = frozenset({"TABLE", "SEQUENCE"})
_WORDS: Final = (b"temporary", b"rename")
"""One is in every statement that makes, drops or renames a temporary table, in letters of any case."""


def _folded(name: str) -> str:
    return name.lower()


def hides(statement: Statement) -> bool:
    """Whether a statement that is logged as of one thread alone may mean temporary tables by its names.

    A server takes a temporary table out of a DROP TABLE, and logs it as DROP TEMPORARY TABLE. RENAME TABLE of
    temporary tables, which MySQL has not, is not marked as of one thread (MariaDB 11.8.9).
    """
    return statement.verb not in ("CREATE", "DROP") or statement.kind == "INDEX"


def real_tables(statement: Statement, temporary: Set[str]) -> dict[str, Kinds]:
    """Of the tables of such a statement, those that are not `temporary`, as far as it is known to have some.

    What is altered is one, known or not; unless CONNECTION_ID() is in the statement, for which it is marked,
    too. A server marks all statements of a real table with DEFAULT (CONNECTION_ID()) as well (MySQL 9.7.4,
    MariaDB 11.8.9): what is emptied is real unless it is known to be none, because a search must not miss it.
    """
    if statement.verb == "RENAME":
        return _really_renamed(statement, set(temporary))
    real = {name: kinds for name, kinds in statement.tables.items() if _folded(name) not in temporary}
    if statement.verb in ("ALTER", "CREATE", "DROP") and not statement.says("CONNECTION_ID"):
        return {name: kinds for name, kinds in real.items() if "truncate" in kinds}
    return real


def _really_renamed(statement: Statement, there: set[str]) -> dict[str, Kinds]:
    """A temporary table that has the new name does not matter."""
    real: dict[str, Kinds] = {}
    for old, new in statement.renames:
        if _folded(old) in there:
            there.discard(_folded(old))
            there.add(_folded(new))
        else:
            real |= {name: statement.tables[name] for name in (old, new)}
    return real


def follow(there: set[str], statement: Statement) -> None:
    """Change the temporary tables of a thread as its statement does."""
    if statement.temporary:
        names = set(map(_folded, statement.tables))
        if statement.verb == "DROP":
            there -= names
        else:
            there |= names
    for old, new in statement.renames:
        if _folded(old) in there:
            there.discard(_folded(old))
            there.add(_folded(new))


@dataclass(frozen=True, slots=True)
class ThreadStatement:
    """A statement that is logged as of one thread alone."""

    thread: int
    schema: str
    statement: Statement

    def named_of(self, tables: Set[str]) -> Iterator[str]:
        """Those of the tables that stand in it where a table's name can, in its order.

        It may be very long, and is taken apart only as far as it is asked for, and if it can have one.
        """
        source = self.statement.source
        if source is None or not _can_name(source.text, tables):
            return
        before, last = _NO_TOKEN, _NO_TOKEN
        for token in source:
            if token.name:
                schema = (last.text == "." and before.name) or self.schema
                if (name := _folded(joined(schema, token.name))) in tables:
                    yield name
            before, last = last, token


def _can_name(text: str, tables: Set[str]) -> bool:
    """Whether one of the tables may be in a text. What is in quotes may be spelled in another way, and what
    is no ASCII have other small letters."""
    if not tables:
        return False
    small = text.lower()
    names = (separated(table)[1] for table in tables)
    return any(not name.isascii() or "`" in name or '"' in name or name in small for name in names)


@dataclass(slots=True)
class TemporarySessions:
    """The temporary tables of each thread, as far as they were made in what was read.

    `restarted`: the server was started in what was read, so that no table is older than that. `unexplained`
    are threads that used one, or CONNECTION_ID(), which no statement of theirs names: a trigger or a function
    made it.
    """

    open: dict[int, set[str]] = field(default_factory=dict)
    restarted: bool = False
    unexplained: set[int] = field(default_factory=set)

    def forget(self) -> None:
        """The server was started again."""
        self.open.clear()
        self.unexplained.clear()
        self.restarted = True

    def take(self, said: ThreadStatement) -> None:
        there, statement = self.open.pop(said.thread, set()), said.statement
        named = statement.temporary or _drops_real(statement) or any(said.named_of(there))
        if not named and not statement.says("CONNECTION_ID"):
            self.unexplained.add(said.thread)
        follow(there, statement)
        if there:
            # A log has millions of sessions that have dropped theirs.
            self.open[said.thread] = there


class OpenTables:
    """Tells the temporary tables that a thread had at a transaction, by the files of its log.

    They are read as far as they are asked for, and once: a file that makes none is only searched for that.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        """`files` are of one log, oldest first."""
        self._files = files
        self._beginnings: dict[Path, dict[int, set[str]]] = {}
        self._sessions = TemporarySessions()
        self._read_to: LogPosition | None = None

    def before(self, path: Path, offset: int, thread: int) -> set[str]:
        """The temporary tables of a thread in front of an offset that lies between transactions."""
        position = LogPosition.of(path.name, offset)
        if self._read_to is None or self._read_to.file != path.name or position < self._read_to:
            self._begin(path)
        assert self._read_to is not None
        self._read(path, self._read_to, position)
        self._read_to = position
        return set(self._sessions.open.get(thread, ()))

    def _begin(self, path: Path) -> None:
        """Stand at the beginning of a file."""
        if path not in self._beginnings:
            upto = self._files.index(path) + 1
            known = (n for n in reversed(range(upto)) if self._knows(self._files[n]))
            oldest = next(known, 0)
            there = self._beginnings.get(self._files[oldest], {})
            self._sessions = TemporarySessions({n: set(names) for n, names in there.items()})
            for each in self._files[oldest:upto]:
                self._beginnings[each] = {n: set(names) for n, names in self._sessions.open.items()}
                if each != path:
                    self._read(each, LogPosition.of(each.name, FIRST_EVENT), None)
        self._sessions = TemporarySessions({n: set(names) for n, names in self._beginnings[path].items()})
        self._read_to = LogPosition.of(path.name, FIRST_EVENT)

    def _knows(self, path: Path) -> bool:
        """Whether it is known what was open at the beginning of a file."""
        return path in self._beginnings or _is_first(path)

    def _read(self, path: Path, start: LogPosition, end: LogPosition | None) -> None:
        # What cannot be read is told of where it is searched.
        with suppress(OSError, ZbackupError):
            end = end or LogPosition.of(path.name, secure_files.size(path))
            for statement, _ in _statements([path], start, end, self._sessions, _WORDS):
                self._sessions.take(statement)


def _is_first(file: Path) -> bool:
    """Whether the server was started with this file, as far as it can be read."""
    with suppress(OSError, ZbackupError):
        return _begins_with_server(file)
    return False


def find_foreign(
    files: Sequence[Path],
    span: tuple[LogPosition, LogPosition],
    base: Callable[[], Sequence[Path]],
    newest_thread: int | None,
    *,
    drops_fail: bool,
) -> Unreplayable | None:
    """The first transaction of a replay that uses a temporary table known to be made before it, or None."""
    found = _foreign_statements(files, span, base, newest_thread, drops_fail=drops_fail)
    return next(
        (
            Unreplayable(
                subject(),
                f"it uses temporary tables of session {thread} that were made before the base was taken "
                f"({used})",
                of_base=True,
            )
            for thread, used, subject in found
            if used
        ),
        None,
    )


def find_doubtful(
    files: Sequence[Path],
    span: tuple[LogPosition, LogPosition],
    base: Callable[[], Sequence[Path]],
    newest_thread: int | None,
) -> str:
    """Why a replay may have taken a real table for a temporary one made before it; "" if it has not.

    A session that is older than what there is of the log may have made one. It may as well have called
    CONNECTION_ID() in a trigger, a function or a view: a server marks both alike.
    """
    found = _foreign_statements(files, span, base, newest_thread, drops_fail=False)
    thread = next((thread for thread, used, _ in found if not used), None)
    if thread is None:
        return ""
    return (
        f"session {thread}, which is older than the base and its log, used a temporary table or "
        "CONNECTION_ID(): its temporary tables are not in the base, and a real table of the same name may "
        "have been changed instead"
    )


def _foreign_statements(
    files: Sequence[Path],
    span: tuple[LogPosition, LogPosition],
    base: Callable[[], Sequence[Path]],
    newest_thread: int | None,
    *,
    drops_fail: bool,
) -> Iterator[tuple[int, str, Callable[[], Transaction]]]:
    """The statements that need a temporary table made before: the session, the tables ("" where nobody knows
    which, if any), and what tells the transaction.

    `base` tells the files of the log that end where the span begins. No session had a number above
    `newest_thread` when the base was taken, but for those that made a table afterwards (None: not known).
    `drops_fail`: the server does not pass over a DROP of a temporary table that is not there.
    """
    now = TemporarySessions()
    before: TemporarySessions | None = None
    for statement, subject in _statements(files, *span, now):
        if _stands_alone(statement.statement, drops_fail=drops_fail):
            now.take(statement)
            continue
        if before is None and not now.restarted:
            before = _open_at_end(base(), span[0])
        used = None if now.restarted or before is None else _foreign(statement, now, before, newest_thread)
        if used is not None:
            yield statement.thread, used, subject
        now.take(statement)


def _stands_alone(statement: Statement, *, drops_fail: bool) -> bool:
    """Whether a statement needs no temporary table that is there."""
    if statement.temporary:
        return not (drops_fail and statement.verb == "DROP" and "IF" not in statement.words)
    return _drops_real(statement)


def _drops_real(statement: Statement) -> bool:
    """Whether it drops no temporary table: those a server logs as DROP TEMPORARY TABLE. MariaDB's CREATE OR
    REPLACE drops one, too, and needs no other unless it copies it."""
    if statement.temporary:
        return False
    if statement.verb == "DROP":
        return statement.kind != "INDEX"
    makes = statement.verb == "CREATE" and statement.kind in _REPLACED
    return makes and _COPIES.isdisjoint(statement.words)


def _foreign(
    statement: ThreadStatement,
    now: TemporarySessions,
    before: TemporarySessions,
    newest_thread: int | None,
) -> str | None:
    """The tables for which a statement needs what was before, as text, "" where they are not known; None
    where it needs none."""
    own = now.open.get(statement.thread, set())
    old = before.open.get(statement.thread, set()) - own
    if used := list(dict.fromkeys(statement.named_of(old))):
        return _shown(used)
    if any(statement.named_of(own)) or statement.statement.says("CONNECTION_ID"):
        return None
    if old:
        return _shown(sorted(old))
    if newest_thread is not None and statement.thread > newest_thread:
        return None
    return None if before.restarted and statement.thread not in before.unexplained else ""


def _shown(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    text = ", ".join(names[:_MOST_NAMED])
    return f"{text} and {more} more" if more > 0 else text


def _open_at_end(files: Sequence[Path], end: LogPosition) -> TemporarySessions:
    """The temporary tables that were open where the base's log ends, as far as it reaches back."""
    sessions = TemporarySessions()
    first = LogPosition.of(files[0].name, FIRST_EVENT)
    sessions.restarted = _begins_with_server(files[0])
    for statement, _ in _statements(files, first, end, sessions):
        sessions.take(statement)
    return sessions


def _statements(
    files: Sequence[Path],
    start: LogPosition,
    end: LogPosition,
    sessions: TemporarySessions,
    words: Sequence[bytes] = (),
) -> Iterator[tuple[ThreadStatement, Callable[[], Transaction]]]:
    """The statements of one thread alone between two positions, each with what tells its transaction.

    With `words` only transactions that have one of them, or may have; of MariaDB every statement of those.
    """
    for path in files:
        number = sequence(path.name)
        if not start.sequence <= number <= end.sequence:
            continue
        limit = end.offset if number == end.sequence else None
        with opened(path, limit) as scanner:
            data, mariadb = scanner.data, scanner.is_mariadb
            if number > start.sequence and any(data[_CREATED]):
                sessions.forget()
            finder = WordFinder(data, words) if words else None
            for span in scanner.spans(start.offset if number == start.sequence else FIRST_EVENT):
                if finder and finder.at(span[0]) >= span[1] and not (mariadb and hides_text(data, *span[:2])):
                    continue
                found = _marked(
                    data,
                    (span[0], span[1]),
                    scanner.trailer,
                    mysql=not mariadb,
                    every=mariadb and bool(words),
                )
                for statement in found:
                    yield statement, partial(_transaction, path, scanner, span)


def _begins_with_server(file: Path) -> bool:
    with opened(file) as scanner:
        return any(scanner.data[_CREATED])


def _transaction(path: Path, scanner: Scanner, span: Span) -> Transaction:
    found = described(describe(path, scanner, span))
    assert found is not None
    return found


def _marked(
    data: Buffer, span: tuple[int, int], trailer: int, *, mysql: bool, every: bool
) -> Iterator[ThreadStatement]:
    """The statements that are marked as of one thread, or all."""
    unpack, (at, end) = _HEAD.unpack_from, span
    while at + HEADER_SIZE <= end:
        kind, size, flags = unpack(data, at)
        if kind in _QUERIES and (every or flags & OF_ONE_THREAD):
            # What cannot be read ends the replay by itself.
            with suppress(ValueError, LookupError, struct.error):
                if found := _read(kind, data[at + HEADER_SIZE : at + size - trailer], mysql=mysql):
                    yield found
        elif kind == TRANSACTION_PAYLOAD:
            with suppress(ValueError, LookupError):
                for inner in inner_events(data[at + HEADER_SIZE : at + size - trailer], _LONGEST):
                    yield from _marked(inner, (0, len(inner)), 0, mysql=mysql, every=every)
        at += max(size, HEADER_SIZE)


def _read(kind: int, body: bytes, *, mysql: bool) -> ThreadStatement | None:
    """None for what only begins or ends a transaction."""
    if kind == _EXECUTE_LOAD_QUERY:
        body = body[:_QUERY_FIXED] + body[_QUERY_FIXED + _LOAD_FIXED :]
    thread, schema, status = _QUERY_HEAD.unpack_from(body)
    said = body[events.text_at(body) :]
    said = uncompress(said, LARGEST) if kind == QUERY_COMPRESSED else said
    variables = body[_QUERY_FIXED : _QUERY_FIXED + status]
    told = read_status(variables) if variables else QueryStatus()
    name = body[_QUERY_FIXED + status : _QUERY_FIXED + status + schema].decode("utf-8", "replace")
    statement = told.read(told.decode(said), name, mysql=mysql)
    return None if statement.verb in _FRAME else ThreadStatement(thread, name, statement)
