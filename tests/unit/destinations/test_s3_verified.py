"""Verification of a bucket: all that is wrong, of the backups that need it, and no other."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

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
    stream_id,
)
from zbackup.destinations.s3.session import SHOWN
from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Meter

ELEVEN = stream_id(part(11))
SEGMENTS, INDEX, HEADER = LAYOUT.segments(ELEVEN), LAYOUT.index(ELEVEN), LAYOUT.header(ELEVEN)


def flip(shop: Shop) -> None:
    key = shop.bucket.having(SEGMENTS)[1]
    body = bytearray(shop.bucket.body(key))
    body[len(body) // 2] ^= 1
    shop.bucket.set(key, bytes(body))


def cut(shop: Shop) -> None:
    key = shop.bucket.having(SEGMENTS)[1]
    shop.bucket.set(key, shop.bucket.body(key)[:-1])


def drop(shop: Shop) -> None:
    shop.bucket.drop(shop.bucket.having(SEGMENTS)[2])


def swap(shop: Shop) -> None:
    one, other, *_ = shop.bucket.having(SEGMENTS)
    bodies = shop.bucket.body(one), shop.bucket.body(other)
    shop.bucket.set(one, bodies[1])
    shop.bucket.set(other, bodies[0])


def page(change: Callable[[dict[str, Any]], object], key: str = INDEX) -> Callable[[Shop], None]:
    def harm(shop: Shop) -> None:
        content = json.loads(shop.bucket.body(key))
        change(content)
        shop.bucket.set(key, json.dumps(content).encode())

    return harm


DEEP = {"flip": flip, "swap": swap}
HARMS: dict[str, Callable[[Shop], None]] = {
    "cut": cut,
    "drop": drop,
    "page of a newer version": page(lambda c: c["begun"].update(version=4)),
    "page without its last segment": page(lambda c: c["segments"].pop()),
    "page of other size": page(lambda c: c.update(size=1)),
    "page without a hash": page(lambda c: c.pop("tree_sha256")),
    "page with other hash": page(lambda c: c.update(tree_sha256="0" * 64)),
    "page that is no JSON": lambda shop: shop.bucket.set(INDEX, b"{"),
    "page that is gone": lambda shop: shop.bucket.drop(INDEX),
    "header that is gone": lambda shop: shop.bucket.drop(HEADER),
    "header of another host": page(lambda c: c.update(host="another"), HEADER),
    "header that is no JSON": lambda shop: shop.bucket.set(HEADER, b"{"),
    "header of another stream": page(lambda c: c.update(guid="77"), HEADER),
}


@pytest.fixture
def chained(shop: Shop) -> Shop:
    """Two backups of one chain, and one beside them."""
    shop.chain((11, None), (12, 11), (21, None))
    return shop


def test_all_is_read_and_each_stream_once(chained: Shop) -> None:
    found = list(chained.session().verify(deep=True, meter=Meter()))
    assert [(c.backup, c.name, c.problems, c.read) for c in found] == [
        ("backup-1", "zbackup-11", (), SIZE),
        ("backup-2", "zbackup-12", (), SIZE),
        ("backup-3", "zbackup-21", (), SIZE),
    ]
    asked = [key for verb, key in chained.bucket.asked if verb == "get" and "/segments/" in key]
    assert len(asked) == len(set(asked)) == 9
    chained.bucket.asked.clear()
    assert [c.read for c in chained.session().verify(deep=False, meter=Meter())] == [0, 0, 0]
    pages = [key for verb, key in chained.bucket.asked if verb == "get" and key.endswith("stream.json")]
    assert len(pages) == len(set(pages)) == 3


@pytest.mark.parametrize("harm", [*HARMS, *DEEP])
def test_harm_is_told_of_who_needs_what_is_harmed(chained: Shop, harm: str) -> None:
    (HARMS | DEEP)[harm](chained)
    found = chained.problems(deep=True)
    assert [bool(found[f"backup-{n}"]) for n in (1, 2, 3)] == [True, True, False], found
    shallow = chained.problems(deep=False)
    expected = harm in HARMS
    # Without a signature a page is proven by the manifest that names it, and to the others by its bytes.
    second = expected and not (harm == "page with other hash" and not chained.keys)
    assert [bool(shallow[f"backup-{n}"]) for n in (1, 2, 3)] == [expected, second, False], shallow


def test_what_is_damaged_is_not_read_too(plain: Shop) -> None:
    plain.ship(part(11), 1)
    cut(plain)
    (found,) = plain.session().verify(deep=True, meter=Meter())
    assert found.problems == (f"segment 1 of {DATASET}/@11-full is gone or of another size",)
    assert found.read == 0


def test_some_of_many_segments_are_named_and_the_others_counted(plain: Shop) -> None:
    plain.store(part(11), segment=500)
    plain.session().commit(record(1), [part(11)], WHEN)
    keys = plain.bucket.having(SEGMENTS)
    for key in keys[:SHOWN]:
        plain.bucket.drop(key)
    assert len(plain.problems()["backup-1"]) == SHOWN
    plain.bucket.drop(keys[SHOWN])
    assert plain.problems()["backup-1"] == (
        *(f"segment {n} of {DATASET}/@11-full is gone or of another size" for n in range(SHOWN)),
        f"and 1 more segments of {DATASET}/@11-full",
    )


def test_each_part_of_a_backup_is_looked_at(shop: Shop) -> None:
    parts = [part(11), part(11, dataset=INNER)]
    for each in parts:
        shop.store(each)
    shop.session().commit(record(1, DATASET, INNER), parts, WHEN)
    assert shop.problems(deep=True) == {"backup-1": ()}
    shop.bucket.drop(LAYOUT.index(stream_id(parts[1])))
    (problem,) = shop.problems()["backup-1"]
    assert problem == f"a stream of {INNER}@zbackup-11 or of its bases is gone"


def test_a_backup_that_is_pruned_meanwhile_is_not_blamed(chained: Shop) -> None:
    going = chained.session().verify(deep=True, meter=Meter())
    assert next(going).problems == ()
    session = chained.session()
    session.remove(session.copies().backups[1], "")
    chained.bucket.drop(LAYOUT.index(stream_id(part(21))))
    assert [(c.backup, bool(c.problems)) for c in going] == [("backup-3", True)]


def test_a_page_that_goes_between_listing_and_reading_is_told(chained: Shop) -> None:
    going = chained.session().verify(deep=False, meter=Meter())
    assert next(going).problems == ()
    chained.bucket.drop(LAYOUT.index(stream_id(part(12, 11))))
    assert "there is no object" in next(going).problems[0]


def test_what_is_proven_is_what_is_there(chained: Shop) -> None:
    """And not what the session read before."""
    session = chained.session()
    session.inventory()
    chained.bucket.set(manifest_at(3), b"{")
    assert [c.backup for c in session.verify(deep=False, meter=Meter())] == ["backup-1", "backup-2"]


def test_a_page_that_was_written_anew_is_not_the_one_of_the_manifest(plain: Shop) -> None:
    """Sound in itself, and of other content."""
    plain.chain((11, None), (12, 11))
    other = Shop(plain.home)
    other.store(part(11), plain.fetched(part(11))[:-1] + b"x")
    plain.bucket.objects |= {k: v for k, v in other.bucket.objects.items() if "@11-full" in k}
    found = plain.problems(deep=True)
    assert "is not the one that s3://bucket/a/shop/backups/backup-1" in found["backup-1"][0]
    assert found["backup-2"] == (), "which names no page of it"
    session = plain.session()
    (step, *_) = session.stream_steps(session.copies().backups[0].snapshots)
    with pytest.raises(VerificationFailed, match="is not the one that"):
        session.pages.committed(ELEVEN)
    assert step.copy.guid == 11


def test_a_stream_that_was_sent_again_from_another_base_is_sound(shop: Shop) -> None:
    """The manifest names the one that is gone, and says nothing of this one."""
    shop.chain((11, None), (12, 11))
    shop.bucket.drop(LAYOUT.index(stream_id(part(12, 11))))
    shop.store(part(12))
    assert shop.problems(deep=True) == {"backup-1": (), "backup-2": ()}
    session = shop.session()
    assert session.pages.committed(stream_id(part(12))).size == SIZE


def test_without_the_key_nothing_is_sound(encrypted: Shop) -> None:
    encrypted.chain((11, None), (12, 11))
    found = encrypted.problems(keys=())
    assert all("needs the key" in problems[0] for problems in found.values()) and len(found) == 2


def test_a_manifest_that_lost_its_signature_is_blamed_alone(encrypted: Shop) -> None:
    encrypted.chain((11, None), (12, 11))
    page(
        lambda c: [c.pop(k) for k in ("encryption", "seal", "root")] + [c.update(version=1)], manifest_at(1)
    )(encrypted)
    found = encrypted.problems(accept_plain=True)
    assert found["backup-2"] == () and "lost its signature" in found["backup-1"][0]
    assert set(encrypted.problems()) == {"backup-2"}, "and is no manifest where only signed ones count"


def test_an_unknown_header_is_told_where_the_page_holds(encrypted: Shop) -> None:
    encrypted.ship(part(11), 1)
    other = Shop(encrypted.home, keys=(OTHER_SECRET,))
    other.store(part(11))
    encrypted.bucket.objects[HEADER] = other.bucket.objects[HEADER]
    (problem,) = encrypted.problems(deep=True)["backup-1"]
    assert "needs the key" in problem and problem.endswith(
        "zbackup prune --at makes it again from stream.json"
    )


def test_strange_objects_are_told_a_few_of_them(shop: Shop) -> None:
    shop.ship(part(11), 1)
    for number in range(SHOWN + 1):
        shop.bucket.set(f"{LAYOUT.streams}tank/\x1b{number}", b"mine")
        shop.bucket.set(f"{LAYOUT.backups}\x1b{number}", b"mine")
    with capture_logs() as said:
        assert shop.problems() == {"backup-1": ()}
    told = [line for line in said if line["event"] == "s3.strange_object"]
    assert len(told) == SHOWN and {line["of"] for line in told} == {2 * (SHOWN + 1)}
    assert all(line["key"].isprintable() for line in told)


def test_a_backup_without_parts_has_no_name(plain: Shop) -> None:
    plain.ship(part(11), 1)
    page(lambda c: c["parts"].clear(), manifest_at(1))(plain)
    (found,) = plain.session().verify(deep=True, meter=Meter())
    assert (found.backup, found.name, found.problems) == ("backup-1", "", ())
