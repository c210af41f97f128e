"""Tests that are told with several servers: those that their module names, see `tests/lab/variants.py`."""

from collections.abc import Generator

import pytest

from tests.lab.variants import NAMED, Variant, of_namespace

OPTION = "--variant"
Made = pytest.Item | pytest.Collector | list[pytest.Item | pytest.Collector] | None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, choices=NAMED, help="of modules that are told with several servers, this one")


@pytest.fixture(scope="module")
def variant(request: pytest.FixtureRequest) -> Variant:
    """The kind of server that the module is told with. A module may have a fixture that adds to it."""
    return NAMED[request.param]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    said = of_namespace(vars(metafunc.module), metafunc.module.__name__).all
    if not said:
        return
    told_with = _told_with(metafunc.definition, said)
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", told_with, indirect=True, scope="module")
    elif told_with != said:
        raise pytest.UsageError(f"{metafunc.definition.nodeid} has no server that could be chosen")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Made, Made]:
    """Leave those that are to be told now; the others count nowhere, neither as skipped nor as deselected."""
    made = yield
    wanted = collector.config.getoption(OPTION)
    return [item for item in made if _is_wanted(item, wanted)] if isinstance(made, list) else made


def _told_with(test: pytest.Item, said: tuple[str, ...]) -> tuple[str, ...]:
    """The servers of those its module names that a test is told with: its class may leave some out."""
    mark = test.get_closest_marker("told_with")
    if mark is None:
        return said
    if not mark.args or not set(mark.args) <= set(said):
        raise pytest.UsageError(f"{test.nodeid}: told_with names servers of those that its module names")
    return tuple(name for name in said if name in mark.args)


def _is_wanted(item: pytest.Item | pytest.Collector, wanted: str | None) -> bool:
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return True
    said, name = of_namespace(vars(item.module), item.module.__name__), item.callspec.params.get("variant")
    if name is None or not said.all:
        return True
    return name == wanted if wanted else name in said.usual
