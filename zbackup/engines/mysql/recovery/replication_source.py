"""Gives a MariaDB the log that it is to replay, as the server that it replicates would.

It needs the log's files and nothing else: no second server, which takes as long to start as a small log takes
to replay, and none of the other files of the server that is gone. Whoever calls is in the network of the
server on the base, where nobody else is, and has to know the account that was made for it.
"""

import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.recovery import source_protocol
from zbackup.engines.mysql.recovery.log_events import events
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.model.errors import DatabaseError
from zbackup.model.event_log import log
from zbackup.proc.detached import Process
from zbackup.proc.listen_beside import listen_beside

SERVER_ID = "1"
"""Any that the replica does not have: theirs are above 2**31."""
ENDING_S = 10.0
_AT_ONCE = 1 << 18
_FULL = 1 << 16
_PRINTABLE = bytes(range(33, 127))


@dataclass(slots=True)
class ReplicationSource:
    """The port of the one that gives out the log, who may have it, and why it gave up, if it did.

    `given` says that all was sent that was asked for last.
    """

    port: int
    user: str
    password: str
    failures: list[str] = field(default_factory=list)
    given: bool = False


@contextmanager
def replication_source(
    process: Process, span: LogRange, recorded: Mapping[str, str], version: str
) -> Iterator[ReplicationSource]:
    """Serve the range on a port that only this process can reach, while the body runs.

    `recorded` is Record.server, `version` that of the server that wrote the log.
    """
    with listen_beside(process) as listening:
        source = ReplicationSource(listening.getsockname()[1], "zbackup", secrets.token_urlsafe(24))
        calls: list[socket.socket] = []
        known = _known(recorded)
        giver = threading.Thread(
            target=_serve,
            args=(listening, calls, span, source, known, version),
            name="log-source",
            daemon=True,
        )
        giver.start()
        try:
            yield source
        finally:
            for each in (listening, *calls):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            giver.join(ENDING_S)


def _known(recorded: Mapping[str, str]) -> dict[str, str]:
    """Variables that a replica asks for."""
    names = ("time_zone", "collation_server", "gtid_domain_id")
    return {
        "server_id": SERVER_ID,
        "gtid_domain_id": "0",
        "binlog_checksum": "NONE",
        **{name: recorded[name] for name in names if recorded.get(name)},
    }


def _serve(
    listening: socket.socket,
    calls: list[socket.socket],
    span: LogRange,
    source: ReplicationSource,
    known: Mapping[str, str],
    version: str,
) -> None:
    """One caller after the other: a replica that loses its connection calls again."""
    while True:
        try:
            call, _ = listening.accept()
        except OSError:  # it is over
            return
        calls.append(call)
        with call:
            try:
                _talk(call, span, source, known, version)
            except OSError as gone:
                log.debug("replication_source.caller_gone", reason=str(gone))
            except Exception as failure:  # noqa: BLE001  whatever it is, else the replica calls for ever
                source.failures.append(str(failure) or repr(failure))
                log.warning("replication_source.failed", reason=str(failure))


def _talk(
    call: socket.socket, span: LogRange, source: ReplicationSource, known: Mapping[str, str], version: str
) -> None:
    """Raise OSError when the caller is gone, and DatabaseError at what no replica says."""
    call.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    scramble = bytes(secrets.choice(_PRINTABLE) for _ in range(20))
    call.sendall(source_protocol.packet(0, source_protocol.greeting(version, scramble)))
    heard = source_protocol.messages(iter(lambda: call.recv(_FULL), b""))
    number, login = next(heard, (0, b""))
    if not source_protocol.is_login(login, source.user, source.password, scramble):
        call.sendall(source_protocol.packet(number + 1, source_protocol.denied()))
        return
    call.sendall(source_protocol.packet(number + 1, source_protocol.OK))
    for _, command in heard:
        if not command or command[0] == source_protocol.QUIT:
            return
        if command[0] == source_protocol.BINLOG_DUMP:
            source.given = False
            _give(call, span, command)
            source.given = True
            continue
        said = source_protocol.answers(command, known)
        call.sendall(b"".join(source_protocol.packet(n, chunk) for n, chunk in enumerate(said, 1)))


def _give(call: socket.socket, span: LogRange, command: bytes) -> None:
    """Send what was asked for. Then nothing more comes, and the caller waits as it does for any source."""
    offset, flags, name = source_protocol.asked_for(command)
    if name not in {file.name for file in span.files}:
        raise DatabaseError(f"the replica asked for {name!r}, which is not what it was told to read")
    annotated = bool(flags & source_protocol.WITH_ANNOTATIONS)
    waiting, number = bytearray(), 1
    for event in events(span, LogPosition.of(name, offset), annotated=annotated):
        message = b"\0" + event
        long = len(message) >= _AT_ONCE
        if not long:
            waiting += source_protocol.packet(number, message)
        if long or len(waiting) >= _AT_ONCE:
            call.sendall(waiting)
            waiting.clear()
        if long:
            for chunk in source_protocol.packets(number, message):
                call.sendall(chunk)
        number += len(message) // source_protocol.LONGEST + 1
    call.sendall(waiting)
