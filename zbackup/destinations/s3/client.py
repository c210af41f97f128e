"""The only room that speaks S3: whole objects in and out of one bucket, each with its SHA-256.

Facts are of the S3 API reference (PutObject, GetObject, ListObjectsV2, DeleteObject) and botocore's
configuration. An object's checksum is sent with it, and the server refuses what is something else.
"""

import base64
import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self, TypeVar

import boto3
import structlog
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
    NoCredentialsError,
    ProfileNotFound,
    ResponseStreamingError,
)
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from urllib3.exceptions import HTTPError

from zbackup.destinations.s3.options import S3Options
from zbackup.model.errors import BucketRefused, ConnectionFailed, NotFound, VerificationFailed

log = structlog.get_logger()

# What passes by itself: the server is busy, the way was cut, or bytes were damaged on it.
PASSING = frozenset(
    {
        "500",
        "502",
        "503",
        "504",
        "BadDigest",
        "IncompleteBody",
        "InternalError",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "XAmzContentChecksumMismatch",
        "XAmzContentSHA256Mismatch",
    }
)
# The last but one is urllib3's: botocore lets it through when an answer that is not streamed breaks off.
PASSING_FAILURES = (ConnectionError, HTTPClientError, ResponseStreamingError, HTTPError, OSError)
ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
NO_CONDITIONS = frozenset({"NotImplemented", "501"})
STEP = 1 << 18
ADVICE = {
    "AccessDenied": "the credentials do not allow it",
    "403": "the credentials do not allow it",
    "ExpiredToken": "the session token has expired: get a new one",
    "InvalidAccessKeyId": "the server does not know the access key",
    "NoSuchBucket": "create the bucket first, or correct its name",
    "QuotaExceeded": "the bucket's quota is used up",
    "RequestTimeTooSkewed": "this host's clock is wrong: set it",
    "SignatureDoesNotMatch": "the secret key is not the one of the access key",
}

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a listing shows it; `size` in bytes."""

    key: str
    size: int
    written: datetime


class Bucket:
    """One bucket. Every request is tried again alone, with growing pauses, when what failed may pass.

    Raise ConnectionFailed when the server cannot be reached, BucketRefused when it says no, with what to do.
    """

    def __init__(self, options: S3Options, now: Callable[[], datetime]) -> None:
        self._options, self._now = options, now
        self._extra = _extra(options)
        self._client = self._told("connect", "", lambda: _client(options))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    @property
    def place(self) -> str:
        return f"s3://{self._options.bucket}"

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
            answer = self._client.get_object(Bucket=self._options.bucket, Key=key)
            with contextlib.closing(answer["Body"]) as body:
                if answer["ContentLength"] > most:
                    raise VerificationFailed(f"{self.place}/{key} is larger than it can be")
                return _whole(body, answer["ContentLength"])

        return self._told("get", key, fetch)

    def _is(self, key: str, body: bytes) -> bool:
        try:
            return self.get(key, len(body)) == body
        except VerificationFailed:
            return False

    def has(self, key: str) -> bool:
        try:
            self._told("head", key, lambda: self._client.head_object(Bucket=self._options.bucket, Key=key))
        except NotFound:
            return False
        return True

    def list(self, prefix: str) -> Iterator[Entry]:
        """All objects whose keys begin so, by key; a thousand in each request."""
        token: dict[str, str] = {}
        while True:
            page = self._told("list", prefix, partial(self._page, prefix, token))
            for found in page.get("Contents", ()):
                yield Entry(found["Key"], found["Size"], found["LastModified"])
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def delete(self, key: str) -> None:
        """Delete exactly this object; gone already is success."""
        self._told("delete", key, lambda: self._client.delete_object(Bucket=self._options.bucket, Key=key))

    def _page(self, prefix: str, more: Mapping[str, str]) -> Any:
        return self._client.list_objects_v2(Bucket=self._options.bucket, Prefix=prefix, **more)

    def _put(self, key: str, body: bytes | bytearray, digest: bytes, extra: Mapping[str, str]) -> None:
        lock: dict[str, Any] = {}
        if self._options.lock_mode:
            until = self._now() + timedelta(days=self._options.lock_days)
            lock = {"ObjectLockMode": self._options.lock_mode, "ObjectLockRetainUntilDate": until}
        self._told(
            "put",
            key,
            lambda: self._client.put_object(
                Bucket=self._options.bucket,
                Key=key,
                # A bytearray is sent as it is; bytes are copied behind the request's head first.
                Body=body,
                ChecksumSHA256=base64.b64encode(digest).decode(),
                **self._extra,
                **lock,
                **extra,
            ),
        )

    def _told(self, verb: str, key: str, request: Callable[[], Result]) -> Result:
        try:
            return self._tries(verb, key)(request)
        except ClientError as refused:
            raise self._refusal(verb, key, refused) from refused
        except (NoCredentialsError, ProfileNotFound) as missing:
            raise BucketRefused(f"no credentials for {self.place}: {missing}", "NoCredentials") from missing
        except (BotoCoreError, HTTPError, OSError) as failure:
            raise ConnectionFailed(
                ("s3", verb), -1, str(failure), self._options.endpoint or self.place
            ) from failure

    def _tries(self, verb: str, key: str) -> Retrying:
        def tell(state: Any) -> None:
            failure = state.outcome.exception()
            log.warning("s3.retried", verb=verb, key=key, attempt=state.attempt_number, error=str(failure))

        return Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(self._options.attempts),
            wait=wait_random_exponential(multiplier=0.2, max=self._options.most_wait_s),
            before_sleep=tell,
            reraise=True,
        )

    def _refusal(self, verb: str, key: str, refused: ClientError) -> NotFound | BucketRefused:
        error = refused.response.get("Error", {})
        code, message = str(error.get("Code", "")), str(error.get("Message", "")).strip()
        where = f"{self.place}/{key}"
        if code in ABSENT:
            return NotFound(f"there is no object {where}")
        said = ": ".join(part for part in (code, message, ADVICE.get(code, "")) if part)
        return BucketRefused(f"{verb} {where} was refused: {said}", code)


def _whole(body: Any, size: int) -> bytearray:
    """All that is to come, in one buffer. urllib3 has a copy of what is asked for at once."""
    content = bytearray(size)
    filled = 0
    with memoryview(content) as view:
        while filled < size:
            with view[filled : filled + STEP] as room:
                count = body.readinto(room)
            if not count:
                raise OSError(f"the answer ended after {filled} of {size} bytes")
            filled += count
    return content


def _may_pass(failure: BaseException) -> bool:
    if isinstance(failure, ClientError):
        status = failure.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(failure.response.get("Error", {}).get("Code", ""))
        return code in PASSING or (status >= 500 and code not in NO_CONDITIONS)
    return isinstance(failure, PASSING_FAILURES)


def _client(options: S3Options) -> Any:
    session = boto3.session.Session(
        profile_name=options.profile or None,
        aws_access_key_id=options.access or None,
        aws_secret_access_key=options.secret() or None,
        aws_session_token=options.token() or None,
        region_name=options.region or None,
    )
    proxies = {"http": options.proxy, "https": options.proxy} if options.proxy else None
    return session.client(
        "s3",
        endpoint_url=options.endpoint or None,
        verify=str(options.ca_file) if options.ca_file else None,
        config=Config(
            connect_timeout=options.connect_s,
            read_timeout=options.read_s,
            # Each request is tried again here, by tenacity: botocore would multiply that.
            retries={"total_max_attempts": 1},
            max_pool_connections=options.connections,
            proxies=proxies,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={
                "addressing_style": "path" if options.path_style else "auto",
                # The checksum header is signed and checked: hashing the body once more would prove nothing.
                "payload_signing_enabled": False,
            },
        ),
    )


def _extra(options: S3Options) -> dict[str, str]:
    pairs = {
        "StorageClass": options.storage_class,
        "ServerSideEncryption": options.sse,
        "SSEKMSKeyId": options.kms_key,
    }
    return {name: value for name, value in pairs.items() if value}
