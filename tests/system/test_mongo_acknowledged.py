"""No wait for the journal is needed between lock and snapshot: a few rounds of it; tests/slow does 200."""

import os
from collections.abc import Iterator

import pytest

from tests.lab.mongo_fixture import MongoServer, start_single
from tests.lab.pool import Pool
from tests.system.acknowledged import WRITERS, one_round
from tests.system.mongo_house import build

ROUNDS = int(os.environ.get("LAB_ROUNDS", "3"))


@pytest.fixture(scope="module")
def server(pool: Pool) -> Iterator[MongoServer]:
    with start_single(build(pool, pool.home, replica_set="rs0")) as running:
        yield running


def test_under_the_lock_every_acknowledged_write_is_there(pool: Pool, server: MongoServer) -> None:
    lost = {}
    for number in range(ROUNDS):
        done = one_round(pool, server, "fsync", seconds=0.3 + number % 7 / 10)
        assert min(done.acknowledged.values()) > 0
        for where, found in (("oplog", done.in_oplog), ("data", done.recovered)):
            if missing := done.lost(tuple(WRITERS), found):
                lost[number, where] = missing
    print(f"{ROUNDS} rounds under the lock, lost: {lost or 'nothing'}")
    assert lost == {}


def test_without_a_lock_every_write_that_was_promised_to_the_disk_is_there(
    pool: Pool, server: MongoServer
) -> None:
    lost, unpromised = {}, []
    for number in range(ROUNDS):
        done = one_round(pool, server, "none", seconds=0.3 + number % 7 / 10)
        if missing := done.lost(("journaled", "majority"), done.recovered):
            lost[number] = missing
        unpromised.append(sum(done.lost(("w1",), done.recovered).values()))
    print(f"{ROUNDS} rounds without a lock, lost: {lost or 'nothing'}; of w: 1, j: false: {unpromised}")
    assert lost == {}
