"""A stream on its way into the bucket and out again: cut, compressed, encrypted, hashed, several at a time.

Each segment holds so many bytes of the send stream and is worked on alone, so that memory is bounded by
(`parallel` + 1) buffers, and a segment that failed is sent again without the others.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import BoundedSemaphore
from typing import IO

import zstandard

from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.keys import AROUND, DataKey
from zbackup.destinations.s3.layout import Layout, StreamId
from zbackup.destinations.s3.manifest import Begun, Segment, Whole
from zbackup.model.errors import NotFound, Stopped, VerificationFailed
from zbackup.proc.pipeline import Meter

STEP = 1 << 20

LEVEL = 3

# A compressed or encrypted segment is not longer than this beside its content: zstd's own bound, and a tag.
MOST_AROUND = 1 << 16

# Compression that saves less costs more time at both ends than it saves on the way.
WORTH_IT = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Between a host and one stream in the bucket."""

    bucket: Bucket
    layout: Layout
    stream: StreamId
    begun: Begun
    key: DataKey | None
    parallel: int


@dataclass(frozen=True, slots=True)
class Piece:
    """`content` is the next bytes of the send stream."""

    number: int
    content: bytearray
    last: bool


def cut(source: IO[bytes], size: int, meter: Meter) -> Iterator[Piece]:
    """The stream in pieces of `size` bytes; there is always one, and the last one is known as such."""
    pace = _Pace(meter)
    number, ahead = 0, bytearray()
    while True:
        content = _fill(source, ahead, size, pace)
        # Whether it is the last is part of how it is encrypted: one byte more is read to know.
        ahead = bytearray(source.read(1)) if len(content) == size else bytearray()
        yield Piece(number, content, not ahead)
        if not ahead:
            meter.moved(pace.count)
            return
        number += 1


@dataclass(slots=True)
class _Pace:
    meter: Meter
    count: int = 0
    began: float = field(default_factory=time.monotonic)

    def passed(self, count: int) -> None:
        self.count += count
        self.meter.moved(self.count)
        if self.meter.stop():
            raise Stopped(("zfs", "send"), -1, "zbackup was told to end")
        if self.meter.limit and (wait := self.count / self.meter.limit - (time.monotonic() - self.began)) > 0:
            time.sleep(wait)


def _fill(source: IO[bytes], ahead: bytearray, size: int, pace: _Pace) -> bytearray:
    content = bytearray(size)
    content[: len(ahead)] = ahead
    filled = len(ahead)
    with memoryview(content) as view:
        while filled < size:
            step = min(STEP, pace.meter.limit // 4 or 1) if pace.meter.limit else STEP
            with view[filled : min(size, filled + step)] as room:
                count = source.readinto(room)  # type: ignore[attr-defined]
            if not count:
                break
            filled += count
            pace.passed(count)
    del content[filled:]
    return content


def is_worth_compressing(sample: bytearray) -> bool:
    """Whether zstd makes such bytes small enough."""
    return len(zstandard.ZstdCompressor(level=LEVEL).compress(sample)) < WORTH_IT * len(sample)


def store(way: Way, pieces: Iterator[Piece], present: Mapping[tuple[int, bytes], int]) -> Whole:
    """Put every piece into the bucket but those of the same content that are `present`, by their size.

    The stream's page is returned, and not yet written: whoever calls knows whether the stream ended well.
    Raise what a request raises in the end; nothing is under way any more then.
    """
    whole = hashlib.sha256()
    size = 0
    results: list[Future[Segment]] = []
    with _workers(way.parallel) as submit:
        for piece in pieces:
            whole.update(piece.content)
            size += len(piece.content)
            results.append(submit(partial(_put, way, piece, present)))
            del piece
        segments = tuple(result.result() for result in results)
    page = Whole(begun=way.begun, size=size, sha256=whole.digest(), segments=segments)
    return page.model_copy(update={"seal": way.key.mac(page.unsealed())}) if way.key else page


@contextmanager
def _workers(parallel: int) -> Iterator[Callable[[Callable[[], Segment]], "Future[Segment]"]]:
    """So many at a time and no more waiting; submit() waits, and raises what an earlier one failed with."""
    free = BoundedSemaphore(parallel)
    failed: deque[BaseException] = deque()

    def ended(future: "Future[Segment]") -> None:
        if not future.cancelled() and (failure := future.exception()):
            failed.append(failure)
        free.release()

    with ThreadPoolExecutor(parallel, thread_name_prefix="segment") as pool:

        def submit(work: Callable[[], Segment]) -> "Future[Segment]":
            free.acquire()
            if failed:
                free.release()
                raise failed[0]
            future = pool.submit(work)
            future.add_done_callback(ended)
            return future

        try:
            yield submit
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _put(way: Way, piece: Piece, present: Mapping[tuple[int, bytes], int]) -> Segment:
    plain = len(piece.content)
    body = piece.content
    if way.begun.compression == "zstd":
        body = bytearray(zstandard.ZstdCompressor(level=LEVEL).compress(body))
        piece.content.clear()
    if way.key:
        body = way.key.seal(piece.number, piece.last, body)
    digest = hashlib.sha256(body).digest()
    if present.get((piece.number, digest)) != len(body):
        way.bucket.put(way.layout.segment(way.stream, piece.number, digest), body, digest)
    return Segment(size=len(body), plain=plain, sha256=digest)


def fetch(way: Way, page: Whole, meter: Meter) -> Iterator[bytearray]:
    """The send stream, in order. A segment is proven to be what was stored before a byte of it is given.

    So many are fetched ahead as are stored at a time. Raise VerificationFailed with what is damaged or gone.
    """
    pace = _Pace(meter)
    whole = hashlib.sha256()
    ahead: deque[Future[bytearray]] = deque()
    waiting = iter(range(len(page.segments)))
    with ThreadPoolExecutor(way.parallel, thread_name_prefix="segment") as pool:
        try:
            for number in range(len(page.segments)):
                while (len(ahead) < way.parallel - 1 or not ahead) and (
                    following := next(waiting, None)
                ) is not None:
                    ahead.append(pool.submit(_get, way, page, following))
                content = ahead.popleft().result()
                whole.update(content)
                if number == len(page.segments) - 1 and whole.digest() != page.sha256:
                    raise VerificationFailed(f"{way.stream} at {way.bucket.place} is not the stream it was")
                pace.passed(len(content))
                yield content
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _get(way: Way, page: Whole, number: int) -> bytearray:
    segment = page.segments[number]
    key = way.layout.segment(way.stream, number, segment.sha256)
    try:
        body = way.bucket.get(key, segment.size)
    except NotFound as missing:
        raise VerificationFailed(f"a segment is gone: {missing}") from missing
    if hashlib.sha256(body).digest() != segment.sha256:
        raise VerificationFailed(f"{way.bucket.place}/{key} is not what was stored: it is damaged")
    if way.key:
        body = way.key.open(number, number == len(page.segments) - 1, body)
    if way.begun.compression == "zstd":
        body = _expanded(body, segment.plain, f"{way.bucket.place}/{key}")
    if len(body) != segment.plain:
        raise VerificationFailed(f"{way.bucket.place}/{key} is not what its stream's page says")
    return body


def _expanded(body: bytearray, size: int, where: str) -> bytearray:
    try:
        # The frame's own word on its size is asked first: memory is taken by it.
        if zstandard.frame_content_size(body) != size:
            raise VerificationFailed(f"{where} is not what its stream's page says")
        return bytearray(zstandard.ZstdDecompressor().decompress(body))
    except zstandard.ZstdError as wrong:
        raise VerificationFailed(f"{where} cannot be decompressed: {wrong}") from wrong


def check_page(page: Whole, key: DataKey | None, where: str) -> None:
    """Raise VerificationFailed when the page was changed, or says what cannot be."""
    if key and key.mac(page.unsealed()) != page.seal:
        raise VerificationFailed(f"{where} was changed since it was written, or is another stream's")
    most = page.begun.segment_size
    sound = all(s.plain <= most and s.size <= most + MOST_AROUND + AROUND for s in page.segments)
    if not sound or sum(s.plain for s in page.segments) != page.size:
        raise VerificationFailed(f"{where} contradicts itself")
