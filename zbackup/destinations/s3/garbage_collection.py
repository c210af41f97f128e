"""Taking away what is not wanted any more: a backup by its manifest first, then the streams that no other
backup needs; and what nobody needs and nobody works on.

A stream is taken away in the order in which it is not mistaken for one that is whole: its page first, the
segments, and last how it was begun, which says that there is something of it. Another host may commit a
backup of it meanwhile: it looks for the page after it has written its manifest, and here manifests are looked
for after the page is gone. So one of the two sees the other.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from zbackup.destinations.s3.chains import BucketContents
from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import MOST_PAGE
from zbackup.destinations.s3.manifest_store import ManifestStore
from zbackup.destinations.s3.restorable import needed_by
from zbackup.destinations.s3.stream_headers import StreamHeaders
from zbackup.model.errors import BucketRefused, NotFound, Refused, VerificationFailed
from zbackup.model.event_log import log

QUIET = timedelta(days=1)
"""The time without a write after which nobody works on a stream any more."""


@dataclass(frozen=True, slots=True)
class Collector:
    """Collects the garbage of an instance's part of a bucket. `look` says what is there now."""

    pages: ManifestStore
    scan: Callable[[], BucketContents]

    @property
    def _bucket(self) -> Bucket:
        return self.pages.bucket

    def remove(self, backup: str, name: str) -> None:
        """Take a backup away, and the streams that only it needs.

        Raise Refused, with the date, while something of it is locked, and VerificationFailed where others
        could not be brought back without it, or nobody knows; nothing was changed then.
        """
        contents = self.scan()
        self._require_readable(contents)
        self._require_others_intact(contents, backup, name)
        mine = needed_by(contents) - needed_by(contents, without=backup)
        manifest = self.pages.layout.manifest(backup)
        for key in (manifest, *(self.pages.layout.index(stream) for stream in mine)):
            if why := self._locked(key):
                raise Refused(f"{name}: {why}")
        self._bucket.erase(manifest)
        self.pages.known.pop(manifest, None)
        self.delete(mine, contents.without(backup))

    def delete(
        self, streams: Iterable[StreamId], contents: BucketContents, quiet: datetime | None = None
    ) -> None:
        """Streams that nobody needed when `contents` were seen; with `quiet` only what was written before it.

        The longest chain first, so that what is left has its base.
        """
        layout = self.pages.layout
        known = {layout.manifest(manifest.backup) for manifest in contents.manifests}

        def old(written: datetime) -> bool:
            return quiet is None or written < quiet

        for stream in sorted(streams, key=lambda s: (s.base is None, s)):
            if not all(old(entry.written) for entry in self._bucket.list(layout.header(stream))):
                log.info("s3.stream_kept", stream=ascii(str(stream)), reason="somebody resumes it")
                continue
            if self._is_wanted_again(stream, known):
                continue
            self._bucket.erase(
                layout.segments(stream),
                lambda key, written, stream=stream: layout.is_segment(stream, key) and old(written),  # type: ignore[misc]
            )
            self._bucket.erase(layout.header(stream), lambda _, written: old(written))
            log.info("s3.stream_removed", stream=ascii(str(stream)))

    def _is_wanted_again(self, stream: StreamId, known: set[str]) -> bool:
        """Take away its page; put it back if a backup that needs the stream was committed in the meantime."""
        layout = self.pages.layout
        key = layout.index(stream)
        try:
            page = self._bucket.get(key, MOST_PAGE)
        except NotFound:
            page = bytearray()
        self._bucket.erase(key)
        if all(e.key in known for e in self._bucket.list(layout.backups) if layout.backup_of(e.key)):
            return False
        contents = self.scan()
        indexes = {**contents.indexes, stream: datetime.max.replace(tzinfo=UTC)}
        if not contents.unreadable and stream not in needed_by(replace(contents, indexes=indexes)):
            return False
        if page:
            self._bucket.put(key, page, sha256(page).digest())
        log.warning(
            "s3.stream_kept", stream=ascii(str(stream)), reason="a backup that needs it was committed"
        )
        return True

    def forget(self, contents: BucketContents) -> None:
        """Take away the manifests of backups whose commit was taken back, but those that are locked."""
        for backup in contents.withdrawn:
            try:
                self._bucket.erase(self.pages.layout.manifest(backup))
            except BucketRefused as locked:
                log.warning("s3.withdrawn_stays", backup=ascii(backup)[1:-1], reason=str(locked))
                continue
            self.pages.known.pop(self.pages.layout.manifest(backup), None)

    def orphans(self, contents: BucketContents, now: datetime) -> list[StreamId]:
        """Streams that no backup needs, and that nobody has written to for a day.

        What was begun after the newest commit may be parts of one backup: they are left as long as any of
        them is written to. Where a committed backup lacks a stream, nobody knows which others it needs: all
        of its datasets' are left.
        """
        self._require_readable(contents)
        broken = set(contents.incomplete())
        unsure = {part.dataset for m in contents.manifests if m.backup in broken for part in m.parts}
        sure = {s for s in (*contents.indexes, *contents.headers) if s.dataset not in unsure}
        unneeded = sure - needed_by(contents)
        written = {stream: self._written(contents, stream) for stream in unneeded}
        last = max((at for s, at in contents.indexes.items() if s not in unneeded), default=None)
        open_ = [s for s in unneeded if last is None or written[s] > last]
        busy = any(now - written[stream] < QUIET for stream in open_)
        return sorted(
            stream for stream, at in written.items() if now - at >= QUIET and not (busy and stream in open_)
        )

    def _written(self, contents: BucketContents, stream: StreamId) -> datetime:
        """When something of the stream was last written."""
        pages = [at[stream] for at in (contents.indexes, contents.headers) if stream in at]
        segments = (entry.written for entry in self._bucket.list(self.pages.layout.segments(stream)))
        return max((*pages, *segments))

    def _locked(self, key: str) -> str:
        try:
            return self._bucket.locked(key)
        except NotFound:
            return ""

    def _require_readable(self, contents: BucketContents) -> None:
        for key, problem in contents.unreadable[:1]:
            raise VerificationFailed(
                f"{self._bucket.address}/{key} cannot be read, so that nobody knows which streams it "
                f"needs, and none is taken away: {problem}"
            )

    def _require_others_intact(self, contents: BucketContents, backup: str, name: str) -> None:
        """Raise VerificationFailed where a chain is broken, or would be taken for it without this backup."""
        mine = {part.dataset for m in contents.manifests if m.backup == backup for part in m.parts}
        others = contents.without(backup)
        broken = set(contents.incomplete()) - {backup}
        near = [m for m in others.manifests if m.backup in broken and mine & {p.dataset for p in m.parts}]
        for lacking in near[:1]:
            raise VerificationFailed(
                f"{name} is not taken away: the backup {lacking.called} lacks a stream, so that nobody knows "
                "which others it needs; bring it back (an older version of the object may do), or delete the "
                f"manifest {self._bucket.address}/{self.pages.layout.manifest(lacking.backup)}"
            )
        more = set(others.doubtful()) - set(contents.doubtful()) if self.pages.signed_only else set()
        why = {s: text for s in more if (text := self._foreign(s))}
        after = replace(others, foreign=contents.foreign | why.keys())
        lost = set(after.incomplete()) - broken
        for called in [m.called for m in others.manifests if m.backup in lost][:1]:
            raise VerificationFailed(
                f"{name} is not taken away: without it {called} could not be brought back: "
                f"{next(iter(why.values()), 'a stream that it needs is gone')}"
            )

    def _foreign(self, stream: StreamId) -> str:
        entry = next(iter(self._bucket.list(self.pages.layout.header(stream))), None)
        try:
            return StreamHeaders(self.pages).foreign(stream, entry)
        except NotFound as gone:
            return str(gone)
