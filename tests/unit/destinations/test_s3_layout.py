"""Keys of objects say what they are, whatever a dataset is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.destinations.s3.layout import HEADER, INDEX, Layout, StreamId, root_of, segment_of

NAMES = st.from_regex(r"[a-zA-Z][A-Za-z0-9_.: -]{0,20}(/[A-Za-z0-9_.: -]{1,20}){0,3}", fullmatch=True)
GUIDS = st.integers(1, 2**64 - 1)
STREAMS = st.builds(StreamId, dataset=NAMES, guid=GUIDS, base=st.none() | GUIDS)


@given(STREAMS)
def test_a_key_says_which_stream_it_is_of(stream: StreamId) -> None:
    layout = Layout("prefix/shop")
    assert layout.stream_of(layout.header(stream)) == (stream, HEADER)
    assert layout.stream_of(layout.index(stream)) == (stream, INDEX)
    assert layout.index(stream).isascii() and " " not in layout.index(stream)


@given(STREAMS, STREAMS)
def test_no_two_streams_share_segments(one: StreamId, other: StreamId) -> None:
    layout = Layout("shop")
    if one != other:
        assert not layout.segments(one).startswith(layout.segments(other))


@given(STREAMS, st.integers(0, 10**9), st.binary(min_size=32, max_size=32))
def test_a_segments_key_says_its_number_and_hash(stream: StreamId, number: int, digest: bytes) -> None:
    assert segment_of(Layout("shop").segment(stream, number, digest)) == (number, digest)


def test_segments_sort_as_they_follow() -> None:
    stream = StreamId(dataset="tank", guid=1, base=None)
    keys = [Layout("shop").segment(stream, number, bytes(32)) for number in (0, 9, 10, 99_999_999)]
    assert keys == sorted(keys)


@pytest.mark.parametrize(
    "key", ["a/streams/x", "a/streams/tank/@1-full/other", "a/streams/tank/@x-full/begun.json"]
)
def test_strangers_objects_are_left_out(key: str) -> None:
    assert Layout("a").stream_of(key) is None
    assert segment_of(key) is None


def test_the_prefix_may_be_empty() -> None:
    assert (root_of("", "shop"), root_of("/a/b/", "shop")) == ("shop", "a/b/shop")


@pytest.mark.parametrize(
    "path",
    [
        "tank/@01-full",
        "%74ank/@1-full",
        "tank%2Fdb/@1-full",
        "my data/@1-full",
        "tank%1B[2J/@1-full",
        "tank%0Ax/@1-full",
        "tank/@1-from-02",
        "tank/@1-full/@1-full",
        "tank/@123456789012345678901-full",
    ],
)
def test_what_is_ours_in_another_spelling_is_a_strangers(path: str) -> None:
    """Two keys for one stream would be taken for each other, and the one be deleted for the other."""
    layout = Layout("a")
    assert layout.stream_of(f"a/streams/{path}/{HEADER}") is None


@given(st.text(min_size=1, max_size=30))
def test_a_key_says_which_backup_it_is_the_manifest_of(backup: str) -> None:
    layout = Layout("a")
    assert layout.backup_of(layout.manifest(backup)) == (backup if backup.isprintable() else None)


@pytest.mark.parametrize(
    "key",
    [
        "README",
        "x/",
        "x/manifest.json/",
        "x/other.json",
        "%78/manifest.json",
        "x/y/manifest.json",
        "%1b/manifest.json",
    ],
)
def test_what_is_no_manifest_is_a_strangers(key: str) -> None:
    assert Layout("a").backup_of(f"a/backups/{key}") is None


@given(STREAMS, st.text(max_size=20))
def test_what_lies_beside_segments_is_no_segment(stream: StreamId, name: str) -> None:
    layout, name_of = Layout("a"), f"{0:08}.{'a' * 64}"
    key = layout.segment(stream, 0, b"\xaa" * 32)
    assert layout.is_segment(stream, key)
    for other in (
        f"{key}x",
        f"{layout.segments(stream)}{name}/{name_of}",
        f"{layout.segments(stream)}{name}",
    ):
        assert not layout.is_segment(stream, other)


@given(st.permutations([("b", 1, None), ("a", 2, None), ("a", 2, 0), ("a", 2, 1), ("a", 10, None)]))
def test_streams_are_in_order_whatever_they_are_based_on(found: list[tuple[str, int, int | None]]) -> None:
    """One snapshot in full and from a base, too: there is no other order between nothing and a number."""
    streams = [StreamId(dataset=dataset, guid=guid, base=base) for dataset, guid, base in found]
    assert [str(stream) for stream in sorted(streams)] == [
        "a/@2-full",
        "a/@2-from-0",
        "a/@2-from-1",
        "a/@10-full",
        "b/@1-full",
    ]
