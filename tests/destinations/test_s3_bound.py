"""Seals say where something was written: what is copied from elsewhere does not count. What earlier versions
sealed is read, or refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.destinations.old import OLD_KEY, old_stream, put_old
from tests.destinations.shop import LINE, Shop, fetched, new_shop, part, ship, stream
from tests.destinations.test_s3_forged import pruning
from tests.destinations.test_s3_keep import days_later, named, of_streams
from tests.destinations.test_s3_seal import at, restore
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import MOST_SEGMENT
from zbackup.jobs.ship.prune_at import prune_at
from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Meter


def header_of(shop: Shop, way: str = "11-full") -> str:
    return f"{shop.root}/streams/tank/my%20data/@{way}/begun.json"


def copy_all(one: Shop, other: Shop) -> None:
    """As who may read and write the bucket, and has no key, copies a host's objects elsewhere."""
    for key in one.objects():
        other.replace(key.replace(one.root, other.root, 1), one.body(key))


@pytest.fixture
def pair(server: S3Server, tmp_path: Path, key: bytes) -> Iterator[tuple[Shop, Shop]]:
    """Two hosts with one key and instances of one name, below two prefixes; the second has newer backups."""
    one, other = new_shop(server, tmp_path), new_shop(server, tmp_path)
    with one.session(keys=(key,)) as session:
        for number in (1, 2):
            ship(session, one, stream(10 + number), part(10 + number), number)
    with other.session(keys=(key,)) as session:
        for number in (3, 4, 5):
            ship(session, other, stream(20 + number), part(20 + number), number)
    yield one, other


def test_another_hosts_backups_do_not_count_and_nothing_goes_for_them(
    pair: tuple[Shop, Shop], key: bytes
) -> None:
    one, other = pair
    copy_all(other, one)
    before = one.objects()
    with one.session(keys=(key,)) as session:
        copies = session.copies()
        assert [b.record.backup for b in copies.backups] == ["backup-1", "backup-2"]
        assert [name for name, _ in copies.unreadable] == [at(one, n) for n in (3, 4, 5)]
        assert all(f"was written below {other.root}, and copied here" in why for _, why in copies.unreadable)
        with pytest.raises(VerificationFailed, match="copied here"):
            fetched(session, part(24))
    with pytest.raises(VerificationFailed, match="copied here"):
        prune_at(*pruning(one, keys=(key,)))
    assert one.objects() == before


def test_a_stream_that_was_begun_elsewhere_is_not_gone_on_with(pair: tuple[Shop, Shop], key: bytes) -> None:
    one, other = pair
    content = stream(24)
    one.replace(header_of(one, "24-full"), other.body(header_of(other, "24-full")))
    with one.session(keys=(key,)) as session:
        ship(session, one, content, part(24), 6)
        assert fetched(session, part(24)) == content
    assert json.loads(one.body(header_of(one, "24-full")))["root"] == one.root


@pytest.mark.parametrize("keys", ["plain", "encrypted"])
def test_a_header_that_was_changed_makes_no_host_allocate_gigabytes(
    server: S3Server, tmp_path: Path, key: bytes, keys: str
) -> None:
    """By who may write to the bucket: the stream is begun anew, in segments as they are configured."""
    shop, content = new_shop(server, tmp_path), stream(11)
    how = {"keys": (key,)} if keys == "encrypted" else {}
    with shop.session(**how) as session:
        session.store(part(11), shop.sender(content), Meter())
    header = json.loads(shop.body(header_of(shop)))
    shop.direct.delete_object(Bucket=shop.bucket, Key=header_of(shop).replace("begun", "stream"))
    shop.replace(header_of(shop), json.dumps(header | {"segment_size": MOST_SEGMENT}).encode())
    sizes: list[int] = []
    with shop.session(**how) as session:
        begun = session._begun(StreamId(dataset=LINE, guid=11, base=None))
        sizes.append(session._buffers(begun.header if begun and begun.resumable else None).size)
        ship(session, shop, content, part(11), 1)
        assert fetched(session, part(11)) == content
    assert sizes == [header["segment_size"]]
    assert json.loads(shop.body(header_of(shop)))["segment_size"] == header["segment_size"]


@pytest.fixture(params=["sealed", "plain"])
def old(server: S3Server, tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Shop, dict[str, object]]:
    """A bucket as an earlier version left it, and how it is reached."""
    shop = new_shop(server, tmp_path)
    put_old(shop, request.param)
    return shop, {"keys": (OLD_KEY,)} if request.param == "sealed" else {}


def test_what_earlier_versions_wrote_is_read_gone_on_with_and_pruned(
    old: tuple[Shop, dict[str, object]],
) -> None:
    shop, how = old
    sealed = bool(how)
    with shop.session(**how) as session:
        assert set(named(session)) == {"backup-1", "backup-3"} and not session.copies().unreadable
        assert restore(session, 3) == sum(len(old_stream(g)) for g in (11, 12, 13))
        assert [fetched(session, part(g, b)) for g, b in ((11, None), (12, 11), (13, 12))] == [
            old_stream(11),
            old_stream(12, 11),
            old_stream(13, 12),
        ]
        assert not any(c.problems for c in session.verify(deep=True, meter=Meter()))
        assert session.inventory().datasets[0].bases == (13,)
        partial = session.inventory().datasets[0].partial
        assert partial and partial.guid == 14
        ship(session, shop, old_stream(14, 13), part(14, 13), 4)
        assert fetched(session, part(14, 13)) == old_stream(14, 13)
        assert json.loads(shop.body(at(shop, 4)))["version"] == (3 if sealed else 1)
        assert json.loads(shop.body(header_of(shop, "14-from-13")))["version"] == (2 if sealed else 1)
        assert not any(c.problems for c in session.verify(deep=True, meter=Meter()))
        ship(session, shop, stream(21), part(21), 5)
        for number in (1, 3, 4):
            session.remove(named(session)[f"backup-{number}"], "")
        assert set(named(session)) == {"backup-5"}
    with days_later(shop, 2) as session:
        assert session.collect_garbage() == ()
    assert of_streams(shop) == {"21-full"}


def test_what_earlier_versions_sealed_may_be_refused(server: S3Server, tmp_path: Path) -> None:
    """Since it names no prefix, it counts below any: that is what the setting is for."""
    shop = new_shop(server, tmp_path)
    put_old(shop, "sealed")
    with shop.session(keys=(OLD_KEY,), accept_unbound=False) as session:
        copies = session.copies()
        assert copies.backups == () and all("accept_unbound" in why for _, why in copies.unreadable)
        with pytest.raises(VerificationFailed, match="accept_unbound"):
            session.inventory()
        with pytest.raises(VerificationFailed, match="accept_unbound"):
            fetched(session, part(11))


def test_nobody_turns_a_seal_of_today_into_one_of_earlier_times(pair: tuple[Shop, Shop], key: bytes) -> None:
    one, other = pair
    fake = json.loads(other.body(at(other, 5)))
    del fake["root"]
    one.replace(at(one, 5), json.dumps(fake | {"version": 2}).encode())
    with one.session(keys=(key,)) as session:
        ((where, why),) = session.copies().unreadable
        assert where == at(one, 5) and "the data key of the manifest of backup-5" in why
