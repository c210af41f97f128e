"""Nothing that a bucket says makes a host allocate more than its own settings allow, or fail untyped."""

import json
from collections.abc import Callable
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, cast

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.destinations.test_s3_sealing import MANIFEST, PLAIN
from zbackup.destinations.s3 import fetching
from zbackup.destinations.s3.client import Bucket, Fill
from zbackup.destinations.s3.fetching import LEAST_ROOM, fetch
from zbackup.destinations.s3.layout import Layout, StreamId
from zbackup.destinations.s3.manifest_schema import (
    MOST_HEADER,
    MOST_PAGE,
    MOST_SEGMENT,
    MOST_SEGMENTS,
    Segment,
    StreamIndex,
    header_from,
    index_from,
    manifest_from,
    most_of_page,
    to_json,
)
from zbackup.destinations.s3.segments import StreamAccess
from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Meter

INDEX = StreamIndex(
    header=PLAIN, size=5, tree_sha256=bytes(32), segments=(Segment(size=5, plain=5, sha256=bytes(32)),)
)
READERS: dict[str, tuple[Callable[[bytes, str], Any], Any]] = {
    "header": (header_from, PLAIN),
    "stream": (index_from, INDEX),
    "manifest": (manifest_from, MANIFEST),
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=10)
    | st.sampled_from(["9" * 5000, "\x1b[2J", "inf", "-1", 10**30, 2**64, -1, "0" * 64]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, some in inner for path in paths(some, (*at, key)))]


def put(value: Any, path: tuple[Any, ...], what: Any) -> Any:
    if not path:
        return what
    value[path[0]] = put(value[path[0]], path[1:], what)
    return value


@pytest.mark.parametrize("kind", READERS)
@given(data=st.data())
def test_whatever_a_page_says_it_is_read_or_refused_in_one_line(kind: str, data: st.DataObject) -> None:
    read, page = READERS[kind]
    content = json.loads(to_json(page))
    for _ in range(data.draw(st.integers(1, 3))):
        content = put(content, data.draw(st.sampled_from(paths(content))), data.draw(JSON))
    try:
        body = json.dumps(content).encode()
        to_json(read(body, "s3://bucket/page"))
    except VerificationFailed as told:
        said = str(told)
        assert said.isprintable() and said.startswith("s3://bucket/page ") and len(said) < 500


@pytest.mark.parametrize("kind", READERS)
@given(body=st.binary(max_size=100))
def test_bytes_that_are_no_page_are_refused(kind: str, body: bytes) -> None:
    with pytest.raises(VerificationFailed, match="cannot be understood"):
        READERS[kind][0](body, "it")


@pytest.mark.parametrize("body", [b"[" * 100_000, b"1" * 100_000, b'{"version":' + b"9" * 5000 + b"}"])
def test_deep_and_long_json_is_refused(body: bytes) -> None:
    for read, _ in READERS.values():
        with pytest.raises(VerificationFailed):
            read(body, "it")


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("header", ("segment_size",), MOST_SEGMENT + 1),
        ("header", ("segment_size",), 0),
        ("header", ("guid",), str(2**64)),
        ("header", ("guid",), "0"),
        ("header", ("guid",), "9" * 5000),
        ("header", ("line",), "x" * 256),
        ("stream", ("size",), 2**63),
        ("stream", ("segments", 0, "plain"), 2**63),
        ("stream", ("segments", 0, "plain"), -1),
        ("manifest", ("parts", 0, "stored"), 2**63),
        ("manifest", ("parts", 0, "snapshot"), "x" * 256),
    ],
)
def test_numbers_and_names_have_bounds(kind: str, path: tuple[Any, ...], value: Any) -> None:
    read, page = READERS[kind]
    body = json.dumps(put(json.loads(to_json(page)), path, value)).encode()
    with pytest.raises(VerificationFailed):
        read(body, "it")


@given(st.integers(0, 2**23))
def test_a_page_is_as_long_as_its_segments_account_for(count: int) -> None:
    """Ours always fits, and the largest is known before anything is read."""
    longest = Segment(size=2**31, plain=2**31, sha256=bytes(32))
    one = len(to_json(INDEX.model_copy(update={"segments": (longest, longest)}))) - len(
        to_json(INDEX.model_copy(update={"segments": (longest,)}))
    )
    assert most_of_page(count) <= MOST_PAGE
    assert count > MOST_SEGMENTS * 3 // 4 or 2 * MOST_HEADER + one * count <= most_of_page(count)


def access_to(
    objects: dict[int, bytes], page: StreamIndex, *, parallel: int, usual: int
) -> tuple[StreamAccess, list[int]]:
    """And the numbers of segments that were asked for, as they were."""
    asked: list[int] = []

    def get(key: str, size: int, use: Callable[[Fill], object]) -> object:
        number = int(key.rpartition("/")[2].partition(".")[0])
        asked.append(number)
        rest = memoryview(objects[number])

        def fill(room: memoryview) -> None:
            nonlocal rest
            room[:] = rest[: len(room)]
            rest = rest[len(room) :]

        return use(fill)

    bucket = cast(Bucket, SimpleNamespace(fetch=get, address="s3://bucket"))
    stream = StreamId(dataset="tank", guid=2, base=1)
    access = StreamAccess(
        bucket=bucket,
        layout=Layout("shop"),
        stream=stream,
        header=page.header,
        key=None,
        signing=None,
        parallel=parallel,
        usual=usual,
    )
    return access, asked


@pytest.mark.parametrize(
    ("plain", "parallel", "usual", "buffers"),
    [
        (16 << 20, 8, 16 << 20, 9),
        (LEAST_ROOM, 8, 16 << 20, 9),
        (256 << 20, 8, 16 << 20, 2),
        (256 << 20, 8, 256 << 20, 9),
        (MOST_SEGMENT, 8, 16 << 20, 1),
        (MOST_SEGMENT, 2, 1 << 20, 1),
    ],
)
def test_buffers_are_as_many_as_this_host_is_set_for(
    plain: int, parallel: int, usual: int, buffers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    monkeypatch.setattr(fetching, "bytearray", lambda size: made.append(size), raising=False)
    page = INDEX.model_copy(update={"segments": (Segment(size=1, plain=plain, sha256=bytes(32)),)})
    access, _ = access_to({}, page, parallel=parallel, usual=usual)
    fetching._buffers(access, page, 100)
    assert made == [plain] * buffers
    assert sum(made) <= max(MOST_SEGMENT, (parallel + 1) * max(usual, LEAST_ROOM))


def page_of(objects: list[bytes], plain: int) -> StreamIndex:
    segments = tuple(Segment(size=len(o), plain=plain, sha256=sha256(o).digest()) for o in objects)
    return INDEX.model_copy(update={"size": plain * len(objects), "segments": segments, "tree_sha256": None})


def test_one_buffer_is_enough() -> None:
    contents = [bytes([n]) * 1000 for n in range(5)]
    objects = [zstandard.ZstdCompressor().compress(c) for c in contents]
    page = page_of(objects, 1000)
    access, asked = access_to(dict(enumerate(objects)), page, parallel=0 + 1, usual=1)
    found = fetching._proven(access, page, range(5), Meter())
    assert [bytes(c) for c, _ in found] == contents and sorted(asked) == list(range(5))


def test_a_frame_that_wants_a_huge_window_or_more_room_is_refused() -> None:
    """Of 128 MiB, which a decompressor would allocate for each of eight segments."""
    wide = zstandard.ZstdCompressionParameters(window_log=27)
    sparse = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    bomb = sparse.compress(bytes(1 << 20)) + sparse.flush()
    long = zstandard.ZstdCompressor().compress(bytes(10 << 20))
    for body, said in ((bomb, "cannot be decompressed"), (long, "is not what its stream's page says")):
        page = page_of([body], 1 << 20)
        access, _ = access_to({0: body}, page, parallel=1, usual=1)
        with pytest.raises(VerificationFailed, match=said):
            list(fetch(access, page, Meter()))
