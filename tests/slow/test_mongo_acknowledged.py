"""200 rounds: no wait for the journal is needed between lock and snapshot: docs/reference/slow-tests.md."""

from collections.abc import Iterator

import pytest

from tests.lab.mongo_fixture import MongoServer, start_single
from tests.lab.pool import Pool
from tests.system.acknowledged import WRITERS, ZfsImage, rounds
from tests.system.mongo_house import build

ROUNDS = 200
LIMIT_S = 3 * 3600


@pytest.fixture(scope="module")
def server(pool: Pool) -> Iterator[MongoServer]:
    # The journal is what this is about: it is as mongod makes it.
    with start_single(build(pool, pool.home, replica_set="rs0", journal_mb=0)) as running:
        yield running


@pytest.mark.timeout(LIMIT_S)
def test_under_the_lock_every_acknowledged_write_is_there(pool: Pool, server: MongoServer) -> None:
    acknowledged = 0
    for number, done in enumerate(rounds(server, ZfsImage(pool), "fsync", ROUNDS, replayed_every=4), start=1):
        acknowledged += sum(done.acknowledged.values())
        assert done.lost(WRITERS, done.in_oplog) == {}, f"round {number}"
        assert not done.recovered or done.lost(WRITERS, done.recovered) == {}, f"round {number}"
        print(f"round {number}: {acknowledged} acknowledged writes so far, all found", flush=True)


@pytest.mark.timeout(LIMIT_S)
def test_without_a_lock_every_write_that_was_promised_to_the_disk_is_there(
    pool: Pool, server: MongoServer
) -> None:
    unpromised = []
    for number, done in enumerate(rounds(server, ZfsImage(pool), "none", ROUNDS), start=1):
        assert done.lost(("journaled", "majority"), done.recovered) == {}, f"round {number}"
        unpromised.append(sum(done.lost(("w1",), done.recovered).values()))
        print(f"round {number}: lost of w: 1, j: false: {unpromised[-1]}", flush=True)
