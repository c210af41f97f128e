"""A stream comes out as it went in, or what is wrong is said before a byte of that is given."""

import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.unit.destinations.bucket import (
    LAYOUT,
    OTHER_SECRET,
    SEGMENT,
    SIZE,
    Shop,
    part,
    stream,
    stream_id,
)
from tests.unit.zfs.test_resumed_stream import GUID, an_object, received, whole, write
from zbackup.destinations.s3.encryption import AROUND
from zbackup.destinations.s3.fetching import check_page
from zbackup.destinations.s3.manifest_schema import Segment, StreamIndex, index_from, to_json
from zbackup.destinations.s3.segments import MOST_AROUND
from zbackup.model.errors import CommandFailed, NotResumable, Refused, VerificationFailed
from zbackup.proc.pipeline import Command, Meter, local
from zbackup.zfs.resume_token import with_numbers

WANTED = part(11)
ELEVEN = stream_id(WANTED)
HEADER, INDEX, SEGMENTS = LAYOUT.header(ELEVEN), LAYOUT.index(ELEVEN), LAYOUT.segments(ELEVEN)
COMPRESSIBLE = stream(11, size=100) + bytes(range(250)) * 10
HOWS = pytest.mark.parametrize("content", [stream(11), COMPRESSIBLE], ids=["none", "zstd"])


def flip(at: int) -> Callable[[bytes], bytes]:
    def change(body: bytes) -> bytes:
        found = bytearray(body)
        found[at] ^= 1
        return bytes(found)

    return change


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "first byte": flip(0),
    "last byte": flip(-1),
    "in the middle": flip(30),
    "cut": lambda body: body[:-1],
    "longer": lambda body: body + b"x",
    "empty": lambda body: b"",
}


@HOWS
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("number", [0, 2])
def test_a_damaged_segment_is_told_before_it_is_given(
    shop: Shop, content: bytes, harm: str, number: int
) -> None:
    shop.store(WANTED, content, compression="auto")
    key = shop.bucket.having(SEGMENTS)[number]
    shop.bucket.set(key, HARMS[harm](shop.bucket.body(key)))
    given = bytearray()
    with pytest.raises(VerificationFailed) as told:
        for some in shop.session().stream(ELEVEN, Meter()):
            given += some
    assert (content[: number * SEGMENT] == given and "00000000" in str(told.value)) or number
    assert "\n" not in str(told.value)


def test_a_segment_that_is_gone_is_named(shop: Shop) -> None:
    shop.store(WANTED)
    key = shop.bucket.having(SEGMENTS)[1]
    shop.bucket.drop(key)
    with pytest.raises(VerificationFailed, match=rf"a segment is gone: .*{key}"):
        shop.fetched(WANTED)


def page_of(shop: Shop) -> StreamIndex:
    return index_from(shop.bucket.body(INDEX), "it")


def put_page(shop: Shop, page: StreamIndex) -> None:
    """As who has the key would write it."""
    key = shop.session().pages.signing.open_stream(ELEVEN, page.header, "it")
    if key:
        page = page.model_copy(update={"signature": ""})
        page = page.model_copy(update={"signature": key.mac(page.to_sign())})
    shop.bucket.set(INDEX, to_json(page))


def test_the_hash_of_all_is_proven_before_the_last_segment_is_given(shop: Shop) -> None:
    """That of the segments' hashes, or in earlier pages that of the stream itself."""
    content = shop.store(WANTED)
    sound = page_of(shop)
    earlier = {"tree_sha256": None, "sha256": hashlib.sha256(content).digest()}
    put_page(shop, sound.model_copy(update=earlier))
    assert shop.fetched(WANTED) == content
    both = {"tree_sha256": sound.tree_sha256, "sha256": earlier["sha256"]}
    put_page(shop, sound.model_copy(update=both))
    assert shop.fetched(WANTED) == content
    for wrong in (
        earlier | {"sha256": bytes(32)},
        {"tree_sha256": bytes(32)},
        both | {"sha256": bytes(32)},
        both | {"tree_sha256": bytes(32)},
    ):
        put_page(shop, sound.model_copy(update=wrong))
        given = bytearray()
        with pytest.raises(VerificationFailed, match="is not the stream it was"):
            for some in shop.session().stream(ELEVEN, Meter()):
                given += some
        assert given == content[: 2 * SEGMENT]


def test_segments_in_another_place_do_not_open(encrypted: Shop) -> None:
    """Nor do they as the last one, nor another stream's, put in place with right hashes and sizes."""
    encrypted.store(WANTED, stream(11, size=3 * SEGMENT))
    sound = page_of(encrypted)
    bodies = [encrypted.bucket.body(key) for key in encrypted.bucket.having(SEGMENTS)]
    for order in ((1, 0, 2), (0, 2, 1)):
        for number, of in enumerate(order):
            encrypted.bucket.set(LAYOUT.segment(ELEVEN, number, sound.segments[of].sha256), bodies[of])
        put_page(encrypted, sound.model_copy(update={"segments": tuple(sound.segments[n] for n in order)}))
        with pytest.raises(VerificationFailed, match="does not open"):
            encrypted.fetched(WANTED)
    shorter = {"segments": sound.segments[:2], "size": 2 * SEGMENT}
    put_page(encrypted, sound.model_copy(update=shorter))
    with pytest.raises(VerificationFailed, match=r"segment 1 of .* does not open"):
        encrypted.fetched(WANTED)


def test_another_streams_page_and_segments_do_not_open(encrypted: Shop) -> None:
    encrypted.store(WANTED)
    encrypted.store(part(12, 11))
    other = encrypted.bucket.body(LAYOUT.index(stream_id(part(12, 11))))
    encrypted.bucket.set(INDEX, other)
    with pytest.raises(VerificationFailed, match="belongs to another stream"):
        encrypted.fetched(WANTED)
    page = json.loads(other)
    page["begun"] |= {"guid": "11", "base": None}
    encrypted.bucket.set(INDEX, json.dumps(page).encode())
    with pytest.raises(VerificationFailed, match="another stream's"):
        encrypted.fetched(WANTED)


def test_a_page_of_another_key_is_not_read(encrypted: Shop) -> None:
    encrypted.store(WANTED, keys=(OTHER_SECRET,))
    for keys in ((), encrypted.keys):
        with pytest.raises(Refused, match="needs the key"):
            encrypted.fetched(WANTED, keys=keys)


def page_like(shop: Shop, **changes: Any) -> StreamIndex:
    return page_of(shop).model_copy(update=changes)


def segment(plain: int, size: int) -> Segment:
    return Segment(plain=plain, size=size, sha256=bytes(32))


@pytest.mark.parametrize(
    ("around", "found"),
    [
        ((SEGMENT, 0), True),
        ((SEGMENT, 1), False),
        ((SEGMENT, -1), False),
        ((SEGMENT + 1, 0), False),
    ],
)
def test_a_page_whose_sizes_cannot_be_is_damaged(shop: Shop, around: tuple[int, int], found: bool) -> None:
    """Of what is not compressed."""
    shop.store(WANTED)
    plain, more = around
    size = plain + more + (AROUND if shop.keys else 0)
    page = page_like(shop, segments=(segment(plain, size),), size=plain)
    put_page(shop, page)
    assert holds(shop) == found


@pytest.mark.parametrize(
    ("size", "found"),
    [(0, True), (-1, False), (SEGMENT + MOST_AROUND, True), (SEGMENT + MOST_AROUND + 1, False)],
)
def test_a_page_of_compressed_segments_that_are_too_large_is_damaged(
    shop: Shop, size: int, found: bool
) -> None:
    shop.store(WANTED, COMPRESSIBLE, compression="auto")
    more = AROUND if shop.keys else 0
    if size + more < 0:
        return
    put_page(shop, page_like(shop, segments=(segment(SEGMENT, size + more),), size=SEGMENT))
    assert holds(shop) == found


@pytest.mark.parametrize(
    "changes",
    [
        {"segments": ()},
        {"segments": (), "size": 0},
        {"size": SIZE - 1},
        {"tree_sha256": None, "sha256": None},
    ],
)
def test_a_page_that_does_not_add_up_is_damaged(shop: Shop, changes: dict[str, Any]) -> None:
    shop.store(WANTED)
    put_page(shop, page_like(shop, **changes))
    assert not holds(shop)
    with pytest.raises(VerificationFailed, match="is inconsistent"):
        shop.fetched(WANTED)


def holds(shop: Shop) -> bool:
    page = page_of(shop)
    try:
        check_page(page, shop.session().pages.signing.open_stream(ELEVEN, page.header, "it"), "it")
    except VerificationFailed as wrong:
        assert "is inconsistent (sizes or hashes)" in str(wrong)
        return False
    return True


def test_a_page_that_was_changed_does_not_hold(encrypted: Shop) -> None:
    encrypted.store(WANTED)
    page = json.loads(encrypted.bucket.body(INDEX))
    encrypted.bucket.set(INDEX, json.dumps(page | {"seal": "0" * 64}).encode())
    with pytest.raises(VerificationFailed, match="was changed since it was written"):
        encrypted.fetched(WANTED)


@pytest.mark.parametrize("shorter", [True, False])
def test_a_frame_of_another_length_than_the_page_says_is_refused(plain: Shop, shorter: bool) -> None:
    plain.store(WANTED, COMPRESSIBLE, compression="zstd")
    sound = page_of(plain)
    first = COMPRESSIBLE[:SEGMENT]
    body = zstandard.ZstdCompressor().compress(first[:-1] if shorter else first + b"x")
    digest = hashlib.sha256(body).digest()
    plain.bucket.set(LAYOUT.segment(ELEVEN, 0, digest), body)
    segments = (Segment(size=len(body), plain=SEGMENT, sha256=digest), *sound.segments[1:])
    put_page(plain, sound.model_copy(update={"segments": segments}))
    with pytest.raises(VerificationFailed, match="is not what its stream's page says"):
        plain.fetched(WANTED)


# to a receiver


def into(path: Path) -> Command:
    return local(("sh", "-c", f"cat > '{path}'"))


def test_a_receiver_gets_each_stream_and_its_size_is_known(shop: Shop, tmp_path: Path) -> None:
    contents = {11: shop.ship(WANTED, 1), 12: shop.ship(part(12, 11), 2, stream(12, 11, size=1700))}
    session = shop.session()
    steps = session.stream_steps(session.copies().backups[1].snapshots)
    for step in steps:
        size = len(contents[step.copy.guid])
        assert session.size(step) == size
        assert session.fetch(step, "", into(tmp_path / "received"), Meter()) == size
        assert (tmp_path / "received").read_bytes() == contents[step.copy.guid]
    assert shop.session().size(steps[0]) == 0, "of which nothing was read yet"
    with pytest.raises(NotResumable):
        session.fetch(steps[0], "1-token", into(tmp_path / "received"), Meter())
    failing = local(("sh", "-c", "cat >/dev/null; echo 'no space' >&2; exit 4"))
    with pytest.raises(CommandFailed, match="exited with 4: no space"):
        session.fetch(steps[0], "", failing, Meter())


def test_what_cannot_be_had_is_known_before_anything_is_received(shop: Shop, tmp_path: Path) -> None:
    shop.chain((11, None))
    session = shop.session()
    (step,) = session.stream_steps(session.copies().backups[0].snapshots)
    shop.bucket.drop(shop.bucket.having(SEGMENTS)[0])
    with pytest.raises(VerificationFailed, match="a segment is gone"):
        session.fetch(step, "", into(tmp_path / "received"), Meter())
    assert not (tmp_path / "received").exists()


RECORDS = [an_object(3), *(write(3, n * 4096, bytes([n]) * 64) for n in range(40)), an_object(4)]
RESUMABLE = whole(RECORDS)


def token(guid: int, number: int, offset: int, passed: int) -> str:
    packed = with_numbers(b"", {"toguid": guid, "object": number, "offset": offset, "bytes": passed})
    return f"1-0-{len(packed):x}-{zlib.compress(packed).hex()}"


@pytest.mark.parametrize("block", [0, 1, 7, 20, 39])
@pytest.mark.parametrize("passed", [0, 3000, 8000, len(RESUMABLE), 1 << 40])
def test_a_receiver_that_was_cut_off_gets_the_rest(
    encrypted: Shop, tmp_path: Path, block: int, passed: int
) -> None:
    """Wherever it says that it is; as far as that holds, nothing before is fetched."""
    wanted = part(GUID)
    encrypted.ship(wanted, 1, RESUMABLE)
    session = encrypted.session()
    (step,) = session.stream_steps(session.copies().backups[0].snapshots)
    encrypted.bucket.asked.clear()
    moved: list[int] = []
    session.fetch(
        step, token(GUID, 3, block * 4096, passed), into(tmp_path / "rest"), Meter(moved=moved.append)
    )
    told = received(RESUMABLE)
    first = next(n for n, (r, _) in enumerate(told) if r.position == (3, block * 4096))
    assert received((tmp_path / "rest").read_bytes())[1:] == told[first:]
    assert moved[-1] == len(RESUMABLE)
    segments = -(-len(RESUMABLE) // SEGMENT)
    asked = len([key for _, key in encrypted.bucket.asked if "/segments/" in key])
    behind = segments - min(passed, len(RESUMABLE)) // SEGMENT
    if block == 39 and passed == 3000:
        assert asked <= behind + 3
    if block == 39 and passed == len(RESUMABLE):
        assert asked < 12


def test_who_goes_on_with_an_object_gets_all_that_is_said_of_it(plain: Shop, tmp_path: Path) -> None:
    """The object and its first block are at one place, and a segment begins between the two."""
    blocks = (write(4, n * 4096, bytes([n]) * 64) for n in range(9))
    content = whole([an_object(3), write(3, 0, bytes(800)), an_object(4), *blocks])
    plain.ship(part(GUID), 1, content)
    session = plain.session()
    (step,) = session.stream_steps(session.copies().backups[0].snapshots)
    session.fetch(step, token(GUID, 4, 0, 2 * SEGMENT + 100), into(tmp_path / "rest"), Meter())
    told = received(content)
    assert [record.position for record, _ in told[3:5]] == [(4, 0)] * 2
    assert received((tmp_path / "rest").read_bytes())[1:] == told[3:]


def test_what_was_cut_off_is_of_another_stream(plain: Shop, tmp_path: Path) -> None:
    plain.ship(part(GUID), 1, RESUMABLE)
    session = plain.session()
    (step,) = session.stream_steps(session.copies().backups[0].snapshots)
    with pytest.raises(NotResumable, match="what was cut off is not tank/db/@"):
        session.fetch(step, token(GUID + 1, 3, 0, 0), into(tmp_path / "rest"), Meter())
