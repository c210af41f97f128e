"""The account in production that copies write with: its login, what it needs, and whether it has that."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from zbackup.config.copying import CopyBack
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.production.throttle import Throttle
from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing
from zbackup.engines.mysql.server.privileges import grant
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.model.errors import Refused
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance

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
READ = ("SELECT", "TRIGGER", "SHOW VIEW")
"""Privileges that it takes to see all that is copied, in a clone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductionAccount:
    """The account that zbackup writes to production with, of one instance. Its methods raise Refused without
    one.

    `usual` is the instance's own account, `rules` None: no account to write with is configured.
    """

    instance: str
    usual: ConnectOptions
    rules: CopyBack | None

    @property
    def login(self) -> ConnectOptions:
        rules = self._rules
        password = rules.password.read if rules.password else lambda: ""
        return replace(self.usual, user=rules.user, password=password)

    def throttle(self, production: Connection, progress: Progress) -> Throttle:
        """The throttle that keeps what is written from getting in production's way."""
        rules, account = self._rules, self.login
        replicas = tuple(replace(account, socket="", host=h, port=p or 3306) for h, p in rules.replicas)
        return Throttle(production, rules, progress, replicas)

    @property
    def _rules(self) -> CopyBack:
        if self.rules is None:
            raise Refused(
                "copying into production needs an account of its own there: set user and password in "
                f"[instance.{self.instance}.copy_back], and "
                "CREATE USER zbackup_copy@localhost IDENTIFIED BY '...'; "
                f"{grants('zbackup_copy@localhost', 'SCHEMA')}"
            )
        return self.rules


def clone_options(entrance: Entrance) -> ConnectOptions:
    """The options to connect to a clone's server."""
    return ConnectOptions(socket=entrance.socket, user=entrance.user, password=lambda: entrance.password)


def grants(account: str, schema: str = "") -> str:
    """The statement that gives the account what it needs. `account` is user@host."""
    where = f"{identifier(schema)}.*" if schema else "*.*"
    return grant(", ".join(PRIVILEGES), account, where) + ";"


def require_privileges(connection: Connection, schemas: Sequence[str] = ()) -> str:
    """Name the schemas the account may write to. Raise PrivilegeMissing, with what to grant, if one lacks.

    Of `schemas`, or where none is named, of any.
    """
    account = _account(connection)
    everywhere, by_schema = _granted(connection, account)
    if everywhere.issuperset(PRIVILEGES) or _has_roles(connection):
        return "every schema" if everywhere.issuperset(PRIVILEGES) else "what its roles allow"
    complete = sorted(
        name for name, found in by_schema.items() if (found | everywhere).issuperset(PRIVILEGES)
    )
    patterns = [name for name in complete if "%" in name or "_" in name]
    lacking = [name for name in schemas if name not in complete]
    if (lacking and not patterns) or not complete:
        wanted = lacking or ["SCHEMA"]
        raise PrivilegeMissing(
            f"{account} may not copy into {', '.join(lacking) or 'any schema'}: "
            + " ".join(grants(account, name) for name in wanted)
        )
    return ", ".join(complete)


def sees_all(connection: Connection, schemas: Collection[str]) -> bool:
    """Whether the account sees everything in these schemas: tables, and what they have beside rows.

    What it may not see is not there for it, and no error says so. Patterns and roles are no proof.
    """
    everywhere, by_schema = _granted(connection, _account(connection))
    return all((by_schema.get(name, set()) | everywhere).issuperset(READ) for name in schemas)


def granted_in(connection: Connection) -> tuple[str, set[str], dict[str, set[str]], bool]:
    """The account, what it may everywhere and in which schema, and whether that is all: roles are not
    seen."""
    account = _account(connection)
    return account, *_granted(connection, account), not _has_roles(connection)


def _account(connection: Connection) -> str:
    return str(connection.one("SELECT CURRENT_USER() AS account")["account"])


def _granted(connection: Connection, account: str) -> tuple[set[str], dict[str, set[str]]]:
    """Return the privileges that the account has everywhere, and by schema. Who may read the grant tables
    sees others', too."""
    user, _, host = account.rpartition("@")
    mine = (f"'{user}'@'{host}'",)
    rows = connection.rows(
        "SELECT PRIVILEGE_TYPE AS p FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = %s", mine
    )
    everywhere = {str(row["p"]).upper() for row in rows}
    by_schema: dict[str, set[str]] = {}
    for row in connection.rows(
        "SELECT PRIVILEGE_TYPE AS p, TABLE_SCHEMA AS s FROM information_schema.SCHEMA_PRIVILEGES "
        "WHERE GRANTEE = %s",
        mine,
    ):
        schema = str(row["s"]).replace("\\_", "_").replace("\\%", "%")
        by_schema.setdefault(schema, set()).add(str(row["p"]).upper())
    return everywhere, by_schema


def _has_roles(connection: Connection) -> bool:
    return str(connection.one("SELECT CURRENT_ROLE() AS r")["r"] or "NONE").upper() != "NONE"
