"""The tables whose rows are taken back, as production has them, and the reasons not to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from zbackup.engines.mysql.production import tables
from zbackup.engines.mysql.production.account import granted_in
from zbackup.engines.mysql.production.tables import ForeignKey, ServerTable
from zbackup.engines.mysql.server.connection import Connection, PrivilegeMissing
from zbackup.engines.mysql.server.privileges import grant
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.undo.mysql.foreign_keys import Reference
from zbackup.features.undo.mysql.net_change import Kind, RowStep
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

_EVENTS: dict[Kind, str] = {"insert": "INSERT", "update": "UPDATE", "delete": "DELETE"}
_ENGINES = ("innodb", "rocksdb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table of production's: `key` are the numbers of its key among its stored columns."""

    table: ServerTable
    key: tuple[int, ...]
    references: tuple[Reference, ...] = ()
    """The foreign keys that refer to it, its own to itself as well."""
    parents: tuple[ForeignKey, ...] = ()
    """Its own foreign keys."""
    unlogged: bool = False
    """True if the log lacks what the server changes by them."""


def read_target(production: Connection, watch: Connection | None, name: TableName) -> Target:
    """Look at a table. Raise Refused for one whose rows cannot be taken back."""
    table = tables.read_table(production, name)
    if table is None:
        raise Refused(f"{name} is not in production any more: zbackup restore --before ... --table {name}")
    if table.type == "SYSTEM VERSIONED":
        raise Refused(f"{name} keeps its history (system versioning), which zbackup does not change")
    if table.engine.lower() not in _ENGINES:
        raise Refused(f"{name} is of the engine {table.engine or '(none)'}, which has no transactions")
    if not table.key:
        raise Refused(f"{name} has no primary key (nor a unique one without NULLs) that tells its rows apart")
    numbers = tuple(table.stored.index(column) for column in table.key)
    own = tables.foreign_keys(production, name, of_others=False)
    references = _references(production, watch, name, [key for key in own if key.parent == name])
    hides = _hides_cascades(production)
    return Target(table=table, key=numbers, references=references, parents=own, unlogged=hides)


def _references(
    production: Connection, watch: Connection | None, name: TableName, itself: Sequence[ForeignKey]
) -> tuple[Reference, ...]:
    """Raise Refused where one, or what it does, cannot be seen."""
    others = tables.foreign_keys(production, name, of_others=True)
    if watch is not None:
        known = {f"{key.name} of {key.table}" for key in others}
        if hidden := sorted(tables.unseen(watch, name) - known):
            raise Refused(
                f"foreign keys refer to {name} from tables that the copies' account may not see "
                f"({', '.join(hidden)})"
            )
    keys = (*others, *itself)
    rules = _rules(production, {key.table.schema for key in keys})
    found = []
    for key in keys:
        if (rule := rules.get((key.table.schema, key.table.table, key.name))) is None:
            raise Refused(
                f"the copies' account may not see what the foreign key {key.name} of {key.table} does when "
                f"rows of {name} change"
            )
        on_delete, on_update = rule
        found.append(
            Reference(
                name=key.name,
                child=key.table,
                on_delete=on_delete,
                on_update=on_update,
                columns=key.columns,
            )
        )
    return tuple(found)


def _rules(production: Connection, schemas: Iterable[str]) -> dict[tuple[str, str, str], tuple[str, str]]:
    """What foreign keys do ON DELETE and ON UPDATE, by schema, table and name."""
    return {
        (schema, str(row["t"]), str(row["n"])): (str(row["d"]), str(row["u"]))
        for schema in schemas
        for row in production.rows(
            "SELECT TABLE_NAME AS t, CONSTRAINT_NAME AS n, DELETE_RULE AS d, UPDATE_RULE AS u "
            "FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = %s",
            (schema,),
        )
    }


def _hides_cascades(production: Connection) -> bool:
    """Whether InnoDB itself deletes children, unseen by the log; MySQL 9.6 and later can log that."""
    row = production.one("SHOW GLOBAL VARIABLES LIKE 'innodb_native_foreign_keys'")
    return str(row.get("Value", "ON")).upper() != "OFF"


def firing(targets: Mapping[TableName, Target], steps: Iterable[RowStep]) -> dict[TableName, tuple[str, ...]]:
    """The tables whose triggers run when the rows are taken back, with the triggers' names."""
    found: dict[TableName, tuple[str, ...]] = {}
    for name, kind in dict.fromkeys((step.table, step.kind) for step in steps):
        names = tuple(t.name for t in targets[name].table.triggers if t.event == _EVENTS[kind])
        if names:
            found[name] = tuple(dict.fromkeys((*found.get(name, ()), *names)))
    return found


def require_delete(production: Connection, schemas: Sequence[str]) -> None:
    """Raise PrivilegeMissing if the account may not delete rows there, which copies never do."""
    account, everywhere, by_schema, certain = granted_in(production)
    patterns = [
        name for name, found in by_schema.items() if ("%" in name or "_" in name) and "DELETE" in found
    ]
    lacking = [s for s in schemas if "DELETE" not in everywhere | by_schema.get(s, set())]
    if lacking and certain and not patterns:
        wanted = " ".join(grant("DELETE", account, f"{identifier(schema)}.*") + ";" for schema in lacking)
        raise PrivilegeMissing(f"{account} may not delete the rows that the transaction inserted: {wanted}")
