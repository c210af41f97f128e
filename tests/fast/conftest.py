"""The lane that breaks every job in seconds."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import structlog

pytest.register_assert_rewrite("tests.fast.right", "tests.fast.breaking")

from tests.fast.world import World, at_the_doors  # noqa: E402
from tests.garbage import pytest_collection_finish as pytest_collection_finish  # noqa: E402
from zbackup.model.event_log import log  # noqa: E402

SHM = Path("/dev/shm")
_current: list[World] = []


@pytest.fixture(scope="session", autouse=True)
def _doors() -> Iterator[None]:
    with at_the_doors(lambda: _current[-1]):
        yield


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of jobs run here, and what they log is formatted for nobody."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    log.forget()
    structlog.reset_defaults()


@pytest.fixture
def world() -> Iterator[World]:
    # Locks are files, and written each time: in memory where there is such a place.
    with TemporaryDirectory(dir=SHM if os.access(SHM, os.W_OK) else None) as home:
        _current.append(World(Path(home)))
        yield _current[-1]
        _current.pop()
