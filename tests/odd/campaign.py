"""Tells the stories of odd servers one after the other, and prints how each went.

Run in the lab: tests/lab/lab run --disk 8G -- .venv/bin/python -m tests.odd.campaign mysql-9.7 --seed 1
A combination is known by flavour, seed and number: name numbers to repeat those alone.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.lab.pool import create_pool
from tests.odd.chosen import CHOSEN
from tests.odd.pairwise import Row
from tests.odd.stories import SEED, described, numbers, row_of, rows, told, with_worlds, worlds_of
from tests.odd.worlds import SEPARATOR
from tests.system.forked import forks


def main(arguments: Sequence[str]) -> int:
    """Returns 1 when the law was broken by any."""
    parser = argparse.ArgumentParser(prog="python -m tests.odd.campaign", description=__doc__)
    parser.add_argument("flavour")
    parser.add_argument("numbers", nargs="*", type=int, help="which to tell; default: all")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--begin", type=int, default=0, help="go on with this number")
    parser.add_argument("--count", type=int, help="so many combinations")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin none after that time")
    parser.add_argument("--list", action="store_true", help="print them, and tell none")
    parser.add_argument("--worlds", help=f"these instead of the plan's, with{SEPARATOR}between them")
    parser.add_argument(
        "--usual", action="store_true", help="servers with nothing odd but each world, one by one"
    )
    parser.add_argument("--chosen", action="store_true", help="those of `make test`")
    given = parser.parse_args(arguments)
    planned = rows(given.flavour, given.seed, given.count)
    if given.chosen:
        planned = [row_of(given.flavour, odd) for odd in CHOSEN[given.flavour].values()]
    if given.usual:
        kind = given.flavour.partition("-")[0]
        there = [name for name, world in worlds_of(given.flavour).items() if kind in world.kinds]
        planned = [with_worlds(given.flavour, row_of(given.flavour, {}), [name]) for name in there]
    if given.worlds is not None:
        names = given.worlds.split(SEPARATOR) if given.worlds else []
        planned = [with_worlds(given.flavour, row, names) for row in planned]
    wanted = given.numbers or [n for n in numbers(given.flavour, planned) if n >= given.begin]
    if given.list:
        for number in wanted:
            print(f"{given.flavour} {given.seed}/{number}: {described(given.flavour, planned[number])}")
        return 0
    return _tell(given.flavour, given.seed, [(n, planned[n]) for n in wanted], given.minutes)


def _tell(flavour: str, seed: int, chosen: Sequence[tuple[int, Row]], minutes: float) -> int:
    pool, broken = create_pool(), 0
    until = time.monotonic() + 60 * minutes
    with forks(pool.home) as forked:
        for number, row in chosen:
            if time.monotonic() > until:
                print(f"time is over: go on with --begin {number}", flush=True)
                break
            outcome = told(flavour, row, pool, number, forked)
            broken += bool(outcome.problems)
            verdict = "BROKEN" if outcome.problems else "ok"
            print(f"{verdict} {flavour} {seed}/{number}: {described(flavour, row)}")
            print(f"    {outcome.seconds}", flush=True)
            for line in (*outcome.problems, *(f"({note})" for note in outcome.notes)):
                print("    " + line.replace("\n", "\n        "), flush=True)
    pool.destroy()
    print(f"{broken} of {len(chosen)} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
