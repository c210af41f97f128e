"""Pages that prove nothing do not count: not signed, changed, of another place, or listed and not to be
read."""

import json
from typing import Any, cast

import pytest

from tests.unit.destinations.bucket import (
    LAYOUT,
    OTHER_SECRET,
    ROOT,
    SECRET,
    WHEN,
    Shop,
    manifest_at,
    part,
    record,
    stream,
    stream_id,
)
from zbackup.destinations.s3.cache import PageCache
from zbackup.destinations.s3.manifest_schema import most_of_page
from zbackup.destinations.s3.session import LOOKS
from zbackup.destinations.s3.stream_headers import StreamHeaders
from zbackup.model.errors import NotFound, Refused, VerificationFailed
from zbackup.proc.pipeline import Meter, local


def begun_at(guid: int, base: int | None = None) -> str:
    return LAYOUT.header(stream_id(part(guid, base)))


def whole_at(guid: int, base: int | None = None) -> str:
    return LAYOUT.index(stream_id(part(guid, base)))


def change(shop: Shop, key: str, **changes: Any) -> None:
    page = json.loads(shop.bucket.body(key)) | changes
    shop.bucket.set(key, json.dumps({k: v for k, v in page.items() if v is not ...}).encode())


UNSIGNED = {"version": 1, "encryption": ..., "seal": ..., "root": ...}


def forge(shop: Shop, number: int, **changes: Any) -> None:
    """A manifest like the first, of another backup."""
    page = json.loads(shop.bucket.body(manifest_at(1)))
    page["record"] |= {"backup": f"backup-{number}"}
    shop.bucket.set(manifest_at(number), json.dumps(page).encode())
    change(shop, manifest_at(number), **changes)


def unreadable(shop: Shop, **changes: Any) -> dict[str, str]:
    return dict(shop.session(**changes).copies().unreadable)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "the data key of the manifest of backup-4 is damaged"),
        (UNSIGNED, "is not signed"),
        ({"encryption": {"key_id": "0" * 16, "wrapped": ""}}, "needs the key 0000.*add it to old_keys"),
    ],
)
def test_a_forged_manifest_does_not_count_and_ends_every_prune(
    encrypted: Shop, changes: dict[str, Any], why: str
) -> None:
    encrypted.chain((11, None), (12, 11))
    forge(encrypted, 4, **changes)
    before = dict(encrypted.bucket.objects)
    session = encrypted.session()
    copies = session.copies()
    assert [b.record.backup for b in copies.backups] == ["backup-1", "backup-2"]
    assert [key for key, _ in copies.unreadable] == [manifest_at(4)]
    for work in (session.inventory, session.collect_garbage, lambda: session.remove(copies.backups[0], "")):
        with pytest.raises(VerificationFailed, match=rf"backup-4/manifest\.json.*{why}"):
            work()
    assert encrypted.bucket.objects == before


@pytest.mark.parametrize("field", ["committed", "host", "seal", "parts", "record"])
def test_a_manifest_that_was_changed_does_not_count(encrypted: Shop, field: str) -> None:
    encrypted.chain((11, None), (12, 11))
    page = json.loads(encrypted.bucket.body(manifest_at(1)))
    value = {"seal": "0" * 64, "parts": [], "record": page["record"] | {"as_of": WHEN}}.get(field, "x")
    change(encrypted, manifest_at(1), **{field: value})
    assert set(encrypted.named()) == {"backup-2"}
    assert "was changed since it was written" in unreadable(encrypted)[manifest_at(1)]


def test_manifests_that_were_swapped_do_not_count(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    bodies = [shop.bucket.body(manifest_at(number)) for number in (1, 2)]
    for number, body in zip((2, 1), bodies, strict=True):
        shop.bucket.set(manifest_at(number), body)
    assert not shop.named()
    assert all("another backup's manifest" in why for why in unreadable(shop).values())


def test_what_was_copied_from_another_place_does_not_count(encrypted: Shop) -> None:
    """Another host's, with the same key and an instance of the same name."""
    encrypted.ship(part(11), 1)
    other = Shop(encrypted.home, keys=(SECRET,))
    other.store(part(21), root="b/shop")
    other.session(root="b/shop").commit(record(3), [part(21)], WHEN)
    for key, body in other.bucket.objects.items():
        encrypted.bucket.objects[key.replace("b/shop", ROOT)] = body
    assert set(encrypted.named()) == {"backup-1"}
    assert "was written below b/shop, and copied here" in unreadable(encrypted)[manifest_at(3)]
    with pytest.raises(VerificationFailed, match="copied here"):
        encrypted.fetched(part(21))


def test_without_a_key_all_is_listed_as_not_proven_and_nothing_is_read(encrypted: Shop) -> None:
    encrypted.ship(part(11), 1)
    session = encrypted.session(keys=())
    copies = session.copies()
    assert [b.record.backup for b in copies.backups] == ["backup-1"] and "give it the key" in copies.unproven
    assert not encrypted.session().copies().unproven
    (step,) = session.stream_steps(copies.backups[0].snapshots)
    with pytest.raises(Refused, match="needs the key"):
        session.fetch(step, "", local(("cat",)), Meter())


def test_where_all_is_plain_nothing_is_unproven(plain: Shop) -> None:
    plain.ship(part(11), 1)
    assert plain.session().copies().unproven == ""


def test_a_manifest_is_read_with_any_of_the_keys(encrypted: Shop) -> None:
    encrypted.ship(part(11), 1)
    rotated = (OTHER_SECRET, SECRET)
    encrypted.ship(part(12, 11), 2, keys=rotated)
    assert set(encrypted.named(keys=rotated)) == {"backup-1", "backup-2"}
    assert set(encrypted.named()) == {"backup-1"}


def test_plain_ones_count_where_that_is_said(encrypted: Shop) -> None:
    encrypted.ship(part(11), 1, keys=())
    assert not encrypted.named() and "is not signed" in unreadable(encrypted)[manifest_at(1)]
    assert set(encrypted.named(accept_plain=True)) == {"backup-1"}
    with pytest.raises(VerificationFailed, match="is of a stream that is not encrypted"):
        encrypted.fetched(part(11))
    assert encrypted.fetched(part(11), accept_plain=True) == stream(11)
    assert encrypted.fetched(part(11), accept_plain=True, accept_unbound=False) == stream(11)


def test_of_a_stream_from_a_stranger_nothing_is_taken(encrypted: Shop) -> None:
    """Which would be a shorter way to a real copy, or make the base whose backup was pruned."""
    encrypted.chain((11, None), (12, 11), (13, 12))
    encrypted.store(part(13), keys=())
    session = encrypted.session()
    session.remove(session.copies().backups[1], "")
    encrypted.store(part(12), keys=())
    encrypted.store(part(12, 99), keys=(OTHER_SECRET,))
    session = encrypted.session()
    (backup,) = [b for b in session.copies().backups if b.record.backup == "backup-3"]
    steps = session.stream_steps(backup.snapshots)
    assert [(s.copy.guid, s.base and s.base.guid) for s in steps] == [(11, None), (12, 11), (13, 12)]
    assert not any(encrypted.problems(deep=True).values()) and not unreadable(encrypted)
    assert session.inventory().datasets[0].bases == (13,)


def test_where_a_strangers_stream_alone_is_left_that_is_told(encrypted: Shop) -> None:
    encrypted.chain((11, None), (12, 11), (13, 12))
    encrypted.bucket.drop(manifest_at(2))
    encrypted.bucket.drop(whole_at(12, 11))
    encrypted.store(part(12), keys=())
    encrypted.store(part(12, 77), keys=())
    session = encrypted.session()
    copies = session.copies()
    assert [b.record.backup for b in copies.backups] == ["backup-1"]
    assert {key for key, _ in copies.unreadable} == {whole_at(12), whole_at(12, 77)}
    for work in (session.inventory, session.collect_garbage, lambda: session.remove(copies.backups[0], "")):
        with pytest.raises(VerificationFailed, match="is not encrypted"):
            work()
    # Plain ones that count: the full one brings it back.
    assert "backup-3" in encrypted.named(accept_plain=True)


def test_a_lost_header_is_proven_by_the_page(encrypted: Shop) -> None:
    """Also where the backup that the stream was made for is pruned."""
    encrypted.chain((11, None), (12, 11))
    for harm in (
        lambda: encrypted.bucket.drop(begun_at(11)),
        lambda: encrypted.bucket.set(begun_at(11), b"{"),
    ):
        harm()
        assert set(encrypted.named()) == {"backup-1", "backup-2"}
    encrypted.bucket.drop(manifest_at(1))
    assert set(encrypted.named()) == {"backup-2"} and not unreadable(encrypted)


def test_a_header_of_an_unknown_key_is_another_hosts(encrypted: Shop) -> None:
    encrypted.chain((11, None), (12, 11))
    encrypted.bucket.drop(manifest_at(1))
    other = Shop(encrypted.home, keys=(OTHER_SECRET,))
    other.store(part(11))
    encrypted.bucket.objects[begun_at(11)] = other.bucket.objects[begun_at(11)]
    assert set(encrypted.named()) == {"backup-2"}, "its page tells that it is ours"
    encrypted.bucket.objects |= other.bucket.objects
    assert not encrypted.named()
    assert "needs the key" in unreadable(encrypted)[whole_at(11)]


def test_what_a_header_says_of_its_name_is_believed_only_if_proven(shop: Shop) -> None:
    """The base that no manifest names any more is called so; else as its page says."""
    shop.chain((11, None), (12, 11))
    shop.bucket.drop(manifest_at(1))

    def names(**changes: Any) -> list[str]:
        session = shop.session(**changes)
        return [step.copy.name for step in session.stream_steps(session.copies().backups[0].snapshots)]

    assert names() == names(keys=()) == ["zbackup-11", "zbackup-12"]
    change(shop, begun_at(11), **({"snapshot": "forged"} if shop.keys else {"guid": "77"}))
    assert names() == ["zbackup-11", "zbackup-12"]
    shop.bucket.drop(begun_at(11))
    assert names() == ["zbackup-11", "zbackup-12"]


def test_a_page_is_asked_for_its_header_only_where_that_is_lost(shop: Shop) -> None:
    """It is up to hundreds of megabytes."""
    shop.store(part(11))
    headers = StreamHeaders(shop.session().pages)
    shop.bucket.asked.clear()
    found = headers.of(stream_id(part(11)))
    assert found and not [key for _, key in shop.bucket.asked if key == whole_at(11)]
    assert headers.problem(stream_id(part(11)), found) == ""
    shop.bucket.drop(begun_at(11))
    assert headers.of(stream_id(part(11))) == found
    said = headers.problem(stream_id(part(11)), found)
    assert said.endswith(
        "begun.json is gone: zbackup prune --at makes it again from stream.json, and so does the next commit"
    )


def test_a_header_that_is_not_there_and_no_page_either(shop: Shop) -> None:
    headers = StreamHeaders(shop.session().pages)
    assert headers.own(stream_id(part(11))) is None and headers.of(stream_id(part(11))) is None
    with pytest.raises(VerificationFailed, match=r"the page of tank/db/@11-full is missing"):
        shop.session()._called(stream_id(part(11)))
    with pytest.raises(NotFound):
        headers.foreign(stream_id(part(11)), None)


def test_a_page_that_is_longer_than_its_segments_account_for_is_not_read(plain: Shop) -> None:
    plain.ship(part(11), 1)
    sound = plain.bucket.body(whole_at(11))
    room = most_of_page(3) - len(sound)
    plain.bucket.set(whole_at(11), sound + b" " * room)
    assert plain.session().pages.index(stream_id(part(11)))
    plain.bucket.set(whole_at(11), sound + b" " * (room + 1))
    with pytest.raises(VerificationFailed, match="larger than it can be"):
        plain.session().pages.index(stream_id(part(11)))


def test_what_is_listed_and_cannot_be_read_is_unknown(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    real = shop.bucket.body
    blind = [LOOKS - 1]

    def body(key: str) -> bytes:
        if key == manifest_at(2) and blind[0]:
            blind[0] -= 1
            raise NotFound(f"there is no object {key}")
        return real(key)

    cast(Any, shop.bucket).body = body
    assert shop.session().inventory().committed == {"backup-1", "backup-2"} and blind == [0]
    blind[0] = LOOKS
    session = shop.session()
    assert "it is listed, and reading it says" in dict(session.copies().unreadable)[manifest_at(2)]
    blind[0] = 99
    for work in (session.inventory, shop.session().inventory, shop.session().collect_garbage):
        with pytest.raises(VerificationFailed, match=r"backup-2/manifest\.json"):
            work() if work != session.inventory else shop.session().inventory()


def test_a_manifest_that_goes_after_it_was_listed_is_not_there(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    shop.bucket.hook("get", "backup-2/manifest.json", lambda: shop.bucket.drop(manifest_at(2)))
    assert shop.session().inventory().committed == {"backup-1"}


def test_a_page_that_goes_while_it_is_told_who_made_it(encrypted: Shop) -> None:
    """The stream leads nowhere any more, and the next look says so."""
    encrypted.chain((11, None), (12, 11))
    encrypted.bucket.drop(manifest_at(1))
    encrypted.bucket.drop(begun_at(11))
    encrypted.bucket.hook("get", "@11-full/stream.json", lambda: encrypted.bucket.drop(whole_at(11)))
    copies = encrypted.session().copies()
    assert not copies.backups and "is gone or damaged" in dict(copies.unreadable)["backup-2"]


def cached(shop: Shop, **changes: Any) -> Any:
    return shop.session(cache=PageCache(shop.home, ("here", ROOT)), **changes)


def test_what_is_kept_is_not_fetched_again_and_proven_again(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    assert cached(shop).inventory().committed == {"backup-1", "backup-2"}
    shop.bucket.asked.clear()
    assert cached(shop).inventory().committed == {"backup-1", "backup-2"}
    assert [verb for verb, _ in shop.bucket.asked] == ["list", "list"]
    # Written anew, it is another object; damaged here, it is none.
    shop.bucket.set(manifest_at(1), b"{")
    with pytest.raises(VerificationFailed, match="backup-1"):
        cached(shop).inventory()
    (directory,) = shop.home.glob("buckets.*/*")
    for file in directory.iterdir():
        file.write_text("nothing")
    assert [key for key, _ in cached(shop).copies().unreadable] == [manifest_at(1)]
    assert set(shop.named()) == {"backup-2"}


def test_what_is_kept_does_not_count_with_another_key(encrypted: Shop) -> None:
    encrypted.ship(part(11), 1)
    cached(encrypted).inventory()
    with pytest.raises(VerificationFailed, match="needs the key"):
        cached(encrypted, keys=(OTHER_SECRET,)).inventory()


def test_a_verification_takes_nothing_that_is_kept(shop: Shop) -> None:
    shop.ship(part(11), 1)
    cached(shop).inventory()
    shop.bucket.asked.clear()
    assert [c.problems for c in cached(shop).verify(deep=False, meter=Meter())] == [()]
    assert ("get", manifest_at(1)) in shop.bucket.asked


def test_headers_of_what_no_manifest_names_are_kept_too(encrypted: Shop) -> None:
    encrypted.chain((11, None), (12, 11))
    encrypted.bucket.drop(manifest_at(1))
    assert cached(encrypted).inventory().committed == {"backup-2"}
    encrypted.bucket.asked.clear()
    assert cached(encrypted).inventory().committed == {"backup-2"}
    assert [verb for verb, _ in encrypted.bucket.asked] == ["list", "list"]
    # What is of no object that is listed is forgotten.
    (directory,) = encrypted.home.glob("buckets.*/*")
    assert len(list(directory.iterdir())) == 2
    encrypted.bucket.drop(manifest_at(2))
    cached(encrypted).inventory()
    assert not list(directory.iterdir())


def test_pages_of_the_earlier_kind_count_unless_that_is_refused(encrypted: Shop) -> None:
    """They name no place: a header of version 1, whose key opens below any root."""
    from zbackup.destinations.s3.encryption import KeyFiles, Scope, new_data_key
    from zbackup.destinations.s3.manifest_schema import header_from, index_from, to_json

    content = encrypted.store(part(11))
    stores = KeyFiles(lambda: (SECRET,))
    key, envelope = new_data_key(stores, Scope(about=str(stream_id(part(11)))))
    page = index_from(encrypted.bucket.body(whole_at(11)), "it")
    header = header_from(encrypted.bucket.body(begun_at(11)), "it").model_copy(
        update={"version": 1, "encryption": envelope, "root": "", "server": "", "signature": ""}
    )
    assert page.header.version == 2 and header.version == 1
    unsigned = page.model_copy(update={"header": header, "signature": ""})
    encrypted.bucket.set(
        whole_at(11), to_json(unsigned.model_copy(update={"signature": key.mac(unsigned.to_sign())}))
    )
    assert encrypted.session().pages.index(stream_id(part(11))).page.header.version == 1
    with pytest.raises(VerificationFailed, match="accept_unbound"):
        encrypted.session(accept_unbound=False).pages.index(stream_id(part(11)))
    assert len(content) == page.size
