"""The page of versions tells what is run with which server."""

import re
from pathlib import Path

import pytest

from tests.lab.variants import NAMED, Variants, of_file
from tests.unit.docs.pages import PROJECT

PAGE = PROJECT / "docs/reference/versions.md"
TESTS = PROJECT / "tests"
NAMES = {
    "mysql-9.7": "MySQL 9.7",
    "mysql-9.7-no-gtid": "MySQL 9.7 without GTIDs",
    "mariadb-10.11": "MariaDB 10.11",
    "mariadb-11.8": "MariaDB 11.8",
}


@pytest.mark.parametrize("server", NAMED)
def test_the_page_says_which_stories_are_told_with_a_server(server: str) -> None:
    told = {module: of_file(module) for module in sorted(TESTS.rglob("test_*.py"))}
    usual = [name_of(m) for m, said in told.items() if server in said.usual and not is_slow(m)]
    slow = [name_of(m) for m, said in told.items() if server in in_the_slow_lane(m, said)]
    row = re.search(rf"^\| {re.escape(NAMES[server])} \|.*$", PAGE.read_text(), flags=re.M)
    assert row and row[0] == f"| {NAMES[server]} | {', '.join(usual) or '-'} | {', '.join(slow) or '-'} |"


def in_the_slow_lane(module: Path, said: Variants) -> tuple[str, ...]:
    """What `make test-slow` adds: `tests/slow`, and of `tests/system` what is slow."""
    return said.usual if is_slow(module) else said.slow


def is_slow(module: Path) -> bool:
    return module.parent.name == "slow"


def name_of(module: Path) -> str:
    """As people say it."""
    words = module.stem.removeprefix("test_").replace("_", " ")
    return f"{words} (attacks)" if module.parent.name == "attacks" else words
