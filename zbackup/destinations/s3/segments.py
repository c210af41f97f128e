"""Memory for segments: bounded, and used again, since new memory is cleared first, by kernel and Python.

A stream on its way into the bucket: cut, compressed, encrypted, hashed, several pieces of one size at a time.

Each segment holds that many bytes of the send stream, and is worked on alone and in its own buffer: memory
is bounded by (`parallel` + 1) buffers, and a segment that failed is sent again without the others.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import BoundedSemaphore
from typing import IO

import zstandard

from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.encryption import NONCE, TAG, DataKey
from zbackup.destinations.s3.layout import Layout, StreamId
from zbackup.destinations.s3.manifest_schema import Segment, StreamHeader, StreamIndex
from zbackup.proc.pipeline import Meter, Pace


class Buffers:
    """At most `most` buffers for segments of `size` bytes, used again and again by several threads.

    `front` and `back` are the bytes that encryption needs before and behind the content; 0 if not
    `encrypted`."""

    def __init__(self, most: int, size: int, *, encrypted: bool) -> None:
        self.size = size
        self.front, self.back = (NONCE, TAG) if encrypted else (0, 0)
        self._unmade = most
        self._free: SimpleQueue[bytearray | None] = SimpleQueue()

    def take(self) -> bytearray:
        """One that nobody uses; waits until there is one. It holds whatever was in it."""
        if self._free.empty() and self._unmade:
            self._unmade -= 1
            return self._new()
        return self._free.get() or self._new()

    def give(self, buffer: bytearray) -> None:
        """It is not used any more. One that was made shorter is not kept."""
        self._free.put(buffer if len(buffer) == self._length else None)

    @property
    def _length(self) -> int:
        return self.front + self.size + self.back

    def _new(self) -> bytearray:
        return bytearray(self._length)


STEP = 1 << 20

LEVEL = 3

MOST_AROUND = 1 << 16
"""A compressed segment is not longer than this beside its content: 3 bytes for every 128 KiB, and a head."""

# Compression that saves less costs more time at both ends than it saves on the way.
WORTH_IT = 0.9


Stored = tuple[Segment, bytes]
"""And the SHA-256 of what the segment holds of the send stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAccess:
    """Between a host and one stream in the bucket. `key` is that of its contents, and `signing` that of its
    pages. `usual` is the size of segments as configured here."""

    bucket: Bucket
    layout: Layout
    stream: StreamId
    header: StreamHeader
    key: DataKey | None
    signing: DataKey | None
    parallel: int
    usual: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The next bytes of the send stream, in a buffer with `front` bytes before and `back` behind them."""

    number: int
    buffer: bytearray
    front: int
    back: int
    last: bool

    def content(self) -> memoryview:
        """To be released before the buffer is made shorter."""
        return memoryview(self.buffer)[self.front : len(self.buffer) - self.back]


def cut(source: IO[bytes], buffers: Buffers, meter: Meter) -> Iterator[Piece]:
    """The stream in pieces; there is always one, and the last one is known as such.

    Whoever gets a piece gives back its buffer.
    """
    pace = Pace(meter)
    number, ahead = 0, b""
    while True:
        buffer = buffers.take()
        end = buffers.front + buffers.size
        with memoryview(buffer)[buffers.front : end] as room:
            filled = _fill(source, ahead, room, pace)
        del buffer[buffers.front + filled : end]
        # Whether it is the last is part of how it is encrypted: one byte more is read to know.
        ahead = source.read(1) if filled == buffers.size else b""
        yield Piece(number=number, buffer=buffer, front=buffers.front, back=buffers.back, last=not ahead)
        if not ahead:
            meter.moved(pace.count)
            return
        number += 1


def _fill(source: IO[bytes], ahead: bytes, room: memoryview, pace: Pace) -> int:
    """`ahead` and what comes next, as far as there is room and the stream goes; how many bytes that are."""
    step = min(STEP, pace.meter.limit // 4 or 1) if pace.meter.limit else STEP
    filled = len(ahead)
    room[:filled] = ahead
    while filled < len(room):
        count = source.readinto(room[filled : filled + step])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
        pace.passed(count)
    return filled


def is_worth_compressing(sample: memoryview) -> bool:
    """Whether zstd makes such bytes small enough."""
    return len(zstandard.ZstdCompressor(level=LEVEL).compress(sample)) < WORTH_IT * len(sample)


def store(
    access: StreamAccess, pieces: Iterator[Piece], buffers: Buffers, present: Mapping[tuple[int, bytes], int]
) -> StreamIndex:
    """Put every piece into the bucket but those of the same content that are `present`, by their size.

    The stream's page is returned, and not yet written: whoever calls knows whether the stream ended well.
    Raise what a request raises in the end; nothing is under way any more then.
    """
    tree = hashlib.sha256()
    segments: list[Segment] = []
    under_way: deque[Future[Stored]] = deque()

    def settle() -> None:
        segment, digest = under_way.popleft().result()
        tree.update(digest)
        segments.append(segment)

    with _workers(access.parallel) as submit:
        for piece in pieces:
            under_way.append(submit(partial(_put, access, piece, buffers, present)))
            while under_way and under_way[0].done():
                settle()
        while under_way:
            settle()
    page = StreamIndex(
        header=access.header,
        size=sum(segment.plain for segment in segments),
        tree_sha256=tree.digest(),
        segments=tuple(segments),
    )
    signing = access.signing
    return page.model_copy(update={"signature": signing.mac(page.to_sign())}) if signing else page


@contextmanager
def _workers(parallel: int) -> Iterator[Callable[[Callable[[], Stored]], Future[Stored]]]:
    """Workers, `parallel` at a time: submit() waits for a free one, and raises what one failed with."""
    free = BoundedSemaphore(parallel)
    failed: deque[BaseException] = deque()

    def ended(future: Future[Stored]) -> None:
        if not future.cancelled() and (failure := future.exception()):
            failed.append(failure)
        free.release()

    with ThreadPoolExecutor(parallel, thread_name_prefix="segment") as pool:

        def submit(work: Callable[[], Stored]) -> Future[Stored]:
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


def _put(
    access: StreamAccess, piece: Piece, buffers: Buffers, present: Mapping[tuple[int, bytes], int]
) -> Stored:
    try:
        with piece.content() as content:
            plain, size = hashlib.sha256(content).digest(), len(content)
        digest = plain
        if access.header.compression == "zstd":
            _compress(piece)
            with piece.content() as content:
                digest = hashlib.sha256(content).digest()
        body = piece.buffer
        if access.key:
            with memoryview(body) as view:
                access.key.encrypt(piece.number, piece.last, view, digest)
                digest = hashlib.sha256(view).digest()
        if present.get((piece.number, digest)) != len(body):
            access.bucket.put(access.layout.segment(access.stream, piece.number, digest), body, digest)
        return Segment(size=len(body), plain=size, sha256=digest), plain
    finally:
        buffers.give(piece.buffer)


def _compress(piece: Piece) -> None:
    """One zstd frame of the content, in the same buffer, which gets as long as that needs.

    What comes out never overtakes what has not gone in yet: the content is moved so far away first.
    """
    buffer = piece.buffer
    buffer[piece.front : piece.front] = bytes(MOST_AROUND)
    begin, end = piece.front + MOST_AROUND, len(buffer) - piece.back
    squeezer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj(size=end - begin)
    written = piece.front
    with memoryview(buffer) as view:
        for at in range(begin, end, STEP):
            some = squeezer.compress(view[at : min(end, at + STEP)])
            view[written : written + len(some)] = some
            written += len(some)
        some = squeezer.flush()
        view[written : written + len(some)] = some
        written += len(some)
    del buffer[written:end]
