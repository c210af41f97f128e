"""Tell which replicas read a server's log now.

MySQL reference manual, "SHOW REPLICAS" and "Examining Thread Information" (Binlog Dump); MariaDB's manual,
"SHOW REPLICA HOSTS".
"""

from contextlib import suppress

from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing
from zbackup.engines.mysql.server.status import Dialect


def replicas(connection: Connection, server: Dialect) -> tuple[str, ...]:
    """Name them by number and address, where the account may ask for that, else by account and host.

    The account of zbackup's own, which may read the log as a replica does, is none.
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
    """Takes the privilege REPLICATION SLAVE, or REPLICATION MASTER ADMIN, which backups do not need."""
    with suppress(PrivilegeMissing):
        statement = "SHOW REPLICAS" if server.flavor == "mysql" else "SHOW SLAVE HOSTS"
        return [dict(row) for row in connection.rows(statement)]
    return []
