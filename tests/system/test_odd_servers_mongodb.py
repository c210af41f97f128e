"""Odd MongoDB servers: what `check` calls ready restores exactly, and what it refuses is refused in one line.

A few combinations; tests/slow tells two hundred. See tests/odd.
"""

from collections.abc import Iterator

import pytest

from tests.lab.pool import Pool
from tests.odd.chosen import CHOSEN
from tests.odd.stories import row_of, told
from tests.system.forked import Forks, forks

FLAVOUR = "mongodb-6.0"

ROWS = CHOSEN[FLAVOUR]


@pytest.fixture(scope="module")
def forked(pool: Pool) -> Iterator[Forks]:
    with forks(pool.home) as running:
        yield running


@pytest.mark.parametrize("name", ROWS)
def test_what_is_ready_restores(pool: Pool, forked: Forks, name: str) -> None:
    outcome = told(FLAVOUR, row_of(FLAVOUR, ROWS[name]), pool, list(ROWS).index(name), forked)
    assert outcome.problems == [], "\n".join(outcome.problems)
    print(name, outcome.seconds, outcome.notes)
