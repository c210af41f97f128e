"""Find out who answers at a socket, before anything is sent there."""

import socket

from zbackup.model.errors import DatabaseError
from zbackup.proc.listening import peer


def opened_socket(path: str, expected: tuple[int, int], limit_s: float) -> socket.socket:
    """Connect to a socket at which this process (pid, uid) listens, and no other.

    Raise DatabaseError when another answers, or nobody.
    """
    found = socket.socket(socket.AF_UNIX)
    try:
        found.settimeout(limit_s)
        found.connect(path)
        pid, uid = peer(found)
    except OSError as failure:
        found.close()
        raise DatabaseError(f"cannot reach the server at socket {path}: {failure}; is it running?") from None
    if (pid, uid) != expected:
        found.close()
        raise DatabaseError(
            f"socket {path} is answered by process {pid} of user id {uid}, and not by the server that was "
            f"found there (process {expected[0]}, user id {expected[1]}): nothing was sent to it"
        )
    return found
