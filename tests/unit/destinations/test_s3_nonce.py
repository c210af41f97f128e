"""No nonce is used for two contents, and every bit of what is authenticated counts.

A nonce that is used twice under one key breaks AES-GCM: whoever has both objects has the XOR of their
contents, and may forge others. So it has to depend on the key, the place, and the content.
"""

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.encryption import NONCE, TAG, DataKey, KeyFiles, Scope
from zbackup.destinations.s3.layout import Layout, StreamId
from zbackup.destinations.s3.manifest_schema import StreamHeader
from zbackup.destinations.s3.segments import Buffers, Piece, StreamAccess, store
from zbackup.model.errors import VerificationFailed

KEYS = st.binary(min_size=32, max_size=32)
STREAMS = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=30)
PLACES = st.tuples(KEYS, STREAMS, st.integers(0, 2**32), st.booleans(), st.binary(max_size=200))
Place = tuple[bytes, str, int, bool, bytes]


def sealed(place: Place) -> bytes:
    key, stream, number, last, content = place
    buffer = bytearray(NONCE) + content + bytearray(TAG)
    with memoryview(buffer) as view:
        DataKey(key, stream).encrypt(number, last, view, hashlib.sha256(content).digest())
    return bytes(buffer)


def opened(place: Place, body: bytes) -> bytes:
    key, stream, number, last, _ = place
    opening = DataKey(key, stream).opening(number, last, body[:NONCE])
    content = bytearray(body[NONCE:-TAG])
    with memoryview(content) as view:
        opening.decrypt(view)
    opening.end(body[-TAG:])
    return bytes(content)


@given(PLACES)
def test_the_same_content_in_the_same_place_is_the_same_object(place: Place) -> None:
    assert sealed(place) == sealed(place)
    assert opened(place, sealed(place)) == place[-1]


@given(PLACES, st.data())
def test_what_differs_in_anything_has_another_nonce(place: Place, data: st.DataObject) -> None:
    """One field is changed at a time, so that a nonce that lacks any of them is found at once."""
    at = data.draw(st.integers(0, 4))
    others = (KEYS, STREAMS, st.integers(0, 2**32), st.just(not place[3]), st.binary(max_size=200))
    other = data.draw(others[at].filter(lambda value: value != place[at]))
    changed = cast(Place, (*place[:at], other, *place[at + 1 :]))
    assert sealed(place)[:NONCE] != sealed(changed)[:NONCE]
    with pytest.raises(VerificationFailed) if at != 4 else pytest.raises(AssertionError):
        assert opened(changed, sealed(place)) == changed[-1]


@given(PLACES, st.data())
def test_every_bit_of_an_object_counts(place: Place, data: st.DataObject) -> None:
    body = bytearray(sealed(place))
    bit = data.draw(st.integers(0, 8 * len(body) - 1))
    body[bit // 8] ^= 1 << bit % 8
    with pytest.raises(VerificationFailed):
        opened(place, bytes(body))


def test_every_bit_of_one_object_counts() -> None:
    """All of them, not some."""
    place = (bytes(32), "tank/@1-full", 0, True, b"some bytes")
    sound = sealed(place)
    for bit in range(8 * len(sound)):
        body = bytearray(sound)
        body[bit // 8] ^= 1 << bit % 8
        with pytest.raises(VerificationFailed):
            opened(place, bytes(body))


HEADER = StreamHeader(
    dataset="tank",
    snapshot="s",
    guid=1,
    base=None,
    raw=False,
    segment_size=64,
    compression="none",
    encryption=None,
    host="",
)


def stored(contents: list[bytes], compression: str, present: Mapping[tuple[int, bytes], int]) -> list[bytes]:
    """What store() puts into a bucket of these segments, by their numbers."""
    there: dict[int, bytes] = {}
    lock = threading.Lock()

    def put(key: str, body: bytes, digest: bytes) -> None:
        assert hashlib.sha256(body).digest() == digest
        with lock:
            there[int(key.rpartition("/")[2].partition(".")[0])] = bytes(body)

    stream = StreamId(dataset="tank", guid=1, base=None)
    access = StreamAccess(
        bucket=cast(Bucket, SimpleNamespace(put=put)),
        layout=Layout("shop"),
        stream=stream,
        header=HEADER.model_copy(update={"compression": compression}),
        key=DataKey(bytes(32), str(stream)),
        signing=DataKey(bytes(32), str(stream)),
        parallel=2,
        usual=64,
    )
    pieces = [
        Piece(
            number=number,
            buffer=bytearray(NONCE) + content + bytearray(TAG),
            front=NONCE,
            back=TAG,
            last=number == len(contents) - 1,
        )
        for number, content in enumerate(contents)
    ]
    store(access, iter(pieces), Buffers(3, 64, encrypted=True), present)
    return [there[number] for number in sorted(there)]


@given(
    st.lists(st.binary(min_size=1, max_size=64), min_size=1, max_size=4),
    st.data(),
    st.sampled_from(["none", "zstd"]),
)
def test_a_stream_that_differs_in_one_segment_shares_no_nonce_there(
    contents: list[bytes], data: st.DataObject, compression: str
) -> None:
    """As when it is sent again and one byte of it is another: as it reaches the bucket."""
    at = data.draw(st.integers(0, len(contents) - 1))
    other = data.draw(st.binary(min_size=1, max_size=64).filter(lambda some: some != contents[at]))
    one = stored(contents, compression, {})
    two = stored([*contents[:at], other, *contents[at + 1 :]], compression, {})
    same = [a[:NONCE] == b[:NONCE] for a, b in zip(one, two, strict=True)]
    assert same == [number != at for number in range(len(contents))]
    assert len({body[:NONCE] for body in one}) == len(one), "nor do two segments of one stream"


TEXTS = st.text(max_size=20)
SCOPES = st.builds(Scope, about=TEXTS, root=TEXTS, server=TEXTS)


@given(SCOPES, TEXTS, st.sampled_from(["about", "root", "server"]))
def test_a_data_key_is_for_one_scope_alone(scope: Scope, other: str, field: str) -> None:
    """One field is another, also when what is next to it makes up for that; or there is no root at all."""
    store = KeyFiles(lambda: (bytes(32),))
    wrapped = store.wrap(b"k" * 32, scope)
    assert store.unwrap(store.key_id, wrapped, scope) == b"k" * 32
    shifted = replace(scope, root=f"{scope.root}{scope.server}", server="")
    earlier = Scope(about=scope.about)
    for wrong in (replace(scope, **{field: other}), shifted, earlier):
        if wrong != scope:
            with pytest.raises(VerificationFailed):
                store.unwrap(store.key_id, wrapped, wrong)


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_seals_are_of_one_page_for_one_purpose(one: bytes, other: bytes) -> None:
    key = DataKey(bytes(32), "tank/@1-full")
    assert (key.mac(one) == key.mac(other)) == (one == other)
    assert key.mac(one) != key.mac(one, b"header")
    assert key.mac(one) != DataKey(b"x" * 32, "tank/@1-full").mac(one)
