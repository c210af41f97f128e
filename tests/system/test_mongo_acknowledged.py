"""No wait for the journal is needed between lock and snapshot: a round of it; tests/slow does 200."""

from collections.abc import Iterator

import pytest

from tests.lab.mongo_fixture import MongoServer, start_single
from tests.lab.pool import Pool
from tests.system.acknowledged import WRITERS, ZfsImage, rounds
from tests.system.mongo_house import build

ROUNDS = 1


@pytest.fixture(scope="module")
def server(pool: Pool) -> Iterator[MongoServer]:
    # The journal is what this is about: it is as mongod makes it.
    with start_single(build(pool, pool.home, replica_set="rs0", journal_mb=0)) as running:
        yield running


def test_under_the_lock_every_acknowledged_write_is_there(pool: Pool, server: MongoServer) -> None:
    for done in rounds(server, ZfsImage(pool), "fsync", ROUNDS):
        assert min(done.acknowledged.values()) > 0
        assert done.lost(WRITERS, done.in_oplog) == {}
        assert done.lost(WRITERS, done.recovered) == {}


def test_without_a_lock_every_write_that_was_promised_to_the_disk_is_there(
    pool: Pool, server: MongoServer
) -> None:
    for done in rounds(server, ZfsImage(pool), "none", ROUNDS):
        assert done.lost(("journaled", "majority"), done.recovered) == {}
