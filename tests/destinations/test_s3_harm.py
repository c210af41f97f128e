"""Harm to objects in the bucket is detected before a byte of it is given to anybody."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.destinations.shop import LINE, Shop, fetched, new_shop, part, ship, some_key, stream
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import index_from, to_json
from zbackup.model.errors import VerificationFailed, ZbackupError
from zbackup.proc.pipeline import Meter


def page_of(shop: Shop, way: str = "11-full") -> str:
    return f"{shop.root}/streams/tank/my%20data/@{way}/stream.json"


def flip(shop: Shop, keys: list[str]) -> None:
    body = bytearray(shop.body(keys[1]))
    body[len(body) // 2] ^= 1
    shop.replace(keys[1], bytes(body))


def truncate(shop: Shop, keys: list[str]) -> None:
    shop.replace(keys[1], shop.body(keys[1])[:-1])


def lengthen(shop: Shop, keys: list[str]) -> None:
    shop.replace(keys[1], shop.body(keys[1]) + b"x")


def swap(shop: Shop, keys: list[str]) -> None:
    bodies = shop.body(keys[0]), shop.body(keys[1])
    shop.replace(keys[0], bodies[1])
    shop.replace(keys[1], bodies[0])


def drop(shop: Shop, keys: list[str]) -> None:
    shop.direct.delete_object(Bucket=shop.bucket, Key=keys[1])


def page(change: Callable[[dict[str, object]], object]) -> Callable[[Shop, list[str]], None]:
    def harm(shop: Shop, _: list[str]) -> None:
        content = json.loads(shop.body(page_of(shop)))
        change(content)
        shop.replace(page_of(shop), json.dumps(content).encode())

    return harm


def newer(content: dict[str, object]) -> None:
    content["begun"]["version"] = 3  # type: ignore[index]


HARMS = {
    "flip": flip,
    "truncate": truncate,
    "lengthen": lengthen,
    "swap": swap,
    "drop": drop,
    "page of a newer version": page(newer),
    "page without its last segment": page(lambda c: c["segments"].pop()),  # type: ignore[attr-defined]
    "page with segments swapped": page(lambda c: c["segments"].reverse()),  # type: ignore[attr-defined]
    "page of other size": page(lambda c: c.update(size=1)),
    "page without a hash": page(lambda c: c.pop("tree_sha256")),
    "page with other hash": page(lambda c: c.update(tree_sha256="0" * 64)),
    "page with a word more": page(lambda c: c.update(extra=1)),
    "page that is no JSON": lambda shop, _: shop.replace(page_of(shop), b"{"),
}


def culprits(shop: Shop, harm: str) -> list[str]:
    """What may be named for it: the object, or what a page without a seal leads to."""
    if harm == "page with other hash":
        return [page_of(shop), f"{LINE}/@11-full at s3://"]
    if harm == "page with segments swapped":
        return [page_of(shop), f"{shop.root}/segments/tank/my%20data/@11-full/00000000."]
    return [page_of(shop)] if harm.startswith("page") else shop.segments()[:2]


KEYS = pytest.mark.parametrize("keys", [(), (some_key(),)], ids=["plain", "encrypted"])


@contextmanager
def harmed(shop: Shop, harm: Callable[[Shop, list[str]], None]) -> Iterator[None]:
    """Afterwards all that was there is as it was."""
    sound = {key: shop.body(key) for key in shop.objects() if "@11-full" in key}
    harm(shop, [key for key in sound if key in shop.segments()])
    yield
    for key, body in sound.items():
        shop.replace(key, body)


@KEYS
def test_harm_is_detected(server: S3Server, tmp_path: Path, keys: tuple[bytes, ...]) -> None:
    shop = new_shop(server, tmp_path)
    content = stream(11)
    with shop.session(keys=keys) as session:
        ship(session, shop, content, part(11), 1)
        for name, harm in HARMS.items():
            given = bytearray()
            with harmed(shop, harm), pytest.raises(VerificationFailed) as told:
                for some in session.stream(StreamId(dataset=part(11).dataset, guid=11, base=None), Meter()):
                    given += some
            assert content.startswith(given) and len(given) < len(content), name
            said = str(told.value)
            assert "\n" not in said and any(named in said for named in culprits(shop, name)), (name, said)
        assert fetched(session, part(11)) == content


def test_another_streams_segments_and_page_do_not_open(server: S3Server, tmp_path: Path) -> None:
    """Put in place with right hashes by somebody who may write to the bucket, but has no key."""
    shop = new_shop(server, tmp_path)
    with shop.session(keys=(some_key(),)) as session:
        session.store(part(11), shop.sender(stream(11)), Meter())
        session.store(part(12, 11), shop.sender(stream(12, 11)), Meter())
        other = shop.body(page_of(shop, "12-from-11"))
        shop.replace(page_of(shop), other)
        with pytest.raises(VerificationFailed, match="belongs to another stream"):
            fetched(session, part(11))
        forged = json.loads(other)
        forged["begun"] |= {"guid": "11", "base": None}
        shop.replace(page_of(shop), json.dumps(forged).encode())
        with pytest.raises(ZbackupError, match="another stream's"):
            fetched(session, part(11))


def test_a_base_with_a_segment_gone_is_not_committed(server: S3Server, tmp_path: Path) -> None:
    shop = new_shop(server, tmp_path)
    with shop.session() as session:
        session.store(part(11), shop.sender(stream(11)), Meter())
        drop(shop, shop.segments())
        with pytest.raises(VerificationFailed, match=r"segment 1 of .* is not at"):
            ship(session, shop, stream(11), part(11), 1)


def test_a_deep_verification_finds_all_harm(server: S3Server, tmp_path: Path) -> None:
    """And blames the backups that need what is damaged, and no other."""
    shop = new_shop(server, tmp_path)
    with shop.session() as session:
        ship(session, shop, stream(11), part(11), 1)
        ship(session, shop, stream(12, 11), part(12, 11), 2)
        ship(session, shop, stream(21), part(21), 3)
        sound = list(session.verify(deep=True, meter=Meter()))
        assert not any(checked.problems for checked in sound)
        assert sum(checked.read for checked in sound) == 3 * len(stream(11))
        for name, harm in HARMS.items():
            with harmed(shop, harm):
                found = {c.backup: c.problems for c in session.verify(deep=True, meter=Meter())}
            assert [bool(found[f"backup-{n}"]) for n in (1, 2, 3)] == [True, True, False], (name, found)


def test_listings_alone_tell_what_is_gone(server: S3Server, tmp_path: Path) -> None:
    shop = new_shop(server, tmp_path)
    with shop.session(keys=(some_key(),)) as session:
        ship(session, shop, stream(11), part(11), 1)
        ship(session, shop, stream(12, 11), part(12, 11), 2)
        truncate(shop, shop.segments())
        (first, second) = session.verify(deep=False, meter=Meter())
        assert first.problems == (f"segment 1 of {LINE}/@11-full is gone or of another size",)
        assert second.problems == first.problems and (first.read, second.read) == (0, 0)
        shop.direct.delete_object(Bucket=shop.bucket, Key=page_of(shop))
        (first, second) = session.verify(deep=False, meter=Meter())
        assert first.problems == (f"a stream of {LINE}@zbackup-11 or of its bases is gone",)
        assert second.problems == (f"a stream of {LINE}@zbackup-12 or of its bases is gone",)
    with shop.session() as session:
        (checked, _) = session.verify(deep=False, meter=Meter())
        assert checked.problems, "without a key nothing is known"


@KEYS
def test_pages_of_earlier_times_are_read(server: S3Server, tmp_path: Path, keys: tuple[bytes, ...]) -> None:
    """They have the hash of the whole stream, and it is proven."""
    shop = new_shop(server, tmp_path)
    content = stream(11)
    with shop.session(keys=keys) as session:
        session.store(part(11), shop.sender(content), Meter())
        new = index_from(shop.body(page_of(shop)), "the page")
        key = session.pages.signing.open_stream(StreamId(dataset=LINE, guid=11, base=None), new.header, "it")
        for sha256, whole in ((hashlib.sha256(content).digest(), True), (bytes(32), False)):
            old = new.model_copy(update={"tree_sha256": None, "sha256": sha256})
            if key:
                old = old.model_copy(update={"signature": key.mac(old.to_sign())})
            assert b"tree" not in to_json(old)
            shop.replace(page_of(shop), to_json(old))
            if whole:
                assert fetched(session, part(11)) == content
            else:
                with pytest.raises(VerificationFailed, match="is not the stream it was"):
                    fetched(session, part(11))
