"""Odd servers of MariaDB 11.8, every two oddities together: what `check` calls ready restores exactly.

To repeat combination 17, in the lab: python -m tests.odd.campaign FLAVOUR 17
"""

from collections.abc import Iterator

import pytest

from tests.lab.pool import Pool
from tests.odd.stories import described, rows, told
from tests.system.forked import Forks, forks

FLAVOUR = "mariadb-11.8"
ROWS = rows(FLAVOUR)


@pytest.fixture(scope="module")
def forked(pool: Pool) -> Iterator[Forks]:
    with forks(pool.home) as running:
        yield running


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_what_is_ready_restores(pool: Pool, forked: Forks, number: int) -> None:
    outcome = told(FLAVOUR, ROWS[number], pool, number, forked)
    assert outcome.problems == [], "\n".join([described(FLAVOUR, ROWS[number]), *outcome.problems])
