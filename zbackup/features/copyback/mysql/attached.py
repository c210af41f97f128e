"""Triggers of production's table and other tables' foreign keys: they follow a table that is renamed."""

from zbackup.engines.mysql.production import tables
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName


def require_unattached(sides: Sides, name: TableName) -> None:
    """Raise Refused for a table of production's to which something is attached, or that is a view."""
    there = tables.read_table(sides.production, name)
    if there is None:
        raise Refused(f"{name} is not in production any more")
    if there.is_view:
        raise Refused(f"{name} is a view in production")
    if there.triggers:
        names = ", ".join(t.name for t in there.triggers)
        raise Refused(
            f"production's table has triggers, which would stay with the old one ({names}): use --missing "
            "and --changed, or copy it beside and exchange them yourself"
        )
    if others := referring(sides, name):
        raise Refused(
            f"foreign keys of other tables refer to production's table, and would go on referring to the old "
            f"one ({', '.join(others)}): use --missing and --changed"
        )


def referring(sides: Sides, name: TableName) -> list[str]:
    """Foreign keys of other tables that refer to this one, in whatever schema they are."""
    if sides.watch is None:
        raise Refused(
            "cannot list the foreign keys of other tables that refer to production's table: the instance's "
            "own account is not connected"
        )
    seen = {
        f"{key.name} of {key.table}" for key in tables.foreign_keys(sides.production, name, of_others=True)
    }
    return sorted(seen | tables.unseen(sides.watch, name))
