"""The header of a stream (`begun.json`): read, proven, and made again of the page of the whole stream."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from zbackup.destinations.s3.client import Entry
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import MOST_HEADER, StreamHeader, header_from, to_json
from zbackup.destinations.s3.manifest_store import PLAIN, ManifestStore
from zbackup.model.errors import BucketRefused, NotFound, Refused, VerificationFailed
from zbackup.model.event_log import log


@dataclass(frozen=True, slots=True)
class StreamHeaders:
    """The headers of streams in an instance's part of a bucket."""

    pages: ManifestStore

    def own(self, stream: StreamId) -> StreamHeader | None:
        """The header as it lies in the bucket, proven if the key is here; None when there is none.

        Raise VerificationFailed when it is damaged, forged or of another place, and Refused when it was made
        with a key that is not here.
        """
        key = self.pages.layout.header(stream)
        where = f"{self.pages.bucket.address}/{key}"
        try:
            header = header_from(self.pages.bucket.get(key, MOST_HEADER), where)
        except NotFound:
            return None
        self._prove(stream, header, where)
        return header

    def of(self, stream: StreamId) -> StreamHeader | None:
        """The stream's own header; where it is lost or damaged, what the stream's index says of it."""
        try:
            if found := self.own(stream):
                return found
        except VerificationFailed as damaged:
            log.warning("s3.header_damaged", stream=ascii(str(stream)), problem=str(damaged))
        try:
            return self.pages.index(stream).page.header
        except NotFound:
            return None

    def foreign(self, stream: StreamId, entry: Entry | None) -> str:
        """The reason to say that nobody who has the key, which is here, began the stream; "" for none.

        `entry` is the header as it is listed. Nobody makes a stream's wrapped key without the key, nor the
        signature of its page: where the header is lost or damaged, the page tells. Raise NotFound when that
        is gone.
        """
        why = self._foreign_header(stream, entry)
        if not why:
            return ""
        try:
            page = self.pages.index(stream).page
        except VerificationFailed:
            return why
        except Refused as keyless:
            return f"{keyless}: add it to old_keys, if it is yours"
        return "" if page.header.encryption else why

    def _foreign_header(self, stream: StreamId, entry: Entry | None) -> str:
        if entry is None:
            return f"how {stream} was stored is not to be found"
        where = f"{self.pages.bucket.address}/{entry.key}"
        kept = self.pages.cache.take(entry)
        try:
            body = kept or self.pages.bucket.get(entry.key, MOST_HEADER)
            header = header_from(body, where)
            if header.encryption is None:
                return f"{where} is of a stream that is not encrypted: {PLAIN}"
            self.pages.signing.open_stream(stream, header, where)
        except (NotFound, VerificationFailed) as wrong:
            return str(wrong)
        except Refused as keyless:
            return f"{keyless}: add it to old_keys, if it is yours"
        if kept is None:
            self.pages.cache.keep(entry, body)
        return ""

    def problem(self, stream: StreamId, said: StreamHeader) -> str:
        """What is wrong with the header of a whole stream, "" if nothing is; `said` is the page's
        of it."""
        key = self.pages.layout.header(stream)
        mended = "zbackup prune --at makes it again from stream.json"
        try:
            found = self.own(stream)
        except (VerificationFailed, Refused) as wrong:
            return f"{wrong}: {mended}"
        if found is None:
            return f"{self.pages.bucket.address}/{key} is gone: {mended}, and so does the next commit"
        return (
            ""
            if found == said
            else f"{self.pages.bucket.address}/{key} is not what stream.json says: {mended}"
        )

    def mend(self, streams: Iterable[StreamId]) -> None:
        """Write again the headers of these whole streams that are lost or damaged, where their pages hold.

        A page is up to hundreds of megabytes: where the header proves itself, it is not asked for.
        """
        for stream in streams:
            try:
                if self._is_signed(stream):
                    continue
                page = self.pages.index(stream).page
                if not self.problem(stream, page.header):
                    continue
                body = to_json(page.header)
                key = self.pages.layout.header(stream)
                self.pages.bucket.put(key, body, hashlib.sha256(body).digest())
            except (BucketRefused, NotFound, Refused, VerificationFailed) as wrong:
                log.warning("s3.header_not_mended", stream=ascii(str(stream)), problem=str(wrong))
            else:
                log.info("s3.header_mended", stream=ascii(str(stream)))

    def _is_signed(self, stream: StreamId) -> bool:
        """Whether the header is as it was written, which its signature says to who has the key."""
        with suppress(VerificationFailed, Refused):
            header = self.own(stream)
            return header is not None and header.version > 1 and self.pages.signing.keys is not None
        return False

    def _prove(self, stream: StreamId, header: StreamHeader, where: str) -> None:
        if self.pages.signing.keys is not None:
            self.pages.signing.open_stream(stream, header, where)
        elif (header.dataset, header.guid, header.base) != (stream.dataset, stream.guid, stream.base):
            raise VerificationFailed(f"{where} belongs to another stream: the object was moved or replaced")
