"""Tell what a replay leaves behind that the operator should know of, because it is not as it was at the
origin.
"""

from collections.abc import Sequence

from zbackup.engines.mysql.recovery import in_doubt
from zbackup.engines.mysql.recovery.in_doubt import Prepared
from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.progress import Progress

MOST_NAMED = 20


def tell(connection: Connection, flavor: str, progress: Progress, of_base: Prepared | None = None) -> None:
    """Note events that were disabled, and transactions that are prepared and neither committed nor not.

    Those that a MySQL's replay left so are rolled back, see in_doubt; `of_base` were so in the base, None
    where nothing was replayed.
    """
    if events := _disabled_events(connection):
        progress.note(f"events disabled as on a replica, until ALTER EVENT ... ENABLE: {_some(events)}")
    doubtful = dict(in_doubt.prepared(flavor, connection))
    if flavor == "mysql" and of_base is not None:
        replayed = {xid: name for xid, name in doubtful.items() if xid not in of_base}
        left = in_doubt.roll_back(connection, replayed) if replayed else {}
        gone = [name for xid, name in replayed.items() if xid not in left]
        doubtful = {xid: name for xid, name in doubtful.items() if xid in of_base or xid in left}
        _tell_of(progress, gone, "rolled back")
    _tell_of(progress, list(doubtful.values()), "still in doubt, see XA RECOVER")


def _tell_of(progress: Progress, names: Sequence[str], end: str) -> None:
    if names:
        progress.note(f"XA transactions that were prepared but not committed then are {end}: {_some(names)}")


def _disabled_events(connection: Connection) -> list[str]:
    """An applier gives every event it creates or alters this state, whatever the statement said.

    So one event does not run on source and replica (MySQL manual, "Replication of Invoked Features").
    """
    rows = connection.rows(
        "SELECT EVENT_SCHEMA AS s, EVENT_NAME AS e FROM information_schema.EVENTS "
        "WHERE STATUS IN ('SLAVESIDE_DISABLED', 'REPLICA_SIDE_DISABLED') ORDER BY 1, 2"
    )
    return [f"{row['s']}.{row['e']}" for row in rows]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
