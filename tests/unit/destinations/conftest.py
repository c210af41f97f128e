"""An instance's part of a bucket in memory, plain and encrypted."""

from pathlib import Path

import pytest

from tests.unit.destinations.bucket import SECRET, Shop


@pytest.fixture(params=["plain", "encrypted"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    return Shop(tmp_path, keys=(SECRET,) if request.param == "encrypted" else ())


@pytest.fixture
def plain(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def encrypted(tmp_path: Path) -> Shop:
    return Shop(tmp_path, keys=(SECRET,))
