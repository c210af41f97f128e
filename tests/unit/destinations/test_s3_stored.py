"""A stream goes in whole or is not called so; cut off, it is gone on with, and nothing is stored twice."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.destinations.bucket import (
    DATASET,
    LAYOUT,
    OTHER_SECRET,
    SEGMENT,
    SIZE,
    Shop,
    part,
    stream,
    stream_id,
)
from zbackup.destinations.s3.fetching import LEAST_ROOM
from zbackup.destinations.s3.manifest_schema import header_from, index_from
from zbackup.destinations.s3.segments import Buffers, cut, is_worth_compressing
from zbackup.model.errors import BucketRefused, CommandFailed, Refused, Taken, VerificationFailed
from zbackup.proc import pipeline
from zbackup.proc.pipeline import Meter, local

WANTED = part(11)
ELEVEN = stream_id(WANTED)
HEADER, INDEX, SEGMENTS = LAYOUT.header(ELEVEN), LAYOUT.index(ELEVEN), LAYOUT.segments(ELEVEN)


@pytest.mark.parametrize("size", [SEGMENT // 2, SEGMENT, SEGMENT + 1, 3 * SEGMENT, SIZE])
@pytest.mark.parametrize("parallel", [1, 3])
def test_what_goes_in_comes_out(shop: Shop, size: int, parallel: int) -> None:
    content = shop.store(WANTED, stream(11, size=size), uploads=parallel)
    page = index_from(shop.bucket.body(INDEX), "it")
    assert page.size == size and len(page.segments) == -(-size // SEGMENT)
    assert [s.plain for s in page.segments][:-1] == [SEGMENT] * (len(page.segments) - 1)
    assert bool(page.signature) == bool(shop.keys)
    assert page.header == header_from(shop.bucket.body(HEADER), "it")
    assert shop.fetched(WANTED, uploads=parallel) == content
    assert len(shop.bucket.having(SEGMENTS)) == len(page.segments)


@pytest.mark.parametrize(
    ("how", "raw", "found"),
    [
        ("auto", False, "zstd"),
        ("auto", True, "none"),
        ("zstd", True, "zstd"),
        ("none", False, "none"),
    ],
)
def test_what_can_be_compressed_is(shop: Shop, how: str, raw: bool, found: str) -> None:
    content = stream(11, size=100) + b"row " * 600
    shop.store(part(11, raw=raw), content, compression=how)
    assert header_from(shop.bucket.body(HEADER), "it").compression == found
    stored = sum(len(shop.bucket.body(key)) for key in shop.bucket.having(SEGMENTS))
    assert (stored < len(content) // 2) == (found == "zstd") and shop.fetched(WANTED) == content
    assert header_from(shop.bucket.body(HEADER), "it").raw == raw


def test_what_cannot_be_compressed_is_left_as_it_is(shop: Shop) -> None:
    shop.store(WANTED, compression="auto")
    assert header_from(shop.bucket.body(HEADER), "it").compression == "none"
    assert not is_worth_compressing(memoryview(stream(11))) and is_worth_compressing(memoryview(bytes(100)))


def test_who_is_cut_off_goes_on_and_stores_nothing_twice(shop: Shop) -> None:
    content = stream(11)
    left = [3]

    def full() -> None:
        left[0] -= 1
        if left[0] < 0:
            shop.bucket.refused.add("put")
        shop.bucket.hook("put", "", full)

    full()
    with pytest.raises(BucketRefused):
        shop.store(WANTED, content)
    shop.bucket.refused.clear()
    shop.bucket.hooks.clear()
    before = {key: shop.bucket.objects[key] for key in shop.bucket.having(SEGMENTS)}
    begun = shop.bucket.objects[HEADER]
    assert len(before) == 2 and INDEX not in shop.bucket.objects
    shop.bucket.later(hours=1)
    shop.store(WANTED, content)
    assert before.items() <= shop.bucket.objects.items() and shop.fetched(WANTED) == content
    again = shop.bucket.objects[HEADER]
    assert again[0] == begun[0] and again[1] > begun[1], "that somebody works on it is seen"


def test_a_segment_of_another_size_is_stored_again(shop: Shop) -> None:
    content = shop.store(WANTED)
    shop.bucket.drop(INDEX)
    key = shop.bucket.having(SEGMENTS)[1]
    sound = shop.bucket.body(key)
    shop.bucket.set(key, sound[:-1])
    shop.store(WANTED)
    assert shop.bucket.body(key) == sound and shop.fetched(WANTED) == content


def test_a_sender_that_fails_stores_nothing_whole(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(stream(11))
    failing = local(("sh", "-c", f"cat '{path}'; echo 'out of memory' >&2; exit 3"))
    with pytest.raises(CommandFailed, match="exited with 3: out of memory"):
        shop.session().store(WANTED, failing, Meter())
    assert INDEX not in shop.bucket.objects
    with pytest.raises(CommandFailed, match="exited with 3"):
        shop.session().store(part(12), local(("sh", "-c", "exit 3")), Meter())
    assert not shop.bucket.having("@12-full")
    with pytest.raises(VerificationFailed, match="is empty, and no ZFS send stream"):
        shop.session().store(part(12), local(("true",)), Meter())


@pytest.mark.parametrize("other", [stream(12), stream(11, 5), b"no stream" * 100])
def test_another_stream_than_was_asked_for_is_not_stored(shop: Shop, other: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(other)
    with pytest.raises(VerificationFailed, match=r"no ZFS send stream|the stream is of guid"):
        shop.session().store(WANTED, local(("cat", str(path))), Meter())
    assert not shop.bucket.objects


def test_a_page_that_is_there_is_never_written_over(plain: Shop) -> None:
    plain.store(WANTED)
    before = plain.bucket.objects[INDEX]
    plain.store(WANTED, stream(11)[:-1] + b"x")
    assert plain.bucket.objects[INDEX] == before


@pytest.mark.parametrize("accept", [False, True])
def test_nothing_goes_plain_because_a_bucket_says_so(encrypted: Shop, accept: bool) -> None:
    encrypted.store(WANTED, keys=())
    encrypted.bucket.drop(INDEX)
    content = encrypted.store(WANTED, accept_plain=accept)
    assert header_from(encrypted.bucket.body(HEADER), "it").encryption is not None
    assert encrypted.fetched(WANTED) == content


def test_who_has_keys_and_does_not_encrypt_goes_on_with_what_is_plain(encrypted: Shop) -> None:
    """The key is for what is there already."""
    how: dict[str, Any] = {"key": None, "accept_plain": True}
    encrypted.store(WANTED, keys=())
    encrypted.bucket.drop(INDEX)
    before = encrypted.bucket.having(SEGMENTS)
    content = encrypted.store(WANTED, **how)
    assert header_from(encrypted.bucket.body(HEADER), "it").encryption is None
    assert encrypted.bucket.having(SEGMENTS) == before and encrypted.fetched(WANTED, **how) == content
    encrypted.store(part(12), **how)
    assert header_from(encrypted.bucket.body(LAYOUT.header(stream_id(part(12)))), "it").encryption is None


def test_who_does_not_encrypt_any_more_goes_on_with_what_is_encrypted(encrypted: Shop) -> None:
    content = encrypted.store(WANTED)
    encrypted.bucket.drop(INDEX)
    before = encrypted.bucket.having(SEGMENTS)
    encrypted.store(WANTED, key=None)
    assert encrypted.bucket.having(SEGMENTS) == before and encrypted.fetched(WANTED) == content


def change(shop: Shop, key: str, **changes: Any) -> None:
    shop.bucket.set(key, json.dumps(json.loads(shop.bucket.body(key)) | changes).encode())


@pytest.mark.parametrize(
    "changes", [{"segment_size": LEAST_ROOM + 1}, {"guid": "12"}, {"version": 7}], ids=lambda c: next(iter(c))
)
def test_what_was_begun_in_a_strange_way_is_begun_anew(plain: Shop, changes: dict[str, Any]) -> None:
    plain.store(WANTED)
    plain.bucket.drop(INDEX)
    change(plain, HEADER, **changes)
    content = plain.store(WANTED)
    assert header_from(plain.bucket.body(HEADER), "it").segment_size == SEGMENT
    assert plain.fetched(WANTED) == content


def test_the_size_of_segments_is_kept_to_as_far_as_memory_is_meant_for(plain: Shop) -> None:
    plain.store(WANTED)
    plain.bucket.drop(INDEX)
    plain.store(WANTED, segment=300)
    assert len(plain.bucket.having(SEGMENTS)) == 3
    plain.bucket.drop(INDEX)
    change(plain, HEADER, segment_size=LEAST_ROOM)

    def resumable(**changes: int) -> bool:
        begun = plain.session(**changes)._begun(ELEVEN)
        return begun is not None and begun.resumable

    assert resumable()
    change(plain, HEADER, segment_size=LEAST_ROOM + 1)
    assert not resumable()
    assert resumable(segment=LEAST_ROOM + 1)


def test_of_two_that_begin_at_once_one_is_told(shop: Shop) -> None:
    """Another host; without encryption it says so itself."""

    def begin() -> None:
        Shop(shop.home, shop.bucket, shop.keys).store(WANTED)
        if not shop.keys:
            change(shop, HEADER, host="another")

    shop.bucket.hook("put_new", HEADER, begin)
    with pytest.raises(Taken, match=f"another zbackup has just begun to store {DATASET}/@11-full"):
        shop.store(WANTED)
    assert shop.fetched(WANTED) == stream(11)


def test_one_with_another_key_is_not_written_over(encrypted: Shop) -> None:
    encrypted.store(WANTED, keys=(OTHER_SECRET,))
    before = encrypted.bucket.objects[HEADER]
    with pytest.raises(Refused, match="needs the key"):
        encrypted.store(WANTED)
    encrypted.bucket.drop(HEADER)
    encrypted.bucket.hook("put_new", HEADER, lambda: encrypted.bucket.objects.update({HEADER: before}))
    with pytest.raises(Taken):
        encrypted.store(WANTED)
    assert encrypted.bucket.objects[HEADER] == before


def test_what_is_strange_and_comes_at_the_same_time_is_written_over(encrypted: Shop) -> None:
    encrypted.bucket.hook("put_new", HEADER, lambda: encrypted.bucket.set(HEADER, b"{"))
    content = encrypted.store(WANTED)
    assert encrypted.fetched(WANTED) == content


def test_a_page_that_a_key_signed_names_the_server(encrypted: Shop) -> None:
    encrypted.store(part(11, server="u1"))
    header = header_from(encrypted.bucket.body(HEADER), "it")
    assert (header.server, header.root, header.snapshot) == ("u1", "a/shop", "zbackup-11")


# buffers and pieces


class Slow(io.BytesIO):
    """Gives a byte or two at a time, as a pipe may."""

    def readinto(self, room: Any) -> int:
        return super().readinto(memoryview(room)[:2])


@pytest.mark.parametrize("source", [io.BytesIO, Slow])
@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 21])
def test_a_stream_is_cut_and_its_last_piece_known(size: int, source: type[io.BytesIO]) -> None:
    content = bytes(range(size))
    buffers = Buffers(2, 10, encrypted=False)
    moved: list[int] = []

    def pieces() -> Iterator[tuple[int, bytes, bool]]:
        for piece in cut(source(content), buffers, Meter(moved=moved.append)):
            with piece.content() as some:
                yield piece.number, bytes(some), piece.last
            buffers.give(piece.buffer)

    found = list(pieces())
    assert b"".join(some for _, some, _ in found) == content
    # But for the bytes that tell whether there is more.
    assert moved[-1] == size - sum(not last for _, _, last in found)
    assert [number for number, _, _ in found] == list(range(max(1, -(-size // 10))))
    assert [last for _, _, last in found] == [False] * (len(found) - 1) + [True]


@pytest.mark.parametrize(("limit", "steps"), [(0, {10}), (20, {5}), (3, {1}), (4000, {10})])
def test_where_a_limit_is_set_little_is_read_at_a_time(
    limit: int, steps: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it is kept to evenly: a quarter of a second's."""
    monkeypatch.setattr(pipeline.time, "sleep", lambda _: None)
    rooms: set[int] = set()

    class Noting(io.BytesIO):
        def readinto(self, room: Any) -> int:
            rooms.add(len(room))
            return super().readinto(room)

    (piece,) = cut(Noting(bytes(10)), Buffers(1, 10, encrypted=False), Meter(limit=limit))
    assert len(piece.buffer) == 10 and max(rooms) in steps


def test_buffers_are_used_again_unless_they_became_shorter() -> None:
    buffers = Buffers(2, 10, encrypted=True)
    assert (buffers.front, buffers.back) == (12, 16)
    one, other = buffers.take(), buffers.take()
    assert one is not other and len(one) == len(other) == 38
    buffers.give(one)
    assert buffers.take() is one
    del other[5:]
    buffers.give(other)
    fresh = buffers.take()
    assert fresh is not other and len(fresh) == 38
    buffers.give(fresh)
    assert Buffers(1, 10, encrypted=False).front == 0


def test_a_buffer_that_is_free_is_taken_before_a_new_one_is_made() -> None:
    buffers = Buffers(2, 10, encrypted=False)
    one = buffers.take()
    buffers.give(one)
    assert buffers.take() is one


def test_a_request_that_fails_ends_the_others(shop: Shop) -> None:
    """Of many segments few are tried when the first is refused."""
    content = stream(11, size=40 * SEGMENT)
    shop.bucket.hook("put", "", lambda: shop.bucket.refused.add("put"))
    with pytest.raises(BucketRefused):
        shop.store(WANTED, content, uploads=2)
    assert len([verb for verb, _ in shop.bucket.asked if verb == "put"]) <= 6
    assert not shop.bucket.having(SEGMENTS) and INDEX not in shop.bucket.objects
