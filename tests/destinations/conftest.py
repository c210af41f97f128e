"""One real S3 server for all tests of a run here."""

from collections.abc import Iterator

import pytest

from tests.destinations.shop import BUCKET, seaweed_of, some_key
from tests.lab.s3_server import S3Server, client, s3_server


@pytest.fixture(scope="session")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        client(started).create_bucket(Bucket=BUCKET)
        yield started


@pytest.fixture
def key() -> bytes:
    """That of the instance, where what is shipped is encrypted."""
    return some_key()


@pytest.fixture(scope="session")
def seaweed(server: S3Server) -> Iterator[S3Server]:
    with seaweed_of(server) as found:
        yield found
