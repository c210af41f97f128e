"""Verify that what is in the bucket could be brought back: pages and listings, or every byte."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from zbackup.destinations.s3.chains import BucketContents, ChainIndex
from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.layout import Layout, StreamId, segment_of
from zbackup.destinations.s3.manifest_schema import Manifest, StreamIndex
from zbackup.destinations.s3.manifest_store import ManifestStore, Proven
from zbackup.destinations.s3.stream_headers import StreamHeaders
from zbackup.model.errors import NotFound, Refused, VerificationFailed
from zbackup.model.event_log import log
from zbackup.model.shipping import CheckedCopy

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
