"""Tell what each transaction of a binlog file did, to which tables. The hot path of searching a log."""

import struct
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Final

from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.compressed import (
    QUERY_COMPRESSED,
    inner_events,
    record_size,
    uncompress,
)
from zbackup.engines.mysql.binlog.events import (
    DELETES,
    HEADER_SIZE,
    INSERTS,
    MARIADB_GTID,
    QUERY,
    SHAPE,
    TABLE_MAP,
    TRANSACTION_PAYLOAD,
    UPDATES,
    XA_PREPARE,
    Buffer,
)
from zbackup.engines.mysql.binlog.gtid import only_tries
from zbackup.engines.mysql.binlog.query_status import QueryStatus, read_status
from zbackup.engines.mysql.binlog.required_plugins import Need, needs_of
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.table_map import read_name
from zbackup.engines.mysql.binlog.temporary_tables import OF_ONE_THREAD, follow, hides, real_tables
from zbackup.engines.mysql.binlog.unreplayable import why_unreadable, why_unreplayable
from zbackup.engines.mysql.sql.grammar import CutOff, Statement
from zbackup.engines.mysql.sql.shown import LONGEST as _SHOWN
from zbackup.engines.mysql.sql.shown import shown
from zbackup.model.log import Transaction
from zbackup.model.log_entry import KINDS, Kind, LogEntry, Touched
from zbackup.model.table_name import joined

_MASKS: Final = {kind: 1 << number for number, kind in enumerate(KINDS)}
_KINDS_OF: Final = [tuple(k for k in KINDS if _MASKS[k] & mask) for mask in range(1 << len(KINDS))]
_ROWS: Final = {
    **dict.fromkeys(INSERTS, _MASKS["insert"]),
    **dict.fromkeys(UPDATES, _MASKS["update"]),
    **dict.fromkeys(DELETES, _MASKS["delete"]),
}

_NUMBER_AT: Final = HEADER_SIZE
_NUMBER_END: Final = HEADER_SIZE + 6
_NAME_AT: Final = HEADER_SIZE + 8
_NO_TABLE: Final = b"\xff\xff\xff\x00\x00\x00"
"""The number of the table in an event that only says that its statement is over."""

_QUERY_HEAD: Final = Struct("<I 4x B 2x H")
_QUERY_FIXED: Final = 13
_LOAD_FIXED: Final = 13
"""Bytes that a statement that loads a file has more: the file's number and where its name is in the text."""

_EXECUTE_LOAD_QUERY: Final = 18
_PLAIN: Final = frozenset({*events.BEGINS, events.XID, events.INTVAR, events.RAND, events.USER_VAR})
"""Events that say nothing of tables. Any other may be one that does, whose type was damaged."""

_FRAME: Final = (b"BEGIN", b"COMMIT")
_LONGEST_FRAME: Final = max(map(len, _FRAME))
_UNTOLD: Final = ("BEGIN", "SAVEPOINT", "ROLLBACK", "COMMIT")
_WINDOW: Final = 1 << 16
"""Bytes of a statement that are looked at first: a change of rows names its tables at its beginning."""
_LOOKED_AT: Final = 4 * _WINDOW
"""Bytes of a compressed event that are read: rows are not, and statements are not compressed so."""

_MOST_NAMES: Final = 65_536
_names: dict[bytes, str] = {}
"""The names of tables as they stand in table map events that were sound."""


OpenBefore = Callable[[int, Iterable[str]], set[str]]
"""Tells the temporary tables of a thread in front of a transaction, as far as these tables may be hidden."""


class Contents:
    """The contents of one transaction: what its events do. Made for each that is looked into, so it is
    bare."""

    user = stops = ""
    mysql = only_tries = proven = False
    """`only_tries`: what it says has begun, or was rolled back."""
    temporary: OpenBefore | None = None
    said: tuple[tuple[str, QueryStatus | None], ...] = ()
    """Statements, each with the mode of its session; None where that is not known."""
    frame: bytes = b""
    """The variables of its BEGIN, which are those of the statements that made its rows."""
    thread = events = 0
    by_text = prepared = False
    renames: tuple[tuple[str, str], ...] = ()
    replaced: tuple[str, ...] = ()
    no_tables: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    annotated: tuple[tuple[Buffer, int, int], ...] = ()
    """Positions of texts that are only read if the transaction is shown."""

    def __init__(self) -> None:
        self.tables: dict[str, int] = {}
        self.maps: dict[bytes, str] = {}
        self.followed: list[Statement] = []
        """What changed the temporary tables of its thread."""

    def entry(self, transaction: Transaction, size: int) -> LogEntry:
        """Convert to the model's types."""
        if self.annotated:
            mode = read_status(self.frame) if self.frame else None
            for data, at, end in self.annotated:
                self.say(_text(data, at, end), mode)
        return LogEntry(
            transaction=transaction,
            tables=tuple(Touched(name, _KINDS_OF[mask]) for name, mask in self.tables.items()),
            events=self.events,
            size=size,
            text="; ".join(map(_as_shown, self.said))[:_SHOWN],
            logged=self.logged,
            thread=self.thread,
            user=self.user,
            by_text=self.by_text,
            prepared=self.prepared,
            stops_replay=self.stops,
            renames=self.renames,
            replaced=self.replaced,
            no_tables=self.no_tables,
        )

    @property
    def logged(self) -> str:
        """The statements as they were logged."""
        return "; ".join(text for text, _ in self.said)[:_SHOWN]

    def statements(self) -> list[str]:
        """The statements for people who ask for rows: those of the server's own tables, and all that change
        no rows, without secrets."""
        rows_alone = self.by_text and not any(name.startswith("mysql.") for name in self.tables)
        return [text if rows_alone else _as_shown((text, mode)) for text, mode in self.said]

    def say(self, text: str, mode: QueryStatus | None) -> None:
        """Add a statement to what it says."""
        if sum(len(each) for each, _ in self.said) < _SHOWN:
            self.said += ((text[:_SHOWN], mode),)


def _as_shown(said: tuple[str, QueryStatus | None]) -> str:
    text, mode = said
    if mode is None:
        return shown(text)
    return shown(text, ansi_quotes=mode.ansi_quotes, backslash_escapes=mode.backslash_escapes)


def kinds_of(mask: int) -> tuple[Kind, ...]:
    """The kinds that a mask in Contents.tables stands for."""
    return _KINDS_OF[mask]


def read_contents(
    scanner: Scanner,
    span: tuple[int, int],
    temporary: OpenBefore | None = None,
    *,
    proven: bool = False,
) -> Contents:
    """Look into the transaction between two offsets.

    Without `temporary` what is done to a temporary table counts for a table of its name. Only events whose
    contents count are proven by their checksums here, none if all are `proven`. Raise BinlogDamaged when the
    transaction cannot be understood.
    """
    found = Contents()
    found.proven = proven
    found.mysql = not scanner.is_mariadb
    found.temporary = temporary
    try:
        _walk(found, scanner.data, *span, scanner.trailer)
    except (ValueError, LookupError, struct.error) as wrong:
        raise scanner.damaged(span[0], f"its transaction cannot be read: {wrong}") from None
    return found


def _walk(found: Contents, data: Buffer, at: int, end: int, trailer: int) -> None:
    tables, maps, unpack, count = found.tables, found.maps, SHAPE.unpack_from, 0
    while at < end:
        kind, size, _ = unpack(data, at)
        behind = at + size
        if size < HEADER_SIZE or behind > end:
            raise ValueError("an event's size is wrong")
        count += 1
        if kind in _ROWS:
            number = data[at + _NUMBER_AT : at + _NUMBER_END]
            if number in maps:
                tables[maps[number]] |= _ROWS[kind]
            elif number != _NO_TABLE:
                raise ValueError("rows of a table that was not named")
        elif kind == TABLE_MAP:
            second = at + _NAME_AT + data[at + _NAME_AT] + 2
            key = data[at + _NAME_AT : second + data[second] + 2]
            name = _names.get(key) or _new_name(found, key, data, (at, behind), trailer)
            maps[data[at + _NUMBER_AT : at + _NUMBER_END]] = name
            if name not in tables:
                tables[name] = 0
        elif kind in _READ:
            _READ[kind](found, data, (at, behind), trailer)
        elif kind not in _PLAIN:
            _require_sound(found, data, (at, behind), trailer)
        at = behind
    found.events += count


def _new_name(found: Contents, key: bytes, data: Buffer, event: tuple[int, int], trailer: int) -> str:
    """The table's name in a table map event, which is a table's name for good if the event is sound."""
    _require_sound(found, data, event, trailer)
    schema, second = read_name(key, 0)
    if len(_names) > _MOST_NAMES:
        _names.clear()
    _names[key] = name = joined(schema, read_name(key, second)[0])
    return name


def _require_sound(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    if trailer and not found.proven and not events.checksum_matches(data, *event):
        raise ValueError("an event's checksum is wrong")


def _opening(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    found.only_tries = only_tries(data[event[0] : event[1] - trailer])


def _query(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    body, end = event[0] + HEADER_SIZE, event[1] - trailer
    thread, schema, status = _QUERY_HEAD.unpack_from(data, body)
    text = body + _QUERY_FIXED + status + schema + 1
    if not found.thread:
        found.thread = thread
    if end - text <= _LONGEST_FRAME and data[text:end] in _FRAME:
        found.frame = data[body + _QUERY_FIXED : body + _QUERY_FIXED + status]
        return
    _require_sound(found, data, event, trailer)
    alone = bool(data[event[0] + events.FLAGS_AT] & OF_ONE_THREAD)
    _statement(found, data[body:text], alone, end - text, lambda most: data[text : min(end, text + most)])


def _query_compressed(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    _require_sound(found, data, event, trailer)
    body = data[event[0] + HEADER_SIZE : event[1] - trailer]
    found.thread = found.thread or _QUERY_HEAD.unpack_from(body)[0]
    alone, at = bool(data[event[0] + events.FLAGS_AT] & OF_ONE_THREAD), events.text_at(body)
    record = body[at:]
    _statement(found, body[:at], alone, record_size(record), lambda most: uncompress(record, most))


def _load(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    """LOAD DATA as a statement: its file's content is in the log, too."""
    _require_sound(found, data, event, trailer)
    body = data[event[0] + HEADER_SIZE : event[1] - trailer]
    found.thread = found.thread or _QUERY_HEAD.unpack_from(body)[0]
    body = body[:_QUERY_FIXED] + body[_QUERY_FIXED + _LOAD_FIXED :]
    alone, at = bool(data[event[0] + events.FLAGS_AT] & OF_ONE_THREAD), events.text_at(body)
    _statement(found, body[:at], alone, len(body) - at, lambda most: body[at : at + most])


def _statement(found: Contents, head: bytes, alone: bool, size: int, said: Callable[[int], bytes]) -> None:
    """Take in a statement of `size` bytes, of which `said` tells the first ones; `head` is in front of it.
    `alone`: it is logged as of one thread alone."""
    thread, schema, status = _QUERY_HEAD.unpack_from(head)
    variables = head[_QUERY_FIXED : _QUERY_FIXED + status]
    name = head[_QUERY_FIXED + status : _QUERY_FIXED + status + schema].decode("utf-8", "replace")
    told = read_status(variables) if variables else QueryStatus()
    cut = size > _WINDOW
    text = told.decode(said(_WINDOW), cut=cut)
    try:
        statement = told.read(text, name, mysql=found.mysql, cut=cut)
    except CutOff:
        text = told.decode(said(size))
        statement = told.read(text, name, mysql=found.mysql)
    found.user = found.user or told.user
    if statement.verb in _UNTOLD or text.startswith(("XA START", "XA END")):
        return
    found.by_text = found.by_text or statement.rows
    if not found.only_tries:
        _tables(found, statement, thread, alone=alone)
    found.stops = found.stops or why_unreplayable(statement) or why_unreadable(text, told)
    found.needs += needs_of(statement, substitutes=told.substitutes)
    found.say(text, told if variables else None)


def _tables(found: Contents, statement: Statement, thread: int, *, alone: bool) -> None:
    """Note what a statement does to tables that are not temporary."""
    tables = {} if statement.temporary else statement.tables
    if found.temporary and (alone or (statement.verb == "RENAME" and not found.mysql)):
        if hides(statement):
            open_ = found.temporary(thread, statement.tables)
            for earlier in found.followed:
                follow(open_, earlier)
            tables = real_tables(statement, open_)
        found.followed.append(statement)
    for table, kinds in tables.items():
        found.tables[table] = found.tables.get(table, 0) | sum(_MASKS[kind] for kind in kinds)
    found.renames += tuple(pair for pair in statement.renames if pair[0] in tables)
    if statement.replaces:
        found.replaced += tuple(tables)
    if not statement.of_tables:
        found.no_tables += tuple(tables)


def _rows_query(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    """The statement that made the rows, which MySQL says with its length in a byte in front (or 255)."""
    found.annotated += ((data, event[0] + HEADER_SIZE + 1, event[1] - trailer),)


def _annotation(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    found.annotated += ((data, event[0] + HEADER_SIZE, event[1] - trailer),)


def _text(data: Buffer, at: int, end: int) -> str:
    return data[at : min(end, at + _SHOWN)].decode("utf-8", "replace")


def _prepare(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    """XA PREPARE, unless its first byte says that it was committed at once."""
    _require_sound(found, data, event, trailer)
    found.prepared = found.prepared or not data[event[0] + HEADER_SIZE]


def _payload(found: Contents, data: Buffer, event: tuple[int, int], trailer: int) -> None:
    _require_sound(found, data, event, trailer)
    for inner in inner_events(data[event[0] + HEADER_SIZE : event[1] - trailer], _LOOKED_AT):
        _walk(found, inner, 0, len(inner), 0)


_READ: Final[dict[int, Callable[[Contents, Buffer, tuple[int, int], int], None]]] = {
    QUERY: _query,
    QUERY_COMPRESSED: _query_compressed,
    _EXECUTE_LOAD_QUERY: _load,
    events.ROWS_QUERY: _rows_query,
    events.ANNOTATE_ROWS: _annotation,
    MARIADB_GTID: _opening,
    XA_PREPARE: _prepare,
    TRANSACTION_PAYLOAD: _payload,
}
