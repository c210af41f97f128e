"""The sessions that a copy has, and whose they are."""

from dataclasses import dataclass

from zbackup.engines.mysql.server.connection import Connection, RowConnection


@dataclass(frozen=True, slots=True)
class Sides:
    """The clone's server and production's, with sessions for statements that are bytes.

    `watch` is production again, as the instance's own account sees it: more than the copy's. `ours` are the
    users that zbackup logs in as there; `given`: people have a login in the clone.
    """

    clone: Connection
    production: Connection
    clone_rows: RowConnection
    production_rows: RowConnection
    watch: Connection | None = None
    ours: frozenset[str] = frozenset()
    given: bool = False
