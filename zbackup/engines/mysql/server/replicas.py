"""List the replicas that are connected to a server.

MySQL reference manual, "SHOW REPLICAS" and "Examining Thread Information" (Binlog Dump); MariaDB's manual,
"SHOW REPLICA HOSTS".
"""

from contextlib import suppress

from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing
from zbackup.engines.mysql.server.status import Dialect


def replicas(connection: Connection, server: Dialect) -> tuple[str, ...]:
    """Return their server ids and addresses if the account may read them, otherwise account and host.

    Sessions of zbackup's own account, which reads the log like a replica, do not count.
    """
    own = str(connection.one("SELECT SUBSTRING_INDEX(USER(), '@', 1) AS name")["name"])
    reading = [
        f"{row['User']} from {row['Host']}"
        for row in connection.rows("SHOW FULL PROCESSLIST")
        if str(row["Command"]).startswith("Binlog Dump") and row["User"] != own
    ]
    registered = [
        f"server {row['Server_Id' if 'Server_Id' in row else 'Server_id']}"
        + (f" at {row['Host']}:{row['Port']}" if row["Host"] else "")
        for row in _registered(connection, server)
    ]
    return tuple(registered if len(registered) >= len(reading) else reading)


def _registered(connection: Connection, server: Dialect) -> list[dict[str, object]]:
    """Needs REPLICATION SLAVE or REPLICATION MASTER ADMIN, which backups do not need."""
    with suppress(PrivilegeMissing):
        statement = "SHOW REPLICAS" if server.flavor == "mysql" else "SHOW SLAVE HOSTS"
        return [dict(row) for row in connection.rows(statement)]
    return []
