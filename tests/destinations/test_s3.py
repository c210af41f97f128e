"""The promises of a bucket: the conformance of destinations.base, on a real server."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.destinations.shop import (
    LINE,
    SEGMENT,
    WHEN,
    Shop,
    fetched,
    new_shop,
    part,
    record,
    ship,
    some_key,
    stream,
)
from tests.lab.s3_server import S3Server
from zbackup.model.errors import (
    BucketRefused,
    CommandFailed,
    ConnectionFailed,
    Refused,
    Taken,
    VerificationFailed,
)
from zbackup.model.shipping import Inventory
from zbackup.proc.pipeline import Meter, local


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


ENCRYPTED = pytest.mark.parametrize("keys", [(), (some_key(),)], ids=["plain", "encrypted"])


def test_nothing_is_there_at_first(shop: Shop) -> None:
    with shop.session() as session:
        assert session.inventory() == Inventory(address=f"s3://{shop.bucket}/{shop.prefix}")


@ENCRYPTED
@pytest.mark.parametrize("size", [56, SEGMENT - 1, SEGMENT, SEGMENT + 1, 5 * SEGMENT // 2])
def test_what_was_stored_comes_back(shop: Shop, keys: tuple[bytes, ...], size: int) -> None:
    content = stream(11, size=size)
    with shop.session(keys=keys) as session:
        assert session.store(part(11), shop.sender(content), Meter()) == size
        assert fetched(session, part(11)) == content
    assert len(shop.segments()) == -(-size // SEGMENT)


@ENCRYPTED
def test_what_can_be_compressed_is(shop: Shop, keys: tuple[bytes, ...]) -> None:
    content = stream(11, size=100) + b"row" * SEGMENT
    with shop.session(keys=keys) as session:
        session.store(part(11), shop.sender(content), Meter())
        assert fetched(session, part(11)) == content
    assert all(len(shop.body(key)) < 10_000 for key in shop.segments())


def test_raw_streams_are_not_compressed(shop: Shop) -> None:
    with shop.session() as session:
        session.store(part(11, raw=True), shop.sender(stream(11, size=100) + bytes(SEGMENT)), Meter())
    assert [len(shop.body(key)) for key in shop.segments()] == [SEGMENT, 100]


def test_nothing_of_the_content_can_be_read_without_the_key(shop: Shop) -> None:
    with shop.session(keys=(some_key(),)) as session:
        session.store(part(11), shop.sender(stream(11, size=100) + b"secret" * 100_000), Meter())
    assert not any(b"secret" in shop.body(key) for key in shop.objects())


def test_a_backup_counts_only_when_it_is_committed(shop: Shop) -> None:
    with shop.session() as session:
        session.store(part(11), shop.sender(stream(11)), Meter())
        before = session.inventory()
        (line,) = before.datasets
        assert (line.name, [c.guid for c in line.copies], line.bases) == (LINE, [11], ())
        assert before.committed == frozenset()
        session.commit(record(1), [part(11)], WHEN)
        after = session.inventory()
        assert (after.committed, after.datasets[0].bases) == (frozenset({"backup-1"}), (11,))
        session.commit(record(1), [part(11)], "2026-11-02T12:00:00+00:00")
        assert session.inventory() == after


def test_a_set_of_datasets_counts_as_a_set(shop: Shop) -> None:
    inner = f"{LINE}/bin log"
    parts = [part(11), part(12, dataset=inner)]
    with shop.session() as session:
        session.store(parts[0], shop.sender(stream(11)), Meter())
        with pytest.raises(VerificationFailed, match="not whole"):
            session.commit(record(1, LINE, inner), parts, WHEN)
        assert session.inventory().committed == frozenset()
        session.store(parts[1], shop.sender(stream(12)), Meter())
        session.commit(record(1, LINE, inner), parts, WHEN)
        inventory = session.inventory()
        assert inventory.committed == frozenset({"backup-1"})
        assert [line.name for line in inventory.datasets] == [LINE, inner]


def test_a_copy_whose_base_is_gone_is_none(shop: Shop) -> None:
    with shop.session() as session:
        ship(session, shop, stream(11), part(11), 1)
        ship(session, shop, stream(12, 11), part(12, 11), 2)
        assert session.inventory().committed == frozenset({"backup-1", "backup-2"})
        shop.direct.delete_object(
            Bucket=shop.bucket, Key=f"{shop.root}/streams/tank/my%20data/@11-full/stream.json"
        )
        inventory = session.inventory()
        assert (inventory.committed, inventory.datasets[0].bases) == (frozenset(), ())


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (stream(12), "is of guid 12"),
        (stream(11, 10), "is of guid 11 from 10"),
        (stream(12, order=">"), "is of guid 12"),
        (b"hello", "is no ZFS send stream"),
        (b"", "no ZFS send stream"),
    ],
)
def test_another_stream_than_was_wanted_is_refused(shop: Shop, content: bytes, why: str) -> None:
    with shop.session() as session:
        with pytest.raises(VerificationFailed, match=why):
            session.store(part(11), shop.sender(content), Meter())
        assert shop.objects() == []


def test_a_sender_that_fails_leaves_no_copy(shop: Shop) -> None:
    content = stream(11)
    (shop.home / "stream").write_bytes(content)
    failing = local(("sh", "-c", f"cat '{shop.home}/stream'; echo gone >&2; exit 3"))
    with shop.session() as session:
        with pytest.raises(CommandFailed, match="gone"):
            session.store(part(11), failing, Meter())
        (line,) = session.inventory().datasets
        assert (line.copies, line.partial and line.partial.guid) == ((), 11)
        session.abort(LINE)
        assert (session.inventory().datasets, shop.objects()) == ((), [])


def test_two_that_begin_the_same_stream(shop: Shop) -> None:
    with shop.session(keys=(some_key(),)) as one, shop.session(keys=(some_key(),)) as other:
        begun: list[int] = []

        def in_between(_: int) -> None:
            if not begun:
                begun.append(1)
                other.store(part(11), shop.sender(stream(11)), Meter())

        with pytest.raises(Taken, match="another zbackup"):
            one.store(part(11), shop.sender(stream(11)), Meter(moved=in_between))


@pytest.mark.parametrize(
    ("rules", "goes_on"),
    [
        ({}, True),
        ({"max_chain": 2}, True),
        ({"max_chain": 1}, False),
        ({"max_share": 0.9}, False),
        ({"max_share": 1.1}, True),
    ],
)
def test_a_chain_ends_by_its_rules(shop: Shop, rules: dict[str, float], goes_on: bool) -> None:
    with shop.session(**rules) as session:
        ship(session, shop, stream(11), part(11), 1)
        ship(session, shop, stream(12, 11), part(12, 11), 2)
        (line,) = session.inventory().datasets
        assert (line.bases, line.restartable) == ((12,) if goes_on else (), True)


def test_what_the_server_says_no_to_is_told(shop: Shop) -> None:
    with (
        shop.session(secret="wrong") as session,
        pytest.raises(BucketRefused, match=r"SignatureDoesNotMatch.*secret key"),
    ):
        session.inventory()
    shop = replace(shop, bucket="nobody-made-it")
    with shop.session() as session, pytest.raises(BucketRefused, match=r"NoSuchBucket.*create the bucket"):
        session.inventory()
    with (
        shop.session(endpoint="http://127.0.0.1:9", attempts=2) as session,
        pytest.raises(ConnectionFailed, match=r"no connection to http://127\.0\.0\.1:9"),
    ):
        session.inventory()


def test_keys_may_be_rotated_and_a_lost_one_is_named(shop: Shop) -> None:
    old, new = some_key(), some_key()
    first, second = stream(11), stream(12, 11)
    with shop.session(keys=(old,)) as session:
        ship(session, shop, first, part(11), 1)
    with shop.session(keys=(new, old)) as session:
        ship(session, shop, second, part(12, 11), 2)
        assert (fetched(session, part(11)), fetched(session, part(12, 11))) == (first, second)
    with shop.session(keys=(new,)) as session:
        with pytest.raises(VerificationFailed, match=r"the manifest of backup-1 needs the key .* old_keys"):
            session.inventory()
        copies = session.copies()
        assert copies.backups == (), "of the second backup the full stream is of the old key"
        told = [why.partition(" needs the key ")[::2] for _, why in copies.unreadable]
        assert [of for of, _ in told] == ["the manifest of backup-1", f"{LINE}/@11-full"]
        assert all(which.endswith("add it to old_keys, if it is yours") for _, which in told)
        assert fetched(session, part(12, 11)) == second
        with pytest.raises(Refused, match=r"@11-full needs the key [0-9a-f]{16}; the key files have"):
            fetched(session, part(11))
    with shop.session() as session, pytest.raises(Refused, match="no key file is configured"):
        fetched(session, part(11))
