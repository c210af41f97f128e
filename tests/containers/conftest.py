"""One server of each kind in a container, for all tests of this directory."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers import engine, images
from tests.containers.server import ContainerServer, running


@pytest.fixture(scope="module", params=images.VENDORS)
def server(request: pytest.FixtureRequest) -> Iterator[ContainerServer]:
    client = engine.answering()
    if client is None:
        pytest.exit("no Docker engine answers: run `make test-containers`, which starts one", returncode=1)
    home = Path(tempfile.mkdtemp(prefix="zbc-", dir="/var/tmp"))
    home.chmod(0o755)  # the server is somebody else
    try:
        with running(images.find(client, request.param), request.param, home) as found:
            yield found
    finally:
        shutil.rmtree(home)
