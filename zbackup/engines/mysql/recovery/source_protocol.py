"""The part of the client/server protocol with which a MariaDB is given a log: packets, login, answers. Pure.

MariaDB knowledge base: "Client/Server Protocol" (Initial handshake, Authentication, Result set packets) and
"Replication Protocol". A replica is answered what it asks before it asks for the log; whatever else it asks
is an error to it, as it is where an older server does not know a variable.
"""

import hashlib
import hmac
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from zbackup.model.errors import DatabaseError

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
