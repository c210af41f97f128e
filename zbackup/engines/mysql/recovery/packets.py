"""Find which max_allowed_packet each part of a replay needs.

A statement that is logged as text can give NULL where its result is larger than max_allowed_packet, so an
applier needs the original's there. Events of rows can be larger than that, as a row has several columns, and
an applier refuses an event that is larger than its own (MySQL manual, replica_max_allowed_packet). So a
replay is made in steps: with the original's, and with the largest where rows need it, which either leaves
as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.compressed import (
    LARGEST,
    QUERY_COMPRESSED,
    ROWS_COMPRESSED,
    inner_events,
    record_size,
    uncompressed_size,
)
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    HEADER_SIZE,
    QUERY,
    SHAPE,
    TRANSACTION_PAYLOAD,
    Buffer,
)
from zbackup.engines.mysql.binlog.reader import opened
from zbackup.engines.mysql.binlog.transaction_events import rows_at
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.engines.mysql.server.settings import PACKET
from zbackup.model.log import LogPosition

_SPARE: Final = 4096
"""What an event can have more than the packet that its row came in, by the applier's count."""
_HEAD: Final = 2048
"""Bytes at the beginning of an event of rows that say which columns are there, and how large it was."""
_EXECUTE_LOAD_QUERY: Final = 18
_FRAME: Final = (b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT", b"XA ")
_LEAST: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class PacketStep:
    """Part of a replay: up to `stop`, with this max_allowed_packet. `ends_file` as in LogRange."""

    stop: LogPosition
    ends_file: bool
    packet: int


@dataclass(frozen=True, slots=True)
class PacketSteps:
    """The steps of a replay. `text`: it has statements as text, and `torn` is how many transactions have some
    and need the largest packet as well."""

    steps: tuple[PacketStep, ...]
    text: bool
    torn: int = 0


NONE: Final = PacketSteps((), text=False)


@dataclass(frozen=True, slots=True)
class _Group:
    """A transaction: where it begins, behind what, and its needs."""

    before: LogPosition
    follows_file: bool
    large: bool
    text: bool


def steps_of(log: LogRange, recorded: Mapping[str, str]) -> PacketSteps:
    """Divide a replay. `recorded` is Record.server."""
    given = recorded.get(PACKET, "")
    packet = max(int(given), _LEAST) if given.isdecimal() and len(given) <= len(str(LARGEST)) else LARGEST
    done: list[PacketStep] = []
    now, text, torn = 0, False, 0
    for group in _groups(log, packet):
        text, torn = text or group.text, torn + (group.large and group.text)
        need = LARGEST if group.large else packet if group.text else now
        if now and need != now:
            done.append(PacketStep(group.before, group.follows_file, now))
        now = need
    return PacketSteps((*done, PacketStep(log.stop, log.ends_file, now or packet)), text=text, torn=torn)


def one_step(log: LogRange) -> PacketSteps:
    """All at once, with what any transaction fits into: for a look at what it does, not for its rows."""
    return PacketSteps((PacketStep(log.stop, log.ends_file, LARGEST),), text=False)


def parts(log: LogRange, steps: Sequence[PacketStep]) -> Iterator[tuple[LogRange, int]]:
    """Each step of a replay as a range of its own, with its packet."""
    start = log.start
    for step in steps:
        files = tuple(
            f for f in log.files if start.sequence <= LogPosition.of(f.name, 0).sequence <= step.stop.sequence
        )
        yield replace(log, files=files, start=start, stop=step.stop, ends_file=step.ends_file), step.packet
        start = step.stop


def _groups(log: LogRange, packet: int) -> Iterator[_Group]:
    before, first = log.start, True
    for path in log.files:
        name, limit = path.name, log.torn.get(path.name)
        if name == log.stop.file:
            limit = log.stop.offset
        with opened(path, limit) as scanner:
            begins_file = not first
            for begin, end, _ in scanner.spans(log.start.offset if name == log.start.file else FIRST_EVENT):
                large, text = _needs(scanner.data, (begin, end), scanner.trailer, packet)
                yield _Group(before, begins_file, large, text)
                before, begins_file = LogPosition.of(name, end), False
        first = False


def _needs(data: Buffer, span: tuple[int, int], trailer: int, packet: int) -> tuple[bool, bool]:
    """Whether an event of the transaction is larger than the packet, and whether it has text."""
    at, end = span
    large = text = False
    unpack = SHAPE.unpack_from
    while at < end:
        kind, size, _ = unpack(data, at)
        if kind == QUERY:
            text = text or not events.query_text(data, at, at + size - trailer).startswith(_FRAME)
        elif kind in (QUERY_COMPRESSED, _EXECUTE_LOAD_QUERY):
            text = True
        elif kind == TRANSACTION_PAYLOAD:
            inside = data[at + HEADER_SIZE : at + size - trailer]
            larger = _size_inside(inside) + _SPARE > packet
            large = large or larger
            # Only what is in doubt is opened.
            text = text or not larger or _has_text(inside)
        elif kind in ROWS_COMPRESSED:
            inside = data[at + HEADER_SIZE : min(at + HEADER_SIZE + _HEAD, at + size - trailer)]
            large = large or _rows_size(kind, inside) + _SPARE > packet
        large = large or size + _SPARE > packet
        at += max(size, HEADER_SIZE)
    return large, text


def _rows_size(kind: int, head: bytes) -> int:
    try:
        return record_size(head[rows_at(ROWS_COMPRESSED[kind], head) :])
    except (ValueError, IndexError):  # The applier will say what is wrong with it.
        return LARGEST


def _size_inside(payload: bytes) -> int:
    try:
        return uncompressed_size(payload)
    except ValueError:  # The applier will say what is wrong with it.
        return LARGEST


def has_text(data: Buffer, span: tuple[int, int], trailer: int) -> bool:
    """Whether the transaction has statements as text, or may have some that are compressed."""
    return _needs(data, span, trailer, LARGEST)[1]


def _has_text(payload: bytes) -> bool:
    inner = inner_events(payload, _SPARE)
    try:
        return any(e[4] == QUERY and not events.query_text(e, 0, len(e)).startswith(_FRAME) for e in inner)
    except (ValueError, LookupError):
        return True
