"""The combinations that there are of each kind of server, and the telling of one."""

import shutil
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from tests.lab.pool import Pool
from tests.odd import mongo_levels, pairwise, sql_levels
from tests.odd.mongo_worlds import MONGO_WORLDS
from tests.odd.outcome import Outcome
from tests.odd.pairwise import Row
from tests.odd.sql_worlds import SQL_WORLDS
from tests.odd.worlds import SEPARATOR, WORLDS, World, drawn, require_known
from tests.system.forked import Forks

SEED = 1
LAST_LINES = 12
"""Of the server's log, when the telling failed."""
FLAVOURS = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8", "mongodb-6.0")


def levels_of(flavour: str) -> ModuleType:
    """The module of its factors."""
    return mongo_levels if flavour.startswith("mongodb") else sql_levels


def rows(flavour: str, seed: int = SEED, count: int | None = None) -> list[Row]:
    """The combinations of a flavour: every pair of levels, then by chance up to `count`."""
    known = levels_of(flavour)
    factors, alone, allowed = known.factors(flavour), known.alone(flavour), known.allowed(flavour)
    found = pairwise.plan(factors, seed, allowed=allowed, alone=alone)
    if count is not None and count > len(found):
        usual = {f: [level for level in levels if (f, level) not in alone] for f, levels in factors.items()}
        found += pairwise.more(usual, seed, count - len(found), allowed=allowed)
    worlds = worlds_of(flavour)
    return [
        row | {WORLDS: SEPARATOR.join(drawn(worlds, flavour, seed, number))}
        for number, row in enumerate(found[:count])
    ]


def worlds_of(flavour: str) -> Mapping[str, World]:
    """What can be told of its servers, by name."""
    return MONGO_WORLDS if flavour.startswith("mongodb") else SQL_WORLDS


def with_worlds(flavour: str, row: Row, names: Sequence[str]) -> Row:
    """The same server with these worlds instead. Raise ValueError for one that is not known."""
    return row | {WORLDS: SEPARATOR.join(require_known(worlds_of(flavour), names))}


def numbers(flavour: str, planned: Sequence[Row]) -> list[int]:
    """The numbers of those rows in the plan of which a server can be built that lives."""
    return [n for n, row in enumerate(planned) if levels_of(flavour).lives(flavour, row)]


def row_of(flavour: str, odd: Mapping[str, str]) -> Row:
    """The row in which only this is odd."""
    factors = levels_of(flavour).factors(flavour)
    assert all(level in factors[factor] for factor, level in odd.items()), odd
    return {factor: odd.get(factor, levels[0]) for factor, levels in factors.items()}


def described(flavour: str, row: Row) -> str:
    """What is unusual in a row."""
    usual = {factor: levels[0] for factor, levels in levels_of(flavour).factors(flavour).items()}
    odd = [f"{f}={level}" for f, level in row.items() if level != usual.get(f, "")]
    return ", ".join(odd) or "nothing odd"


def told(flavour: str, row: Row, pool: Pool, number: int, forked: Forks | None = None) -> Outcome:
    """One story. What goes wrong in the telling is a problem as well."""
    # Imported here: who plans needs no server.
    from tests.odd.mongo_story import MongoStory
    from tests.odd.sql_story import SqlStory

    home: Path = pool.home / f"c{number}"
    outcome = Outcome(row=row)
    kind = MongoStory if flavour.startswith("mongodb") else SqlStory
    try:
        kind(flavour, row, pool, home, outcome).tell(forked)
    except Exception:  # noqa: BLE001  the others are told all the same
        outcome.problems.append(traceback.format_exc())
        log = home / "server" / "server.log"
        if log.exists():
            outcome.notes += log.read_text(errors="replace").splitlines()[-LAST_LINES:]
    shutil.rmtree(home, ignore_errors=True)
    return outcome
