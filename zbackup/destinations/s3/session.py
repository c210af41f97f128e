"""A bucket that is being worked with: see destinations.base for what is promised.

A stream that was cut is sent again from its start: what is stored already, by content, is not stored again.
"""

import hashlib
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from itertools import chain as following
from typing import Literal

from zbackup.destinations.archive_leftovers import leftovers, orphan, remove_leftovers
from zbackup.destinations.archived_bytes import paced, proven
from zbackup.destinations.copies import Copies, StreamStep
from zbackup.destinations.s3.cache import NO_CACHE
from zbackup.destinations.s3.chains import BucketContents, ChainIndex, in_order, inventory_of
from zbackup.destinations.s3.client import Bucket, Entry
from zbackup.destinations.s3.commit import Committer
from zbackup.destinations.s3.fetching import LEAST_ROOM, fetch, fetch_some, rest
from zbackup.destinations.s3.garbage_collection import QUIET, Collector
from zbackup.destinations.s3.layout import HEADER, Layout, StreamId, segment_of
from zbackup.destinations.s3.log_archive import S3Logs
from zbackup.destinations.s3.manifest_schema import Manifest, StreamHeader, StreamIndex, to_json
from zbackup.destinations.s3.manifest_store import ManifestStore, Proven
from zbackup.destinations.s3.restorable import copies_of, needed_by, needed_with_lost, steps_to
from zbackup.destinations.s3.sealed_keys import elsewhere
from zbackup.destinations.s3.segments import Buffers, Piece, StreamAccess, cut, is_worth_compressing, store
from zbackup.destinations.s3.settings import StorageSettings, require_stream
from zbackup.destinations.s3.signatures import StreamKeys
from zbackup.destinations.s3.stream_headers import StreamHeaders
from zbackup.destinations.s3.unfinished_keys import NOT_KEPT, UnfinishedKeys
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId
from zbackup.model.backup import Backup
from zbackup.model.drr_begin import begin_record
from zbackup.model.errors import (
    BucketRefused,
    NotFound,
    PrivateKeyElsewhere,
    Refused,
    Taken,
    VerificationFailed,
)
from zbackup.model.event_log import log
from zbackup.model.record import Record
from zbackup.model.shipping import CheckedCopy, Inventory, KeyTrial, OutgoingStream, Readers
from zbackup.model.snapshot import Snapshot
from zbackup.proc.pipeline import Command, Meter, reading, writing

SHOWN = 3
"""Segments of a stream that are named; of the others it is said how many."""


@dataclass(slots=True, kw_only=True)
class Verifier:
    """Every stream is verified once, however many backups need it.

    `read` proves a stream, of which it returns the bytes (None: not asked for).
    """

    bucket: Bucket
    layout: Layout
    pages: ManifestStore
    read: Callable[[StreamId], int] | None
    _known: dict[StreamId, "_Verified"] = field(default_factory=dict)

    def verify(self, contents: BucketContents) -> Iterator[CheckedCopy]:
        """One after the other, also those of which streams are gone; not one that is pruned meanwhile."""
        chains = ChainIndex(contents)
        for key in contents.strange[:SHOWN]:
            log.warning("s3.strange_object", key=ascii(key)[1:-1], of=len(contents.strange))
        for manifest in sorted(contents.manifests, key=lambda m: m.record.get("taken", "")):
            problems: list[str] = []
            read = 0
            for part in manifest.parts:
                streams = chains.to(part.dataset, part.guid)
                if streams is None:
                    problems.append(f"a stream of {part.dataset}@{part.snapshot} or of its bases is gone")
                for stream in streams or ():
                    fresh = stream not in self._known
                    verified = self._stream(stream)
                    problems += verified.problems
                    if verified.page:
                        problems += self._disagreement(manifest, stream, verified.page)
                    read += verified.read if fresh else 0
            backup = manifest.record.get("backup", "")
            # A manifest goes first: of a backup that is pruned nothing is missing.
            if problems and not self.bucket.has(self.layout.manifest(backup)):
                continue
            name = manifest.parts[0].snapshot if manifest.parts else ""
            yield CheckedCopy(backup=backup, name=name, problems=tuple(problems), read=read)

    def _stream(self, stream: StreamId) -> "_Verified":
        if stream not in self._known:
            verified = self._known[stream] = _Verified()
            try:
                proven = self.pages.index(stream)
                verified.page = _without_segments(proven)
                verified.problems += self._lacking(stream, proven.page)
                if problem := StreamHeaders(self.pages).problem(stream, proven.page.header):
                    verified.problems.append(problem)
                if self.read and not verified.problems:
                    verified.read = self.read(stream)
            except (VerificationFailed, NotFound, Refused) as wrong:
                verified.problems.append(str(wrong))
        return self._known[stream]

    def _disagreement(self, manifest: Manifest, stream: StreamId, page: Proven) -> list[str]:
        try:
            self.pages.require_agreed(manifest, stream, page)
        except (VerificationFailed, Refused) as wrong:
            return [str(wrong)]
        return []

    def _lacking(self, stream: StreamId, page: StreamIndex) -> Iterator[str]:
        """What the listing of its segments says against it."""
        entries = self.bucket.list(self.layout.segments(stream))
        present = {found: entry.size for entry in entries if (found := segment_of(entry.key))}
        wrong = [n for n, s in enumerate(page.segments) if present.get((n, s.sha256)) != s.size]
        yield from (f"segment {number} of {stream} is gone or of another size" for number in wrong[:SHOWN])
        if len(wrong) > SHOWN:
            yield f"and {len(wrong) - SHOWN} more segments of {stream}"


def _without_segments(proven: Proven) -> Proven:
    """What manifests are compared with. Of many streams all segments would be millions."""
    return Proven(proven.page.model_copy(update={"segments": ()}), proven.sha256)


@dataclass(slots=True)
class _Verified:
    """The result of looking at a stream; `page` is None when it is not sound, `read` in bytes."""

    page: Proven | None = None
    problems: list[str] = field(default_factory=list)
    read: int = 0


LOOKS = 3
"""Listings that are tried while something that was listed is not there when it is read."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """An object that was listed, and then was not there."""

    key: str


def scan(pages: ManifestStore, parallel: int) -> BucketContents:
    """Pages that are not in the cache are fetched, several at a time.

    What is listed and then is not there was pruned meanwhile, if another listing does not show it any more.
    What is listed again and again and cannot be read is unknown, and counts among the unreadable.
    """
    for _ in range(LOOKS):
        contents, gone = _scan_once(pages, parallel)
        if not gone:
            break
        log.info("s3.listed_again", gone=len(gone), first=ascii(gone[0].key))
    lost = tuple((g.key, "it is listed, and reading it says that there is no such object") for g in gone)
    return replace(contents, unreadable=(*contents.unreadable, *lost))


def _scan_once(pages: ManifestStore, parallel: int) -> tuple[BucketContents, Sequence[_Gone]]:
    indexes, headers, strange = _streams(pages)
    entries = []
    for entry in pages.bucket.list(pages.layout.backups):
        if pages.layout.backup_of(entry.key) is None:
            strange.append(entry.key)
        else:
            entries.append(entry)
    with ThreadPoolExecutor(parallel) as pool:
        read = tuple(pool.map(lambda entry: _read(pages, entry), entries))
        manifests = [m for m in read if isinstance(m, Manifest)]
        seen = BucketContents(
            indexes={stream: entry.written for stream, entry in indexes.items()},
            headers={stream: entry.written for stream, entry in headers.items()},
            manifests=tuple(m for m in manifests if not m.withdrawn),
            withdrawn=tuple(m.backup for m in manifests if m.withdrawn),
            unreadable=tuple((e.key, m) for e, m in zip(entries, read, strict=True) if isinstance(m, str)),
            strange=tuple(strange),
        )
        doubtful = seen.doubtful() if pages.signed_only else []
        problems = tuple(pool.map(lambda stream: _foreign(pages, stream, headers.get(stream)), doubtful))
    pages.cache.keep_only([*entries, *(headers[stream] for stream in doubtful if stream in headers)])
    foreign = {s: why for s, why in zip(doubtful, problems, strict=True) if isinstance(why, str) and why}
    return _without(seen, foreign, pages), [g for g in (*read, *problems) if isinstance(g, _Gone)]


def _streams(pages: ManifestStore) -> tuple[dict[StreamId, Entry], dict[StreamId, Entry], list[str]]:
    """Their pages and their headers as listed, and keys that are not ours."""
    indexes: dict[StreamId, Entry] = {}
    headers: dict[StreamId, Entry] = {}
    strange: list[str] = []
    for entry in pages.bucket.list(pages.layout.streams):
        if found := pages.layout.stream_of(entry.key):
            stream, page = found
            (headers if page == HEADER else indexes)[stream] = entry
        else:
            strange.append(entry.key)
    return indexes, headers, strange


def _read(pages: ManifestStore, entry: Entry) -> Manifest | str | _Gone:
    """The manifest, or why it cannot be understood."""
    try:
        return pages.listed(entry)
    except NotFound:
        return _Gone(entry.key)
    except VerificationFailed as problem:
        return str(problem)


def _foreign(pages: ManifestStore, stream: StreamId, entry: Entry | None) -> str | _Gone:
    try:
        return StreamHeaders(pages).foreign(stream, entry)
    except NotFound:
        return _Gone(pages.layout.index(stream))


def _without(
    contents: BucketContents, foreign: Mapping[StreamId, str], pages: ManifestStore
) -> BucketContents:
    """Without what is foreign. That is said where there is nothing else that leads to a committed backup."""
    chains = ChainIndex(rest := replace(contents, foreign=frozenset(foreign)))
    lacking = {
        (s.dataset, s.base)
        for s in chains.leading()
        if s.base is not None and not chains.making(s.dataset, s.base)
    }
    said = [(pages.layout.index(s), why) for s, why in foreign.items() if (s.dataset, s.guid) in lacking]
    return replace(rest, unreadable=(*contents.unreadable, *said))


@dataclass(frozen=True, slots=True)
class _Begun:
    """The header of a stream that an earlier run began, with its keys if one may go on so."""

    header: StreamHeader
    keys: StreamKeys | None
    resumable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Session:
    """The instance's part of a bucket."""

    bucket: Bucket
    layout: Layout
    address: str
    storing: StorageSettings
    now: Callable[[], datetime]
    pages: ManifestStore
    logs: S3Logs
    unfinished: UnfinishedKeys = NOT_KEPT

    def archived(self) -> ArchiveInventory:
        return self.logs.archived()

    def claim_log(self, server: str, epoch: int, writer: str) -> str:
        return self.logs.claim(server, epoch, writer)

    def append_log(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        return self.logs.append(file, chunk, data)

    def read_log(self, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        return paced(proven(file, begin, end, self.logs.chunks(file, begin, end)), meter)

    def proven_to(self, archived: ArchivedFile) -> datetime | None:
        return self.logs.proven_to(archived)

    def require_log_key(self, archived: ArchivedFile) -> None:
        self.logs.require_private_key(archived)

    def remove_log(self, file: LogFileId) -> None:
        self.logs.remove(file)

    def inventory(self) -> Inventory:
        contents = self.contents()
        self.unfinished.keep_only([s for s in contents.headers if s not in contents.indexes])
        self._require_understood(contents)
        return inventory_of(contents, self.address, self.storing, self.now(), needed_with_lost(contents))

    def _require_understood(self, contents: BucketContents) -> None:
        for key, problem in contents.unreadable[:1]:
            raise VerificationFailed(f"{self.bucket.address}/{key}: {problem}")

    def contents(self) -> BucketContents:
        return scan(self.pages, self.storing.table.uploads)

    def copies(self) -> Copies:
        return copies_of(self.contents(), self.address, keyless=self.storing.keys is None)

    def stream_steps(self, wanted: Sequence[Snapshot]) -> Sequence[StreamStep]:
        steps = steps_to(self.contents(), wanted, self._called)
        for step in steps:
            self._require_private_key(_stream_of(step))
        return steps

    def size(self, step: StreamStep) -> int:
        stream = _stream_of(step)
        known = (p for m in self.pages.known.values() for p in m.parts)
        return next((p.size for p in known if (p.dataset, p.guid, p.base) == astuple(stream)), 0)

    def _require_private_key(self, stream: StreamId) -> None:
        """Raise PrivateKeyElsewhere where the contents cannot be opened here, before anything is fetched."""
        named = {
            StreamId(dataset=p.dataset, guid=p.guid, base=p.base): p.public_key
            for m in self.pages.known.values()
            for p in m.parts
        }
        sealed_for = named.get(stream)
        if sealed_for is None:
            # Its own backup is pruned.
            header = StreamHeaders(self.pages).of(stream)
            sealed_for = header.contents.public_key if header and header.contents else ""
        if sealed_for and not self.storing.private.has(sealed_for):
            raise elsewhere(f"the backups at {self.address}", sealed_for)

    def readers(self) -> Readers:
        sealed = [m.sealed_for for m in self.contents().manifests]
        private = self.storing.private
        return Readers(
            encrypted=self.storing.encrypts_new,
            public_key=self.storing.public_id,
            sealed=sum(map(bool, sealed)),
            others=sealed.count(()),
            private_key_here=private.has(self.storing.public_id),
        )

    def try_private_key(self, meter: Meter) -> KeyTrial:
        contents = self.contents()
        self._require_understood(contents)
        committed = in_order(contents)
        if not committed:
            raise NotFound(f"there is no committed backup at {self.address} to open")
        newest = committed[-1].manifest
        if not newest.sealed_for:
            raise VerificationFailed(
                f"{newest.called}, the newest backup at {self.address}, is not encrypted for a "
                "public key, so the private key was not tested"
            )
        chains = [each.chain for each in committed if each.manifest is newest]
        for stream in dict.fromkeys(each for chain in chains for each in chain):
            self._require_opened(stream)
        # Of each chain what is needed first, and what was written last.
        ends = dict.fromkeys(each for chain in chains for each in (chain[0], chain[-1]))
        read = sum(self._first_segment(stream, meter) for stream in ends)
        files = [f for f in self.archived().files if f.size]
        log_read = self.logs.read_newest(max(files, key=lambda f: f.last.read)) if files else 0
        streams = sum(map(len, chains))
        return KeyTrial(name=newest.called, streams=streams, read=read, log=log_read)

    def _require_opened(self, stream: StreamId) -> None:
        """Raise PrivateKeyElsewhere and VerificationFailed where the stream's key does not open."""
        header = StreamHeaders(self.pages).of(stream)
        if header is None:
            raise VerificationFailed(f"the page of {stream} is missing at {self.address}")
        self.pages.signing.open_contents(stream, header, f"{self.address}: {stream}")

    def _first_segment(self, stream: StreamId, meter: Meter) -> int:
        """Bytes of the stream's first segment, which was decrypted, and begins as that stream does."""
        page = self.pages.committed(stream)
        for content in fetch_some(self._opened(stream, page), page, range(1), meter):
            begin = begin_record(content)
            if begin is None or (begin.guid, begin.base) != (stream.guid, stream.base):
                raise VerificationFailed(f"{stream} at {self.address} has other contents than its name says")
            return len(content)
        raise VerificationFailed(f"{stream} at {self.address} is empty")

    def _called(self, stream: StreamId) -> str:
        header = StreamHeaders(self.pages).of(stream)
        if header is None:
            raise VerificationFailed(f"the page of {stream} is missing at {self.address}")
        return header.snapshot

    def fetch(self, step: StreamStep, token: str, receiver: Command, meter: Meter) -> int:
        stream = _stream_of(step)
        page = self.pages.committed(stream)
        access = self._opened(stream, page)
        contents = rest(access, page, token, meter) if token else fetch(access, page, meter)
        first = next(contents)  # What cannot be had is known before anything is received.
        with writing(receiver) as write:
            count = 0
            for content in following((first,), contents):
                write(content)
                count += len(content)
        return count

    def remove(self, backup: Backup, when: str) -> None:
        self._collector.remove(backup.record.backup, backup.name)

    def verify(self, *, deep: bool, meter: Meter) -> Iterator[CheckedCopy]:
        def read(stream: StreamId) -> int:
            return sum(len(content) for content in self.stream(stream, meter))

        verifier = Verifier(
            bucket=self.bucket, layout=self.layout, pages=self.pages, read=read if deep else None
        )
        # What is proven is what is there, and not what was read of it before.
        self.pages.known.clear()
        contents = scan(replace(self.pages, cache=NO_CACHE), self.storing.table.uploads)
        for sealed_for in contents.sealed_for if deep else ():
            if not self.storing.private.has(sealed_for):
                raise elsewhere(f"the backups at {self.address}", sealed_for)
        return verifier.verify(contents)

    def orphans(self) -> tuple[str, ...]:
        streams = self._collector.orphans(self.contents(), self._now())
        return (*map(str, streams), *map(orphan, leftovers(self)))

    def collect_garbage(self) -> tuple[str, ...]:
        now, contents = self._now(), self.contents()
        orphans = self._collector.orphans(contents, now)
        self._collector.delete(orphans, contents, now - QUIET)
        self._collector.forget(contents)
        StreamHeaders(self.pages).mend(needed_by(contents))
        return (*map(str, orphans), *remove_leftovers(self))

    @property
    def _collector(self) -> Collector:
        return Collector(self.pages, self.contents)

    def _now(self) -> datetime:
        """Return the time by the server's clock, which says when something was written: this host's may be
        days off."""
        return self.bucket.time(self.layout.streams)

    def store(self, part: OutgoingStream, sender: Command, meter: Meter) -> int:
        stream = StreamId(dataset=part.dataset, guid=part.guid, base=part.base)
        begun = self._begun(stream)
        if begun and (whole := self._whole(begun)):
            return whole.size
        going_on = begun if begun and begun.resumable else None
        page: StreamIndex | None = None
        with reading(sender) as source:
            buffers = self._buffers(going_on.header if going_on else None)
            pieces = cut(source, buffers, meter)
            first = next(pieces)
            # Nothing at all is what a sender writes that fails: leaving, it is asked why.
            if len(first.buffer) > buffers.front + buffers.back:
                with first.content() as content:
                    require_stream(content, part)
                if going_on:
                    access = self._going_on(stream, going_on)
                else:
                    access = self._beginning(stream, part, first, begun.header if begun else None)
                page = store(access, following((first,), pieces), buffers, self._present(stream))
        # Only now is it known that the sender came to its end.
        if page is None:
            raise VerificationFailed("what was to be stored is empty, and no ZFS send stream")
        mine = self.bucket.put_new(self.layout.index(stream), to_json(page))
        self.unfinished.forget(stream)
        if mine and begun and not begun.resumable:
            self._remove_others(stream, page)
        return page.size

    def _remove_others(self, stream: StreamId, page: StreamIndex) -> None:
        """Take away what a run before stored of a stream that was begun again: nobody needs it, and it has
        another key."""
        for entry in self.bucket.list(self.layout.segments(stream)):
            number, digest = segment_of(entry.key) or (0, b"")
            ours = number < len(page.segments) and page.segments[number].sha256 == digest
            if ours or not self.layout.is_segment(stream, entry.key):
                continue
            try:
                self.bucket.delete(entry.key)
            except BucketRefused as refused:
                log.info("s3.segments_stay", stream=ascii(str(stream)), reason=str(refused))
                return

    def _begun(self, stream: StreamId) -> _Begun | None:
        """How an earlier run began, and whether one may go on so.

        Nothing is sent plain or sealed for another because a bucket says it, nor in larger segments than this
        host has memory for.
        """
        try:
            header = StreamHeaders(self.pages).own(stream)
        except VerificationFailed as wrong:
            log.warning("s3.stream_begun_again", stream=ascii(str(stream)), reason=str(wrong))
            return None
        if header is None:
            return None
        sealed_for = header.contents.public_key if header.contents else ""
        if (
            header.segment_size > max(self.storing.table.segment, LEAST_ROOM)
            or (header.version == 1 and self.storing.encrypts_new)
            or sealed_for != self.storing.public_id
        ):
            return _Begun(header, None, resumable=False)
        try:
            keys = self._keys(stream, header)
        except PrivateKeyElsewhere:
            log.info("s3.stream_begun_again", stream=ascii(str(stream)), reason="its key is not kept here")
            return _Begun(header, None, resumable=False)
        return _Begun(header, keys, resumable=True)

    def _whole(self, begun: _Begun) -> StreamIndex | None:
        """The page of a stream that is whole as it was begun, and that one cannot go on with; None where it
        is not. It is sent again with what it is based on, and then there is nothing to do."""
        stream = StreamId(dataset=begun.header.dataset, guid=begun.header.guid, base=begun.header.base)
        if begun.resumable or begun.header.version == 1:
            return None
        try:
            page = self.pages.index(stream).page
        except (NotFound, VerificationFailed):
            return None
        return page if page.header == begun.header else None

    def _buffers(self, header: StreamHeader | None) -> Buffers:
        """One is filled while the others are on their way."""
        size = header.segment_size if header else self.storing.table.segment
        encrypted = header.encryption is not None if header else self.storing.encrypts_new
        return Buffers(self.storing.table.uploads + 1, size, encrypted=encrypted)

    def stream(self, stream: StreamId, meter: Meter) -> Iterator[memoryview]:
        """The send stream again, in order; see fetching.fetch for what is proven before a byte is given."""
        page = self.pages.index(stream).page
        return fetch(self._opened(stream, page), page, meter)

    def _opened(self, stream: StreamId, page: StreamIndex) -> StreamAccess:
        keys = self.pages.signing.open_contents(stream, page.header, f"{self.address}: {stream}")
        return self._access(stream, page.header, keys)

    def _keys(self, stream: StreamId, header: StreamHeader) -> StreamKeys | None:
        """The keys of a stream that is on its way."""
        where = f"{self.address}: {stream}"
        signing = self.pages.signing.open_stream(stream, header, where)
        if signing and header.contents and (kept := self.unfinished.take(stream, header)):
            return StreamKeys(signing, kept)
        return self.pages.signing.open_contents(stream, header, where)

    def abort(self, dataset: str) -> None:
        contents = self.contents()
        needed = needed_with_lost(contents)
        for stream in [s for s in contents.headers if s.dataset == dataset and s not in contents.indexes]:
            if contents.unreadable or stream in needed:
                # It was whole: its segments are all that is left of what lost its page.
                why = "a committed backup may need it"
                log.warning("s3.stream_kept", stream=ascii(str(stream)), reason=why)
                continue
            self.unfinished.forget(stream)
            try:
                for entry in self.bucket.list(self.layout.segments(stream)):
                    if self.layout.is_segment(stream, entry.key):
                        self.bucket.delete(entry.key)
                self.bucket.delete(self.layout.header(stream))
            except BucketRefused as refused:
                # It is in nobody's way: a host that may only add leaves it to who prunes.
                log.warning("s3.stream_stays", stream=str(stream), error=str(refused))

    def commit(self, record: Record, parts: Sequence[OutgoingStream], when: str) -> None:
        Committer(self.pages, self.address, self.contents).commit(record, parts, when)

    def _going_on(self, stream: StreamId, begun: _Begun) -> StreamAccess:
        header = begun.header
        log.info("s3.stream_continued", stream=str(stream), host=header.host)
        # Written once more as it is: somebody works on it, and whoever collects garbage sees that.
        body = to_json(header)
        self.bucket.put(self.layout.header(stream), body, hashlib.sha256(body).digest())
        return self._access(stream, header, begun.keys)

    def _beginning(
        self, stream: StreamId, part: OutgoingStream, first: Piece, there: StreamHeader | None
    ) -> StreamAccess:
        """`there`: the header that was seen, and that one cannot go on with."""
        header = StreamHeader(
            dataset=part.dataset,
            snapshot=part.name,
            guid=part.guid,
            base=part.base,
            raw=part.raw,
            segment_size=self.storing.table.segment,
            compression=self._compression(part, first),
            encryption=None,
            host=socket.gethostname(),
        )
        keys: StreamKeys | None = None
        if self.storing.keys is not None and self.storing.encrypts_new:
            keys, header = self.pages.signing.new_stream(
                self.storing.keys, stream, header, part.server, self.storing.public
            )
        if keys and header.contents:
            # Before the header: a cut in between leaves a key of nothing.
            self.unfinished.keep(stream, header, keys.contents)
        body = to_json(header)
        if not self.bucket.put_new(self.layout.header(stream), body):
            if self._is_taken(stream, there):
                raise Taken(f"another zbackup has just begun to store {stream} at {self.address}")
            self.bucket.put(self.layout.header(stream), body, hashlib.sha256(body).digest())
        return self._access(stream, header, keys)

    def _is_taken(self, stream: StreamId, there: StreamHeader | None) -> bool:
        """Whether another header is there than the one that was seen."""
        try:
            return StreamHeaders(self.pages).own(stream) not in (None, there)
        except VerificationFailed:
            return False
        except Refused:
            # By one with another key.
            return True

    def _compression(self, part: OutgoingStream, first: Piece) -> Literal["zstd", "none"]:
        if self.storing.table.compression == "auto":
            with first.content() as content:
                return "zstd" if not part.raw and is_worth_compressing(content) else "none"
        return self.storing.table.compression

    def _access(self, stream: StreamId, header: StreamHeader, keys: StreamKeys | None) -> StreamAccess:
        return StreamAccess(
            bucket=self.bucket,
            layout=self.layout,
            stream=stream,
            header=header,
            key=keys.contents if keys else None,
            signing=keys.signing if keys else None,
            parallel=self.storing.table.uploads,
            usual=self.storing.table.segment,
        )

    def _present(self, stream: StreamId) -> dict[tuple[int, bytes], int]:
        entries = self.bucket.list(self.layout.segments(stream))
        return {found: entry.size for entry in entries if (found := segment_of(entry.key))}


def _stream_of(step: StreamStep) -> StreamId:
    return StreamId(
        dataset=step.copy.dataset, guid=step.copy.guid, base=step.base.guid if step.base else None
    )
