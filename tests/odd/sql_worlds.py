"""All worlds of MySQL and MariaDB servers, by name. See worlds."""

from dataclasses import replace
from typing import Final

from tests.odd.common_worlds import COMMON
from tests.odd.mariadb_worlds import OF_MARIADB
from tests.odd.mysql_worlds import OF_MYSQL
from tests.odd.worlds import World


def _only(kind: str, worlds: dict[str, World]) -> dict[str, World]:
    return {name: replace(world, kinds=(kind,)) for name, world in worlds.items()}


SQL_WORLDS: Final = {**COMMON, **_only("mysql", OF_MYSQL), **_only("mariadb", OF_MARIADB)}
