"""The privileges zbackup needs on a server, and how a missing one is named. Pure.

MySQL reference manual, "Privileges Provided by MySQL"; MariaDB's manual, "GRANT" (global privileges). The
names are those of MySQL 8.0 and MariaDB 10.5.9 and later.
"""

import re
from collections.abc import Collection

from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.record import LockKind

# What each is for:
# RELOAD                    FLUSH TABLES WITH READ LOCK, BACKUP STAGE, FLUSH ENGINE LOGS
# PROCESS                   statements of others in the process list; where InnoDB's files are
# SHOW VIEW                 which tables exist and their storage engines, without reading a row
# REPLICATION CLIENT, BINLOG MONITOR, SLAVE MONITOR    the end of the binlog, the state of replication
# BACKUP_ADMIN              LOCK INSTANCE FOR BACKUP
# REPLICATION_SLAVE_ADMIN   on a replica: stop the applier and start it again
# CONNECTION_ADMIN          end statements of others, with on_long_query = "kill"
GRANTS: dict[str, tuple[str, ...]] = {
    "mysql": (
        "RELOAD, PROCESS, SHOW VIEW, REPLICATION CLIENT ON *.*",
        "BACKUP_ADMIN, REPLICATION_SLAVE_ADMIN, CONNECTION_ADMIN ON *.*",
        "SELECT ON performance_schema.*",
    ),
    "mariadb": (
        "RELOAD, PROCESS, SHOW VIEW, BINLOG MONITOR, SLAVE MONITOR ON *.*",
        "REPLICATION SLAVE ADMIN, CONNECTION ADMIN ON *.*",
    ),
}

_NEEDED = re.compile(r"at least one of\) the (.+?) privilege\(s\)")
_ON_TABLE = re.compile(r"^([A-Z, ]+?) command denied to user .+? for table ")
_NOT_OWNER = re.compile(r"not owner of (?:thread|query|connection)")


def grant(privilege: str, account: str, where: str = "*.*") -> str:
    """The statement that gives `privilege`. `account` is as CURRENT_USER() says it: user@host."""
    user, _, host = account.rpartition("@")
    return f"GRANT {privilege} ON {where} TO {literal(user)}@{literal(host)}"


def missing(granted: Collection[str], kind: LockKind, *, replica: bool, mariadb: bool) -> list[str]:
    """Privileges without which a snapshot with this lock would fail, out of those `granted` on *.*."""
    needed = {"ftwrl": ["RELOAD"], "backup-stage": ["RELOAD"], "backup-lock": ["BACKUP_ADMIN"], "none": []}[
        kind
    ]
    if replica and kind in ("ftwrl", "backup-stage"):
        needed.append("REPLICATION SLAVE ADMIN" if mariadb else "REPLICATION_SLAVE_ADMIN")
    return [] if "SUPER" in granted else [name for name in needed if name not in granted]


def hint(message: str, account: str, *, mariadb: bool) -> str:
    """The GRANT statement that a server wants that refused with `message`; "" if it cannot be told."""
    if _NOT_OWNER.search(message):
        return grant("CONNECTION ADMIN" if mariadb else "CONNECTION_ADMIN", account)
    if found := _ON_TABLE.search(message):
        # MySQL leaves out which schema the table is in; these are the only tables we read.
        return grant(_privilege(found[1]), account, "performance_schema.*")
    if found := _NEEDED.search(message):
        return grant(_narrowest(re.split(r", | or ", found[1])), account)
    return ""


def _narrowest(privileges: list[str]) -> str:
    """Servers offer alternatives such as "SUPER or BACKUP_ADMIN": nobody should be told to give SUPER."""
    ours = {
        p.strip() for grants in GRANTS.values() for g in grants for p in g.partition(" ON ")[0].split(",")
    }
    names = [name.strip() for name in privileges]
    known = [name for name in names if name in ours]
    return _privilege((known or [n for n in names if n != "SUPER"] or names)[0])


def _privilege(name: str) -> str:
    """Whoever reads the statement types it: a server's message puts nothing else into it."""
    return name if re.fullmatch(r"[A-Z_, ]+", name) else "?"
