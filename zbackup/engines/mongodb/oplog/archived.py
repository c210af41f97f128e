"""Archived oplog in a directory, read without a server; and how it is put there out of what was archived.

DIRECTORY/SECONDS-INCREMENT-TERM.oplog    entries one behind another, called by the position of the first

All that is in it was proven to be an oplog when it was put there, and the directory is root's alone.
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog.oplog import Entry
from zbackup.engines.mongodb.oplog.stored import StoredEntry, decoded, documents, in_order, stored_entry
from zbackup.engines.mongodb.optime import timestamp
from zbackup.model.added_log import AddedFile, NotContinued
from zbackup.model.errors import NotRecoverable, VerificationFailed
from zbackup.model.oplog_position import OplogPosition, begin_of
from zbackup.model.progress import Progress
from zbackup.proc import secure_files

DIRECTORY: Final = "zbackup-archived-oplog"
_PIECE: Final = 1 << 20
_FAR: Final = ((1 << 32) - 1, (1 << 32) - 1)
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
    "$in": lambda value, some: value in some,
}


@dataclass(frozen=True, slots=True)
class ArchivedOplog:
    """The oplog that put_in() put into a directory. See oplog.Oplog. `identity` is the set's name and id."""

    directory: Path
    identity: tuple[str, str]

    def find(self, wanted: Mapping[str, Any], *, backwards: bool = False) -> Entry | None:
        if not backwards:
            found = next(self._entries(wanted), None)
            return decoded(found.data) if found else None
        for path in reversed(self._paths(wanted)):
            last = None
            for last in self._of(path, wanted):  # noqa: B007
                pass
            if last:
                return decoded(last.data)
        return None

    def raw(self, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        for entry in self._entries(wanted):
            yield entry.data

    def count(self, wanted: Mapping[str, Any]) -> int:
        return sum(1 for _ in self._entries(wanted))

    def sure(self) -> Timestamp | None:
        """All of it: only what a majority has, and nothing takes back, is archived."""
        return None

    def size(self) -> tuple[int, int]:
        """See oplog.Oplog. It may hold what it holds."""
        size = sum(secure_files.size(path) for path in self._paths({}))
        return size, size

    def replica_set(self) -> tuple[str, str]:
        return self.identity

    def contains(self, position: OplogPosition) -> bool:
        """Whether the entry at that position is inside."""
        found = self.find({"ts": {"$gte": timestamp(position), "$lte": timestamp(position)}})
        return found is not None and OplogPosition.of(found) == position

    def _entries(self, wanted: Mapping[str, Any]) -> Iterator[StoredEntry]:
        for path in self._paths(wanted):
            yield from self._of(path, wanted)

    def _paths(self, wanted: Mapping[str, Any]) -> list[Path]:
        """The files that may hold any of these, in order."""
        known = (begin_of(name) for name in secure_files.names(self.directory))
        begins = sorted(position for position in known if position)
        first, last = _bounds(wanted.get("ts", {}))
        # A file goes up to where the next one begins.
        behind = [*(position.cluster_time for position in begins[1:]), _FAR]
        return [
            self.directory / position.name
            for position, following in zip(begins, behind, strict=True)
            if position.cluster_time <= last and first <= following
        ]

    def _of(self, path: Path, wanted: Mapping[str, Any]) -> Iterator[StoredEntry]:
        times, walls = wanted.get("ts", {}), wanted.get("wall", {})
        _, behind = _bounds(times)
        everything = not wanted
        with secure_files.open_regular(path) as file:
            for data in documents(iter(lambda: file.read(_PIECE), b"")):
                entry = StoredEntry(data)
                if everything:
                    yield entry
                    continue
                if entry.position.cluster_time > behind:
                    return
                position = Timestamp(*entry.position.cluster_time)
                if _is_like(position, times) and _is_like(entry.wall, walls):
                    yield entry


def archived_oplog(dbpath: Path, identity: tuple[str, str]) -> ArchivedOplog:
    """The one that put_in() put beside a server's files."""
    return ArchivedOplog(dbpath / DIRECTORY, identity)


def put_in(
    dbpath: Path, added: Sequence[AddedFile], wanted: OplogPosition | None, progress: Progress
) -> tuple[OplogPosition, OplogPosition]:
    """Put archived files, in their order, beside a server's files; the positions of the first and last entry.

    `wanted` has to be among the entries. Raise NotRecoverable when it is not, NotContinued when this is no
    oplog without a hole: then nothing of it is there.
    """
    directory = dbpath / DIRECTORY
    secure_files.remove_tree(directory)
    secure_files.make_directory(directory, mode=0o700)
    try:
        return _put_in(directory, added, wanted, progress)
    except BaseException:
        secure_files.remove_tree(directory)
        raise


def _put_in(
    directory: Path, added: Sequence[AddedFile], wanted: OplogPosition | None, progress: Progress
) -> tuple[OplogPosition, OplogPosition]:
    writing = _Writing(directory, wanted, progress, sum(each.size for each in added))
    for index, file in enumerate(added):
        reading = _FileReading(file)
        try:
            writing.add(file, reading)
        except VerificationFailed as wrong:
            if reading.failed:
                raise
            raise NotContinued(f"{file.name}: {wrong}", index) from wrong
    first, last = writing.first, writing.last
    if first is None or last is None:
        raise NotRecoverable("nothing of the oplog is archived there")
    if wanted and last.position.cluster_time < wanted.cluster_time:
        raise NotRecoverable(f"what is archived ends at {last.position}, before the backup does ({wanted})")
    return first, last.position


@dataclass(slots=True)
class _FileReading:
    """A file's bytes, and whether it was reading them that failed."""

    file: AddedFile
    failed: bool = False

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self.file.read(0, self.file.size)
        except VerificationFailed:
            self.failed = True
            raise


@dataclass(slots=True)
class _Writing:
    """The files that are written, up to the entry `last`."""

    directory: Path
    wanted: OplogPosition | None
    progress: Progress
    total: int
    done: int = 0
    first: OplogPosition | None = None
    last: StoredEntry | None = None

    def add(self, file: AddedFile, chunks: Iterable[bytes]) -> None:
        """Write its entries, but for the one that it has in common with the file before it."""
        entries = in_order(map(stored_entry, documents(chunks, cut=not file.end)))
        begin = next(entries, None)
        if begin is None or begin.position != begin_of(file.name):
            raise VerificationFailed("it does not begin with the entry that it is called by")
        if self.last is None:
            self.first = begin.position
            rest = chain((begin,), entries)
        elif begin.data != self.last.data:
            raise VerificationFailed(f"it does not go on from {self.last.position}: there is a hole")
        else:
            rest = chain((), entries)
        self._write(rest)
        if file.end and (self.last is None or str(self.last.position) != file.end):
            raise VerificationFailed(f"it does not end at {file.end}, as was archived")

    def _write(self, entries: Iterator[StoredEntry]) -> None:
        entry = next(entries, None)
        if entry is None:
            return
        with secure_files.open_to_append(self.directory / entry.position.name, 0o600) as sink:
            for each in chain((entry,), entries):
                _require_not_passed(self.wanted, self.last, each)
                sink.write(each.data)
                self.last = each
                self.done += len(each.data)
                self.progress.advance(min(self.done, self.total), self.total)


def _require_not_passed(wanted: OplogPosition | None, last: StoredEntry | None, entry: StoredEntry) -> None:
    if wanted is None or entry.position == wanted or entry.position.cluster_time < wanted.cluster_time:
        return
    if last is None or last.position.cluster_time < wanted.cluster_time:
        raise NotRecoverable(
            f"{wanted}, where the backup's oplog ended, is not in what is archived: it was rolled back, or "
            "this is the oplog of another server of the same name"
        )


def _bounds(times: Mapping[str, Timestamp]) -> tuple[tuple[int, int], tuple[int, int]]:
    lower = [(t.time, t.inc) for word in ("$gt", "$gte") if (t := times.get(word))]
    upper = [(t.time, t.inc) for word in ("$lt", "$lte") if (t := times.get(word))]
    return max(lower, default=(0, 0)), min(upper, default=_FAR)


def _is_like(value: Any, bounds: Mapping[str, Any]) -> bool:
    return all(_COMPARED[word](value, bound) for word, bound in bounds.items())
