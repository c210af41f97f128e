"""Find the transactions in one binlog file's bytes. The hot path: no object is made for an event."""

import struct
from array import array
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogEncrypted, BinlogTooOld
from zbackup.engines.mysql.binlog.events import (
    BEGINS,
    BETWEEN,
    CHECKSUM_SIZE,
    FIRST_EVENT,
    FORMAT_DESCRIPTION,
    HEADER_SIZE,
    PREFIXES,
    QUERY,
    SHAPE,
    TOGETHER,
    XA_PREPARE,
    XID,
    Buffer,
    Format,
    Live,
    LogDialect,
    all_match,
    all_match_between,
)
from zbackup.engines.mysql.binlog.gtid import read_gtid, read_opening
from zbackup.engines.mysql.binlog.read_in_pieces import Pieces
from zbackup.engines.mysql.binlog.span_memory import READ, Identity, Span

_NOT_IN_GROUP: Final = BEGINS | {events.ROTATE, events.STOP, FORMAT_DESCRIPTION}
_DECIDES: Final = _NOT_IN_GROUP | {XID, XA_PREPARE, QUERY}
_OPENS_GROUP: Final = (b"BEGIN", b"XA START")
_END_STATEMENTS: Final = frozenset({b"COMMIT", b"ROLLBACK"})
_END_XA: Final = (b"XA COMMIT", b"XA ROLLBACK")
_ALWAYS_PLACED: Final = BEGINS | BETWEEN | {XID, XA_PREPARE}
"""Events whose end position is right in every file. MariaDB 11.8 without checksums leaves it 0 in others."""

_POSITION_MASK: Final = 0xFFFFFFFF
_CHUNK: Final = 1 << 16
_FIRST_BYTES: Final = 128
"""Of a file's first event, up to behind the version of its server."""


class Scanner:
    """Reads the bytes of one file up to `limit`, which need not be the file's end nor lie between events.

    A crash may leave the last bytes of a file half written or zero; whatever is wrong there only ends the
    scan. Anything wrong with sound bytes behind it raises BinlogDamaged.
    """

    def __init__(self, data: Live, name: str, limit: int, identity: Identity | None = None) -> None:
        """Raise BinlogDamaged if this is no binlog, BinlogEncrypted if it cannot be read without keys,
        BinlogTooOld if no supported server wrote it.

        With the `identity` of a file what was read of it before is not read again.
        """
        self._identity = identity
        self._data, self._name, self._limit = data, name, min(limit, len(data))
        self._shape = _shapes(data)
        self._written: int | None = None
        self._reached = 0
        self._trailer = 0
        self.format: Format | None = None
        magic = data[:FIRST_EVENT]
        if magic == events.MAGIC_ENCRYPTED:
            raise BinlogEncrypted(
                f"{name} is encrypted (binlog_encryption): it cannot be read from outside, see plain_log"
            )
        if magic != events.MAGIC[: len(magic)] and self._last_written() > FIRST_EVENT:
            raise BinlogDamaged(f"{name} is not a binlog: it starts with {magic.hex(' ')}")
        self._read_format()

    def spans(self, start: int = FIRST_EVENT, *, prove: bool = False) -> Iterator[Span]:
        """The complete transactions that begin at `start` (a position between transactions) or later.

        A span is given out only when a sound event follows it, or its own events are whole; with `prove` only
        when all of its events are sound.
        """
        start = max(start, FIRST_EVENT)
        if self._identity is None:
            yield from self._read(start, prove=prove)
            return
        known = READ.from_(self._identity, start)
        for span in known.behind(start):
            self._reached = span[1]
            if not prove or self.whole(span[0], span[1]):
                yield span
        more, most = array("q"), READ.left(known)
        try:
            for span in self._read(max(start, known.upto), prove=prove):
                if len(more) + len(span) <= most:
                    more.extend(span)
                yield span
        finally:
            if more and self._identity is not None:
                READ.keep(self._identity, known.and_then(more))

    def _read(self, position: int, *, prove: bool) -> Iterator[Span]:
        """The same, by reading."""
        pending: Span | None = None
        while self.format is not None:
            if prove and pending is None:
                for span in self._at_a_glance(position):
                    self._reached = position = span[1]
                    yield span
            if (shape := self._sound(position)) is None:
                break
            self._reached = position
            if pending is not None:
                if not prove or self.whole(pending[0], pending[1]):
                    yield pending
                pending = None
                if prove:
                    continue
            kind, size = shape
            if kind in BEGINS:
                pending = self._transaction(position, kind, size)
                if pending is None:
                    return
                position = pending[1]
            else:
                self._between(position, kind, size)
                position += size
                self._reached = position
        if pending is not None and self.whole(pending[0], pending[1]):
            self._reached = pending[1]
            yield pending

    def _at_a_glance(self, start: int) -> Iterator[Span]:
        """The transactions from `start` on, as far as each ends and all its events have the right checksums.

        What is behind them takes a closer look, which tells what is wrong.
        """
        data, trailer, last, shape = self._data, self._trailer, self._limit - HEADER_SIZE, self._shape
        with suppress(BinlogDamaged, ValueError, LookupError, struct.error):
            while trailer and start <= last:
                kind, size, _ = shape(start)
                second = start + size
                if kind not in BEGINS or second > last:
                    return
                committed, length, standalone = read_opening(kind, data[start : second - trailer])
                end = start + length
                if standalone is False:
                    bounds = self._group_bounds(start, second)
                    end = bounds[-1]
                    match = end <= self._limit and all_match_between(data, bounds)
                else:
                    match = second < end <= self._limit and all_match(data, start, second, end)
                if not match:
                    return
                yield start, end, committed
                start = end

    def _group_bounds(self, start: int, second: int) -> list[int]:
        """Where the events of a group of MariaDB's begin, and where it ends.

        Raise ValueError where it does not, or is too large for a glance.
        """
        shape, last = self._shape, min(self._limit, start + TOGETHER) - HEADER_SIZE
        bounds, at = [start, second], second
        add = bounds.append
        while at <= last:
            kind, size, _ = shape(at)
            at += size
            add(at)
            if size < HEADER_SIZE or at - start > TOGETHER:
                break
            if kind == XID or (kind in _DECIDES and self._ends_group(at - size, kind, at)):
                return bounds
        raise ValueError("it does not end")

    def whole_end(self) -> int:
        """The offset behind the last complete transaction, or event between transactions."""
        for _ in self.spans():
            pass
        return self._reached

    @property
    def is_mariadb(self) -> bool:
        """Whether MariaDB wrote the file."""
        return self.format is not None and self.format.dialect is LogDialect.MARIADB

    @property
    def trailer(self) -> int:
        """How many bytes of each event are its checksum."""
        return self._trailer

    @property
    def data(self) -> Buffer:
        """The file's bytes. Raise TypeError when they are of a file that may be cut short."""
        if isinstance(self._data, Pieces):
            raise TypeError(f"{self._name} is read while it may be cut short: in pieces")
        return self._data

    @property
    def size(self) -> int:
        """How long the file was when it was opened."""
        return len(self._data)

    def beginning(self, end: int) -> bytes:
        """The bytes in front of an offset."""
        return self._data[:end]

    @property
    def reached(self) -> int:
        """The offset behind what was read and found sound."""
        return self._reached

    def torn(self, start: int) -> tuple[bool, int | None]:
        """Whether the file ends within an event or a transaction, and when that says it was committed.

        Asked when `spans` have come to their end, of the same `start`. None where not even the first event of
        a transaction is there.
        """
        position = max(self._reached, start)
        if position >= self._last_written():
            return False, None
        shape = self._sound(position)
        if shape is None or shape[0] not in BEGINS:
            return True, None
        return True, read_opening(shape[0], self._body(position, shape[1]))[0]

    def stamp(self, start: int) -> int:
        """The time in the header of the event at `start`, in microseconds: when its statement began."""
        return int.from_bytes(self._data[start : start + 4], "little") * 1_000_000

    def gtid(self, start: int) -> str:
        """The global id of the transaction at `start`, "" if it has none."""
        kind, size, _ = self._shape(start)
        return read_gtid(kind, self._body(start, size))

    def head(self) -> tuple[int, bytes] | None:
        """Type and body of the event that says which transactions were in the log before this file.

        None where the file ends too early. It stands before the first transaction.
        """
        found = self._head()
        return (found[1], self._body(found[0], found[2])[HEADER_SIZE:]) if found else None

    def head_end(self) -> int | None:
        """The offset behind that event. What is in front of it never changes, but for the flag "in use"."""
        found = self._head()
        return found[0] + found[2] if found else None

    def _head(self) -> tuple[int, int, int] | None:
        position = FIRST_EVENT
        while self.format is not None and (shape := self._sound(position)) is not None:
            kind, size = shape
            if kind in (events.PREVIOUS_GTIDS, events.GTID_LIST):
                return position, kind, size
            if kind not in BETWEEN:
                return None
            position += size
        return None

    def check(self, start: int) -> int:
        """Verify every event from `start` on and return the offset behind the last one.

        Without checksums only sizes and positions can be verified.
        """
        position = max(start, FIRST_EVENT)
        while self.format is not None and (shape := self._sound(position)) is not None:
            position += shape[1]
        return position

    def events(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Type and body of every event between two offsets that lie between transactions.

        Raise BinlogDamaged where one is not sound.
        """
        position = start
        while position < end:
            shape = self._sound(position)
            if shape is None:
                raise self.damaged(position, "the file ends within a transaction")
            kind, size = shape
            yield kind, self._body(position, size)[HEADER_SIZE:]
            position += size

    def _read_format(self) -> None:
        """The first event; a file so short that it has none has no transactions either."""
        first = self._data[FIRST_EVENT : FIRST_EVENT + _FIRST_BYTES]
        try:
            shape = self._sound(FIRST_EVENT)
        except BinlogDamaged:
            if events.is_of_old_server(first):
                raise BinlogTooOld(f"{self._name} was {events.TOO_OLD}") from None
            raise
        if shape is None:
            return
        if shape[0] != FORMAT_DESCRIPTION:
            raise self.damaged(FIRST_EVENT, "the file does not start with a format description event")
        self._between(FIRST_EVENT, *shape)
        second = FIRST_EVENT + shape[1]
        shape = self._sound(second)
        if shape is not None and shape[0] == events.START_ENCRYPTION:
            self._between(second, *shape)

    def _transaction(self, start: int, kind: int, size: int) -> Span | None:
        """The span of the transaction that opens at `start`, None if it does not end before the limit."""
        try:
            committed, length, standalone = read_opening(kind, self._body(start, size))
        except (ValueError, LookupError, struct.error) as unreadable:
            raise self.damaged(start, f"unreadable GTID event ({unreadable})") from None
        end = start + length if length > size else self._walk(start + size, standalone)
        return (start, end, committed) if end is not None and end <= self._limit else None

    def _walk(self, position: int, standalone: bool | None) -> int | None:
        """Where the group ends whose events follow at `position`, None if it does not end before the
        limit.

        MariaDB says in the GTID event whether one statement follows or a group with an end of its own. MySQL
        does not: there a group opens with BEGIN or XA START.
        """
        if standalone is False:
            return self._group_end(position)
        while (shape := self._sound(position)) is not None and shape[0] in PREFIXES:
            position += shape[1]
        if shape is None:
            return None
        kind, size = shape
        if kind in _NOT_IN_GROUP:
            raise self.damaged(position, f"event of type {kind} where a statement should be")
        if standalone or not self._text(position, kind, position + size).startswith(_OPENS_GROUP):
            return position + size
        return self._group_end(position + size)

    def _group_end(self, position: int) -> int | None:
        limit, shape = self._limit, self._shape
        while position + HEADER_SIZE <= limit:
            kind, size, behind = shape(position)
            end: int = position + size
            # Checksums here are left to the next transaction's GTID event: it only is where it should be if
            # the sizes that led there were right. MariaDB 11.8 does not say where most events end.
            strange = size < HEADER_SIZE or end > limit or (behind and end & _POSITION_MASK != behind)
            if strange and self._sound(position) is None:
                return None
            if kind == XID or (kind in _DECIDES and self._ends_group(position, kind, end)):
                return end
            position = end
        return None

    def _ends_group(self, position: int, kind: int, end: int) -> bool:
        if kind in _NOT_IN_GROUP:
            raise self.damaged(position, f"event of type {kind} inside an unfinished transaction")
        if kind != QUERY:
            return True
        text = self._text(position, kind, end)
        return text in _END_STATEMENTS or text.startswith(_END_XA)

    def _text(self, position: int, kind: int, end: int) -> bytes:
        """How the statement in the event starts, b"" if it is no query event."""
        return events.query_text(self._data, position, end - self._trailer) if kind == QUERY else b""

    def _between(self, position: int, kind: int, size: int) -> None:
        """Look at an event that stands between transactions."""
        if kind == FORMAT_DESCRIPTION:
            before = self.format
            try:
                self.format = events.parse_format(self._data[position : position + size])
            except ValueError as unreadable:
                raise self.damaged(position, str(unreadable)) from None
            except BinlogTooOld as old:
                raise BinlogTooOld(f"{self._name} was {old}") from None
            self._trailer = CHECKSUM_SIZE if self.format.checksum else 0
            if before not in (None, self.format):
                # Whoever looks at what is behind it has to have read it.
                self._identity = None
        elif kind == events.START_ENCRYPTION:
            raise BinlogEncrypted(
                f"{self._name} is encrypted (encrypt_binlog): it cannot be read from outside, see plain_log"
            )
        elif kind not in BETWEEN and not self._data[position + events.FLAGS_AT] & events.FLAG_IGNORABLE:
            raise self.damaged(position, f"event of type {kind} where a transaction should start")

    def whole(self, start: int, end: int) -> bool:
        """Whether every event of a transaction is sound; False if the file's unfinished end lies
        in it."""
        if end <= self._limit and self._all_match(start, end):
            return True
        position = start
        while position < end:
            shape = self._sound(position)
            if shape is None:
                return False
            position += shape[1]
        if position != end:
            raise self.damaged(start, "the transaction's length does not agree with its events")
        return True

    def _all_match(self, start: int, end: int) -> bool:
        """Whether each event has a checksum, and the right one."""
        second = start + self._shape(start)[1]
        return bool(self._trailer) and start < second <= end and all_match(self._data, start, second, end)

    def _sound(self, position: int) -> tuple[int, int] | None:
        """Type and size of the event at `position`, None at the unfinished end of what was written."""
        header_end = position + HEADER_SIZE
        if header_end > self._limit:
            return None
        kind, size, behind = self._shape(position)
        end = position + size
        in_place = behind == end & _POSITION_MASK if behind or self._trailer else kind not in _ALWAYS_PLACED
        if end > self._limit:
            if in_place:
                return None
            end = header_end
        elif size >= HEADER_SIZE + self._trailer and self._verified(position, end, in_place):
            return kind, size
        if max(end, header_end) < self._last_written():
            raise self.damaged(position, "its checksum, size or position is wrong")
        return None

    def _verified(self, position: int, end: int, in_place: bool) -> bool:
        # The first event has a checksum even in files whose other events have none.
        if self._trailer or self.format is None:
            return events.checksum_matches(self._data, position, end)
        return in_place

    def _last_written(self) -> int:
        """The offset behind the last byte that is not zero: a crash can leave a tail of zeros."""
        if self._written is None:
            end = self._limit
            while end > 0 and not (rest := self._data[max(0, end - _CHUNK) : end].rstrip(b"\0")):
                end -= _CHUNK
            self._written = max(0, end - _CHUNK) + len(rest) if end > 0 else 0
        return self._written

    def _body(self, start: int, size: int) -> bytes:
        return self._data[start : start + size - self._trailer]

    def damaged(self, position: int, what: str) -> BinlogDamaged:
        """What to raise when something is wrong at an offset."""

        return BinlogDamaged(f"{self._name} is damaged at offset {position}: {what}")


def _shapes(data: Live) -> Callable[[int], tuple[int, int, int]]:
    """Type, size and end position of the event at an offset."""
    if isinstance(data, Pieces):
        return lambda at: SHAPE.unpack(data[at : at + SHAPE.size])
    return partial(SHAPE.unpack_from, data)
