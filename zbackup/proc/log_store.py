"""The log archive in a directory: each file's bytes, and beside them what was appended when, a line each.

DIRECTORY/SERVER/KEY.log      the bytes
DIRECTORY/SERVER/KEY.chunks   one line for each append (Chunk), written when its bytes are on disk
DIRECTORY/SERVER/EPOCH.writer who archives that epoch

What a line says counts, and nothing else: bytes behind the last line, and half a line, are of an append that
was cut short, and are written again. Nobody else writes here, so whatever is not ours is a reason to stop.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from zbackup.model.archive import (
    MOST_FILES,
    ArchivedFile,
    ArchiveInventory,
    Chunk,
    LogFileId,
    claim_name,
    complete_of,
    inventory_of,
)
from zbackup.model.errors import PoolFull, Refused, Taken, VerificationFailed
from zbackup.proc import secure_files

LOG, CHUNKS = ".log", ".chunks"
MOST_SERVERS: Final = 1000
_LONGEST_LINE: Final = 512
_LATEST: Final = 1 << 16
"""Bytes at the end of the lines in which the latest `complete_to` is looked for."""
_MODE: Final = 0o640
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class LogStore:
    """The archive below `directory`, which is there, and ours."""

    directory: Path

    def archived(self, address: str = "") -> ArchiveInventory:
        """All that is there, and what cannot be understood."""
        files: list[ArchivedFile] = []
        problems: list[str] = []
        headless: list[LogFileId] = []
        for server in sorted(self._servers()):
            names = _some(self.directory / server, MOST_FILES)
            headless += _headless(server, names)
            for name in sorted(names):
                key, ending = name[: -len(CHUNKS)], name[-len(CHUNKS) :]
                if ending != CHUNKS:
                    continue
                try:
                    file = LogFileId.parse(server, key)
                    if found := self._known(file):
                        files.append(found)
                        problems += self._lacking(found)
                except (ValueError, Refused, VerificationFailed) as problem:
                    problems.append(f"{server}/{name}: {problem}")
                except FileNotFoundError:
                    continue  # it was removed meanwhile
        return inventory_of(address, files, problems, headless)

    def newest(self, server: str) -> ArchivedFile | None:
        """The file of a server that was begun last; None where there is none of it. Raise ValueError where
        its name or its lines cannot be understood, and Refused."""
        if server not in self._servers():
            return None
        names = _some(self.directory / server, MOST_FILES)
        keys = [name[: -len(CHUNKS)] for name in names if name.endswith(CHUNKS)]
        # Epoch and number are written with leading zeros.
        return self._known(LogFileId.parse(server, max(keys))) if keys else None

    def claim(self, server: str, epoch: int, writer: str) -> str:
        """See destinations.base.Archiving.claim_log. Raise Refused for an epoch that none is in front of."""
        directory = self.directory / server
        path = directory / claim_name(epoch)
        if not secure_files.exists(path):
            self._begin_server(directory)
            _require_next_epoch(directory, epoch)
            os.close(secure_files.open_shared(path, os.O_WRONLY, _MODE))
            secure_files.sync_directory(directory)
        with self._locked(path, os.O_RDWR) as claim:
            found = os.pread(claim, _LONGEST_LINE, 0).decode("ascii", "replace")
            if found.endswith("\n"):
                return found[:-1]
            # Whoever began to write that was cut short, and was told nothing.
            os.ftruncate(claim, 0)
            os.pwrite(claim, f"{writer}\n".encode(), 0)
            os.fdatasync(claim)
        return writer

    def append(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        """See destinations.base.Archiving.append_log. Raise PoolFull when there is no room."""
        if len(data) != chunk.size or hashlib.sha256(data).hexdigest() != chunk.sha256:
            raise ValueError(f"{file}: what was to be appended is not what it was announced to be")
        try:
            with self._opened(file) as lines:
                last = self._cut_to_last(lines, file)
                if last == chunk:
                    return chunk.size
                _require_next(file, last, chunk)
                self._write(file, chunk, data)
                _write_all(lines, f"{chunk}\n".encode())
                os.fdatasync(lines)
        except OSError as failure:
            if failure.errno in _FULL:
                raise PoolFull(("zbackup-log", "append"), 1, f"no space left for {file}") from failure
            raise
        return chunk.size

    def read(self, file: LogFileId, begin: int, end: int) -> Iterator[tuple[Chunk, bytes]]:
        """The chunks that hold any of these bytes. Raise VerificationFailed when one is not what it was."""
        with (
            _opened_to_read(file, self._lines(file)) as lines,
            _opened_to_read(file, self._log(file)) as log,
        ):
            behind = 0
            for chunk in _chunks(file, lines):
                behind = chunk.end
                if chunk.end <= begin or chunk.begin >= end or not chunk.size:
                    continue
                log.seek(chunk.begin)
                data = log.read(chunk.size)
                if hashlib.sha256(data).hexdigest() != chunk.sha256:
                    raise VerificationFailed(
                        f"{file}: the bytes from {chunk.begin} to {chunk.end} are not what was archived"
                    )
                yield chunk, data
            if behind < end:
                raise VerificationFailed(f"{file} ends at {behind}, before {end}")

    def remove(self, file: LogFileId) -> None:
        """Take a file away: what it has counts no more from the first step on."""
        with contextlib.suppress(FileNotFoundError), self._locked(self._lines(file), os.O_RDWR):
            secure_files.unlink(self._lines(file))
            # Nobody starts the file again before this is gone, too.
            secure_files.unlink(self._log(file))
        self._forget_epoch(file)
        secure_files.remove_empty(self.directory / file.server)

    def _forget_epoch(self, file: LogFileId) -> None:
        """Nobody's word counts for an epoch of which nothing is left."""
        directory, claim = self.directory / file.server, claim_name(file.epoch)
        if not secure_files.exists(directory):
            return
        left = [name for name in secure_files.names(directory) if name.startswith(f"{file.epoch:08}.")]
        if left == [claim]:
            secure_files.unlink(directory / claim)

    def _servers(self) -> list[str]:
        return [name for name in _some(self.directory, MOST_SERVERS) if not name.startswith((".", "lost+"))]

    def _log(self, file: LogFileId) -> Path:
        return self.directory / file.server / f"{file.key}{LOG}"

    def _lines(self, file: LogFileId) -> Path:
        return self.directory / file.server / f"{file.key}{CHUNKS}"

    def _known(self, file: LogFileId) -> ArchivedFile | None:
        path = self._lines(file)
        ends = secure_files.read_end(path, _LATEST)
        whole = ends[: ends.rfind(b"\n") + 1].decode("ascii", "replace").split("\n")[:-1]
        if secure_files.size(path) > len(ends):
            whole = whole[1:]
        chunks = [Chunk.parse(line) for line in whole]
        if not chunks:
            return None
        path = self._log(file)
        stored = secure_files.stat(path).st_blocks * 512 if secure_files.exists(path) else 0
        return ArchivedFile(file=file, last=chunks[-1], complete_to=complete_of(chunks), stored=stored)

    def _lacking(self, known: ArchivedFile) -> list[str]:
        """What is missing of a file. Bytes are written before their line, so there are never fewer than
        it says."""
        try:
            size = secure_files.stat(self._log(known.file)).st_size
        except FileNotFoundError:
            size = 0
        if size >= known.size or not secure_files.exists(self._lines(known.file)):
            return []
        return [f"{known.file} has {size} bytes and should have {known.size}: what is missing was taken away"]

    @contextmanager
    def _opened(self, file: LogFileId) -> Iterator[int]:
        """The file's lines, made if they are not there, and nobody else's until the body has ended."""
        path = self._lines(file)
        if not secure_files.exists(path):
            self._begin(file)
        with self._locked(path, os.O_RDWR | os.O_APPEND) as lines:
            yield lines

    def _begin(self, file: LogFileId) -> None:
        """Raise Refused when there are too many to be listed."""
        directory = self.directory / file.server
        self._begin_server(directory)
        _require_next_epoch(directory, file.epoch)
        if len(secure_files.names(directory)) >= 2 * MOST_FILES:
            raise Refused(f"there are {MOST_FILES} files in {directory} already")
        # Bytes without lines are what a removal has left.
        for path in (self._lines(file), self._log(file)):
            os.close(secure_files.open_shared(path, os.O_WRONLY, _MODE))
        secure_files.sync_directory(directory)

    def _begin_server(self, directory: Path) -> None:
        if not secure_files.exists(directory):
            if len(self._servers()) >= MOST_SERVERS:
                raise Refused(f"there are {MOST_SERVERS} servers in {self.directory} already")
            secure_files.ensure_directory(directory, mode=0o750)
            secure_files.sync_directory(self.directory)

    @contextmanager
    def _locked(self, path: Path, flags: int) -> Iterator[int]:
        """Raise FileNotFoundError when it is taken away meanwhile."""
        descriptor = secure_files.open_shared(path, flags, _MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink != 1:
                raise FileNotFoundError(errno.ENOENT, "it was removed", str(path))
            yield descriptor
        finally:
            os.close(descriptor)

    def _cut_to_last(self, lines: int, file: LogFileId) -> Chunk | None:
        """The last chunk; half a line behind it was never acknowledged, and is taken away."""
        size = os.fstat(lines).st_size
        end = os.pread(lines, _LONGEST_LINE * 2, max(0, size - _LONGEST_LINE * 2))
        whole = end[: end.rfind(b"\n") + 1]
        if len(whole) < len(end):
            if len(end) - len(whole) > _LONGEST_LINE:
                raise VerificationFailed(f"what was appended to {file} cannot be read")
            os.ftruncate(lines, size - len(end) + len(whole))
        if not whole:
            return None
        try:
            return Chunk.parse(whole[:-1].rpartition(b"\n")[2].decode("ascii", "replace"))
        except ValueError as damaged:
            raise VerificationFailed(f"what was appended to {file} cannot be read: {damaged}") from damaged

    def _write(self, file: LogFileId, chunk: Chunk, data: bytes) -> None:
        log = secure_files.open_shared(self._log(file), os.O_RDWR, _MODE)
        try:
            size = os.fstat(log).st_size
            if size < chunk.begin:
                raise VerificationFailed(f"{file} has {size} bytes and should have {chunk.begin}")
            if size > chunk.begin:
                os.ftruncate(log, chunk.begin)
            os.lseek(log, chunk.begin, os.SEEK_SET)
            _write_all(log, data)
            os.fdatasync(log)
        finally:
            os.close(log)


def _headless(server: str, names: Sequence[str]) -> Iterator[LogFileId]:
    """The files of which only bytes are there, and nothing that says what they are."""
    there = set(names)
    for name in names:
        key = name.removesuffix(LOG)
        if key != name and f"{key}{CHUNKS}" not in there:
            with contextlib.suppress(ValueError):
                yield LogFileId.parse(server, key)


def _require_next(file: LogFileId, last: Chunk | None, chunk: Chunk) -> None:
    size = last.end if last else 0
    if last and last.closed:
        raise Taken(f"{file} is closed at {size}: somebody else archives it")
    if size != chunk.begin:
        raise Taken(f"{file} has {size} bytes, not {chunk.begin}: somebody else archives it")


def _require_next_epoch(directory: Path, epoch: int) -> None:
    """An epoch is begun behind the newest: who may only append cannot take all numbers away."""
    known = (name.partition(".")[0] for name in secure_files.names(directory))
    newest = max((int(each) for each in known if each.isascii() and each.isdecimal()), default=0)
    if epoch > newest + 1:
        raise Refused(f"{directory.name} has the epochs up to {newest}, and {epoch} is not the next one")


def _chunks(file: LogFileId, lines: Iterator[bytes]) -> Iterator[Chunk]:
    """Each goes on where the one before it ends. Half a line at the end does not count."""
    end = 0
    for line in lines:
        if not line.endswith(b"\n"):
            return
        try:
            chunk = Chunk.parse(line[:-1].decode("ascii", "replace"))
        except ValueError as damaged:
            raise VerificationFailed(f"what was appended to {file} cannot be read: {damaged}") from damaged
        if chunk.begin != end:
            raise VerificationFailed(f"{file} has a hole from {end} to {chunk.begin}")
        end = chunk.end
        yield chunk


def _opened_to_read(file: LogFileId, path: Path) -> IO[bytes]:
    try:
        return secure_files.open_regular(path)
    except FileNotFoundError as gone:
        raise VerificationFailed(f"{file} is not in the archive") from gone


def _some(directory: Path, most: int) -> list[str]:
    names = secure_files.names(directory)
    if len(names) > 2 * most:
        raise Refused(f"there are {len(names)} entries in {directory}: that is no archive of ours")
    return names


def _write_all(descriptor: int, data: bytes) -> None:
    with memoryview(data) as view:
        at = 0
        while at < len(view):
            at += os.write(descriptor, view[at:])
