"""Requests that break: one that may pass is tried again; a run that ends is gone on with by the next."""

import random
from pathlib import Path

import pytest

from tests.destinations.shop import SEGMENT, WHEN, Shop, fetched, new_shop, part, record, some_key, stream
from tests.lab.s3_proxy import Fault, proxy
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.place import S3Session
from zbackup.model.errors import BucketRefused, ConnectionFailed
from zbackup.proc.pipeline import Meter

SEGMENTS = 4
FAULTS = {
    "refused": Fault(status=500),
    "reset in the request": Fault(body=700),
    "reset after it took effect": Fault(answer=0),
}


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


def job(session: S3Session, shop: Shop, content: bytes) -> None:
    """What a run does: look, store what is missing, commit."""
    inventory = session.inventory()
    there = {copy.guid for line in inventory.lines for copy in line.copies}
    if 11 not in there:
        session.store(part(11), shop.sender(content), Meter())
    if "backup-1" not in inventory.committed:
        session.commit(record(1), [part(11)], WHEN)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_cut_at_every_request_and_run_again(server: S3Server, tmp_path: Path, fault: Fault) -> None:
    """One request after the other ends the run, before or after it took effect."""
    keys = (some_key(),)
    content = stream(11, size=SEGMENTS * SEGMENT)
    cuts = 0
    for number in range(1, 100):
        shop = new_shop(server, tmp_path)
        with proxy(server.endpoint, lambda n, _, at=number: fault if n == at else None) as through:
            try:
                with shop.session(endpoint=through.endpoint, attempts=1, keys=keys, parallel=1) as session:
                    job(session, shop, content)
            except (ConnectionFailed, BucketRefused):
                cuts += 1
            else:
                assert len(through.seen) < number, "a request broke and nobody was told"
                break
        before = shop.written()
        with shop.session(keys=keys, parallel=2) as session:
            job(session, shop, content)
            assert session.inventory().committed == frozenset({"backup-1"})
            assert fetched(session, part(11)) == content
        assert len(shop.segments()) == SEGMENTS
        assert before.items() <= shop.written().items(), "nothing was stored twice"
    assert cuts >= SEGMENTS + 5


def test_what_passes_by_itself_fails_nobody(server: S3Server, shop: Shop) -> None:
    """Every third request breaks, in all ways there are, for storing and for fetching."""
    chance = random.Random(11)
    ways = [
        lambda: Fault(status=500),
        lambda: Fault(status=503),
        lambda: Fault(body=chance.randrange(SEGMENT)),
        lambda: Fault(answer=chance.randrange(SEGMENT)),
    ]
    content = stream(11, size=8 * SEGMENT + 5)
    with (
        proxy(server.endpoint, lambda n, _: chance.choice(ways)() if n % 3 == 0 else None) as through,
        shop.session(endpoint=through.endpoint, attempts=20) as session,
    ):
        job(session, shop, content)
        assert fetched(session, part(11)) == content
        assert session.inventory().committed == frozenset({"backup-1"})
        assert len(through.seen) > 30


def test_a_server_that_stays_ill_is_told(server: S3Server, shop: Shop) -> None:
    with (
        proxy(server.endpoint, lambda n, method: Fault(status=503) if method == "PUT" else None) as through,
        shop.session(endpoint=through.endpoint, attempts=3) as session,
        pytest.raises(BucketRefused, match=r"put .*begun\.json was refused: SlowDown: made by the proxy"),
    ):
        job(session, shop, stream(11))
    assert sum(seen.startswith("PUT") for seen in through.seen) == 3
