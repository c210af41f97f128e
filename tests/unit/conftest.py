"""Settings for all unit tests: property tests must not fail because a machine is slow."""

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

settings.register_profile("zbackup", deadline=None, print_blob=True)
settings.load_profile("zbackup")


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command line decides how the whole process logs: not for the tests that come after it."""
    yield
    structlog.reset_defaults()
