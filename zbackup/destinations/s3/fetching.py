"""A stream on its way out of the bucket: several segments at a time, proven before a byte of one is given.

The rest of a stream from a bucket, for a receiver that was cut off: what it has had is not fetched again.

But for the first segment, which says what the stream is, and those around where it goes on: a segment may
begin anywhere in a record.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import accumulate

import zstandard

from zbackup.destinations.s3.client import Fill
from zbackup.destinations.s3.encryption import AROUND, NONCE, TAG, DataKey, Opening
from zbackup.destinations.s3.manifest_schema import StreamIndex
from zbackup.destinations.s3.segments import MOST_AROUND, StreamAccess
from zbackup.destinations.s3.signatures import is_signature
from zbackup.model.errors import NotFound, NotResumable, VerificationFailed
from zbackup.model.event_log import log
from zbackup.proc.pipeline import Meter, Pace
from zbackup.zfs.resume_token import ResumePoint, resume_point
from zbackup.zfs.resumed_stream import Bytes, StreamPieces, beginning, first_placed, needed_from, resumed
from zbackup.zfs.stream_records import byte_order

# Received, hashed and decrypted at a time: threads that change more often wait for each other more often.
STEP = 1 << 22

COMPRESSED_STEP = 1 << 18
"""Bytes that are decompressed at a time."""

MOST_WINDOW = 8 << 20
"""Bytes that a frame may ask a decompressor to keep. Ours ask for 2 MiB; more than 8 no reader need allow."""

LEAST_ROOM = 64 << 20
"""Buffers are together as large as for segments of this size, or of the host's own if that is larger: a page
that says more gets fewer of them."""


def fetch(access: StreamAccess, page: StreamIndex, meter: Meter) -> Iterator[memoryview]:
    """The send stream, in order. A segment is proven to be what was stored before a byte of it is given.

    What is given is overwritten when the next is asked for. There are (`parallel` + 1) buffers at most. Raise
    VerificationFailed with what is damaged or gone.
    """
    tree, whole = hashlib.sha256(), hashlib.sha256()
    last = len(page.segments) - 1
    for number, (content, digest) in enumerate(_proven(access, page, range(last + 1), meter)):
        tree.update(digest)
        if page.sha256:
            whole.update(content)
        if number == last:
            _require_whole(access, page, tree.digest(), whole.digest())
        yield content


def fetch_some(access: StreamAccess, page: StreamIndex, numbers: range, meter: Meter) -> Iterator[memoryview]:
    """Fetch what these segments hold of the send stream, each proven, as with fetch()."""
    return (content for content, _ in _proven(access, page, numbers, meter))


def _proven(
    access: StreamAccess, page: StreamIndex, numbers: range, meter: Meter
) -> Iterator[tuple[memoryview, bytes]]:
    """What the segments hold, and the SHA-256 of it."""
    pace = Pace(meter)
    ahead: deque[tuple[bytearray, Future[bytes]]] = deque()
    waiting = iter(numbers)
    spare = _buffers(access, page, len(numbers))
    with ThreadPoolExecutor(access.parallel, thread_name_prefix="segment") as pool:
        try:
            for number in numbers:
                while (following := next(waiting, None) if spare else None) is not None:
                    buffer = spare.pop()
                    ahead.append((buffer, pool.submit(_get, access, page, following, buffer)))
                buffer, getting = ahead.popleft()
                digest = getting.result()
                with memoryview(buffer)[: page.segments[number].plain] as content:
                    pace.passed(len(content))
                    yield content, digest
                spare.append(buffer)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _buffers(access: StreamAccess, page: StreamIndex, count: int) -> list[bytearray]:
    size = max((segment.plain for segment in page.segments), default=0)
    room = (access.parallel + 1) * max(LEAST_ROOM, access.usual)
    return [bytearray(size) for _ in range(min(access.parallel + 1, count, max(1, room // max(size, 1))))]


def _require_whole(access: StreamAccess, page: StreamIndex, tree: bytes, whole: bytes) -> None:
    if (page.tree_sha256 or tree, page.sha256 or whole) != (tree, whole):
        raise VerificationFailed(f"{access.stream} at {access.bucket.address} is not the stream it was")


def _get(access: StreamAccess, page: StreamIndex, number: int, buffer: bytearray) -> bytes:
    """Fill the buffer with what the segment holds of the send stream, and return its SHA-256."""
    segment = page.segments[number]
    last = number == len(page.segments) - 1
    key = access.layout.segment(access.stream, number, segment.sha256)
    opening = partial(access.key.opening, number, last) if access.key else None

    def use(fill: Fill) -> None:
        inside = _Inside(fill, segment.size, opening)
        with memoryview(buffer)[: segment.plain] as room:
            if access.header.compression == "zstd":
                problem = _expand(inside, room)
            else:
                inside.readinto(room)
                problem = ""
        if inside.end() != segment.sha256:
            raise VerificationFailed(f"{access.bucket.address}/{key} is not what was stored: it is damaged")
        inside.require_opened()
        if problem:
            raise VerificationFailed(f"{access.bucket.address}/{key} {problem}")

    try:
        access.bucket.fetch(key, segment.size, use)
    except NotFound as missing:
        raise VerificationFailed(f"a segment is gone: {missing}") from missing
    if access.key is None and access.header.compression == "none":
        return segment.sha256
    with memoryview(buffer)[: segment.plain] as content:
        return hashlib.sha256(content).digest()


class _Inside:
    """The contents of an object of `size` bytes, as they come: hashed, then decrypted if it is encrypted."""

    def __init__(self, fill: Fill, size: int, opening: Callable[[bytes], Opening] | None) -> None:
        self._fill = fill
        self._hash = hashlib.sha256()
        self._left = size - (AROUND if opening else 0)
        self._opening = opening(bytes(self._next(NONCE))) if opening else None
        self._tag = b""

    def readinto(self, room: memoryview) -> int:
        """Read as much of the rest as there is room for."""
        wanted = min(len(room), self._left)
        for at in range(0, wanted, STEP):
            some = room[at : min(wanted, at + STEP)]
            self._fill(some)
            self._hash.update(some)
            if self._opening:
                self._opening.decrypt(some)
        self._left -= wanted
        return wanted

    def read(self, count: int) -> bytearray:
        some = bytearray(min(count, self._left))
        with memoryview(some) as room:
            self.readinto(room)
        return some

    def end(self) -> bytes:
        """The SHA-256 of all that came and of what is left."""
        while self._left:
            self.read(COMPRESSED_STEP)
        if self._opening:
            self._tag = bytes(self._next(TAG))
        return self._hash.digest()

    def require_opened(self) -> None:
        """Raise VerificationFailed unless it was that segment, encrypted by that key. After end()."""
        if self._opening:
            self._opening.end(self._tag)

    def _next(self, count: int) -> bytearray:
        some = bytearray(count)
        with memoryview(some) as room:
            self._fill(room)
        self._hash.update(some)
        return some


def _expand(inside: _Inside, room: memoryview) -> str:
    """Decompress into all of the room, and no further; what is wrong, if anything is."""
    expander = zstandard.ZstdDecompressor(max_window_size=MOST_WINDOW)
    reader = expander.stream_reader(inside, read_size=COMPRESSED_STEP)  # type: ignore[arg-type]
    try:
        if reader.readinto(room) == len(room) and not reader.read(1):
            return ""
    except zstandard.ZstdError as wrong:
        return f"cannot be decompressed: {wrong}"
    return "is not what its stream's page says"


def check_page(page: StreamIndex, key: DataKey | None, where: str) -> None:
    """Raise VerificationFailed when the page was changed, or says what cannot be."""
    if key and not is_signature(page.signature, key.mac(page.to_sign())):
        raise VerificationFailed(f"{where} was changed since it was written, or is another stream's")
    around = AROUND if key else 0
    stored = page.header.compression == "none"
    sound = bool(page.segments) and all(
        s.plain <= page.header.segment_size
        and (s.size == s.plain + around if stored else around <= s.size <= s.plain + MOST_AROUND + around)
        for s in page.segments
    )
    hashed = bool(page.sha256 or page.tree_sha256)
    if not sound or not hashed or sum(s.plain for s in page.segments) != page.size:
        raise VerificationFailed(f"the stream index {where} is inconsistent (sizes or hashes): damaged")


def rest(access: StreamAccess, page: StreamIndex, token: str, meter: Meter) -> Iterator[Bytes]:
    """Raise NotResumable, before the first bytes, when the token is not of this stream."""
    point = resume_point(token)
    if point.guid != access.stream.guid:
        raise NotResumable(f"what was cut off is not {access.stream}")
    looking = Meter(limit=meter.limit, stop=meter.stop)
    begin = beginning(StreamPieces(iter((memoryview(_segment(access, page, 0, looking)),))))
    number, at = _start(access, page, begin, point, looking)
    log.info("s3.fetch_resumed", stream=str(access.stream), segment=number, segments=len(page.segments))
    before = sum(segment.plain for segment in page.segments[:number])
    further = replace(meter, moved=lambda count: meter.moved(before + count))
    source = StreamPieces(fetch_some(access, page, range(number, len(page.segments)), further))
    source.skip(at)
    return resumed(begin, point, source)


def _start(
    access: StreamAccess, page: StreamIndex, begin: bytes, point: ResumePoint, meter: Meter
) -> tuple[int, int]:
    """The segment to go on from, and where in it a record begins that is before all that is needed.

    What the receiver has counted tells where to look first. It counted what was sent twice as well, so that
    it may be too far on: then ever longer steps lead back.
    """
    needed, order = needed_from(begin, point), byte_order(begin)
    ends = accumulate(segment.plain for segment in page.segments)
    number = sum(end <= point.passed for end in ends)
    number, step = min(number, len(page.segments) - 1), 1
    while number > 0:
        found = first_placed(_segment(access, page, number, meter), order, point.guid)
        if found and found[1] < needed:
            return number, found[0]
        number, step = number - step, step * 2
    return 0, 0


def _segment(access: StreamAccess, page: StreamIndex, number: int, meter: Meter) -> bytes:
    one = range(number, number + 1)
    return b"".join(bytes(content) for content in fetch_some(access, page, one, meter))
