"""The worlds of odd servers: what people do with one between its backups, and which meet on one server.

A world has schemas, accounts or databases of its own, so that several can be on one server. It is told in
stages: 0 before the first backup, 1 behind it, 2 behind the moment between the backups and before the second
one, 3 behind that, and 4 behind the last moment that is restored.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORLDS = "worlds"
"""The name under which a row has its worlds, with SEPARATOR between them; no level of a plan."""
SEPARATOR = " + "
LAST = 4
"""The stage behind the last moment that is restored."""
TOGETHER = 5
"""Worlds of one server. Each keeps a session."""


@dataclass(kw_only=True)
class Stage:
    """One stage of a world: `session` is its own for all stages, and `kept` what it keeps until the next."""

    number: int
    session: Any
    server: Any
    outside: Path
    kept: dict[str, Any]
    run: Callable[[str | bytes], Any] = print


Act = str | bytes | Callable[[Stage], None]


@dataclass(frozen=True, kw_only=True)
class World:
    """What is done in the stages: statements, where {n} is the number of the stage, or functions.

    `each` is done in every stage from 1 on, behind `setup` and what `at` has of that stage. A statement
    that begins with "? " may fail. `options` are the server's, in which {outside} is a directory on no
    dataset of the instance's. `asks` are answered by a recovered server as they were by production. `refusal`
    is in the one line of a restore that is refused, where one may be: such a world is alone on its server.
    `warned` is in what a restore says that ends with another status than 0, as rows may differ.
    """

    kinds: tuple[str, ...] = ("mysql", "mariadb")
    options: tuple[str, ...] = ()
    setup: tuple[Act, ...] = ()
    each: tuple[Act, ...] = ()
    at: Mapping[int, tuple[Act, ...]] = field(default_factory=dict, hash=False)
    asks: tuple[str, ...] = ()
    refusal: str = ""
    warned: str = ""

    def acts(self, number: int) -> tuple[Act, ...]:
        """All of a stage."""
        own = self.setup if number == 0 else self.each
        return (*own, *self.at.get(number, ()))


def drawn(worlds: Mapping[str, World], flavour: str, seed: int, number: int) -> list[str]:
    """The worlds of the server of that number: all of them are met in turns, each time in another company."""
    kind = flavour.partition("-")[0]
    there = [name for name, world in worlds.items() if kind in world.kinds]
    apart = [name for name in there if worlds[name].refusal]
    turns: list[list[str]] = []
    for turn in range(number + 1):
        if len(turns) > number:
            break
        chance = random.Random(f"worlds {seed} {turn}")
        usual = [name for name in there if name not in apart]
        chance.shuffle(usual)
        some = [usual[at : at + TOGETHER] for at in range(0, len(usual), TOGETHER)]
        some += [[name] for name in apart]
        chance.shuffle(some)
        turns += some
    return turns[number]


def named(row: Mapping[str, str]) -> list[str]:
    """The worlds of a row."""
    return row[WORLDS].split(SEPARATOR) if row.get(WORLDS) else []


def require_known(worlds: Mapping[str, World], names: Sequence[str]) -> Sequence[str]:
    """The same names. Raise ValueError for one that is no world."""
    unknown = [name for name in names if name not in worlds]
    if unknown:
        raise ValueError(f"no world is called {', '.join(unknown)}: there are {', '.join(sorted(worlds))}")
    return names
