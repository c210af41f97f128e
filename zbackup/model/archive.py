"""Words for the log archive at a destination: files of a server's log, appended to while they are written.

An archived file holds the bytes 0 to its size of one file of a server's log, as the server had them, with no
hole. It is only ever appended to. What belongs together is told by number, epoch and head, never by name:

- `number` is the N of binlog.N. After a reset another log has the same numbers.
- `epoch` counts up for each server: a new one begins whenever the server's log is not what was archived of it
  (crash truncation, RESET, renumbering), with the first file that differs, from its byte 0. Within an epoch
  there is one file of each number at most.
- `follows` is the epoch of the file `number` - 1 that this one was seen to continue, both there at once and
  that one as archived; None where that was not seen: the first one ever, after a reset, behind a gap.
- `head` is a hash of the server and of what is fixed at a file's beginning; it is the same in two epochs of
  one file, and differs between two files of the same name.

The flag "in use" of a binlog's first event is cleared in what is archived, as in a file that was closed.
What is different with an oplog says model.oplog_position.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from zbackup.model import bounds
from zbackup.model.oplog_position import OplogPosition, begin_of, end_of

MOST_CHUNK: Final = 16 << 20
"""Bytes of one append."""
MOST_FILES: Final = 1_000_000
"""Archived files of one instance at one destination."""
MOST_EPOCH: Final = 99_999_999
TAIL: Final = 1 << 16
"""Bytes at the end of what was archived by which it is compared with the server's file."""

WRITER: Final = re.compile(r"[0-9a-f]{32}")
"""The name of who archives, made at random."""
CLAIM: Final = ".writer"
"""Behind an epoch's number (claim_name), what it is called where it is written down who archives it."""

_SERVER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,159}")
_KEY = re.compile(
    r"(?P<epoch>[0-9]{8})\.(?P<number>[0-9]{10})\.(?P<follows>[0-9]{8}|none)\.(?P<head>[0-9a-f]{32})"
    rf"\.(?P<name>{_NAME.pattern})"
)
_CHUNK = re.compile(
    r"(?P<begin>[0-9]{16})-(?P<end>[0-9]{16})\.(?P<sha256>[0-9a-f]{64})\.(?P<tail>[0-9a-f]{32})"
    r"\.(?P<read>[0-9]{16})\.(?P<complete>[0-9]{16}|none)\.(?P<closed>open|closed)"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogFileId:
    """The identity of an archived file; ordered as they were begun, by server, epoch and number.

    `server` is server_key() of Record.server_uuid; `name` what the server calls the file, without its
    directory.
    """

    server: str
    epoch: int
    number: int
    follows: int | None = field(compare=False)
    head: str
    name: str

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be written down and read again."""
        require_server(self.server)
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"{bounds.shown(self.key)} is no name for a file in an archive")

    @property
    def key(self) -> str:
        """All of it but the server, as the name of a file or an object."""
        follows = "none" if self.follows is None else f"{self.follows:08}"
        return f"{self.epoch:08}.{self.number:010}.{follows}.{self.head}.{self.name}"

    @classmethod
    def parse(cls, server: str, key: str) -> "LogFileId":
        """Read back what `key` is. Raise ValueError for anything else."""
        found = _KEY.fullmatch(key)
        if not found:
            raise ValueError(f"{bounds.shown(key)} is no file of an archive")
        return cls(
            server=server,
            epoch=int(found["epoch"]),
            number=int(found["number"]),
            follows=None if found["follows"] == "none" else int(found["follows"]),
            head=found["head"],
            name=found["name"],
        )

    @property
    def begin(self) -> OplogPosition | None:
        """The position of the first entry; None for a file that is of no oplog."""
        return begin_of(self.name)

    def __str__(self) -> str:
        return f"{self.name} (epoch {self.epoch} of {self.server})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One append: the bytes from `begin` to `end` of a file.

    `sha256` is of these bytes, `tail` what tail_hash() says of the file's bytes up to `end`, or of an oplog
    the position of the last entry (OplogPosition.tail), both in hexadecimal. `read` is what the clock of the
    server's host said before it was looked how far the file goes: what was acknowledged before is in the file
    up to there. `complete_to` says that everything committed before it is inside up to `end`, by the clock
    that the commit times are of; None where that is not known, and in front of the end of a large
    transaction. `closed`: the server has begun the next file, and this one has no more; its size is final. A
    chunk without bytes says how it is with a file of which nothing new was written.
    """

    begin: int
    end: int
    sha256: str
    tail: str
    read: datetime
    complete_to: datetime | None = None
    closed: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for what cannot be written down and read again."""
        if not _CHUNK.fullmatch(str(self)) or not 0 <= self.end - self.begin <= MOST_CHUNK:
            raise ValueError(f"{bounds.shown(str(self))} is no chunk of a log")

    @property
    def size(self) -> int:
        return self.end - self.begin

    @classmethod
    def parse(cls, text: str) -> "Chunk":
        """Read back what str() wrote. Raise ValueError for anything else."""
        found = _CHUNK.fullmatch(text)
        if not found:
            raise ValueError(f"{bounds.shown(text)} is no chunk of a log")
        return cls(
            begin=int(found["begin"]),
            end=int(found["end"]),
            sha256=found["sha256"],
            tail=found["tail"],
            read=_moment(found["read"]),
            complete_to=None if found["complete"] == "none" else _moment(found["complete"]),
            closed=found["closed"] == "closed",
        )

    def __str__(self) -> str:
        complete = "none" if self.complete_to is None else f"{_microseconds(self.complete_to):016}"
        return (
            f"{self.begin:016}-{self.end:016}.{self.sha256}.{self.tail}"
            f".{_microseconds(self.read):016}.{complete}.{'closed' if self.closed else 'open'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedFile:
    """The state of one file at a destination: the bytes 0 to `last.end`, in `last`, its newest chunk,
    and before.

    `complete_to` is what complete_of() says of all its chunks. `stored` is what it takes there.
    """

    file: LogFileId
    last: Chunk
    complete_to: datetime | None = None
    stored: int = 0

    @property
    def size(self) -> int:
        return self.last.end

    @property
    def closed(self) -> bool:
        return self.last.closed

    @property
    def end_position(self) -> OplogPosition | None:
        """The position of the last entry; None for a file of no oplog, or that says nothing that can be."""
        try:
            return end_of(self.last.tail) if self.file.begin else None
        except ValueError:
            return None

    @property
    def end(self) -> str:
        """The position in the log where it ends, in the server's own words."""
        return str(self.end_position or f"{self.file.name}:{self.size}")

    def continues(self, other: "ArchivedFile") -> bool:
        """Whether this one was seen to continue the other, of which nothing is missing."""
        mine, its = self.file, other.file
        follows = (its.server, its.number, its.epoch) == (mine.server, mine.number - 1, mine.follows)
        return other.closed and follows and mine.begin == other.end_position


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveInventory:
    """All archived files of an instance at a destination, in the order of LogFileId.

    `address` is where that is, for people. `problems` are what lies there and cannot be understood.
    `leftovers` are files whose removal was cut short: nothing of them counts, and removing them again takes
    them away.
    """

    address: str
    files: tuple[ArchivedFile, ...] = ()
    problems: tuple[str, ...] = ()
    leftovers: tuple[LogFileId, ...] = ()

    def of(self, server: str) -> tuple[ArchivedFile, ...]:
        """The files of one server."""
        return tuple(each for each in self.files if each.file.server == server)

    def with_append(self, file: LogFileId, chunk: Chunk, stored: int) -> "ArchiveInventory":
        """The same after an append. Raise ValueError if it cannot be made to what is there."""
        # It is the newest as a rule, and of others there may be many.
        newest_first = range(len(self.files) - 1, -1, -1)
        at = next((n for n in newest_first if self.files[n].file.key == file.key), None)
        before = self.files[at] if at is not None else None
        size = before.size if before else 0
        if chunk.begin != size or (before and before.closed):
            raise ValueError(f"{file} has {size} bytes, and is not continued at {chunk.begin}")
        now = ArchivedFile(
            file=file,
            last=chunk,
            complete_to=complete_after(before.complete_to if before else None, chunk),
            stored=stored + (before.stored if before else 0),
        )
        if at is not None:
            files = (*self.files[:at], now, *self.files[at + 1 :])
        elif not self.files or self.files[-1].file < file:
            files = (*self.files, now)
        else:
            files = tuple(sorted((*self.files, now), key=lambda each: each.file))
        return replace(self, files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveRules:
    """The names of the destinations that an instance's log is archived at, and how often, in seconds."""

    to: tuple[str, ...]
    every: float


def inventory_of(
    address: str, files: Iterable[ArchivedFile], problems: Iterable[str], headless: Iterable[LogFileId]
) -> ArchiveInventory:
    """The inventory of files, in order, and of `headless` ones, whose beginning is missing. Pure.

    Those of them were left by a removal that are older than all of their server's: it takes the oldest first,
    and of no server the newest. Of any other nobody knows where its beginning went: it is a problem.
    """
    ordered = tuple(sorted(files, key=lambda each: each.file))
    oldest: dict[str, LogFileId] = {}
    for each in ordered:
        oldest.setdefault(each.file.server, each.file)
    left, lost = list[LogFileId](), list[LogFileId]()
    for file in sorted(headless):
        (left if file.server in oldest and file < oldest[file.server] else lost).append(file)
    return ArchiveInventory(
        address=address,
        files=ordered,
        problems=(*problems, *(f"{file}: its beginning is missing" for file in lost)),
        leftovers=tuple(left),
    )


def server_key(server_uuid: str) -> str:
    """Return the name of a server in archives, by Record.server_uuid: that, where it can be part of a
    path."""
    if _SERVER.fullmatch(server_uuid):
        return server_uuid
    return hashlib.sha256(b"zbackup log server\n" + server_uuid.encode()).hexdigest()[:32]


def claim_name(epoch: int) -> str:
    """Return what it is called where it is written down who archives an epoch, beside the server's files."""
    return f"{epoch:08}{CLAIM}"


def require_server(server: str) -> str:
    """Return the name of a server as it is in archives. Raise ValueError for anything else."""
    if not _SERVER.fullmatch(server):
        raise ValueError(f"{bounds.shown(server)} is no name for a server in an archive")
    return server


def require_writer(text: str) -> str:
    """Return the name of who archives. Raise ValueError for anything else."""
    if not WRITER.fullmatch(text):
        raise ValueError(f"{bounds.shown(text)} is no name of who archives")
    return text


def tail_hash(data: bytes) -> str:
    """The hash of a file's last TAIL bytes (or all) up to some offset; the flag "in use" is cleared."""
    return hashlib.sha256(data[-TAIL:]).hexdigest()[:32]


def head_hash(server: str, head: bytes) -> str:
    """The hash of what is fixed at the beginning of a server's file; the flag "in use" is cleared."""
    return hashlib.sha256(b"zbackup log file\n" + server.encode() + b"\n" + head).hexdigest()[:32]


def complete_of(chunks: Iterable[Chunk]) -> datetime | None:
    """Up to when everything committed is in these chunks, which continue each other; None where none says.

    The last that says something counts: an earlier one may have been written by a clock that had leapt. What
    was read later bounds it, too. Pure.
    """
    found: datetime | None = None
    for chunk in chunks:
        found = complete_after(found, chunk)
    return found


def complete_after(before: datetime | None, chunk: Chunk) -> datetime | None:
    """The same when one more follows what was complete to `before`."""
    said = chunk.complete_to or before
    return min(said, chunk.read) if said else None


def whole(chunks: Sequence[Chunk]) -> tuple[Chunk, ...]:
    """The chunks that continue each other from byte 0, without those that are covered by others and whatever
    lies behind a hole. Of two that begin at one offset the longer one counts. Pure."""
    found: list[Chunk] = []
    end = 0
    for chunk in sorted(chunks, key=lambda c: (c.begin, -c.end, c.closed, c.read)):
        if chunk.begin > end:
            break
        if chunk.begin == end and not (found and found[-1].closed):
            found.append(chunk)
            end = chunk.end
    return tuple(found)


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: str) -> datetime:
    found = _EPOCH + int(microseconds) * _MICROSECOND
    return bounds.moment(found.isoformat())
