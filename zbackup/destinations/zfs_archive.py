"""The log archive of an instance at a ZFS destination: in a dataset here, or behind another host's gate."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Protocol

from zbackup.model.archive import MOST_FILES, ArchivedFile, ArchiveInventory, Chunk, LogFileId
from zbackup.model.archive_order import LEFTOVER, LOG, LOG_COMMAND, LogOrder, parse_leftover, parse_line
from zbackup.model.errors import (
    CommandFailed,
    ConnectionFailed,
    NoArchive,
    Refused,
    Taken,
    VerificationFailed,
    ZbackupError,
)
from zbackup.proc.log_store import LogStore
from zbackup.proc.pipeline import Command, reading, writing
from zbackup.proc.run import Runner
from zbackup.zfs.log_dataset import LogDataset

_LONGEST_LINE = 1024
_NOT_FOUND = 127


class Logs(Protocol):
    """The protocol by which a ZFS session reaches its log archive; see destinations.base.Archiving."""

    def archived(self) -> ArchiveInventory: ...

    def claim(self, server: str, epoch: int, writer: str) -> str: ...

    def append(self, file: LogFileId, chunk: Chunk, data: bytes) -> int: ...

    def chunks(self, file: LogFileId, begin: int, end: int) -> Iterator[tuple[Chunk, bytes]]: ...

    def remove(self, file: LogFileId) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalLogs:
    """`home` is ROOT/INSTANCE on this host."""

    home: str
    address: str
    runner: Runner

    def archived(self) -> ArchiveInventory:
        directory = self._dataset.directory()
        if directory is None:
            return ArchiveInventory(address=self.address)
        return LogStore(directory).archived(self.address)

    def claim(self, server: str, epoch: int, writer: str) -> str:
        return LogStore(self._dataset.prepared()).claim(server, epoch, writer)

    def append(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        return LogStore(self._dataset.prepared()).append(file, chunk, data)

    def chunks(self, file: LogFileId, begin: int, end: int) -> Iterator[tuple[Chunk, bytes]]:
        directory = self._dataset.directory()
        if directory is None:
            raise VerificationFailed(
                f"{file} is not in the archive: there is no dataset {self._dataset.name}"
            )
        return LogStore(directory).read(file, begin, end)

    def remove(self, file: LogFileId) -> None:
        if directory := self._dataset.directory():
            LogStore(directory).remove(file)

    @property
    def _dataset(self) -> LogDataset:
        return LogDataset(home=self.home, name=f"{self.home}/{LOG}", runner=self.runner)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogs:
    """`home` is ROOT/INSTANCE on a host whose gate does what is asked for; `command` makes one end of it."""

    home: str
    address: str
    command: Callable[[tuple[str, ...]], Command]

    def archived(self) -> ArchiveInventory:
        files: list[ArchivedFile] = []
        problems: list[str] = []
        leftovers: list[LogFileId] = []
        with self._asking(), reading(self._command(LogOrder(verb="list", home=self.home))) as answer:
            for line in _lines(answer, MOST_FILES):
                if line.startswith("! "):
                    problems.append(line[2:])
                    continue
                try:
                    if line.startswith(f"{LEFTOVER} "):
                        leftovers.append(parse_leftover(line))
                        continue
                    files.append(parse_line(line))
                except ValueError as problem:
                    problems.append(str(problem))
        ordered = tuple(sorted(files, key=lambda each: each.file))
        return ArchiveInventory(
            address=self.address, files=ordered, problems=tuple(problems), leftovers=tuple(leftovers)
        )

    def claim(self, server: str, epoch: int, writer: str) -> str:
        order = LogOrder(verb="claim", home=self.home, claim=(server, epoch, writer))
        with self._asking(), reading(self._command(order)) as answer:
            said = answer.read(_LONGEST_LINE)
        return said.decode("ascii", "replace").removesuffix("\n")

    def append(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        order = LogOrder(verb="append", home=self.home, file=file, chunk=chunk)
        with self._asking(), writing(self._command(order)) as write:
            write(data)
        return chunk.size

    def chunks(self, file: LogFileId, begin: int, end: int) -> Iterator[tuple[Chunk, bytes]]:
        order = LogOrder(verb="read", home=self.home, file=file, begin=begin, end=end)
        with self._asking(), reading(self._command(order)) as answer:
            while line := answer.readline(_LONGEST_LINE):
                try:
                    chunk = Chunk.parse(line.decode("ascii", "replace").removesuffix("\n"))
                except ValueError as strange:
                    raise VerificationFailed(f"{file} at {self.address}: {strange}") from strange
                yield chunk, _exactly(answer, chunk.size)

    def remove(self, file: LogFileId) -> None:
        with (
            self._asking(),
            reading(self._command(LogOrder(verb="remove", home=self.home, file=file))) as said,
        ):
            said.read(_LONGEST_LINE)

    def _command(self, order: LogOrder) -> Command:
        return self.command(order.words())

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except ConnectionFailed:
            raise
        except CommandFailed as failure:
            raise self._meant(failure) from failure

    def _meant(self, failure: CommandFailed) -> ZbackupError:
        """Return the error that the other side meant, by its exit status: it is a zbackup, or there is
        none."""
        said = (failure.stderr.strip().splitlines() or ["no message"])[-1].removeprefix("zbackup: ")
        where = f"{said} (on {failure.where or self.address})"
        if failure.returncode == _NOT_FOUND or f"{LOG_COMMAND!r} is not" in said:
            return NoArchive(
                f"{self.address} takes no log archive: over ssh that needs the gate of this zbackup there "
                f"(zbackup gate as the key's forced command)"
            )
        if type(failure) is not CommandFailed:
            return failure
        kinds: tuple[type[ZbackupError], ...] = (Taken, Refused, VerificationFailed)
        return next((kind(where) for kind in kinds if kind.exit_status == failure.returncode), failure)


def _lines(answer: IO[bytes], most: int) -> Iterator[str]:
    for _ in range(most):
        line = answer.readline(_LONGEST_LINE)
        if not line:
            return
        yield line.decode("ascii", "replace").removesuffix("\n")
    raise VerificationFailed(f"more than {most} files are said to be in the archive")


def _exactly(answer: IO[bytes], size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (more := answer.read(size - len(found))):
        found += more
    return bytes(found)
