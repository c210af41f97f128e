"""Forms of pages, word for word: what was signed earlier stays as it was, and no other form counts."""

import base64
import json
from typing import Any

import pytest

from tests.unit.destinations.test_s3_sealing import HERE, KEYS, MANIFEST, PLAIN, STREAM
from zbackup.destinations.s3.encryption import Scope, parse_key
from zbackup.destinations.s3.layout import HEADER, MOST_NAME, Layout
from zbackup.destinations.s3.manifest_schema import (
    PartPage,
    Segment,
    StreamIndex,
    header_from,
    index_from,
    manifest_from,
    to_json,
)
from zbackup.model.errors import VerificationFailed

SEALED = HERE.new_stream(KEYS, STREAM, PLAIN, "u1")[1]
SIGNED = HERE.sign(MANIFEST)
OF_HEADER = {
    *("version", "line", "snapshot", "guid", "base", "raw", "segment_size", "compression", "encryption"),
    "host",
}
PAGE = {"version", "committed", "host", "record", "parts"}


def words(page: Any) -> set[str]:
    return set(json.loads(to_json(page)))


def test_each_version_has_its_own_words() -> None:
    assert words(PLAIN) == OF_HEADER and words(SEALED) == OF_HEADER | {"root", "server", "seal"}
    assert words(MANIFEST) == PAGE and words(SIGNED) == PAGE | {"encryption", "seal", "root"}
    older = SIGNED.model_copy(update={"version": 2, "root": ""})
    assert words(older) == PAGE | {"encryption", "seal"}
    assert words(MANIFEST.model_copy(update={"withdrawn": True})) == PAGE | {"withdrawn"}
    one = StreamIndex(header=PLAIN, size=1, segments=(Segment(size=1, plain=1, sha256=bytes(32)),))
    assert words(one) == {"begun", "size", "segments", "seal"}
    for hashed in ("sha256", "tree_sha256"):
        assert words(one.model_copy(update={hashed: bytes(32)})) == {
            "begun",
            "size",
            "segments",
            "seal",
            hashed,
        }


def changed(page: Any, changes: dict[str, Any]) -> bytes:
    content = json.loads(to_json(page)) | changes
    return json.dumps({word: value for word, value in content.items() if value is not ...}).encode()


ENVELOPE = json.loads(to_json(SIGNED))["encryption"]


@pytest.mark.parametrize(
    "changes",
    [{"version": 2}, {"root": "a/shop"}, {"server": "u1"}, {"seal": "00"}, {"version": 3}, {"guid": 1.5}],
    ids=str,
)
def test_a_header_is_signed_or_says_nothing_of_it(changes: dict[str, Any]) -> None:
    assert header_from(changed(PLAIN, {}), "it") == PLAIN
    with pytest.raises(VerificationFailed):
        header_from(changed(PLAIN, changes), "it")


@pytest.mark.parametrize(
    ("page", "changes"),
    [
        (MANIFEST, {"version": 2}),
        (MANIFEST, {"version": 3}),
        (MANIFEST, {"seal": "00"}),
        (MANIFEST, {"encryption": ENVELOPE}),
        (MANIFEST, {"root": "a/shop"}),
        (SIGNED, {"version": 1}),
        (SIGNED, {"version": 1, "root": ..., "seal": ...}),
        (SIGNED, {"encryption": None}),
        (SIGNED, {"version": 2}),
        (SIGNED, {"version": 5}),
    ],
)
def test_a_manifest_is_signed_or_says_nothing_of_it(page: Any, changes: dict[str, Any]) -> None:
    assert manifest_from(changed(page, {}), "it") == page
    assert manifest_from(changed(SIGNED, {"version": 2, "root": ...}), "it").version == 2
    with pytest.raises(VerificationFailed):
        manifest_from(changed(page, changes), "it")


def test_a_page_has_its_own_words_and_not_those_of_our_fields() -> None:
    """Else two pages of different bytes would say the same, and only one of them what is documented."""
    part = PartPage(
        dataset="tank", snapshot="s", guid=1, base=None, size=1, stored=1, raw=False, stream_sha256=bytes(32)
    )
    index = StreamIndex(header=SEALED, size=0, segments=(), signature="00")
    forms = (
        (header_from, SEALED, b'"line":', b'"dataset":'),
        (header_from, SEALED, b'"seal":', b'"signature":'),
        (index_from, index, b'"line":', b'"dataset":'),
        (index_from, index, b'"seal":', b'"signature":'),
        (manifest_from, SIGNED.model_copy(update={"parts": (part,)}), b'"line":', b'"dataset":'),
        (manifest_from, SIGNED, b'"seal":', b'"signature":'),
    )
    for read, page, ours, other in forms:
        written = to_json(page)
        assert read(written, "it") == page
        with pytest.raises(VerificationFailed, match="cannot be understood"):
            read(written.replace(ours, other), "it")


def test_a_page_may_have_either_hash() -> None:
    one = StreamIndex(header=PLAIN, size=0, segments=(), sha256=bytes(32))
    assert index_from(to_json(one), "it") == one


def test_a_backup_is_called_after_its_snapshots() -> None:
    assert MANIFEST.called == "s" and MANIFEST.model_copy(update={"parts": ()}).called == "one"


def test_a_data_key_is_wrapped_for_what_it_always_was() -> None:
    assert Scope(about="tank/@1-full").context == b"zbackup data key 1\ntank/@1-full"
    bound = Scope(about="tank/@1-full", root="a/shop", server="u1")
    assert bound.context == b'zbackup data key 2\n["a/shop", "u1", "tank/@1-full"]'


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_key_has_32_bytes(size: int) -> None:
    assert parse_key(f" {base64.b64encode(bytes(32)).decode()}\n") == bytes(32)
    with pytest.raises(ValueError, match=f"a key has 32 bytes, not {size}"):
        parse_key(base64.b64encode(bytes(size)).decode())


def test_a_dataset_is_called_as_zfs_allows() -> None:
    layout = Layout("a")
    for size, ours in ((MOST_NAME - 1, True), (MOST_NAME, False)):
        assert bool(layout.stream_of(f"a/streams/{'x' * size}/@1-full/{HEADER}")) == ours
