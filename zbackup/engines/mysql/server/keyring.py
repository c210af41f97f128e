"""The keyring component of a MySQL server: what it is and where its keys are.

Without a component, each question after it writes a warning into the server's error log (MY-013712, 9.7).
The server remembers that itself: where its log of errors has the warning already, nobody asks again.
"""

from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing
from zbackup.engines.mysql.server.status import Dialect

NO_COMPONENT = "MY-013712"


def component(connection: Connection, server: Dialect) -> dict[str, str]:
    """Its status, by the names that the server has for it (Component_name, Data_file); {} without one.

    A component is loaded when the server starts, and never later (MySQL manual, "The MySQL Keyring").
    """
    if not server.is_mysql(8, 0, 24) or _known_to_have_none(connection):
        return {}
    rows = connection.rows(
        "SELECT STATUS_KEY AS name, STATUS_VALUE AS value FROM performance_schema.keyring_component_status"
    )
    return {str(row["name"]): str(row["value"]) for row in rows}


def _known_to_have_none(connection: Connection) -> bool:
    """Whether the server has said so since it started. Who may not read that asks each time."""
    try:
        return bool(
            connection.rows(
                "SELECT 1 FROM performance_schema.error_log WHERE ERROR_CODE = %s AND DATA LIKE %s LIMIT 1",
                (NO_COMPONENT, "%keyring_component_metadata_query%"),
            )
        )
    except PrivilegeMissing:
        return False
