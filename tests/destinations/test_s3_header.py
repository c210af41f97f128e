"""The header of a stream may be lost or damaged: it is told, made again, and no backup is lost with it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.destinations.shop import Shop, new_shop, part, ship, some_key, stream
from tests.destinations.test_s3_bound import header_of
from tests.destinations.test_s3_keep import chain, named
from tests.destinations.test_s3_seal import restore
from tests.lab.s3_server import S3Server
from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Meter


@pytest.fixture(params=["plain", "encrypted"])
def how(request: pytest.FixtureRequest, key: bytes) -> dict[str, object]:
    return {"keys": (key,)} if request.param == "encrypted" else {}


@pytest.fixture
def shop(server: S3Server, tmp_path: Path, how: dict[str, object]) -> Shop:
    """With three backups of one chain."""
    made = new_shop(server, tmp_path)
    with made.session(**how) as session:
        chain(session, made, (11, None), (12, 11), (13, 12))
    return made


def drop(shop: Shop) -> None:
    shop.direct.delete_object(Bucket=shop.bucket, Key=header_of(shop))


def cut(shop: Shop) -> None:
    shop.replace(header_of(shop), shop.body(header_of(shop))[:-20])


def flip(shop: Shop) -> None:
    header = json.loads(shop.body(header_of(shop)))
    shop.replace(header_of(shop), json.dumps(header | {"snapshot": "another"}).encode())


def swap(shop: Shop) -> None:
    shop.replace(header_of(shop), shop.body(header_of(shop, "12-from-11")))


HARMS = pytest.mark.parametrize("harm", [drop, cut, flip, swap])


@HARMS
def test_all_that_is_whole_is_listed_and_brought_back(
    shop: Shop, how: dict[str, object], harm: Callable[[Shop], None]
) -> None:
    """Also when the backup that the stream was made for is pruned, and shipping goes on."""
    harm(shop)
    with shop.session(**how) as session:
        session.remove(named(session)["backup-1"], "")
    with shop.session(**how) as session:
        assert set(named(session)) == {"backup-2", "backup-3"} and not session.copies().unreadable
        assert restore(session, 3) == 3 * len(stream(11))
        assert session.inventory().datasets[0].bases == (13,)
        ship(session, shop, stream(14, 13), part(14, 13), 4)


@HARMS
def test_it_is_told_and_made_again(shop: Shop, how: dict[str, object], harm: Callable[[Shop], None]) -> None:
    sound = shop.body(header_of(shop))
    harm(shop)
    with shop.session(**how) as session:
        found = list(session.verify(deep=False, meter=Meter()))
        assert all(
            "begun.json" in "".join(c.problems) and "prune --at makes it again" in c.problems[0]
            for c in found
        )
        session.collect_garbage()
        assert not any(c.problems for c in session.verify(deep=False, meter=Meter()))
    assert shop.body(header_of(shop)) == sound


def test_the_next_commit_makes_a_lost_one_again(shop: Shop, how: dict[str, object]) -> None:
    sound = shop.body(header_of(shop))
    drop(shop)
    with shop.session(**how) as session:
        ship(session, shop, stream(14, 13), part(14, 13), 4)
    assert shop.body(header_of(shop)) == sound


def test_a_backup_goes_not_if_others_would_vanish_with_it(
    server: S3Server, tmp_path: Path, key: bytes
) -> None:
    """Header and page of its stream are lost, so that nobody can tell any more who made it."""
    shop = new_shop(server, tmp_path)
    with shop.session(keys=(key,)) as session:
        chain(session, shop, (11, None), (12, 11), (13, 12))
    drop(shop)
    page = header_of(shop).replace("begun", "stream")
    sound = shop.body(page)
    shop.replace(page, sound[:-20])
    before = shop.objects()
    vanishing = pytest.raises(VerificationFailed, match=r"without it zbackup-1[23] could not be")
    with shop.session(keys=(key,)) as session, vanishing:
        session.remove(named(session)["backup-1"], "")
    assert shop.objects() == before
    shop.replace(page, sound)
    with shop.session(keys=(key,)) as session:
        session.remove(named(session)["backup-1"], "")
        assert set(named(session)) == {"backup-2", "backup-3"}


def test_no_backup_of_a_chain_goes_that_does_not_hold(shop: Shop, how: dict[str, object]) -> None:
    """A stream in the middle is gone: it may come back, and what it is based on is left."""
    shop.direct.delete_object(
        Bucket=shop.bucket, Key=header_of(shop, "12-from-11").replace("begun", "stream")
    )
    with shop.session(**how) as session:
        copies = session.copies()
        assert [b.record.backup for b in copies.backups] == ["backup-1"]
        assert {name for name, why in copies.unreadable if "is gone or damaged" in why} == {
            "backup-2",
            "backup-3",
        }
        before = shop.objects()
        with pytest.raises(VerificationFailed, match=r"backup zbackup-1[23] lacks a stream"):
            session.remove(copies.backups[0], "")
        assert session.collect_garbage() == () and shop.objects() == before


def test_one_that_another_key_made_is_not_written_over(server: S3Server, tmp_path: Path, key: bytes) -> None:
    """It may be another host's, which is at work."""
    shop = new_shop(server, tmp_path)
    with shop.session(keys=(some_key(),)) as other:
        other.store(part(31), shop.sender(stream(31)), Meter())
    there = shop.body(header_of(shop, "31-full"))
    with shop.session(keys=(key,)) as session:
        ship(session, shop, stream(11), part(11), 1)
        session.collect_garbage()
    assert shop.body(header_of(shop, "31-full")) == there
