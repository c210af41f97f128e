"""The account in production that copies write with: what it needs, and whether it has that. Pure but for the
look."""

from collections.abc import Sequence

from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing
from zbackup.engines.mysql.server.privileges import grant

# What each is for:
# SELECT                           what is there; comparing; proving what was written
# INSERT, UPDATE                   rows
# CREATE, ALTER, DROP              the new table, and the exchange of two names
# INDEX, REFERENCES, TRIGGER       what tables have beside rows
# CREATE VIEW, SHOW VIEW           views
PRIVILEGES = (
    "SELECT", "INSERT", "UPDATE", "CREATE", "ALTER", "DROP", "INDEX", "REFERENCES", "TRIGGER", "CREATE VIEW",
    "SHOW VIEW",
)  # fmt: skip


def grants(account: str, schema: str = "") -> str:
    """The statement that gives the account what it needs. `account` is user@host."""
    where = f"`{schema.replace('`', '``')}`.*" if schema else "*.*"
    return grant(", ".join(PRIVILEGES), account, where) + ";"


def require_privileges(connection: Connection, schemas: Sequence[str] = ()) -> str:
    """In which schemas the account may write; raise PrivilegeMissing, with what to grant, if it lacks some.

    Of `schemas`, or where none is named, of any.
    """
    account = str(connection.one("SELECT CURRENT_USER() AS account")["account"])
    everywhere = _granted(
        connection, "SELECT PRIVILEGE_TYPE AS p, '' AS s FROM information_schema.USER_PRIVILEGES"
    )
    by_schema = _granted(
        connection, "SELECT PRIVILEGE_TYPE AS p, TABLE_SCHEMA AS s FROM information_schema.SCHEMA_PRIVILEGES"
    )
    held = everywhere.get("", set())
    if held.issuperset(PRIVILEGES) or _has_roles(connection):
        return "every schema" if held.issuperset(PRIVILEGES) else "what its roles allow"
    complete = sorted(name for name, found in by_schema.items() if (found | held).issuperset(PRIVILEGES))
    patterns = [name for name in complete if "%" in name or "_" in name]
    lacking = [name for name in schemas if name not in complete]
    if (lacking and not patterns) or not complete:
        wanted = lacking or ["SCHEMA"]
        raise PrivilegeMissing(
            f"{account} may not copy into {', '.join(lacking) or 'any schema'}: "
            + " ".join(grants(account, name) for name in wanted)
        )
    return ", ".join(complete)


def _granted(connection: Connection, query: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in connection.rows(query):
        found.setdefault(str(row["s"]).replace("\\_", "_").replace("\\%", "%"), set()).add(
            str(row["p"]).upper()
        )
    return found


def _has_roles(connection: Connection) -> bool:
    return str(connection.one("SELECT CURRENT_ROLE() AS r")["r"] or "NONE").upper() != "NONE"
