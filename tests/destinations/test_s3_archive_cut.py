"""A log archive in a bucket, cut at each change: the next run goes on from there, and nothing is lacking."""

from pathlib import Path

import pytest

from tests.destinations.archives import KEY, named
from tests.destinations.shop import PRIVATE, PUBLIC, Shop, new_shop
from tests.destinations.test_archive import CONTENT, append, read, shop
from tests.lab.repeats import some, step
from tests.lab.s3_proxy import AtChange, Fault, proxy
from tests.lab.s3_server import S3Server
from zbackup.destinations.base import Archiving
from zbackup.destinations.s3 import log_archive
from zbackup.model.errors import BucketRefused, ConnectionFailed

__all__ = ["shop"]

EVERY = step(2)
"""Of this many changes one is cut off."""


def archive_from_here(session: Archiving) -> None:
    """What an archiver does: look how far it came, append what is missing, close the file."""
    known = session.archived().files
    size, closed = (known[0].size, known[0].closed) if known else (0, False)
    for begin in range(size, 400, 100):
        append(session, named(), begin, begin + 100)
    if not closed:
        append(session, named(), 400, 400, closed=True)


@pytest.mark.parametrize(
    "fault",
    some([Fault(body=50), Fault(answer=0)], Fault(answer=0)),
    ids=lambda fault: "cut in the request" if fault.body else "cut after it took effect",
)
@pytest.mark.parametrize("public", [pytest.param(b"", id="key"), pytest.param(PUBLIC, id="public key")])
def test_cut_at_any_change_the_next_run_goes_on_and_nothing_is_lacking(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, public: bytes
) -> None:
    """From that request on nothing gets through; folding small objects into a larger one is among them, where
    who archives can read them."""
    monkeypatch.setattr(log_archive, "FOLD_AT", 3)
    cuts = 0
    for number in range(1, 100, EVERY):
        shop = new_shop(server, tmp_path)
        with proxy(server.endpoint, AtChange(number, fault, staying=True)) as through:
            try:
                how = {"endpoint": through.endpoint, "attempts": 1, "keys": (KEY,), "public": public}
                with shop.session(**how) as session:
                    archive_from_here(session)
            except (ConnectionFailed, BucketRefused):
                cuts += 1
            changes = sum(seen.startswith(("PUT", "POST", "DELETE")) for seen in through.seen)
        with shop.session(keys=(KEY,), public=public) as session:
            archive_from_here(session)
            inventory = session.archived()
            (found,) = inventory.files
            assert (found.size, found.closed, inventory.problems) == (400, True, ())
        with shop.session(keys=(KEY,), private=(PRIVATE,) if public else ()) as session:
            assert read(session, named(), 0, 400) == CONTENT[:400]
        if changes < number:
            break
    assert cuts * EVERY >= 5 and changes < number, "one change after the other was cut"


def test_a_bucket_that_is_slow_or_full_is_told_in_a_line_and_caught_up_with(
    server: S3Server, shop: Shop
) -> None:
    for lasting, why in (
        (Fault(status=503, code="SlowDown"), "SlowDown"),
        (Fault(status=507, code="InsufficientStorage"), "the bucket is full"),
    ):
        with (
            proxy(server.endpoint, lambda _, method, it=lasting: it if method == "PUT" else None) as through,
            shop.session(endpoint=through.endpoint, attempts=2, keys=(KEY,)) as session,
            pytest.raises(BucketRefused, match=why) as told,
        ):
            archive_from_here(session)
        assert "\n" not in str(told.value)
    with shop.session(keys=(KEY,)) as session:
        archive_from_here(session)
        assert read(session, named(), 0, 400) == CONTENT[:400]
