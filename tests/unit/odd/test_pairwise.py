"""The planner of combinations."""

from collections.abc import Mapping
from itertools import combinations

import pytest

from tests.odd.pairwise import Unplannable, more, pairs, plan

FACTORS = {
    "name": ["plain", "spaces", "dots"],
    "log": ["beside", "own", "linked", "index elsewhere"],
    "size": ["small", "large"],
    "format": ["row", "mixed", "statement", "encrypted"],
    "tail": ["whole", "torn"],
}


def not_torn_and_small(row: Mapping[str, str]) -> bool:
    return (row.get("tail"), row.get("size")) != ("torn", "small")


def together(rows: list[dict[str, str]]) -> set[frozenset[tuple[str, str]]]:
    return {frozenset(pair) for row in rows for pair in combinations(row.items(), 2)}


@pytest.mark.parametrize("seed", range(20))
def test_any_two_levels_meet_unless_they_may_not(seed: int) -> None:
    rows = plan(FACTORS, seed, allowed=not_torn_and_small)
    assert together(rows) == pairs(FACTORS, not_torn_and_small)
    assert all(list(row) == list(FACTORS) for row in rows)
    assert all(row[factor] in FACTORS[factor] for row in rows for factor in FACTORS)
    assert 16 <= len(rows) <= 24, "the two largest factors have 16 pairs"


def test_the_same_seed_gives_the_same_rows_and_another_one_others() -> None:
    assert plan(FACTORS, 7) == plan(dict(FACTORS), 7)
    assert plan(FACTORS, 7) != plan(FACTORS, 8)
    assert more(FACTORS, 7, 9) == more(FACTORS, 7, 9)
    assert len(more(FACTORS, 7, 9)) == 9


def test_what_hides_others_gets_one_row_and_is_in_no_other() -> None:
    alone = {("format", "encrypted"), ("name", "dots")}
    rows = plan(FACTORS, 3, allowed=not_torn_and_small, alone=alone)
    for level in alone:
        assert [level in row.items() for row in rows].count(True) == 1
    assert not any(alone <= row.items() for row in rows)
    usual = {f: [level for level in levels if (f, level) not in alone] for f, levels in FACTORS.items()}
    assert pairs(usual, not_torn_and_small) <= together(rows)


def test_a_level_that_goes_with_nothing_is_an_error() -> None:
    with pytest.raises(Unplannable, match="no level of"):
        plan(FACTORS, 1, allowed=lambda row: row.get("tail") != "torn" or len(row) < 4)
