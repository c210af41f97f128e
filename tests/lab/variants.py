"""The servers that a test module is told with: it says so itself, in two literals at its top.

    VARIANTS = ("mysql-9.7", "mariadb-10.11")      # `make test`
    SLOW_VARIANTS = ("mysql-9.7-no-gtid",)         # `make test-slow`, too

They are read without importing the module, for the lab runs without the project's virtual environment. What
is run is called `FILE@VARIANT`, with `::TEST` behind it if it is not all of the module.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SLOW = "slow"
"""In the place of a variant: each of the slow ones."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A kind of server."""

    flavour: str
    gtid: bool = True
    options: tuple[str, ...] = ()


NAMED = {
    "mysql-9.7": Variant(flavour="mysql-9.7"),
    "mysql-9.7-no-gtid": Variant(flavour="mysql-9.7", gtid=False),
    "mariadb-10.11": Variant(flavour="mariadb-10.11"),
    "mariadb-11.8": Variant(flavour="mariadb-11.8"),
}
"""What a module may name."""


class UnknownVariant(Exception):
    """A module names a server that there is not."""


@dataclass(frozen=True, slots=True)
class Variants:
    """The servers that a module is told with."""

    usual: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Of both lanes."""
        return self.usual + self.slow

    def asked(self, name: str) -> tuple[str, ...]:
        """Those that `name` stands for: a variant, `slow`, or nothing for what `make test` tells."""
        if name in ("", SLOW):
            return self.slow if name else self.usual
        return (name,) if name in self.all else ()


def of_file(module: Path) -> Variants:
    """What a module says; nothing if it chooses its servers itself."""
    assigned: dict[str, Any] = {}
    text = module.read_bytes()
    for node in ast.parse(text).body if b"VARIANTS" in text else ():
        match node:
            case ast.Assign(targets=[ast.Name(id="VARIANTS" | "SLOW_VARIANTS" as name)], value=value):
                assigned[name] = ast.literal_eval(value)
    return of_namespace(assigned, str(module))


def of_namespace(namespace: Mapping[str, Any], module: str) -> Variants:
    """The same of a module that was imported. Raises UnknownVariant."""
    said = Variants(tuple(namespace.get("VARIANTS", ())), tuple(namespace.get("SLOW_VARIANTS", ())))
    for name in said.all:
        if name not in NAMED or said.all.count(name) > 1:
            raise UnknownVariant(f"{module} names {name!r}; it may name once each: {', '.join(NAMED)}")
    return said


@dataclass(frozen=True, slots=True)
class Told:
    """What a word names: a file or directory, the server it is told with if any is named, tests of it."""

    file: str
    variant: str = ""
    tests: str = ""

    @classmethod
    def read(cls, word: str) -> "Told":
        """A word of a command line, or a name that `__str__` made."""
        place, colons, tests = word.partition("::")
        file, at, variant = place.rpartition("@")
        if not at or "/" in variant:
            file, variant = place, ""
        return cls(file, variant, colons + tests)

    def __str__(self) -> str:
        return f"{self.file}{'@' if self.variant else ''}{self.variant}{self.tests}"
