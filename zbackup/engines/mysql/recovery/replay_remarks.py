"""Tell what a replay leaves behind that the operator should know of, because it is not as it was at the
origin.
"""

from collections.abc import Sequence

from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.progress import Progress

MOST_NAMED = 20


def tell(connection: Connection, flavor: str, progress: Progress) -> None:
    """Note events that were disabled, and transactions that are prepared and neither committed nor not."""
    if events := _disabled_events(connection):
        progress.note(f"events disabled as on a replica, until ALTER EVENT ... ENABLE: {_some(events)}")
    if doubtful := _in_doubt(connection):
        # MySQL 9.7 forgets what an applier prepared while log_replica_updates is off (tried).
        end = "rolled back" if flavor == "mysql" else "still in doubt, see XA RECOVER"
        progress.note(
            f"XA transactions that were prepared but not committed then are {end}: {_some(doubtful)}"
        )


def _disabled_events(connection: Connection) -> list[str]:
    """An applier gives every event it creates or alters this state, whatever the statement said.

    So one event does not run on source and replica (MySQL manual, "Replication of Invoked Features").
    """
    rows = connection.rows(
        "SELECT EVENT_SCHEMA AS s, EVENT_NAME AS e FROM information_schema.EVENTS "
        "WHERE STATUS IN ('SLAVESIDE_DISABLED', 'REPLICA_SIDE_DISABLED') ORDER BY 1, 2"
    )
    return [f"{row['s']}.{row['e']}" for row in rows]


def _in_doubt(connection: Connection) -> list[str]:
    names = [row["data"] for row in connection.rows("XA RECOVER")]
    return [name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
