"""The commit of a backup: its manifest, written when every segment is there, and proven again afterwards.

Another host may take streams away that no backup needs, and sees that one needs them only when the manifest
is there. So what the manifest names is looked for once more behind it, and a manifest of what is gone is
taken back.
"""

import hashlib
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from zbackup.destinations.s3.chains import BucketContents, ChainIndex
from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.layout import Layout, StreamId, segment_of
from zbackup.destinations.s3.manifest_schema import Manifest, PartPage, to_json
from zbackup.destinations.s3.manifest_store import ManifestStore
from zbackup.destinations.s3.restorable import needed_by
from zbackup.destinations.s3.stream_headers import StreamHeaders
from zbackup.model.errors import BucketRefused, NotFound, VerificationFailed
from zbackup.model.event_log import log
from zbackup.model.record import PREFIX, Record, to_properties
from zbackup.model.shipping import OutgoingStream


@dataclass(frozen=True, slots=True)
class Committer:
    """Commits backups in an instance's part of a bucket, which people call `address`. `look` lists it."""

    pages: ManifestStore
    address: str
    scan: Callable[[], BucketContents]

    @property
    def _bucket(self) -> Bucket:
        return self.pages.bucket

    @property
    def _layout(self) -> Layout:
        return self.pages.layout

    def commit(self, record: Record, parts: Sequence[OutgoingStream], when: str) -> None:
        """Raise VerificationFailed when a part is not whole there; the backup does not count then."""
        contents = self.scan()
        pages = []
        for part in parts:
            streams = [s for s in contents.indexes if (s.dataset, s.guid) == (part.dataset, part.guid)]
            exact = [s for s in streams if s.base == part.base]
            if not streams:
                raise VerificationFailed(f"{part.dataset}@{part.name} is not whole at {self.address}")
            pages.append(self._part(part, (exact or streams)[0]))
        manifest = Manifest(
            committed=when,
            host=socket.gethostname(),
            record={key.removeprefix(PREFIX): value for key, value in to_properties(record).items()},
            parts=tuple(pages),
        )
        manifest = self._signed(manifest)
        self._write(manifest)
        self._prove(manifest, parts)
        StreamHeaders(self.pages).mend(s for s in needed_by(contents) if s not in contents.headers)

    def _signed(self, manifest: Manifest) -> Manifest:
        return self.pages.signing.sign(manifest) if self.pages.signing.keys is not None else manifest

    def _write(self, manifest: Manifest) -> None:
        key, body = self._layout.manifest(manifest.backup), to_json(manifest)
        if self._bucket.put_new(key, body):
            return
        there = self.pages.manifest(key)
        if not there.withdrawn and [p.guid for p in there.parts] != [p.guid for p in manifest.parts]:
            raise VerificationFailed(f"{self._bucket.address}/{key} already exists, for other snapshots")
        if there.withdrawn or there.parts != manifest.parts:
            # Other parts: a stream whose page was lost was sent again, with another key.
            self._bucket.put(key, body, hashlib.sha256(body).digest())
            self.pages.known.pop(key, None)

    def _prove(self, manifest: Manifest, parts: Sequence[OutgoingStream]) -> None:
        """Once more, now that who looks sees the manifest. Take it back if anything that it needs is gone."""
        try:
            chains = ChainIndex(self.scan())
            for part, page in zip(parts, manifest.parts, strict=True):
                stream = StreamId(dataset=page.dataset, guid=page.guid, base=page.base)
                if chains.to(page.dataset, page.guid) is None or self._page(part, stream) != page:
                    raise VerificationFailed(f"{stream} is not whole at {self.address} any more")
        except (VerificationFailed, NotFound) as wrong:
            self._take_back(manifest)
            raise VerificationFailed(
                f"{wrong}: it was taken away while the backup was committed, by a prune from another host it "
                "seems. The backup does not count; the next run stores it again"
            ) from wrong

    def _take_back(self, manifest: Manifest) -> None:
        """Delete a manifest, or write over it that it does not count where nobody may delete."""
        key = self._layout.manifest(manifest.backup)
        self.pages.known.pop(key, None)
        try:
            self._bucket.delete(key)
        except BucketRefused:
            body = to_json(self._signed(manifest.model_copy(update={"withdrawn": True})))
            self._bucket.put(key, body, hashlib.sha256(body).digest())
        log.error("s3.commit_taken_back", backup=manifest.backup)

    def _part(self, part: OutgoingStream, stream: StreamId) -> PartPage:
        try:
            return self._page(part, stream)
        except VerificationFailed as wrong:
            raise VerificationFailed(self._incomplete(stream, str(wrong))) from wrong

    def _page(self, part: OutgoingStream, stream: StreamId) -> PartPage:
        """The stream's page is read back, and every segment it names is found in a listing."""
        proven = self.pages.index(stream)
        page = proven.page
        entries = self._bucket.list(self._layout.segments(stream))
        present = {found: entry.size for entry in entries if (found := segment_of(entry.key))}
        for number, segment in enumerate(page.segments):
            if present.get((number, segment.sha256)) != segment.size:
                raise VerificationFailed(f"segment {number} of {stream} is not at {self.address} any more")
        return PartPage(
            dataset=part.dataset,
            snapshot=part.name,
            guid=part.guid,
            base=stream.base,
            size=page.size,
            stored=sum(s.size for s in page.segments),
            raw=page.header.raw,
            stream_sha256=proven.sha256,
            public_key=page.header.contents.public_key if page.header.contents else "",
        )

    def _incomplete(self, stream: StreamId, said: str) -> str:
        """What is said of it.

        A stream that no backup needs yet is not whole any more: it is sent again.
        """
        contents = self.scan()
        if contents.unreadable or stream in needed_by(contents):
            return said
        page = self._layout.index(stream)
        try:
            self._bucket.delete(page)
        except BucketRefused as refused:
            return (
                f"{said}: the next run stores it again when somebody has deleted "
                f"{self._bucket.address}/{page}, which these credentials may not ({refused.code})"
            )
        return f"{said}: the next run stores it again"
