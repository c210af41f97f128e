"""A server that sends its log to whoever asks as to a replica, and a copy that is made of that."""

import shutil
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.mysql.archived import Server
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    FORMAT_DESCRIPTION,
    IGNORABLE,
    ROTATE,
    SHAPE,
    START_ENCRYPTION,
)
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG, NoSuchPosition, PlainLog
from zbackup.model.backup import BackupFiles
from zbackup.model.log import LogPosition
from zbackup.model.relocation import Relocation

CREATED_AT = 19 + 52


class Cut(Exception):
    """Whoever reads is killed here."""


def summed(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def changed(event: bytes, at: int, data: bytes) -> bytes:
    return summed((event[:at] + data + event[at + len(data) :])[:-4])


@dataclass
class SealedServer(Server):
    """Its log is encrypted: nobody but itself reads it. A MariaDB says so behind the head of each file."""

    most: int | None = None
    ended: list[int] = field(default_factory=list)
    sessions: int = 0

    @property
    def copy(self) -> Path:
        return self.directory / "plain"

    def headed(self) -> Builder:
        """No two files of one name began in the same second: by that alone the copy tells them apart."""
        return Builder(mariadb=self.mariadb, began=1_700_000_000 + self.began)

    def begin(self, number: int) -> None:
        super().begin(number)
        if self.mariadb:
            plain = self.files[number]
            head = bytes(plain.data[FIRST_EVENT:])
            described = SHAPE.unpack_from(head)[1]
            listed = head[described:]
            del plain.data[FIRST_EVENT + described :]
            plain.event(IGNORABLE, bytes(17), flags=0x80)
            plain.event(listed[4], listed[19:-4], seconds=int.from_bytes(listed[:4], "little"))
            self.past.pop()
            self.write()

    def live(self) -> BackupFiles:
        record, where = super().live()
        moves = (*where.moves, (str(self.copy), str(self.copy)))
        server = {**record.server, PLAIN_LOG: str(self.copy)}
        return BackupFiles(replace(record, server=server), Relocation(moves))

    def snapshot(self) -> None:
        copy_of(self).catch_up()
        super().snapshot()
        record, where = self.snapshots[0]
        held = self.directory / f"held-{len(self.snapshots)}"
        shutil.copytree(self.copy, held)
        server = {**record.server, PLAIN_LOG: str(self.copy)}
        moves = (*where.moves, (str(self.copy), str(held)))
        self.snapshots[0] = BackupFiles(replace(record, server=server), Relocation(moves))

    def plain(self) -> dict[str, bytes]:
        """Its log, as far as it is whole."""
        return {f"binlog.{number:06}": bytes(built.data) for number, built in self.files.items()}


@dataclass
class Session:
    """See plain_log.sent_log.SentLog. The events are those that real servers were seen to send."""

    server: SealedServer
    left: list[int] = field(default_factory=list)

    def files(self) -> list[str]:
        return sorted(self.server.plain())

    def end(self) -> LogPosition:
        name = max(self.server.plain())
        return LogPosition.of(name, len(self.server.plain()[name]))

    def events(self, file: str, offset: int) -> Iterator[bytes]:
        most, ended = self.server.most, self.server.ended.pop(0) if self.server.ended else None
        for number, event in enumerate(self._events(file, offset)):
            if number == most:
                raise Cut
            if number == ended:
                return  # as a MySQL whose session was ended: it says that this was all
            yield event

    def _events(self, file: str, offset: int) -> Iterator[bytes]:
        there = self.server.plain()
        if file not in there or offset > len(there[file]):
            raise NoSuchPosition(f"{file}:{offset} (1236)")
        for name in sorted(n for n in there if n >= file):
            at = offset if name == file else FIRST_EVENT
            yield summed(
                struct.pack("<IBIIIH", 0, ROTATE, 1, 19 + 8 + len(name) + 4, 0, 0x20)
                + struct.pack("<Q", at)
                + name.encode()
            )
            yield from self._file(there[name], at, name)

    def _file(self, content: bytes, begin: int, name: str) -> Iterator[bytes]:
        at, boundaries = FIRST_EVENT, {len(content)}
        while at < len(content):
            boundaries.add(at)
            kind, size, _ = SHAPE.unpack_from(content, at)
            event = content[at : at + size]
            if kind == IGNORABLE:
                event = changed(event, 4, bytes((START_ENCRYPTION,)))
            if at >= begin:
                if begin not in boundaries:
                    raise NoSuchPosition(f"bogus data in log event at {name}:{begin} (1236)")
                yield event
            elif kind == FORMAT_DESCRIPTION:
                yield changed(changed(event, CREATED_AT, bytes(4)), 13, bytes(4))
            elif kind == IGNORABLE:
                yield changed(event, 13, bytes(4))
            at += size


def copy_of(server: SealedServer) -> PlainLog:
    """The copy as a process sees it that has just begun."""

    @contextmanager
    def sent() -> Iterator[Session]:
        server.sessions += 1
        yield Session(server)

    return PlainLog(directory=server.copy, lock=server.directory / "run" / "lock", sent=sent)


def held(server: SealedServer) -> dict[str, bytes]:
    """What the copy has."""
    return {path.name: path.read_bytes() for path in sorted(server.copy.glob("binlog.*"))}


def require_same(server: SealedServer) -> None:
    """No hole, and every file as the server has it."""
    there, copied = server.plain(), held(server)
    assert copied == {name: content for name, content in there.items() if name >= min(copied)}
