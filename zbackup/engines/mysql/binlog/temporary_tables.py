"""Find statements in a log that use a temporary table which the server they are replayed on cannot have.

A session's temporary table is in no backup. Its later statements, where they are logged as text, would hit a
real table of that name, or none. A server marks what it logs of a session's temporary tables, and of
CONNECTION_ID(), as of that thread alone (LOG_EVENT_THREAD_SPECIFIC_F; what mysqlbinlog prints
"pseudo_thread_id" for), and replays statements by their threads' numbers. Those of a server grow until it is
started again, which ends all sessions.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Final

from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.compressed import QUERY_COMPRESSED, inner_events, uncompress
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    HEADER_SIZE,
    QUERY,
    TRANSACTION_PAYLOAD,
    Buffer,
)
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.position import LogPosition, described
from zbackup.engines.mysql.binlog.query_status import QueryStatus, read_status
from zbackup.engines.mysql.binlog.reader import describe, opened
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.span_memory import Span
from zbackup.engines.mysql.sql.lexer import Token, tokens
from zbackup.model.log import Transaction
from zbackup.model.unreplayable import Unreplayable

_OF_ONE_THREAD: Final = 4
_HEAD: Final = Struct("<4x B 4x I 4x H")
_QUERY_HEAD: Final = Struct("<I 4x B 2x H")
_QUERY_FIXED: Final = 13
_LOAD_FIXED: Final = 13
_EXECUTE_LOAD_QUERY: Final = 18
_QUERIES: Final = frozenset({QUERY, QUERY_COMPRESSED, _EXECUTE_LOAD_QUERY})
_CREATED: Final = slice(FIRST_EVENT + HEADER_SIZE + 52, FIRST_EVENT + HEADER_SIZE + 56)
"""The time at which the server was started, in a format description; 0 in all files but its first."""
_LONGEST: Final = 1 << 16
_FRAME: Final = frozenset({"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA", "RELEASE"})
_MOST_NAMED: Final = 3

Name = tuple[str, str]
"""A table's schema and name, in small letters."""


@dataclass(frozen=True, slots=True)
class ThreadStatement:
    """A statement that is logged as of one thread alone: its words, and the tables that it could name."""

    thread: int
    schema: str
    tokens: tuple[Token, ...]

    @property
    def words(self) -> list[str]:
        return [token.word for token in self.tokens]

    def names(self, at: int = 0) -> Iterator[Name]:
        """All that can be a table's name, from a token on."""
        for here in range(at, len(self.tokens)):
            name = self.tokens[here].name
            if not name:
                continue
            qualified = here >= 2 and self.tokens[here - 1].text == "." and self.tokens[here - 2].name
            yield (qualified or self.schema).lower(), name.lower()

    @property
    def makes(self) -> Name | None:
        """The temporary table that it makes, or gives another name."""
        words = self.words
        if words[:1] == ["ALTER"] and "RENAME" in words:
            return _last(self.names(words.index("RENAME") + 1), first=words[-2:-1] != ["."])
        if words[:1] != ["CREATE"] or "TEMPORARY" not in words[:4]:
            return None
        at = words.index("TEMPORARY") + 2
        at += 3 * (words[at : at + 3] == ["IF", "NOT", "EXISTS"])
        at += 2 * (words[at + 1 : at + 2] == ["."])
        return next(self.names(at), None)

    @property
    def drops(self) -> tuple[Name, ...]:
        """The temporary tables that it drops."""
        if self.words[:2] != ["DROP", "TEMPORARY"]:
            return ()
        return tuple(self.names(2))


def _last(names: Iterator[Name], *, first: bool) -> Name | None:
    found = [name for name in names if name[1] not in ("to", "as")]
    return (found[0] if first else found[-1]) if found else None


@dataclass(slots=True)
class TemporarySessions:
    """The temporary tables of each thread, as far as they were made in what was read.

    `restarted`: the server was started in what was read, so that no table is older than that. `unexplained`
    are threads that used one, or CONNECTION_ID(), which no statement of theirs names: a trigger or a function
    made it.
    """

    open: dict[int, set[Name]] = field(default_factory=dict)
    restarted: bool = False
    unexplained: set[int] = field(default_factory=set)

    def forget(self) -> None:
        """The server was started again."""
        self.open.clear()
        self.unexplained.clear()
        self.restarted = True

    def take(self, statement: ThreadStatement) -> None:
        there = self.open.setdefault(statement.thread, set())
        if made := statement.makes:
            there.add(made)
        elif (
            not statement.drops
            and not there & set(statement.names())
            and "CONNECTION_ID" not in statement.words
        ):
            self.unexplained.add(statement.thread)
        there.difference_update(statement.drops)


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
        if statement.makes or (statement.drops and not (drops_fail and "IF" not in statement.words)):
            now.take(statement)
            continue
        if before is None and not now.restarted:
            before = _open_at_end(base(), span[0])
        used = None if now.restarted or before is None else _foreign(statement, now, before, newest_thread)
        if used is not None:
            yield statement.thread, used, subject
        now.take(statement)


def _foreign(
    statement: ThreadStatement,
    now: TemporarySessions,
    before: TemporarySessions,
    newest_thread: int | None,
) -> str | None:
    """The tables for which a statement needs what was before, as text, "" where they are not known; None
    where it needs none."""
    own = now.open.get(statement.thread, set())
    names = dict.fromkeys(statement.names())
    old = before.open.get(statement.thread, set()) - own
    if used := [name for name in names if name in old]:
        return _shown(used)
    if own & names.keys() or "CONNECTION_ID" in statement.words:
        return None
    if old:
        return _shown(sorted(old))
    if newest_thread is not None and statement.thread > newest_thread:
        return None
    return None if before.restarted and statement.thread not in before.unexplained else ""


def _shown(names: Sequence[Name]) -> str:
    more = len(names) - _MOST_NAMED
    text = ", ".join(".".join(filter(None, name)) for name in names[:_MOST_NAMED])
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
    files: Sequence[Path], start: LogPosition, end: LogPosition, sessions: TemporarySessions
) -> Iterator[tuple[ThreadStatement, Callable[[], Transaction]]]:
    """The statements of one thread alone between two positions, each with what tells its transaction."""
    for path in files:
        number = sequence(path.name)
        if not start.sequence <= number <= end.sequence:
            continue
        limit = end.offset if number == end.sequence else None
        with opened(path, limit) as scanner:
            data = scanner.data
            if number > start.sequence and any(data[_CREATED]):
                sessions.forget()
            for span in scanner.spans(start.offset if number == start.sequence else FIRST_EVENT):
                for statement in _marked(data, span[0], span[1], scanner.trailer):
                    yield statement, partial(_transaction, path, scanner, span)


def _begins_with_server(file: Path) -> bool:
    with opened(file) as scanner:
        return any(scanner.data[_CREATED])


def _transaction(path: Path, scanner: Scanner, span: Span) -> Transaction:
    found = described(describe(path, scanner, span))
    assert found is not None
    return found


def _marked(data: Buffer, at: int, end: int, trailer: int) -> Iterator[ThreadStatement]:
    unpack = _HEAD.unpack_from
    while at + HEADER_SIZE <= end:
        kind, size, flags = unpack(data, at)
        if flags & _OF_ONE_THREAD and kind in _QUERIES:
            # What cannot be read ends the replay by itself.
            with suppress(ValueError, LookupError, struct.error):
                if found := _read(kind, data[at + HEADER_SIZE : at + size - trailer]):
                    yield found
        elif kind == TRANSACTION_PAYLOAD:
            with suppress(ValueError, LookupError):
                for inner in inner_events(data[at + HEADER_SIZE : at + size - trailer], _LONGEST):
                    yield from _marked(inner, 0, len(inner), 0)
        at += max(size, HEADER_SIZE)


def _read(kind: int, body: bytes) -> ThreadStatement | None:
    """None for what only begins or ends a transaction."""
    if kind == _EXECUTE_LOAD_QUERY:
        body = body[:_QUERY_FIXED] + body[_QUERY_FIXED + _LOAD_FIXED :]
    thread, schema, status = _QUERY_HEAD.unpack_from(body)
    said = body[events.text_at(body) :]
    said = uncompress(said, _LONGEST) if kind == QUERY_COMPRESSED else said[:_LONGEST]
    variables = body[_QUERY_FIXED : _QUERY_FIXED + status]
    told = read_status(variables) if variables else QueryStatus()
    name = body[_QUERY_FIXED + status : _QUERY_FIXED + status + schema].decode("utf-8", "replace")
    found = tokens(told.decode(said), ansi_quotes=told.ansi_quotes, backslash_escapes=told.backslash_escapes)
    kept = tuple(token for token in found if token.kind not in ("open", "close"))
    return None if not kept or kept[0].word in _FRAME else ThreadStatement(thread, name, kept)
