"""Taking away what is not wanted any more: a backup by its manifest first, then the streams that no other
backup needs; and what nobody needs and nobody works on.

A stream is taken away in the order in which it is not mistaken for one that is whole: its page first, the
segments, and last how it was begun, which says that there is something of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from zbackup.destinations.s3.back import needed_by
from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.layout import Layout, StreamId
from zbackup.destinations.s3.ways import Found
from zbackup.model.errors import NotFound, Refused, VerificationFailed

log = structlog.get_logger()

QUIET = timedelta(days=1)
"""What was not written to for so long nobody works on."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """Of an instance's part of a bucket."""

    bucket: Bucket
    layout: Layout

    def remove(self, found: Found, backup: str, name: str) -> None:
        """Take a backup away, and the streams that only it needs.

        Raise Refused, with the date, while something of it is locked; nothing was changed then.
        """
        self._require_readable(found)
        mine = needed_by(_only(found, backup)) - needed_by(found, without=backup)
        manifest = self.layout.manifest(backup)
        for key in (manifest, *(self.layout.whole(stream) for stream in mine)):
            if why := self._locked(key):
                raise Refused(f"{name}: {why}")
        self.bucket.erase(manifest)
        self.take_away(mine)

    def take_away(self, streams: Iterable[StreamId]) -> None:
        """The longest way from a full stream first, so that what is left has its base."""
        for stream in sorted(streams, key=lambda s: (s.base is None, s)):
            self.bucket.erase(self.layout.whole(stream))
            self.bucket.erase(self.layout.segments(stream))
            self.bucket.erase(self.layout.begun(stream))
            log.info("s3.stream_removed", stream=str(stream))

    def strays(self, found: Found, now: datetime) -> list[StreamId]:
        """Streams that no backup needs, and that nobody has written to for a day.

        What was begun after the newest commit may be parts of one backup: they are left as long as any of
        them is written to.
        """
        self._require_readable(found)
        unneeded = ({*found.whole, *found.begun}) - needed_by(found)
        written = {stream: self._written(found, stream) for stream in unneeded}
        last = max((at for s, at in found.whole.items() if s not in unneeded), default=None)
        open_ = [s for s in unneeded if last is None or written[s] > last]
        busy = any(now - written[stream] < QUIET for stream in open_)
        return sorted(
            stream for stream, at in written.items() if now - at >= QUIET and not (busy and stream in open_)
        )

    def _written(self, found: Found, stream: StreamId) -> datetime:
        """When something of the stream was last written."""
        pages = [at[stream] for at in (found.whole, found.begun) if stream in at]
        segments = (entry.written for entry in self.bucket.list(self.layout.segments(stream)))
        return max((*pages, *segments))

    def _locked(self, key: str) -> str:
        try:
            return self.bucket.locked(key)
        except NotFound:
            return ""

    def _require_readable(self, found: Found) -> None:
        for key, problem in found.unreadable[:1]:
            raise VerificationFailed(
                f"{self.bucket.place}/{key} cannot be read, so that nobody knows which streams it "
                f"needs, and none is taken away: {problem}"
            )


def _only(found: Found, backup: str) -> Found:
    mine = [m for m in found.manifests if m.record.get("backup") == backup]
    return Found(whole=found.whole, begun=found.begun, manifests=mine)
