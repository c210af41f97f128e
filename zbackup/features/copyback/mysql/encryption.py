"""Encrypted tables: a copy of one is encrypted, too, or none is made.

Sources: MySQL reference manual, "InnoDB Data-at-Rest Encryption"; MariaDB's, "InnoDB Encryption Overview".
What a server encrypts by its own settings alone (MariaDB's innodb_encrypt_tables) is no table's definition,
and production's settings decide there.
"""

from typing import Final

from zbackup.engines.mysql.production.tables import ServerTable
from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing, StatementFailed
from zbackup.engines.mysql.server.keyring import component
from zbackup.engines.mysql.server.status import dialect
from zbackup.model.errors import Refused

_NOT_ALLOWED: Final = 3827
"""ER_CANNOT_SET_TABLE_ENCRYPTION, of MySQL."""

BY_HAND: Final = "make the table by hand without encryption, and copy its rows with --missing"


def require_keys(production: Connection, table: ServerTable) -> None:
    """Raise Refused where the table is encrypted and production has nothing to encrypt one with."""
    if table.encrypted and not _has_keys(production):
        raise Refused(
            "it is encrypted, and production has no keys (its keyring, or MariaDB's plugin for keys, is not "
            f"loaded): load them, or {BY_HAND}"
        )


def make(production: Connection, table: ServerTable, create: str) -> None:
    """Make the empty table. Raise Refused, which names it, where production makes none that is encrypted."""
    try:
        production.execute(create)
    except StatementFailed as failure:
        if not table.encrypted:
            raise
        remedy = "has it the same keys (ENCRYPTION_KEY_ID)? Else"
        if failure.code == _NOT_ALLOWED:
            remedy = "grant TABLE_ENCRYPTION_ADMIN to the copy's account, or"
        raise Refused(f"{table.name} is encrypted, and {failure}: {remedy} {BY_HAND}") from None


def _has_keys(production: Connection) -> bool:
    """True also where the account may not see it: the server says so then when the table is made."""
    server = dialect(production)
    kind = "PLUGIN_TYPE = 'ENCRYPTION'" if server.flavor == "mariadb" else "PLUGIN_NAME LIKE 'keyring%'"
    asked = f"SELECT 1 FROM information_schema.PLUGINS WHERE {kind} AND PLUGIN_STATUS = 'ACTIVE' LIMIT 1"
    if production.rows(asked):
        return True
    try:
        return server.flavor == "mysql" and bool(component(production, server))
    except PrivilegeMissing:
        return True
