"""A backup counts when all of its streams are there, and is taken back when one of them goes meanwhile."""

import json
from collections.abc import Callable

import pytest

from tests.unit.destinations.bucket import (
    DATASET,
    INNER,
    LAYOUT,
    OTHER_SECRET,
    SIZE,
    WHEN,
    Shop,
    manifest_at,
    part,
    record,
    stream,
    stream_id,
)
from zbackup.destinations.s3.manifest_schema import manifest_from
from zbackup.model.errors import Refused, VerificationFailed

WANTED = part(11)
INDEX = LAYOUT.index(stream_id(WANTED))
SEGMENTS = LAYOUT.segments(stream_id(WANTED))


def commit(shop: Shop, number: int = 1, *parts: object) -> None:
    wanted = parts or (WANTED,)
    names = [p.dataset for p in wanted]  # type: ignore[attr-defined]
    shop.session().commit(record(number, *names), wanted, WHEN)  # type: ignore[arg-type]


def test_a_manifest_says_what_was_stored(shop: Shop) -> None:
    shop.ship(WANTED, 1)
    page = manifest_from(shop.bucket.body(manifest_at(1)), "it")
    (found,) = page.parts
    stored = sum(len(shop.bucket.body(key)) for key in shop.bucket.having("/segments/"))
    assert (found.dataset, found.snapshot, found.guid, found.base) == (DATASET, "zbackup-11", 11, None)
    assert (found.size, found.stored, found.raw) == (SIZE, stored, False)
    assert (page.backup, page.committed) == ("backup-1", WHEN)
    assert (page.version, page.encryption is None) == (
        (4 if shop.public else 3, False) if shop.keys else (1, True)
    )
    assert set(shop.named()) == {"backup-1"}


def test_nothing_is_committed_that_was_never_stored(shop: Shop) -> None:
    shop.store(WANTED)
    with pytest.raises(VerificationFailed, match="zbackup-12 is not whole at s3://bucket"):
        commit(shop, 1, WANTED, part(12))
    assert not shop.bucket.having("/backups/")


def test_the_stream_that_was_wanted_is_named_where_there_are_others(plain: Shop) -> None:
    """By another base, or in full: what was sent just now is what was asked for."""
    plain.chain((11, None), (12, 11))
    plain.store(part(13, 11))
    plain.store(part(13, 12))
    plain.store(part(13))
    commit(plain, 3, part(13, 12))
    assert manifest_from(plain.bucket.body(manifest_at(3)), "it").parts[0].base == 12
    # Where what was wanted is not there, the snapshot is, by another way.
    commit(plain, 4, part(13, 99))
    assert manifest_from(plain.bucket.body(manifest_at(4)), "it").parts[0].base in (None, 11, 12)


def test_of_two_datasets_with_one_guid_each_has_its_own_stream(plain: Shop) -> None:
    plain.store(WANTED)
    with pytest.raises(VerificationFailed, match=f"{INNER}@zbackup-11 is not whole"):
        commit(plain, 1, WANTED, part(11, dataset=INNER))


@pytest.mark.parametrize("segment", [0, 1, 2])
@pytest.mark.parametrize("cut", [False, True])
def test_a_stream_that_lost_a_segment_is_not_committed_and_sent_again(
    shop: Shop, segment: int, cut: bool
) -> None:
    shop.store(WANTED)
    key = shop.bucket.having(SEGMENTS)[segment]
    if cut:
        shop.bucket.set(key, shop.bucket.body(key)[:-1])
    else:
        shop.bucket.drop(key)
    with pytest.raises(VerificationFailed, match=rf"segment {segment} .* the next run stores it again"):
        commit(shop)
    assert not shop.bucket.having("/backups/") and INDEX not in shop.bucket.objects
    shop.ship(WANTED, 1)
    assert set(shop.named()) == {"backup-1"} and not any(shop.problems(deep=True).values())


def test_who_may_not_delete_says_what_has_to_go(plain: Shop) -> None:
    plain.store(WANTED)
    plain.bucket.drop(plain.bucket.having(SEGMENTS)[0])
    plain.bucket.refused = {"delete"}
    with pytest.raises(VerificationFailed, match="when somebody has deleted s3://bucket/a/shop/streams"):
        commit(plain)


def test_the_page_of_what_a_backup_needs_stays_where_a_segment_is_gone(plain: Shop) -> None:
    """Nor does any go while a manifest cannot be read, which may need it."""
    plain.ship(WANTED, 1)
    plain.bucket.drop(plain.bucket.having(SEGMENTS)[0])
    with pytest.raises(VerificationFailed) as told:
        commit(plain, 2)
    assert "again" not in str(told.value).replace("any more", "") and INDEX in plain.bucket.objects
    plain.bucket.set(manifest_at(1), b"{")
    with pytest.raises(VerificationFailed):
        commit(plain, 2)
    assert INDEX in plain.bucket.objects


def test_a_commit_may_be_repeated_and_never_replaces_another(shop: Shop) -> None:
    shop.ship(WANTED, 1)
    before = shop.bucket.body(manifest_at(1))
    commit(shop)
    assert shop.bucket.body(manifest_at(1)) == before
    shop.store(part(12))
    with pytest.raises(VerificationFailed, match="already exists, for other snapshots"):
        commit(shop, 1, part(12))
    assert shop.bucket.body(manifest_at(1)) == before


def test_two_hosts_commit_the_same_at_the_same_time(shop: Shop) -> None:
    shop.store(WANTED)
    shop.bucket.hook("put_new", "backup-1/manifest.json", lambda: other.commit(record(1), [WANTED], "then"))
    other = shop.session()
    commit(shop)
    assert manifest_from(shop.bucket.body(manifest_at(1)), "it").committed == "then"
    assert set(shop.named()) == {"backup-1"}


def gone_at(shop: Shop, verb: str, key: str) -> None:
    """Another host takes it away when the manifest is written."""
    shop.bucket.hook(verb, "backup-1/manifest.json", lambda: shop.bucket.drop(key))


@pytest.mark.parametrize("what", ["page", "segment"])
@pytest.mark.parametrize("verb", ["put_new", "after:put_new"])
def test_what_goes_while_it_is_committed_does_not_count(shop: Shop, verb: str, what: str) -> None:
    shop.store(WANTED)
    gone_at(shop, verb, INDEX if what == "page" else shop.bucket.having(SEGMENTS)[1])
    with pytest.raises(VerificationFailed, match="The backup does not count"):
        commit(shop)
    assert not shop.bucket.having("/backups/") and not shop.named()


def test_a_base_that_goes_while_a_backup_is_committed(shop: Shop) -> None:
    shop.ship(WANTED, 2)
    shop.store(part(12, 11))
    gone_at(shop, "after:put_new", INDEX)
    with pytest.raises(VerificationFailed, match=r"is not whole at .* any more.*does not count"):
        commit(shop, 1, part(12, 11))
    assert shop.bucket.having("/backups/") == [manifest_at(2)]


def test_a_page_that_is_another_when_the_manifest_is_there_does_not_count(plain: Shop) -> None:
    """Another host has stored the stream anew meanwhile."""
    plain.store(WANTED)
    other = Shop(plain.home)
    other.store(WANTED, stream(11)[:-1] + b"x")
    plain.bucket.hook(
        "after:put_new", "backup-1/manifest.json", lambda: plain.bucket.objects.update(other.bucket.objects)
    )
    with pytest.raises(VerificationFailed, match="does not count"):
        commit(plain)
    assert not plain.bucket.having("/backups/")


def test_who_may_not_delete_writes_that_it_does_not_count_and_commits_it_later(shop: Shop) -> None:
    content = shop.store(WANTED)
    shop.bucket.refused = {"delete"}
    gone_at(shop, "put_new", INDEX)
    with pytest.raises(VerificationFailed, match="does not count"):
        commit(shop)
    page = manifest_from(shop.bucket.body(manifest_at(1)), "it")
    assert page.withdrawn and bool(page.signature) == bool(shop.keys)
    copies = shop.session().copies()
    assert not copies.backups and not copies.unreadable
    shop.store(WANTED)
    session = shop.session()
    session.commit(record(1), [WANTED], WHEN)
    assert [b.record.backup for b in session.copies().backups] == ["backup-1"]
    assert set(shop.named()) == {"backup-1"} and shop.fetched(WANTED) == content


def test_a_manifest_that_is_taken_back_is_not_remembered(shop: Shop) -> None:
    """By the process that wrote it, and had read it."""
    shop.store(WANTED)
    session = shop.session()
    gone_at(shop, "after:put_new", INDEX)
    shop.bucket.hook("after:put_new", "backup-1/manifest.json", session.contents)
    with pytest.raises(VerificationFailed, match="does not count"):
        session.commit(record(1), [WANTED], WHEN)
    assert not session.pages.known


def test_a_commit_makes_lost_headers_of_what_is_needed_again(shop: Shop) -> None:
    """And no other's: a prune looks at those that are there."""
    shop.chain((11, None), (12, 11))
    shop.store(part(31))
    shop.store(part(13, 12))
    headers = {guid: LAYOUT.header(stream_id(part(*pair))) for guid, pair in {11: (11,), 31: (31,)}.items()}
    sound = {guid: shop.bucket.body(key) for guid, key in headers.items()}
    for key in headers.values():
        shop.bucket.drop(key)
    damaged = LAYOUT.header(stream_id(part(12, 11)))
    shop.bucket.set(damaged, b"{")
    commit(shop, 3, part(13, 12))
    assert shop.bucket.body(headers[11]) == sound[11] and headers[31] not in shop.bucket.objects
    assert shop.bucket.body(damaged) == b"{"


@pytest.mark.parametrize(
    "harm",
    [lambda page: page.update(size=1), lambda page: page["segments"].pop(), lambda page: page.pop("begun")],
)
def test_a_page_that_does_not_hold_is_not_committed(
    shop: Shop, harm: Callable[[dict[str, object]], object]
) -> None:
    shop.store(WANTED)
    page = json.loads(shop.bucket.body(INDEX))
    harm(page)
    shop.bucket.set(INDEX, json.dumps(page).encode())
    with pytest.raises(VerificationFailed, match="the next run stores it again"):
        commit(shop)
    assert not shop.bucket.having("/backups/")


def test_what_a_stranger_stored_is_not_committed(encrypted: Shop) -> None:
    encrypted.store(WANTED, keys=())
    with pytest.raises(VerificationFailed, match="is not encrypted"):
        commit(encrypted)
    assert not encrypted.bucket.having("/backups/")
    other = Shop(encrypted.home, keys=(OTHER_SECRET,))
    other.store(WANTED)
    encrypted.bucket.objects.update(other.bucket.objects)
    with pytest.raises(Refused, match="needs the key"):
        commit(encrypted)
    assert not encrypted.bucket.having("/backups/")
