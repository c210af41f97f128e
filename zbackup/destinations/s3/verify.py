"""Whether what is in the bucket could be brought back: pages and listings, or every byte."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from zbackup.destinations.s3.chains import Found, chain
from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.layout import Layout, StreamId, segment_of
from zbackup.destinations.s3.manifest import MOST_MANIFEST, Whole
from zbackup.model.errors import NotFound, Refused, VerificationFailed
from zbackup.model.shipping import Checked

SHOWN = 3
"""Segments of a stream that are named; of the others it is said how many."""


@dataclass(slots=True, kw_only=True)
class Verifier:
    """Every stream is looked at once, however many backups need it.

    `page` proves a stream's page, and `read` a stream, of which it returns the bytes (None: not asked for).
    """

    bucket: Bucket
    layout: Layout
    page: Callable[[StreamId, bytearray], Whole]
    read: Callable[[StreamId], int] | None
    _known: dict[StreamId, Checked] = field(default_factory=dict)

    def verify(self, found: Found) -> Iterator[Checked]:
        """One after the other, also those of which streams are gone."""
        hashes = {
            StreamId(line=p.line, guid=p.guid, base=p.base): p.stream_sha256
            for m in found.manifests
            for p in m.parts
        }
        for manifest in sorted(found.manifests, key=lambda m: m.record.get("taken", "")):
            problems: list[str] = []
            read = 0
            for part in manifest.parts:
                streams = chain(found.whole, part.line, part.guid)
                if streams is None:
                    problems.append(f"a stream of {part.line}@{part.snapshot} or of its bases is gone")
                for stream in streams or ():
                    fresh = stream not in self._known
                    checked = self._stream(stream, hashes.get(stream))
                    problems += checked.problems
                    read += checked.read if fresh else 0
            name = manifest.parts[0].snapshot if manifest.parts else ""
            yield Checked(
                backup=manifest.record.get("backup", ""), name=name, problems=tuple(problems), read=read
            )

    def _stream(self, stream: StreamId, expected: bytes | None) -> Checked:
        if stream not in self._known:
            problems: tuple[str, ...] = ()
            read = 0
            try:
                problems = tuple(self._lacking(stream, expected))
                if self.read and not problems:
                    read = self.read(stream)
            except (VerificationFailed, NotFound, Refused) as wrong:
                problems = (str(wrong),)
            self._known[stream] = Checked(backup="", name=str(stream), problems=problems, read=read)
        return self._known[stream]

    def _lacking(self, stream: StreamId, expected: bytes | None) -> Iterator[str]:
        """What the stream's page and the listing of its segments say against it."""
        body = self.bucket.get(self.layout.whole(stream), MOST_MANIFEST)
        if expected is not None and hashlib.sha256(body).digest() != expected:
            yield f"the page of {stream} is not the one that its backup was committed with"
        page = self.page(stream, body)
        entries = self.bucket.list(self.layout.segments(stream))
        present = {found: entry.size for entry in entries if (found := segment_of(entry.key))}
        wrong = [n for n, s in enumerate(page.segments) if present.get((n, s.sha256)) != s.size]
        yield from (f"segment {number} of {stream} is gone or of another size" for number in wrong[:SHOWN])
        if len(wrong) > SHOWN:
            yield f"and {len(wrong) - SHOWN} more segments of {stream}"
