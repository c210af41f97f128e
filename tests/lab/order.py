"""In which order test modules run, and which of them share a guest or a process.

What takes long begins first, so that no core waits for it at the end. Short modules go into one guest, one
after the other, for a guest and a pytest take several seconds before the first test.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab import apt
from tests.lab.variants import Told

USUAL = Path(__file__).with_name("seconds.json")
"""What modules took in a whole run; a machine that has run them knows better."""

SHORT = 170.0
"""Seconds of a module that may share a guest."""
SHARED = 400.0
"""Seconds that modules in one guest take together."""
SHORT_HERE = 45.0
"""Seconds of a module that may share a process on this machine, with what is started once for all tests."""
SHARED_HERE = 130.0
"""Seconds that modules in one such process take together: they are done one after the other."""
SETS_CLOCK = ("clock", "odd_servers")
"""In the names of modules that set the machine's clock, which must be nobody else's."""
ENGINES = ("mysql", "mariadb", "mongo")
"""As names of modules, or of the server that they are told with, have them."""


@dataclass(frozen=True, slots=True)
class Task:
    """Modules that one pytest runs, one after the other."""

    modules: tuple[str, ...]
    here: bool = False
    """On this machine itself, not where ZFS is."""

    @property
    def variant(self) -> str:
        """The server that those of them are told with which do not choose theirs themselves: one at most."""
        return next(filter(None, (Told.read(module).variant for module in self.modules)), "")


def tasks(
    modules: Iterable[str], here: Iterable[str], seconds: Mapping[str, float], *, alone: bool = False
) -> list[Task]:
    """What is to be run, the longest first; a module that nobody knows counts as long.

    With `alone` each module is by itself.
    """
    found: list[Task] = []
    short_here: list[str] = []
    for module in here:
        if alone or seconds.get(module, SHORT) > SHORT_HERE:
            found.append(Task((module,), here=True))
        else:
            short_here.append(module)
    found += [Task(together, here=True) for together in _shared(short_here, seconds, SHARED_HERE)]
    short: list[str] = []
    for module in modules:
        sets_clock = any(word in Path(module).name for word in SETS_CLOCK)
        if alone or sets_clock or seconds.get(module, SHARED) > SHORT:
            found.append(Task((module,)))
        else:
            short.append(module)
    found += [Task(together) for together in _shared(short, seconds, SHARED)]
    return sorted(found, key=lambda task: -_length(task, seconds))


def _length(task: Task, seconds: Mapping[str, float]) -> float:
    """What a task takes. Tests on this machine wait more than they work, so they run beside long guests."""
    return sum(seconds.get(module, SHORT if task.here else float("inf")) for module in task.modules)


def _shared(modules: Sequence[str], seconds: Mapping[str, float], most: float) -> list[tuple[str, ...]]:
    """Modules of one directory and one engine each: a guest has read the server's files then."""
    shared: list[list[str]] = []
    for module in sorted(modules, key=lambda module: -seconds[module]):
        for others in shared:
            together = seconds[module] + sum(seconds[other] for other in others)
            if _fit(module, others) and together <= most:
                others.append(module)
                break
        else:
            shared.append([module])
    return [tuple(together) for together in shared]


def _fit(module: str, others: Sequence[str]) -> bool:
    variants = {Told.read(name).variant for name in (module, *others)} - {""}
    return _kin(others[0]) == _kin(module) and len(variants) <= 1


def _kin(module: str) -> tuple[Path, str]:
    path = Path(module)
    return path.parent, next((engine for engine in ENGINES if engine in path.name), "")


def known_seconds() -> dict[str, float]:
    """What modules took when they last ran, on this machine if they did."""
    return {**_read(USUAL), **_read(_last())}


def remember(seconds: Mapping[str, float]) -> None:
    """For the next run on this machine, of the project's own modules."""
    own = {name: round(taken, 1) for name, taken in seconds.items() if "::" not in name and name[0] != "/"}
    known = {**_read(_last()), **own}
    fresh = _last().with_name(f"seconds-{os.getpid()}.new")
    fresh.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    fresh.replace(_last())


def _last() -> Path:
    return apt.cache_root() / "seconds.json"


def _read(file: Path) -> dict[str, float]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
