"""Start a replica's applier again: what its watchdog needs, and no more.

The watchdog is a process of its own, for which every snapshot of a replica waits. So it imports little.
"""

from collections.abc import Sequence

from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.server.status import Dialect, channels
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.errors import DatabaseError


def start(connection: Connection, server: Dialect, names: Sequence[str]) -> None:
    """Start the applier on these channels, those that still exist. Raise DatabaseError if one does not run.

    START is given whatever its state looks like: while a STOP of ours is still being carried out, the
    applier looks as if it ran. One that runs is left alone by it.
    """
    there = {channel.name for channel in channels(connection, server)}
    for name in names:
        if name in there:
            connection.execute(statement("START", server, name))
    stopped = [c for c in channels(connection, server) if c.name in names and not c.applier_running]
    if stopped:
        said = "; ".join(f"channel {c.name!r}: {c.error or 'no reason given'}" for c in stopped)
        raise DatabaseError(f"the applier at {connection.where} does not run again: {said}")


def statement(verb: str, server: Dialect, channel: str) -> str:
    """START or STOP the applier of one channel, in the server's words."""
    name = literal(channel)
    if server.flavor == "mariadb":
        return f"{verb} SLAVE {name} SQL_THREAD"
    return f"{verb} {'REPLICA' if server.is_mysql(8, 0, 22) else 'SLAVE'} SQL_THREAD FOR CHANNEL {name}"
