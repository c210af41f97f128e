"""Gives a MariaDB the log that it is to replay, as the server that it replicates would.

It needs the log's files and nothing else: no second server, which takes as long to start as a small log takes
to replay, and none of the other files of the server that is gone. Whoever calls is in the network of the
server on the base, where nobody else is, and has to know the account that was made for it.
"""

import hashlib
import hmac
import re
import secrets
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from zbackup.engines.mysql.recovery.log_events import events
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.model.errors import DatabaseError
from zbackup.model.event_log import log
from zbackup.model.log import LogPosition
from zbackup.proc.detached import Process
from zbackup.proc.listen_beside import listen_beside

QUIT: Final = 1
QUERY: Final = 3
PING: Final = 14
BINLOG_DUMP: Final = 18
REGISTER_REPLICA: Final = 21

WITH_ANNOTATIONS: Final = 2
"""Flag of BINLOG_DUMP: the replica wants the texts of statements beside their rows."""

OK: Final = b"\0\0\0\2\0\0\0"
LONGEST: Final = 0xFFFFFF
"""Bytes in one packet; one of this length goes on in the next."""

_PLUGIN = b"mysql_native_password"
_ABLE = 1 | 4 | 8 | 0x200 | 0x2000 | 0x8000 | 0x80000
"""Long passwords and flags, a schema at login, protocol 4.1, transactions, this way to log in, plugins."""
_UNKNOWN_COMMAND, _UNKNOWN_VARIABLE, _DENIED = 1047, 1193, 1045
_VARIABLE = re.compile(r"select\s+@@(?:global\.)?(\w+)\s*", re.IGNORECASE)
_SHOWN = re.compile(r"show\s+(?:global\s+)?variables\s+like\s+'(\w+)'\s*", re.IGNORECASE)


def packets(number: int, payload: bytes) -> Iterator[bytes | memoryview]:
    """One message, in as many packets as it takes, the first with this number: heads and bodies in turn.

    The bodies are views: a row may have a gigabyte, and is not copied.
    """
    whole = memoryview(payload)
    for count, at in enumerate(range(0, len(whole) + 1, LONGEST)):
        chunk = whole[at : at + LONGEST]
        yield struct.pack("<I", len(chunk) | (number + count & 0xFF) << 24)
        yield chunk


def packet(number: int, payload: bytes) -> bytes:
    """The same in one piece."""
    return b"".join(packets(number, payload))


def greeting(version: str, scramble: bytes) -> bytes:
    """A server's first words. `scramble` is 20 bytes, none of them 0."""
    return b"".join(
        (
            b"\x0a" + version.encode() + b"\0",
            struct.pack("<I", 1) + scramble[:8] + b"\0",
            struct.pack("<HBHHB", _ABLE & 0xFFFF, 8, 2, _ABLE >> 16, len(scramble) + 1),
            bytes(10) + scramble[8:] + b"\0",
            _PLUGIN + b"\0",
        )
    )


def is_login(answer: bytes, user: str, password: str, scramble: bytes) -> bool:
    """Whether a client answered the greeting with this account's password."""
    name, _, rest = answer[32:].partition(b"\0")
    if not rest or name != user.encode():
        return False
    once = hashlib.sha1(password.encode()).digest()
    twice = hashlib.sha1(scramble + hashlib.sha1(once).digest()).digest()
    wanted = bytes(a ^ b for a, b in zip(once, twice, strict=True))
    return hmac.compare_digest(rest[1 : 1 + rest[0]], wanted)


def denied() -> bytes:
    """The answer to a wrong login."""
    return _error(_DENIED, "28000", "this log is for another")


def _error(number: int, state: str, text: str) -> bytes:
    return struct.pack("<BH", 0xFF, number) + f"#{state}{text}".encode()


def answers(command: bytes, known: Mapping[str, str]) -> list[bytes]:
    """The messages that answer a command other than BINLOG_DUMP. `known` are variables of the server."""
    kind, text = command[0], command[1:].decode("utf-8", "replace").strip().rstrip(";")
    if kind in (PING, REGISTER_REPLICA):
        return [OK]
    if kind != QUERY:
        return [_error(_UNKNOWN_COMMAND, "08S01", "unknown command")]
    if text.lower().startswith("set "):
        return [OK]
    if text.lower() == "select @master_binlog_checksum":
        # What comes before the first file says what it has itself.
        return _rows(["@master_binlog_checksum"], ["NONE"])
    if (asked := _VARIABLE.fullmatch(text)) and asked[1].lower() in known:
        return _rows([text], [known[asked[1].lower()]])
    if asked := _SHOWN.fullmatch(text):
        name = asked[1].lower()
        return _rows(["Variable_name", "Value"], [name, known[name]] if name in known else [])
    return [_error(_UNKNOWN_VARIABLE, "HY000", "unknown variable")]


def _rows(names: list[str], row: list[str]) -> list[bytes]:
    """A result of text with one row, or none."""
    columns = [_column(name) for name in names]
    end = b"\xfe\0\0\2\0"
    found = [b"".join(_text(value) for value in row)] if row else []
    return [bytes([len(names)]), *columns, end, *found, end]


def _column(name: str) -> bytes:
    described = struct.pack("<BHIBHBH", 12, 33, 1024, 253, 0, 0, 0)
    return b"".join((_text("def"), *(_text("") for _ in range(3)), _text(name), _text(""), described))


def _text(value: str) -> bytes:
    said = value.encode()[:250]
    return bytes([len(said)]) + said


def asked_for(command: bytes) -> tuple[int, int, str]:
    """Position, flags and file of a BINLOG_DUMP. Raise DatabaseError when it is cut short."""
    if len(command) < 11:
        raise DatabaseError("the replica asked for nothing that is a position in a log")
    position, flags, _ = struct.unpack_from("<IHI", command, 1)
    return position, flags, command[11:].decode("utf-8", "replace")


def messages(read: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """The messages in a stream of bytes, each with its number; each of one packet, as those of a replica are.

    Raise DatabaseError at one that is longer than any that a replica has to say.
    """
    buffer = b""
    for chunk in read:
        buffer += chunk
        while len(buffer) >= 4:
            head = struct.unpack_from("<I", buffer)[0]
            length = head & LONGEST
            if length > 1 << 16:
                raise DatabaseError("the replica sent more than it can have to say")
            if len(buffer) < 4 + length:
                break
            yield head >> 24, buffer[4 : 4 + length]
            buffer = buffer[4 + length :]


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
    call.sendall(packet(0, greeting(version, scramble)))
    heard = messages(iter(lambda: call.recv(_FULL), b""))
    number, login = next(heard, (0, b""))
    if not is_login(login, source.user, source.password, scramble):
        call.sendall(packet(number + 1, denied()))
        return
    call.sendall(packet(number + 1, OK))
    for _, command in heard:
        if not command or command[0] == QUIT:
            return
        if command[0] == BINLOG_DUMP:
            source.given = False
            _give(call, span, command)
            source.given = True
            continue
        said = answers(command, known)
        call.sendall(b"".join(packet(n, chunk) for n, chunk in enumerate(said, 1)))


def _give(call: socket.socket, span: LogRange, command: bytes) -> None:
    """Send what was asked for. Then nothing more comes, and the caller waits as it does for any source."""
    offset, flags, name = asked_for(command)
    if name not in {file.name for file in span.files}:
        raise DatabaseError(f"the replica asked for {name!r}, which is not what it was told to read")
    annotated = bool(flags & WITH_ANNOTATIONS)
    waiting, number = bytearray(), 1
    for event in events(span, LogPosition.of(name, offset), annotated=annotated):
        message = b"\0" + event
        long = len(message) >= _AT_ONCE
        if not long:
            waiting += packet(number, message)
        if long or len(waiting) >= _AT_ONCE:
            call.sendall(waiting)
            waiting.clear()
        if long:
            for chunk in packets(number, message):
                call.sendall(chunk)
        number += len(message) // LONGEST + 1
    call.sendall(waiting)
