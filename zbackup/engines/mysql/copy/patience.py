"""Set how long a server waits for zbackup: long where it holds nothing, and briefly where it holds locks.

zbackup may be stopped (Ctrl-Z), or the way to it lost: nothing tells the server then (both manuals,
"wait_timeout", "net_read_timeout").
"""

from collections.abc import Iterator
from contextlib import contextmanager

from zbackup.engines.mysql.server.connection import RowConnection

PATIENT_S = 86_400
SILENT_S = 60
"""The longest that rows of production's own table stay locked where zbackup says nothing more."""

# A copy that waits must not lose its sessions. It never waits in the middle of a statement, or of a load's
# lines, while which the server holds locks.
PATIENCE = (
    f"SET SESSION wait_timeout = {PATIENT_S}, net_write_timeout = {PATIENT_S}, net_read_timeout = {SILENT_S}"
)


@contextmanager
def ended_if_silent(session: RowConnection) -> Iterator[None]:
    """Let the server end the session, and with it its transaction, SILENT_S after it last heard of it.

    The body ends its transaction. When it raises, its session is done with, or gives that up to try again.
    """
    session.write(b"SET SESSION wait_timeout = %d" % SILENT_S)
    yield
    session.write(b"SET SESSION wait_timeout = %d" % PATIENT_S)
