"""Keep files with the bytes of a server's binary log as they would be without encryption.

Nothing runs all the time: whoever reads the log has the copy go on first, from where it ends, in one session
with the server that reads up to where the log ends then. The server keeps nothing back for it: what was
purged before it was read is a gap, which the files' numbers show. What the copy ends with is read once more,
so that another log (RESET, a crash that cut it off, another server) is seen; those files are left then.
Whoever is killed leaves an event in part at most, which is cut off. The files are for nobody else.
"""

import errno
import os
import re
import stat as modes
import time
import uuid
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final, Protocol

from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, DifferentLog, GapError
from zbackup.engines.mysql.binlog.events import FIRST_EVENT, HEADER, HEADER_SIZE, MAGIC
from zbackup.engines.mysql.binlog.files import log_files, sequence
from zbackup.engines.mysql.binlog.reader import opened_live
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import Connection, StatementFailed, connect
from zbackup.engines.mysql.server.status import dialect, log_status
from zbackup.model.backup import BackupFiles
from zbackup.model.command_line import command_line
from zbackup.model.errors import DatabaseError, Refused, VerificationFailed, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.log import LogPosition
from zbackup.proc import secure_files
from zbackup.proc.lock import exclusive
from zbackup.proc.run_directory import daemon_user

SILENT_S: Final = 30.0
"""Seconds that the server may send nothing, while there is more of the log than was read."""

_NO_SUCH_POSITION: Final = 1236
_CHECKSUMS: Final = (
    "SET @source_binlog_checksum = @@global.binlog_checksum,"
    " @master_binlog_checksum = @@global.binlog_checksum"
)
_NAMED: Final = "SET @replica_uuid = %s, @slave_uuid = %s"
"""MySQL ends other sessions that read its log under the same name, and all that have none are one to it."""
_ALL_EVENTS: Final = "SET @mariadb_slave_capability = 4"
"""Else a MariaDB leaves out or rewrites what older replicas do not know (its manual, "Slave Capability")."""


class NoSuchPosition(DatabaseError):
    """The server has nothing of its log at a position that was asked for."""


class SentLog(Protocol):
    """One session with a server. After `events` it is of no use for anything else."""

    def files(self) -> list[str]:
        """Names of the log's files, the oldest first."""

    def end(self) -> LogPosition:
        """Where the log ends now. Raise Refused where the server keeps none."""

    def events(self, file: str, offset: int) -> Iterator[bytes]:
        """The events from there on, file after file, up to where the log ends when all were read.

        Raise NoSuchPosition where no event begins there.
        """


@dataclass(frozen=True, slots=True)
class ServerLog:
    connection: Connection

    def files(self) -> list[str]:
        return [str(row["Log_name"]) for row in self.connection.rows("SHOW BINARY LOGS")]

    def end(self) -> LogPosition:
        position = log_status(self.connection, dialect(self.connection)).position
        if position is None:
            raise Refused(f"the server at {self.connection.where} keeps no binary log")
        return position

    def events(self, file: str, offset: int) -> Iterator[bytes]:
        """See SentLog. The server knows no such replica, waits for none and keeps nothing back for it."""
        self.connection.execute(_CHECKSUMS)
        mariadb = dialect(self.connection).flavor == "mariadb"
        if mariadb:
            self.connection.execute(_ALL_EVENTS)
        else:
            own = str(uuid.uuid4())
            self.connection.execute(_NAMED, (own, own))
        try:
            yield from self.connection.binlog(file, offset, annotated=mariadb)
        except StatementFailed as failure:
            if failure.code != _NO_SUCH_POSITION:
                raise
            raise NoSuchPosition(str(failure)) from failure


@contextmanager
def sent_log(options: ConnectOptions) -> Iterator[SentLog]:
    """Open a session. Raise what connect() raises."""
    with connect(replace(options, limit_s=options.limit_s or SILENT_S)) as connection:
        yield ServerLog(connection)


PLAIN_LOG: Final = "plain_log"
"""In Record.server: the directory with the copy, which is the log that the backup holds."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,200}\.\d{6,10}")
_HEAD: Final = (events.FORMAT_DESCRIPTION, events.START_ENCRYPTION)
_ARTIFICIAL: Final = 0x20
_POSITION: Final = 8
_POSITIONS: Final = 1 << 32
_MOST_AGAIN: Final = 1 << 20
"""Bytes of the last transaction that are read again; of a longer one only its last event."""
_LOCKED_WITHIN_S: Final = 60.0
_AGAIN_S: Final = (0.1, 1.0, 5.0)
"""Seconds until a server that sent less than all is asked again. It sends no transaction that it has not
synced yet, and where such a session is ended it may say that this was all."""


@dataclass(frozen=True, slots=True)
class _End:
    """The end of a file of the copy, behind a whole event, and a position where an event begins before it."""

    identity: tuple[int, int]
    again: int
    end: int


@dataclass(slots=True, kw_only=True)
class PlainLog:
    """The copy in `directory`. `sent` opens a session with the server; `lock` keeps a second writer out."""

    directory: Path
    lock: Path
    sent: Callable[[], AbstractContextManager[SentLog]]
    _known: dict[str, _End] = field(default_factory=dict, init=False)

    def catch_up(self) -> LogPosition:
        """Everything that was acknowledged before is in the copy then. Return its end.

        Raise as read_on(), and DatabaseError where the server sends less than it has.
        """
        ends: list[LogPosition] = []
        with self.locked():
            for pause in (*_AGAIN_S, None):
                reached, end = self._guarded(None)
                ends.append(end)
                # Since a reset it ends where it never did.
                if reached >= min(ends):
                    return reached
                if pause is not None:
                    time.sleep(pause)
        raise DatabaseError(f"the server sent its log up to {reached} only, and it ends at {end}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes to the copy meanwhile. Raise Taken while somebody does."""
        with exclusive(self.lock, "reading the log from the server", wait=_LOCKED_WITHIN_S):
            yield

    def read_on(self, upto: LogPosition | None = None) -> LogPosition:
        """Read up to a position, by default to the end of the server's log; locked(). Return the copy's end.

        Raise DatabaseError where the server does not answer, the account may not, or the copy cannot be
        written, and VerificationFailed where the server sends what is no log.
        """
        return self._guarded(upto)[0]

    def _guarded(self, upto: LogPosition | None) -> tuple[LogPosition, LogPosition]:
        """The copy's end, and where it was to be."""
        try:
            return self._read_on(upto)
        except OSError as failure:
            what = f"the copy of the log in {self.directory} cannot be written: {failure}"
            hint = "; its unit has to name it (ReadWritePaths=)" if failure.errno == errno.EROFS else ""
            raise DatabaseError(f"{what}{hint}") from failure

    def _read_on(self, upto: LogPosition | None) -> tuple[LogPosition, LogPosition]:
        self.require_own()
        oldest = min((sequence(path.name) for path in self._files()), default=None)
        whole = False
        while True:
            with self.sent() as sent:
                upto = upto or sent.end()
                names = _checked(sent.files())
                last = self._last(names)
                if last is None:
                    return _LogPass(self, _first(names, oldest), FIRST_EVENT, None, upto).run(sent), upto
                end = self._end(last)
                if end is None:
                    secure_files.unlink(last)
                    continue
                again = FIRST_EVENT if whole or end.again >= _POSITIONS else end.again
                try:
                    return _LogPass(self, last.name, again, end, upto).run(sent), upto
                except NoSuchPosition:
                    if whole:
                        raise
                    whole = True
                except DifferentLog as other:
                    log.warning("plain_log.other_log", file=last.name, why=str(other))
                    self.remember(last.name, None)
                    secure_files.unlink(last)
                    whole = False

    def require_own(self) -> tuple[int, int]:
        """Make the directory unless it is there, and tell whose it is: root's, ours, or the daemon's.

        What is in it is in the clear: raise Refused where anybody else could come to it.
        """
        secure_files.ensure_directory(self.directory, mode=0o700)
        return self.require_safe()

    def require_safe(self) -> tuple[int, int]:
        """The same of a directory that is there; nothing is made."""
        found, daemon, us = secure_files.stat(self.directory), daemon_user(), os.geteuid()
        whose = f"{self.directory} belongs to user id {found.st_uid}"
        if found.st_uid not in {0, us, *((daemon[0],) if daemon else ())}:
            raise Refused(f"{whose}: give it to root or to the daemon's user")
        if us not in (0, found.st_uid):
            raise Refused(f"{whose}, and this is {us}: run this as that user, or as root")
        if not modes.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
            raise Refused(f"{self.directory} is not for its owner alone: name another in plain_log, mode 700")
        return found.st_uid, found.st_gid

    def require_usable(self) -> None:
        """Raise Refused where the copy cannot be made, as far as that is seen by looking."""
        if secure_files.exists(self.directory):
            self.require_safe()

    def remember(self, name: str, end: _End | None) -> None:
        """Keep in mind where a file ends; None: that has to be found out again."""
        self._known.pop(name, None)
        if end:
            self._known[name] = end

    def _files(self) -> list[Path]:
        """All there are, the oldest first."""
        stems = {
            name.rpartition(".")[0] for name in secure_files.names(self.directory) if _NAME.fullmatch(name)
        }
        found = [path for stem in stems for path in log_files(None, self.directory, stem)]
        return sorted(found, key=lambda path: sequence(path.name))

    def _last(self, names: list[str]) -> Path | None:
        """The newest file; those that the server has purged are removed, the oldest first."""
        found = self._files()
        for path in [each for each in found if each.name not in names]:
            secure_files.unlink(path)
            self.remember(path.name, None)
        return next((path for path in reversed(found) if path.name in names), None)

    def _end(self, path: Path) -> _End | None:
        """Cut off what is no whole event; None where nothing is left of the file then."""
        with secure_files.open_regular(path) as file:
            facts = os.fstat(file.fileno())
        known = self._known.get(path.name)
        if known and known.identity == (facts.st_dev, facts.st_ino) and known.end == facts.st_size:
            return known
        try:
            with opened_live(path) as scanner:
                if scanner.format is None:
                    return None
                last = deque(scanner.spans(), maxlen=1)
                again, behind = last[0][:2] if last else (FIRST_EVENT, FIRST_EVENT)
                end = scanner.reached
                if behind - again > _MOST_AGAIN:
                    again = _last_event(scanner, again, behind)
        except BinlogDamaged:
            return None
        if end < facts.st_size:
            secure_files.truncate(path, end, os.geteuid())
        return _End((facts.st_dev, facts.st_ino), again, end)


def copy_of_log(directory: Path | None, connect: ConnectOptions, lock: Path) -> PlainLog | None:
    """The copy in this directory of the log of the server that is connected to so; None for none."""
    return PlainLog(directory=directory, lock=lock, sent=lambda: sent_log(connect)) if directory else None


def require_current(copy: PlainLog | None, live: BackupFiles) -> None:
    """Bring the log up to date that a backup says is the server's, where that is a copy; `live` is with where
    the server's own files are.

    Raise Refused where the configuration names another one, and what catch_up() raises.
    """
    record, where = live
    recorded = record.server.get(PLAIN_LOG, "")
    configured = os.path.realpath(copy.directory) if copy else ""
    if recorded != configured:
        raise Refused(
            f"the log of {record.called} is in {recorded or 'the files of the server'}, and the "
            f"configuration says {configured or 'these'} (plain_log): "
            + command_line("zbackup", "snapshot", record.instance)
        )
    if copy:
        where.path(recorded)  # on a dataset, and that is mounted
        copy.catch_up()


def _last_event(scanner: Scanner, begin: int, end: int) -> int:
    """Where the last of these events begins."""
    at = behind = begin
    for _, body in scanner.events(begin, end):
        at, behind = behind, behind + HEADER_SIZE + len(body) + scanner.trailer
    return at


def _first(names: list[str], oldest: int | None) -> str:
    """The file to begin with: of a log that was never read, nothing older is needed than what comes now."""
    if oldest is None:
        return names[-1]
    return next((name for name in names if sequence(name) >= oldest), names[0])


def _checked(names: list[str]) -> list[str]:
    """Names become those of our own files. Raise VerificationFailed for what is none."""
    if not names or not all(map(_NAME.fullmatch, names)):
        raise VerificationFailed(f"the server's log has files that cannot be called so here: {names[:3]}")
    return names


@dataclass(slots=True)
class _LogPass:
    """One pass over what the server sends, from `at` in the file `name`, of which `copied` is there."""

    copy: PlainLog
    name: str
    at: int
    copied: _End | None
    upto: LogPosition
    _again: int = FIRST_EVENT
    _transaction: int = FIRST_EVENT
    _summed: bool = False
    _sink: IO[bytes] | None = None
    _there: IO[bytes] | None = None

    def run(self, sent: SentLog) -> LogPosition:
        """Raise DifferentLog where the server does not have what was copied."""
        self._again = self.copied.again if self.copied else FIRST_EVENT
        self._transaction = self._again
        try:
            self._open()
            for event in sent.events(self.name, self.at):
                self._take(event)
                if self._position >= self.upto and not self._comparing:
                    break
            if self._comparing:
                raise DifferentLog(f"{self.name} ends at {self.at} on the server, and more of it was read")
        finally:
            self._close()
        return self._position

    @property
    def _position(self) -> LogPosition:
        return LogPosition.of(self.name, self.at)

    @property
    def _comparing(self) -> bool:
        return self.copied is not None and self.at < self.copied.end

    def _take(self, event: bytes) -> None:
        """One event that was sent. Raise VerificationFailed where it does not follow the one before."""
        if len(event) < HEADER_SIZE:
            raise self._strange("is no event")
        _, kind, _, size, behind, flags = HEADER.unpack_from(event)
        if size != len(event):
            raise self._strange("is no whole event")
        if flags & _ARTIFICIAL:
            if kind == events.ROTATE:
                self._turn(event)
        elif not behind and kind in _HEAD:
            # The head of the file once more, for who begins in its middle.
            if kind == events.FORMAT_DESCRIPTION and self._copied_bytes(FIRST_EVENT, 4) != event[:4]:
                raise DifferentLog(f"the server began {self.name} at another time")
        elif behind and behind != (self.at + size) % _POSITIONS:
            raise self._strange("does not follow it")
        else:
            self._add(kind, event)

    def _add(self, kind: int, event: bytes) -> None:
        """An event of the file, or one that is there already. Raise DifferentLog where that is another."""
        size = len(event)
        if kind == events.FORMAT_DESCRIPTION:
            try:
                self._summed = events.parse_format(event).checksum
            except ValueError as failure:
                raise self._strange(f"is no head of a file ({failure})") from None
        elif kind == events.START_ENCRYPTION:
            event = _ignorable(event, summed=self._summed)
        if self._comparing:
            if self._copied_bytes(self.at, size) != event:
                raise DifferentLog(f"{self._position} is something else on the server")
        elif self._sink is not None:
            self._sink.write(event)
        if kind in events.BEGINS:
            self._transaction = self.at
        self._again = self._transaction if self.at + size - self._transaction <= _MOST_AGAIN else self.at
        self.at += size

    def _strange(self, what: str) -> ZbackupError:
        """Make the error for what cannot be: in another log anything may stand there."""
        said = f"what the server sent behind {self._position} {what}"
        return DifferentLog(said) if self._comparing else VerificationFailed(said)

    def _copied_bytes(self, begin: int, size: int) -> bytes:
        if self._there is None:
            return b""
        self._there.seek(begin)
        return self._there.read(size)

    def _turn(self, event: bytes) -> None:
        """Go to the file that is named; the first one named is where it begins."""
        summed = events.checksum_matches(event, 0, len(event))
        body = event[HEADER_SIZE + _POSITION : -events.CHECKSUM_SIZE if summed else None]
        name = body.decode("utf-8", "surrogateescape")
        if name == self.name:
            return
        if self._comparing:
            raise DifferentLog(f"{self.name} ends at {self.at} on the server, and {name} follows")
        if not _NAME.fullmatch(name) or sequence(name) != sequence(self.name) + 1:
            raise GapError(f"behind {self.name} the server sent {name!r}")
        self._close()
        self.name, self.at, self.copied = name, FIRST_EVENT, None
        self._again = self._transaction = FIRST_EVENT
        self._open()

    def _open(self) -> None:
        path = self.copy.directory / self.name
        if self.copied is None:
            owner = self.copy.require_own() if os.geteuid() == 0 else None
            secure_files.write_new(path, MAGIC, mode=0o600, owner=owner)
        else:
            self._there = secure_files.open_regular(path)
        self._sink = secure_files.open_to_append(path, mode=0o600)

    def _close(self) -> None:
        for file in (self._sink, self._there):
            if file is not None:
                file.close()
        if self.copied is None and self.at == FIRST_EVENT:
            secure_files.unlink(self.copy.directory / self.name)
        elif self._sink is not None and not self._comparing:
            facts = secure_files.stat(self.copy.directory / self.name)
            known = _End((facts.st_dev, facts.st_ino), self._again, self.at)
            self.copy.remember(self.name, known)
        self._sink = self._there = None


def _ignorable(event: bytes, *, summed: bool) -> bytes:
    """Make an event to be passed over, of the same length, of the one that says how a file is encrypted."""
    changed = event[:4] + bytes((events.IGNORABLE,)) + event[5:]
    if not summed:
        return changed
    body = changed[: -events.CHECKSUM_SIZE]
    return body + zlib.crc32(body).to_bytes(events.CHECKSUM_SIZE, "little")
