"""A bucket that backups are shipped to, as a destination: see destinations.base for what is promised.

A stream that was cut is sent again from its start: what is stored already, by content, is not stored again.
"""

import hashlib
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain as following
from typing import Literal

import structlog

from zbackup.destinations.s3.chains import Chains, Found, inventory_of
from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.keys import DataKey, KeyStore, data_key, new_data_key
from zbackup.destinations.s3.layout import BEGUN, Layout, StreamId, root_of, segment_of
from zbackup.destinations.s3.manifest import (
    MOST_MANIFEST,
    Begun,
    Manifest,
    PartPage,
    Whole,
    begun_from,
    manifest_from,
    to_json,
    whole_from,
)
from zbackup.destinations.s3.options import S3Options
from zbackup.destinations.s3.segments import Piece, Way, check_page, cut, fetch, is_worth_compressing, store
from zbackup.model.errors import NotFound, Taken, VerificationFailed
from zbackup.model.record import PREFIX, Record, to_properties
from zbackup.model.shipping import Inventory, Part
from zbackup.proc.pipeline import Command, Meter, reading
from zbackup.zfs.stream_head import stream_head

log = structlog.get_logger()

Compression = Literal["auto", "zstd", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """How streams are stored: `segment_size` in bytes of the stream, so many segments at a time.

    New streams are encrypted if `encrypts`; `keys` open those that are there.
    """

    segment_size: int = 16 << 20
    parallel: int = 8
    compression: Compression = "auto"
    keys: KeyStore | None = None
    encrypts: bool = False
    chains: Chains = field(default_factory=Chains)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Session:
    """The instance's part of a bucket."""

    bucket: Bucket
    layout: Layout
    place: str
    storing: Storing
    now: Callable[[], datetime]

    def inventory(self) -> Inventory:
        return inventory_of(self.found(), self.place, self.storing.chains, self.now())

    def found(self) -> Found:
        """What is there: one listing of streams, one of backups, and every backup's manifest."""
        whole: dict[StreamId, datetime] = {}
        begun: dict[StreamId, datetime] = {}
        for entry in self.bucket.list(self.layout.streams):
            if found := self.layout.stream_of(entry.key):
                stream, page = found
                (begun if page == BEGUN else whole)[stream] = entry.written
        keys = [entry.key for entry in self.bucket.list(self.layout.backups)]
        with ThreadPoolExecutor(self.storing.parallel) as pool:
            manifests = tuple(pool.map(self._manifest, keys))
        return Found(whole=whole, begun=begun, manifests=manifests)

    def store(self, part: Part, sender: Command, meter: Meter) -> int:
        stream = StreamId(line=part.line, guid=part.guid, base=part.base)
        begun = self._begun(stream)
        with reading(sender) as source:
            pieces = cut(source, begun.segment_size if begun else self.storing.segment_size, meter)
            first = next(pieces)
            head = stream_head(first.content)
            if (head.guid, head.base) != (part.guid, part.base):
                raise VerificationFailed(
                    f"the stream is of guid {head.guid} from {head.base}, not of {part.guid} from {part.base}"
                )
            way = self._going_on(stream, begun) if begun else self._beginning(stream, part, first)
            page = store(way, following((first,), pieces), self._present(stream))
        # Only now is it known that the sender came to its end.
        self.bucket.put_new(self.layout.whole(stream), to_json(page))
        return page.size

    def fetch(self, stream: StreamId, meter: Meter) -> Iterator[bytearray]:
        """The send stream again, in order; see segments.fetch for what is proven before a byte is given."""
        key = self.layout.whole(stream)
        page = self.page(stream, self.bucket.get(key, MOST_MANIFEST))
        data = data_key(self.storing.keys, page.begun.encryption, str(stream))
        return fetch(self._way(stream, page.begun, data), page, meter)

    def abort(self, line: str) -> None:
        found = self.found()
        for stream in [s for s in found.begun if s.line == line and s not in found.whole]:
            for entry in self.bucket.list(self.layout.segments(stream)):
                self.bucket.delete(entry.key)
            self.bucket.delete(self.layout.begun(stream))

    def commit(self, record: Record, parts: Sequence[Part], when: str) -> None:
        whole = self.found().whole
        pages = []
        for part in parts:
            ways = [s for s in whole if (s.line, s.guid) == (part.line, part.guid)]
            exact = [s for s in ways if s.base == part.base]
            if not ways:
                raise VerificationFailed(f"{part.line}@{part.name} is not whole at {self.place}")
            pages.append(self._part(part, (exact or ways)[0]))
        manifest = Manifest(
            committed=when,
            host=socket.gethostname(),
            record={key.removeprefix(PREFIX): value for key, value in to_properties(record).items()},
            parts=tuple(pages),
        )
        key = self.layout.manifest(record.backup)
        if not self.bucket.put_new(key, to_json(manifest)):
            there = self._manifest(key)
            if [p.guid for p in there.parts] != [p.guid for p in manifest.parts]:
                raise VerificationFailed(f"{self.bucket.place}/{key} is there already, of other snapshots")

    def _part(self, part: Part, stream: StreamId) -> PartPage:
        """The stream's page is read back, and every segment it names is found in a listing."""
        body = self.bucket.get(self.layout.whole(stream), MOST_MANIFEST)
        page = self.page(stream, body)
        present = self._present(stream)
        for number, segment in enumerate(page.segments):
            if present.get((number, segment.sha256)) != segment.size:
                raise VerificationFailed(f"segment {number} of {stream} is not at {self.place}")
        return PartPage(
            line=part.line,
            snapshot=part.name,
            guid=part.guid,
            base=stream.base,
            size=page.size,
            stored=sum(s.size for s in page.segments),
            raw=page.begun.raw,
            stream_sha256=hashlib.sha256(body).digest(),
        )

    def page(self, stream: StreamId, body: bytes | bytearray) -> Whole:
        """A stream's page, proven to be the one that was written for this stream."""
        where = f"{self.bucket.place}/{self.layout.whole(stream)}"
        page = whole_from(body, where)
        if (page.begun.line, page.begun.guid, page.begun.base) != (stream.line, stream.guid, stream.base):
            raise VerificationFailed(f"{where} is another stream's page")
        check_page(page, data_key(self.storing.keys, page.begun.encryption, str(stream)), where)
        return page

    def _begun(self, stream: StreamId) -> Begun | None:
        """How an earlier run began to store this stream; None when none did."""
        key = self.layout.begun(stream)
        try:
            begun = begun_from(self.bucket.get(key, MOST_MANIFEST), f"{self.bucket.place}/{key}")
        except NotFound:
            return None
        log.info("s3.stream_continued", stream=str(stream), host=begun.host)
        return begun

    def _going_on(self, stream: StreamId, begun: Begun) -> Way:
        return self._way(stream, begun, data_key(self.storing.keys, begun.encryption, str(stream)))

    def _beginning(self, stream: StreamId, part: Part, first: Piece) -> Way:
        keys = self.storing.keys if self.storing.encrypts else None
        key, envelope = new_data_key(keys, str(stream)) if keys else (None, None)
        begun = Begun(
            line=part.line,
            snapshot=part.name,
            guid=part.guid,
            base=part.base,
            raw=part.raw,
            segment_size=self.storing.segment_size,
            compression=self._compression(part, first),
            encryption=envelope,
            host=socket.gethostname(),
        )
        if not self.bucket.put_new(self.layout.begun(stream), to_json(begun)):
            raise Taken(f"another zbackup has just begun to store {stream} at {self.place}")
        return self._way(stream, begun, key)

    def _compression(self, part: Part, first: Piece) -> Literal["zstd", "none"]:
        if self.storing.compression == "auto":
            return "zstd" if not part.raw and is_worth_compressing(first.content) else "none"
        return self.storing.compression

    def _way(self, stream: StreamId, begun: Begun, key: DataKey | None) -> Way:
        return Way(
            bucket=self.bucket,
            layout=self.layout,
            stream=stream,
            begun=begun,
            key=key,
            parallel=self.storing.parallel,
        )

    def _present(self, stream: StreamId) -> dict[tuple[int, bytes], int]:
        entries = self.bucket.list(self.layout.segments(stream))
        return {found: entry.size for entry in entries if (found := segment_of(entry.key))}

    def _manifest(self, key: str) -> Manifest:
        return manifest_from(self.bucket.get(key, MOST_MANIFEST), f"{self.bucket.place}/{key}")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Destination:
    """`prefix` is what all keys begin with; `now` is the time, which decides when a chain is old."""

    name: str
    place: str
    prefix: str
    instance: str
    options: S3Options
    storing: Storing
    now: Callable[[], datetime]

    @property
    def aside(self) -> str:
        return "ship to another prefix of the bucket"

    @contextmanager
    def connect(self) -> Iterator[S3Session]:
        with Bucket(self.options, self.now) as bucket:
            yield S3Session(
                bucket=bucket,
                layout=Layout(root_of(self.prefix, self.instance)),
                place=self.place,
                storing=self.storing,
                now=self.now,
            )
