"""Tests that are told with several servers: which are collected, and with what."""

from pathlib import Path

import pytest

from tests.lab import versions
from tests.lab.mongo_fixture import MongoSettings
from tests.lab.servers import ServerUnavailable, brought
from tests.lab.shards import find_modules
from tests.lab.variants import NAMED, Told, Variants, of_file

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[3]
STORY = """
import pytest

VARIANTS = ("mysql-9.7", "mariadb-10.11")
SLOW_VARIANTS = ("mariadb-11.8",)


@pytest.fixture(scope="module")
def variant(variant):
    return variant.flavour + "!"


def test_all(variant):
    assert variant in ("mysql-9.7!", "mariadb-10.11!", "mariadb-11.8!")


@pytest.mark.told_with("mysql-9.7", "mariadb-11.8")
class TestSome:
    @pytest.mark.parametrize("number", [1, 2])
    def test_it(self, variant, number):
        assert variant != "mariadb-10.11!"
"""


def told(pytester: pytest.Pytester, text: str, *options: str) -> tuple[list[str], str]:
    """Run a module with the conftest of `tests`: the tests that passed, and the last line."""
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text())
    pytester.makeini("[pytest]\nmarkers = told_with\naddopts = --strict-markers\n")
    pytester.makepyfile(test_story=text)
    lines = pytester.runpytest_inprocess("-q", "-rA", "-p", "no:cacheprovider", *options).outlines
    return [line.rpartition("::")[2] for line in lines if line.startswith("PASSED ")], lines[-1]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--variant=mysql-9.7"], {"all[mysql-9.7]", "it[mysql-9.7-1]", "it[mysql-9.7-2]"}),
        (["--variant=mariadb-10.11"], {"all[mariadb-10.11]"}),
        (["--variant=mariadb-11.8"], {"all[mariadb-11.8]", "it[mariadb-11.8-1]", "it[mariadb-11.8-2]"}),
        ([], {"all[mysql-9.7]", "it[mysql-9.7-1]", "it[mysql-9.7-2]", "all[mariadb-10.11]"}),
    ],
)
def test_only_what_is_told_with_a_server_is_collected(
    pytester: pytest.Pytester, options: list[str], wanted: set[str]
) -> None:
    passed, last = told(pytester, STORY, *options)
    assert {name.removeprefix("test_") for name in passed} == wanted
    assert last.startswith(f"{len(wanted)} passed in"), "none is skipped or deselected"


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ('told_with("mysql-9.7", "mariadb-11.8")', 'told_with("mysql-9.7-no-gtid")'),
        ('told_with("mysql-9.7", "mariadb-11.8")', "told_with()"),
        ('("mysql-9.7", "mariadb-10.11")', '("mysql-9.7", "mysql")'),
        ("(self, variant, number)", "(self, number, variant=0)"),
    ],
)
def test_a_server_that_is_mistyped_or_cannot_be_chosen_loses_no_test_in_silence(
    pytester: pytest.Pytester, there: str, instead: str
) -> None:
    passed, last = told(pytester, STORY.replace(there, instead))
    assert passed == [] and "error" in last


def test_the_project_s_own_modules_name_servers_that_there_are() -> None:
    said = {module: of_file(module) for module in (ROOT / "tests").rglob("test_*.py")}
    assert {name for variants in said.values() for name in variants.all} == set(NAMED)
    assert all(variants.usual for variants in said.values() if variants.slow)


def test_servers_that_somebody_brings_are_told_of_by_modules_that_there_are() -> None:
    words = [f"tests/system/{story}" for stories in versions.STORIES.values() for story in stories]
    assert find_modules(words, ROOT) == words


@pytest.mark.parametrize("name", ["mysql-8.4", "percona-8.0", "mariadb-10.6", "mongodb-7.0"])
def test_a_server_that_somebody_brings_stands_in_for_each_that_its_stories_name(name: str) -> None:
    environment = {brought.SERVERS: f"{name}=/opt/it", brought.INSTEAD: versions.instead(name)}
    for story in versions.STORIES[brought.kind_of(name)]:
        module = ROOT / "tests/system" / Told.read(story).file
        variant = Told.read(story).variant
        # Who names no server is told with the one that MongoDB's fixtures have if nothing is said.
        flavour = NAMED[variant].flavour if variant else MongoSettings.flavour
        assert variant or not of_file(module).all
        assert brought.stand_in(flavour, environment) == name


def test_pairs_have_servers_stand_in_for_others() -> None:
    environment = {
        brought.SERVERS: "mysql-8.4=/a",
        brought.INSTEAD: "mysql-9.7=mysql-8.4,mariadb-11.8=maria-9",
    }
    assert brought.stand_in("mysql-9.7", environment) == "mysql-8.4"
    assert (
        brought.stand_in("mysql-9.7", {})
        == brought.stand_in("mysql-9.7", {brought.INSTEAD: ""})
        == "mysql-9.7"
    )
    assert brought.stand_in("mariadb-10.11", environment) == "mariadb-10.11"
    with pytest.raises(ServerUnavailable, match="names maria-9, which LAB_SERVERS does not"):
        brought.stand_in("mariadb-11.8", environment)


def test_a_word_names_a_file_a_server_and_tests() -> None:
    for word, read in {
        "a/b.py": Told("a/b.py"),
        "a/b.py@c-1.2": Told("a/b.py", "c-1.2"),
        "a/b.py@c::T::t[x::@]": Told("a/b.py", "c", "::T::t[x::@]"),
        "/home/me@host/b.py": Told("/home/me@host/b.py"),
        "/home/me@host/b.py@c": Told("/home/me@host/b.py", "c"),
        "a@slow": Told("a", "slow"),
    }.items():
        assert Told.read(word) == read and str(read) == word


def test_who_names_no_server_is_told_as_usual() -> None:
    said = Variants(("a", "b"), ("c",))
    assert [said.asked(name) for name in ("", "slow", "b", "c", "d")] == [
        ("a", "b"),
        ("c",),
        ("b",),
        ("c",),
        (),
    ]
