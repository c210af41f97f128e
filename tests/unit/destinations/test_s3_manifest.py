"""A page is always the same bytes: seals of earlier times are of them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from zbackup.destinations.s3.manifest_schema import Segment, StreamHeader, StreamIndex, index_from, to_json

COUNTS = st.integers(0, 2**40)
SEGMENTS = st.builds(Segment, size=COUNTS, plain=COUNTS, sha256=st.binary(min_size=32, max_size=32))
NAMES = st.text(max_size=20) | st.just('"segments":[') | st.just('\\"segments":[]')


@given(NAMES, st.lists(SEGMENTS, max_size=4), st.booleans())
def test_a_page_is_written_as_json_writes_it_with_its_keys_in_order(
    name: str, segments: list[Segment], earlier: bool
) -> None:
    header = StreamHeader(
        dataset=name,
        snapshot=name,
        guid=2**64 - 1,
        base=None,
        raw=False,
        segment_size=1,
        compression="none",
        encryption=None,
        host=name,
    )
    page = StreamIndex(
        header=header,
        size=1,
        sha256=bytes(32) if earlier else None,
        tree_sha256=None if earlier else bytes(32),
        segments=tuple(segments),
        signature="0a" * 32,
    )
    plainly = json.dumps(page.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":"))
    assert to_json(page) == plainly.encode("ascii")
    assert index_from(to_json(page), "the page") == page
    assert [set(s) for s in json.loads(plainly)["segments"]] == [{"size", "plain", "sha256"}] * len(segments)
