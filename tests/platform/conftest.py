"""Tests that need a real pool: run them with `tests/lab/lab test tests/platform`."""

import signal
from collections.abc import Iterator

import pytest

from tests.lab.pool import Pool, create_pool, pool, pytest_addoption, pytest_runtest_logreport
from tests.platform.shipping import Yard
from zbackup.proc.detached import Process

__all__ = ["pool", "pytest_addoption", "pytest_runtest_logreport"]


@pytest.fixture(scope="module")
def vault() -> Iterator[Pool]:
    """The pool of a destination."""
    made = create_pool()
    yield made
    made.destroy()


@pytest.fixture
def yard(pool: Pool, vault: Pool) -> Yard:
    return Yard(pool, vault)


@pytest.fixture
def started() -> Iterator[list[Process]]:
    """Servers that a test has started."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.send(signal.SIGKILL)
        process.wait(5)
