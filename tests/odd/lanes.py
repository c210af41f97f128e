"""Tests of odd servers for modules that name a flavour: a few chosen ones, or every two oddities together."""

from collections.abc import Callable, Iterator

import pytest

from tests.lab.pool import Pool
from tests.lab.repeats import some
from tests.odd.chosen import CHOSEN, USUAL
from tests.odd.stories import described, numbers, row_of, rows, told
from tests.system.forked import Forks, forks


@pytest.fixture(scope="module")
def forked(pool: Pool) -> Iterator[Forks]:
    """Short commands without Python's start."""
    with forks(pool.home) as running:
        yield running


def a_few(flavour: str) -> Callable[..., None]:
    """The test of the combinations that are chosen for `make test`."""
    chosen = CHOSEN[flavour]

    @pytest.mark.parametrize("name", some(list(chosen), *USUAL[flavour]))
    def test(pool: Pool, forked: Forks, name: str) -> None:
        outcome = told(flavour, row_of(flavour, chosen[name]), pool, list(chosen).index(name), forked)
        assert outcome.problems == [], "\n".join(outcome.problems)
        print(name, outcome.seconds, outcome.notes)

    return test


def every_two(flavour: str) -> Callable[..., None]:
    """The test of all combinations that are planned."""
    planned = rows(flavour)

    @pytest.mark.parametrize("number", numbers(flavour, planned))
    def test(pool: Pool, forked: Forks, number: int) -> None:
        outcome = told(flavour, planned[number], pool, number, forked)
        assert outcome.problems == [], "\n".join([described(flavour, planned[number]), *outcome.problems])

    return test
