"""Requests of a prune of a bucket, and what it leaves because it must."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tests.unit.destinations.test_s3_sealing import HERE, KEYS, PLAIN, STREAM
from zbackup.destinations.s3.garbage_collection import Collector
from zbackup.destinations.s3.layout import Layout
from zbackup.destinations.s3.manifest_schema import StreamHeader, to_json
from zbackup.destinations.s3.signatures import Signatures
from zbackup.destinations.s3.stream_headers import StreamHeaders
from zbackup.model.errors import BucketRefused, NotFound

LAYOUT = Layout("a/shop")
SEALED = HERE.new_stream(KEYS, STREAM, PLAIN, "u1")[1]
FORGED = SEALED.model_copy(update={"host": "another"})


@pytest.mark.parametrize(
    ("header", "sealing", "asked"),
    [
        (SEALED, HERE, False),
        (FORGED, HERE, True),
        (PLAIN, HERE, True),
        (SEALED, Signatures(keys=None, root="a/shop"), True),
    ],
)
def test_a_page_is_asked_for_only_where_the_header_does_not_prove_itself(
    header: StreamHeader, sealing: Signatures, asked: bool
) -> None:
    pages: list[object] = []

    def index(stream: object) -> None:
        pages.append(stream)
        raise NotFound("it is not there")

    bucket = SimpleNamespace(address="s3://b", get=lambda *_: bytearray(to_json(header)))
    some = SimpleNamespace(bucket=bucket, layout=LAYOUT, signing=sealing, index=index)
    StreamHeaders(cast(Any, some)).mend([STREAM])
    assert bool(pages) == asked


def test_what_was_taken_back_and_is_locked_stays_and_ends_no_prune() -> None:
    erased: list[str] = []

    def erase(key: str) -> None:
        if key == LAYOUT.manifest("locked"):
            raise BucketRefused("it is locked until next year", "AccessDenied")
        erased.append(key)

    known = dict.fromkeys((LAYOUT.manifest("locked"), LAYOUT.manifest("free")))
    pages = SimpleNamespace(bucket=SimpleNamespace(erase=erase), layout=LAYOUT, known=known)
    with capture_logs() as said:
        Collector(cast(Any, pages), cast(Any, None)).forget(
            cast(Any, SimpleNamespace(withdrawn=("locked", "free")))
        )
    assert erased == [LAYOUT.manifest("free")]
    assert [line["event"] for line in said] == ["s3.withdrawn_stays"]
