"""The manifests in the bucket: read, and proven to be what was written
there.
"""

import hashlib
from dataclasses import dataclass, field

from zbackup.destinations.s3.cache import PageCache
from zbackup.destinations.s3.client import Bucket, Entry
from zbackup.destinations.s3.fetching import check_page
from zbackup.destinations.s3.layout import Layout, StreamId
from zbackup.destinations.s3.manifest_schema import (
    MOST_MANIFEST,
    Manifest,
    StreamIndex,
    index_from,
    manifest_from,
    most_of_page,
)
from zbackup.destinations.s3.signatures import Signatures
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.event_log import log

PLAIN = (
    "whoever wrote it did not have the key that is configured here; if all of the bucket is yours and was "
    "plain before, set accept_plain = true"
)


@dataclass(frozen=True, slots=True)
class Proven:
    """A stream's page, and the SHA-256 of it as it is in the bucket."""

    page: StreamIndex
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestStore:
    """The pages of an instance's part of a bucket. `known` are manifests by their keys: they never change.
    `cache` has those of earlier runs.

    With `signed_only`, what is neither signed nor encrypted was not written by whoever has the key.
    """

    bucket: Bucket
    layout: Layout
    signing: Signatures
    signed_only: bool
    cache: PageCache
    known: dict[str, Manifest] = field(default_factory=dict)

    def manifest(self, key: str) -> Manifest:
        """A backup's. Its signature is proven, unless no key at all is here; see also require_agreed().

        Raise NotFound, and VerificationFailed when it cannot be understood or proven, or was changed.
        """
        if key not in self.known:
            self.known[key] = self._manifest(key, self.bucket.get(key, MOST_MANIFEST))
        return self.known[key]

    def listed(self, entry: Entry) -> Manifest:
        """Read the manifest of an object that was just listed: it is not fetched if it is in the cache."""
        kept = None if entry.key in self.known else self.cache.take(entry)
        if kept is not None:
            try:
                self.known[entry.key] = self._manifest(entry.key, kept)
            except VerificationFailed as wrong:
                log.debug("s3.page_not_kept", key=entry.key, reason=str(wrong))
        if entry.key not in self.known:
            body = self.bucket.get(entry.key, MOST_MANIFEST)
            self.known[entry.key] = self._manifest(entry.key, body)
            self.cache.keep(entry, body)
        return self.known[entry.key]

    def _manifest(self, key: str, body: bytes | bytearray) -> Manifest:
        where = f"{self.bucket.address}/{key}"
        manifest = manifest_from(body, where)
        if self.layout.manifest(manifest.backup) != key:
            raise VerificationFailed(f"{where} is another backup's manifest")
        if self.signing.keys is not None:
            self._require_proven(manifest, where)
        return manifest

    def index(self, stream: StreamId) -> Proven:
        """A stream's page. Raise NotFound, and VerificationFailed when it is not what was written for it.

        A page that is longer than its segments that are there account for is not read.
        """
        key = self.layout.index(stream)
        where = f"{self.bucket.address}/{key}"
        listed = sum(1 for _ in self.bucket.list(self.layout.segments(stream)))
        body = self.bucket.get(key, most_of_page(listed))
        page = index_from(body, where)
        if self.signed_only and page.header.encryption is None:
            raise VerificationFailed(f"{where} is of a stream that is not encrypted: {PLAIN}")
        check_page(page, self.signing.open_stream(stream, page.header, where), where)
        return Proven(page, hashlib.sha256(body).digest())

    def committed(self, stream: StreamId) -> StreamIndex:
        """Read a stream's index with which every known manifest that names the stream agrees. See index()."""
        proven = self.index(stream)
        for manifest in self.known.values():
            self.require_agreed(manifest, stream, proven)
        return proven.page

    def require_agreed(self, manifest: Manifest, stream: StreamId, proven: Proven) -> None:
        """Raise VerificationFailed when what the manifest says of the stream is not true, or the manifest was
        changed, and Refused when the key that proves it is not here."""
        where = f"{self.bucket.address}/{self.layout.manifest(manifest.backup)}"
        parts = [p for p in manifest.parts if (p.dataset, p.guid) == (stream.dataset, stream.guid)]
        if any(p.stream_sha256 != proven.sha256 for p in parts if p.base == stream.base):
            raise VerificationFailed(f"the page of {stream} is not the one that {where} was written for")
        if not parts or proven.page.header.encryption is None:
            return
        self.signing.prove(manifest, where)
        # Who has a key signs manifests; and the page is signed itself.
        if manifest.encryption is None:
            raise VerificationFailed(f"{where} lost its signature: it was changed since it was written")

    def _require_proven(self, manifest: Manifest, where: str) -> None:
        """Raise VerificationFailed for a manifest that is not proven. Without the key that signed it nobody
        can tell whether it is real: it does not count."""
        if self.signed_only and manifest.encryption is None:
            raise VerificationFailed(f"{where} is not signed: {PLAIN}")
        try:
            self.signing.prove(manifest, where)
        except Refused as keyless:
            raise VerificationFailed(f"{keyless}: add it to old_keys, if it is yours") from keyless
