"""The rest of a stream from a bucket, for a receiver that was cut off: what it has had is not fetched again.

But for the first segment, which says what the stream is, and those around where it goes on: a segment may
begin anywhere in a record.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

import structlog

from zbackup.destinations.s3.fetching import fetch_some
from zbackup.destinations.s3.manifest import Whole
from zbackup.destinations.s3.segments import Way
from zbackup.model.errors import NotResumable
from zbackup.proc.pipeline import Meter
from zbackup.zfs.resume_token import ResumePoint, resume_point
from zbackup.zfs.resumed_stream import Bytes, Pieces, beginning, first_placed, needed_from, resumed
from zbackup.zfs.stream_records import byte_order

log = structlog.get_logger()


def rest(way: Way, page: Whole, token: str, meter: Meter) -> Iterator[Bytes]:
    """Raise NotResumable, before the first bytes, when the token is not of this stream."""
    point = resume_point(token)
    if point.guid != way.stream.guid:
        raise NotResumable(f"what was cut off is not {way.stream}")
    looking = Meter(limit=meter.limit, stop=meter.stop)
    begin = beginning(Pieces(iter((memoryview(_segment(way, page, 0, looking)),))))
    number, at = _start(way, page, begin, point, looking)
    log.info("s3.fetch_resumed", stream=str(way.stream), segment=number, segments=len(page.segments))
    before = sum(segment.plain for segment in page.segments[:number])
    further = replace(meter, moved=lambda count: meter.moved(before + count))
    source = Pieces(fetch_some(way, page, range(number, len(page.segments)), further))
    source.skip(at)
    return resumed(begin, point, source)


def _start(way: Way, page: Whole, begin: bytes, point: ResumePoint, meter: Meter) -> tuple[int, int]:
    """The segment to go on from, and where in it a record begins that is before all that is needed.

    What the receiver has counted tells where to look first. It counted what was sent twice as well, so that
    it may be too far on: then ever longer steps lead back.
    """
    needed, order = needed_from(begin, point), byte_order(begin)
    ends = accumulate(segment.plain for segment in page.segments)
    number = sum(end <= point.passed for end in ends)
    number, step = min(number, len(page.segments) - 1), 1
    while number > 0:
        found = first_placed(_segment(way, page, number, meter), order, point.guid)
        if found and found[1] < needed:
            return number, found[0]
        number, step = number - step, step * 2
    return 0, 0


def _segment(way: Way, page: Whole, number: int, meter: Meter) -> bytes:
    one = range(number, number + 1)
    return b"".join(bytes(content) for content in fetch_some(way, page, one, meter))
