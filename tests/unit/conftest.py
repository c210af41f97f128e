"""Settings for all unit tests: property tests must not fail because a machine is slow."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings

from tests.garbage import pytest_collection_finish as pytest_collection_finish
from tests.unit.examples import examples
from zbackup.model.event_log import log
from zbackup.proc import programs, version

settings.register_profile("zbackup", deadline=None, print_blob=True, max_examples=examples(100))
settings.load_profile("zbackup")

# A shell starts its background jobs with SIGINT ignored, and so would be all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command line decides how the whole process logs: not for the tests that come after it."""
    yield
    log.forget()
    structlog.reset_defaults()


@pytest.fixture
def rooted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for programs that we run as ourselves; what is above it counts as root's alone."""
    judged, above = programs._who_may_write, set(tmp_path.parents)

    def who_may_write(path: Path, facts: os.stat_result) -> str:
        return "" if path in above else judged(path, facts)

    monkeypatch.setattr(programs, "_who_may_write", who_may_write)
    monkeypatch.setattr(version, "as_nobody", lambda _: None)
    return tmp_path
