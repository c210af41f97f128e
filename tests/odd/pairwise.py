"""Plans combinations of levels so that any two levels of different factors meet at least once. Pure."""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations

Row = dict[str, str]
Pair = frozenset[tuple[str, str]]
Allowed = Callable[[Mapping[str, str]], bool]

TRIES = 6
"""Rows that are tried for each one that is taken: more gives fewer rows, and takes longer."""


class Unplannable(Exception):
    """A level that no allowed row can hold."""


def plan(
    factors: Mapping[str, Sequence[str]],
    seed: int,
    *,
    allowed: Allowed = lambda row: True,
    alone: Collection[tuple[str, str]] = (),
) -> list[Row]:
    """Rows with one level of each factor, the same for the same seed, that hold every pair that is possible.

    `allowed` says whether a row, also one with only some of the factors, may be. A level in `alone`, such as
    one that is refused, hides whatever it meets: it gets one row, and none of the pairs is asked of it.
    """
    chance = random.Random(seed)
    usual = {
        factor: [level for level in levels if (factor, level) not in alone]
        for factor, levels in factors.items()
    }
    missing = pairs(usual, allowed)
    rows: list[Row] = []
    while missing:
        wanted = min(missing, key=sorted)
        row = max(
            (_grown(dict(wanted), usual, missing, allowed, chance) for _ in range(TRIES)),
            key=lambda tried: len(_held(tried) & missing),
        )
        rows.append(row)
        missing -= _held(row)
    chance.shuffle(rows)
    return rows + [_grown({factor: level}, usual, set(), allowed, chance) for factor, level in sorted(alone)]


def more(
    factors: Mapping[str, Sequence[str]], seed: int, count: int, *, allowed: Allowed = lambda row: True
) -> list[Row]:
    """As many rows by chance alone: what pairs do not find, three levels together may."""
    chance = random.Random(f"more {seed}")
    return [_grown({}, factors, set(), allowed, chance) for _ in range(count)]


def pairs(factors: Mapping[str, Sequence[str]], allowed: Allowed) -> set[Pair]:
    """Every pair of levels that may be together."""
    return {
        frozenset(((one, a), (other, b)))
        for one, other in combinations(factors, 2)
        for a in factors[one]
        for b in factors[other]
        if allowed({one: a, other: b})
    }


def _held(row: Mapping[str, str]) -> set[Pair]:
    return {frozenset(pair) for pair in combinations(row.items(), 2)}


def _grown(
    begun: Row,
    factors: Mapping[str, Sequence[str]],
    missing: Collection[Pair],
    allowed: Allowed,
    chance: random.Random,
) -> Row:
    """`begun` with a level for every other factor: of those that are allowed, one with most missing pairs."""
    row = dict(begun)
    rest = [factor for factor in factors if factor not in row]
    chance.shuffle(rest)
    for factor in rest:
        levels = [level for level in factors[factor] if allowed({**row, factor: level})]
        if not levels:
            raise Unplannable(f"no level of {factor} goes with {row}")
        gain = {
            level: sum(frozenset(((factor, level), known)) in missing for known in row.items())
            for level in levels
        }
        best = [level for level in levels if gain[level] == max(gain.values())]
        row[factor] = chance.choice(best)
    return {factor: row[factor] for factor in factors}
