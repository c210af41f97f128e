"""The version that a server says before anybody logs in (MySQL internals manual,
"Protocol::HandshakeV10")."""

import contextlib
import socket
import time

ANSWER_S = 5.0
LONGEST = 4096
_PROTOCOL = 10
_HEADER = 4

# MariaDB hides its version behind one that old replicas understand.
_DISGUISE = "5.5.5-"


def greeting(path: str, limit_s: float = ANSWER_S) -> str:
    """The version, such as "10.11.6-MariaDB"; "" where nobody speaks the protocol of MySQL's clients, or says
    it within `limit_s`, byte by byte or not."""
    said, until = b"", time.monotonic() + limit_s
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(limit_s)
        probe.connect(path)
        while b"\0" not in said[_HEADER + 1 :] and len(said) < LONGEST:
            if (left := until - time.monotonic()) <= 0:
                break
            probe.settimeout(left)
            more = probe.recv(LONGEST)
            if not more:
                break
            said += more
    return version(said)


def version(said: bytes) -> str:
    """The version in the first packet of a server. Pure."""
    body = said[_HEADER:]
    if body[:1] != bytes((_PROTOCOL,)) or b"\0" not in body:
        return ""
    text = body[1 : body.index(b"\0")].decode("ascii", "replace")
    return text.removeprefix(_DISGUISE) if "mariadb" in text.lower() else text
