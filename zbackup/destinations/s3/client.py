"""Whole objects in and out of one bucket, each with its SHA-256.

Facts are of the S3 API reference (PutObject, GetObject, ListObjectsV2, ListObjectVersions, DeleteObjects). An
object's checksum is sent with it, and the server refuses what is something else.
"""

import base64
import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property, partial
from typing import Any, Self, TypeVar

from zbackup.config.s3 import S3
from zbackup.destinations.s3.server import MOST_WAIT_S, NO_CONDITIONS, S3Server, date_of
from zbackup.model.errors import BucketRefused, NotFound, VerificationFailed

Fill = Callable[[memoryview], None]
Which = Callable[[str, datetime], bool]
Result = TypeVar("Result")

THOUSAND = 1000
"""The most objects that one request deletes."""

PIECE = 256 << 10
"""Bytes of an answer that are copied at a time: they stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a listing shows it; `size` in bytes. `etag` is another one when it is written again."""

    key: str
    size: int
    written: datetime
    etag: str


class Bucket:
    """One bucket. Raise ConnectionFailed and BucketRefused as Server does."""

    def __init__(
        self, name: str, table: S3, now: Callable[[], datetime], most_wait_s: float = MOST_WAIT_S
    ) -> None:
        self._table, self._now = table, now
        self._name = {"Bucket": name}
        self._extra = _extra(table)
        self._server = S3Server(name, table, most_wait_s)
        self._client = self._server.client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    @property
    def address(self) -> str:
        return self._server.address

    def put(self, key: str, body: bytes | bytearray, digest: bytes) -> None:
        """Store an object of which `digest` is the SHA-256; the server checks it."""
        self._put(key, body, digest, {})

    def put_new(self, key: str, body: bytes) -> bool:
        """Store an object if there is none of this key; whether it is there now as it was given.

        A server that has no conditional writes is asked whether there is one first.
        """
        digest = hashlib.sha256(body).digest()
        try:
            self._put(key, body, digest, {"IfNoneMatch": "*"})
        except BucketRefused as refused:
            if refused.code in ("PreconditionFailed", "412", "ConditionalRequestConflict", "409"):
                # It may be our own: of a request of which only the answer was lost.
                return self._is(key, body)
            if refused.code not in NO_CONDITIONS:
                raise
            if self.has(key):
                return self._is(key, body)
            self._put(key, body, digest, {})
        return True

    def get(self, key: str, most: int) -> bytearray:
        """The whole object. Raise NotFound, and VerificationFailed when it has more than `most` bytes."""

        def fetch() -> bytearray:
            answer = self._client.get_object(**self._name, Key=key)
            with contextlib.closing(answer["Body"]) as body:
                if answer["ContentLength"] > most:
                    raise VerificationFailed(f"{self.address}/{key} is larger than it can be")
                return _whole(body, answer["ContentLength"])

        return self._server.ask("get", key, fetch)

    def fetch(self, key: str, size: int, use: Callable[[Fill], Result]) -> Result:
        """What `use` makes of an object of `size` bytes. It is called again when the answer breaks off.

        `use` is given what fills a buffer with the object's next bytes. Raise NotFound, VerificationFailed
        when it is of another size, and what `use` raises.
        """

        def attempt() -> Result:
            answer = self._client.get_object(**self._name, Key=key)
            with contextlib.closing(answer["Body"]) as body:
                if answer["ContentLength"] != size:
                    raise VerificationFailed(f"{self.address}/{key} is not what was stored: it is damaged")
                return use(partial(_fill, body))

        return self._server.ask("get", key, attempt)

    def _is(self, key: str, body: bytes) -> bool:
        try:
            return self.get(key, len(body)) == body
        except VerificationFailed:
            return False

    def has(self, key: str) -> bool:
        try:
            self._head(key)
        except NotFound:
            return False
        return True

    def locked(self, key: str) -> str:
        """Until when (or that without end) nobody may delete the object, for people; "" when one may."""
        head = self._head(key)
        if head.get("ObjectLockLegalHoldStatus") == "ON":
            return "there is a legal hold on it"
        until: datetime | None = head.get("ObjectLockRetainUntilDate")
        return f"it is locked until {until.isoformat()}" if until and until > self._now() else ""

    def _head(self, key: str) -> Any:
        return self._server.ask("head", key, lambda: self._client.head_object(**self._name, Key=key))

    def list(self, prefix: str) -> Iterator[Entry]:
        """All objects whose keys begin so, by key; a thousand in each request."""
        for page in self._pages("list", self._client.list_objects_v2, prefix, "ContinuationToken"):
            for found in page.get("Contents", ()):
                yield Entry(found["Key"], found["Size"], found["LastModified"], found.get("ETag", ""))

    def folders(self, prefix: str) -> Iterator[str]:
        """Names of what lies below the prefix and has more below it, up to the next "/"."""

        def request(**how: Any) -> Any:
            return self._client.list_objects_v2(**how, Delimiter="/")

        for page in self._pages("list", request, prefix, "ContinuationToken"):
            for found in page.get("CommonPrefixes", ()):
                yield found["Prefix"].removeprefix(prefix).rstrip("/")

    def time(self, prefix: str) -> datetime:
        """What time it is by the clock that Entry.written is by; who may list below `prefix` may ask."""
        answer = self._server.ask(
            "list", prefix, lambda: self._client.list_objects_v2(**self._name, Prefix=prefix, MaxKeys=1)
        )
        said = date_of(answer)
        try:
            return parsedate_to_datetime(said)
        except ValueError as wrong:
            raise BucketRefused(
                f"{self.address} does not say what time it has, but {said!r}", "Date"
            ) from wrong

    def delete(self, key: str) -> None:
        """Delete exactly this object; gone already is success. With versioning a version stays."""
        self._server.ask("delete", key, lambda: self._client.delete_object(**self._name, Key=key))

    def erase(self, key: str, which: Which = lambda key, written: True) -> None:
        """Delete exactly this object, or with a "/" at its end those below it, with all their versions.

        `which` is asked with the key of each and when it was written.
        """
        wanted: list[dict[str, str]] = []
        for found, written in self._identities(key):
            if (found["Key"] == key or key.endswith("/")) and which(found["Key"], written):
                wanted.append(found)
            if len(wanted) == THOUSAND:
                self._delete_all(key, wanted)
                wanted = []
        if wanted:
            self._delete_all(key, wanted)

    @cached_property
    def _versioned(self) -> bool:
        """Whether a deleted object leaves a version behind."""
        try:
            said = self._server.ask(
                "get-versioning", "", lambda: self._client.get_bucket_versioning(**self._name)
            )
        except BucketRefused as refused:
            if refused.code not in NO_CONDITIONS:
                raise
            return False
        return "Status" in said

    def _identities(self, prefix: str) -> Iterator[tuple[dict[str, str], datetime]]:
        if not self._versioned:
            yield from (({"Key": entry.key}, entry.written) for entry in self.list(prefix))
            return
        request = self._client.list_object_versions
        for page in self._pages("list-versions", request, prefix, "KeyMarker", "VersionIdMarker"):
            for found in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                yield {"Key": found["Key"], "VersionId": found["VersionId"]}, found["LastModified"]

    def _pages(self, verb: str, request: Callable[..., Any], prefix: str, *marks: str) -> Iterator[Any]:
        """`marks` are the words by which one says where to go on."""
        more: dict[str, str] = {}
        while True:

            def ask(more: Mapping[str, str] = more) -> Any:
                return request(**self._name, Prefix=prefix, **more)

            page = self._server.ask(verb, prefix, ask)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {mark: page[f"Next{mark}"] for mark in marks if page.get(f"Next{mark}")}

    def _delete_all(self, key: str, wanted: Sequence[Mapping[str, str]]) -> None:
        said = self._server.ask(
            "delete",
            key,
            lambda: self._client.delete_objects(**self._name, Delete={"Objects": wanted, "Quiet": True}),
        )
        for error in said.get("Errors", ()):
            if error.get("Code") != "NoSuchKey":
                raise self._server.refusal("delete", error.get("Key", key), error)

    def _put(self, key: str, body: bytes | bytearray, digest: bytes, extra: Mapping[str, str]) -> None:
        lock: dict[str, Any] = {}
        if self._table.object_lock:
            until = self._now() + timedelta(days=self._table.object_lock_days)
            lock = {"ObjectLockMode": self._table.object_lock, "ObjectLockRetainUntilDate": until}
        self._server.ask(
            "put",
            key,
            lambda: self._client.put_object(
                **self._name,
                Key=key,
                # A bytearray is sent as it is; bytes are copied behind the request's head first.
                Body=body,
                ChecksumSHA256=base64.b64encode(digest).decode(),
                **self._extra,
                **lock,
                **extra,
            ),
        )


def _whole(body: Any, size: int) -> bytearray:
    content = bytearray(size)
    with memoryview(content) as view:
        _fill(body, view)
    return content


def _fill(body: Any, room: memoryview) -> None:
    """Fill the room with the answer's next bytes, a piece at a time.

    Each piece is copied once on its way; of small ones that costs hardly more than receiving them.
    """
    filled = 0
    while filled < len(room):
        count = body.readinto(room[filled : filled + PIECE])
        if not count:
            raise OSError(f"the answer ended {len(room) - filled} bytes early")
        filled += count


def _extra(table: S3) -> dict[str, str]:
    pairs = {
        "StorageClass": table.storage_class,
        "ServerSideEncryption": table.sse,
        "SSEKMSKeyId": table.kms_key,
    }
    return {name: value for name, value in pairs.items() if value}
