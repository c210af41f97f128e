"""An instance's part of a bucket in memory, plain, encrypted, and sealed for a public key."""

from pathlib import Path

import pytest

from tests.unit.destinations.bucket import PRIVATE, PUBLIC, SECRET, Shop


@pytest.fixture(params=["plain", "encrypted", "sealed"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """A sealed one where the private key is: whatever holds of an encrypted one does there."""
    if request.param == "sealed":
        return Shop(tmp_path, keys=(SECRET,), public=PUBLIC, private=(PRIVATE,))
    return Shop(tmp_path, keys=(SECRET,) if request.param == "encrypted" else ())


@pytest.fixture
def plain(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def encrypted(tmp_path: Path) -> Shop:
    return Shop(tmp_path, keys=(SECRET,))


@pytest.fixture
def write_only(tmp_path: Path) -> Shop:
    """What a database's host has: the private key is elsewhere."""
    return Shop(tmp_path, keys=(SECRET,), public=PUBLIC)
