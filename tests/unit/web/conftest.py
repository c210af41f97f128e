"""One event loop for the requests of a module, where a test client starts a thread and a loop for each."""

from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.testclient import TestClient


@pytest.fixture(autouse=True, scope="module")
def _one_event_loop() -> Iterator[None]:
    with start_blocking_portal() as portal, pytest.MonkeyPatch.context() as patch:
        patch.setattr(TestClient, "portal", portal)
        yield
