"""Ask the server: credentials, tries, and what its refusals are called.

Facts are of the S3 API reference (error responses) and of the configuration of botocore, below boto3.
"""

import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from ssl import SSLCertVerificationError, create_default_context
from threading import Lock
from typing import Any, TypeVar

from boto3.session import Session as BotoSession
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
from botocore.loaders import create_loader
from botocore.session import Session
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential
from urllib3.exceptions import HTTPError

from zbackup.config.s3 import S3
from zbackup.model.errors import BucketRefused, ConfigError, ConnectionFailed, NotFound
from zbackup.model.event_log import log

CALM_S = 60.0
"""Seconds without a retry after which the trouble is over."""


class Trouble:
    """The trouble of one connection; told by several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._count = 0
        self._since = self._last = 0.0

    def met(self, verb: str, key: str, attempt: int, error: str) -> None:
        """A request is tried again."""
        with self._lock:
            self._last = self._clock()
            self._count += 1
            if self._count == 1:
                self._since = self._last
                log.warning("s3.retried", verb=verb, key=ascii(key)[1:-1], attempt=attempt, error=error)
                return
        log.debug("s3.retried_more", verb=verb, key=ascii(key)[1:-1], attempt=attempt, error=error)

    def passed(self) -> None:
        """A request was answered."""
        if self._count and self._clock() - self._last >= CALM_S:
            self.over()

    def over(self) -> None:
        """Nothing more is asked, or has failed for long."""
        with self._lock:
            if self._count:
                log.info("s3.retries_over", retries=self._count, seconds=round(self._last - self._since, 1))
            self._count = 0


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
# HTTPError is urllib3's: botocore lets it through when an answer that is not streamed breaks off. OSError and
# HTTPException are of the response below it, which objects are read from.
PASSING_FAILURES = (
    ConnectionError,
    HTTPClientError,
    ResponseStreamingError,
    HTTPError,
    HTTPException,
    OSError,
)
ABSENT = frozenset({"404", "NoSuchKey", "NotFound"})
NO_CONDITIONS = frozenset({"NotImplemented", "501"})
# What Ceph, MinIO and others say when there is no more room. Some answer with 507, and it does not pass.
FULL = frozenset(
    {
        "507",
        "InsufficientStorage",
        "QuotaExceeded",
        "XMinioAdminBucketQuotaExceeded",
        "XMinioStorageFull",
    }
)
DENIED = frozenset({"AccessDenied", "403"})
# What a policy calls what is asked for, by the verb that people are told.
RIGHTS = {
    "delete": "s3:DeleteObject, and in a bucket with versions s3:DeleteObjectVersion",
    "get": "s3:GetObject",
    "get-versioning": "s3:GetBucketVersioning",
    "head": "s3:GetObject",
    "list": "s3:ListBucket",
    "list-versions": "s3:ListBucketVersions",
    "put": "s3:PutObject",
}
ADVICE = {
    "ExpiredToken": "the session token has expired: get a new one",
    "InternalError": "trying again did not help; the server's own log says why, which may be that it is full",
    # SeaweedFS forgets the key of a session that has ended.
    "InvalidAccessKeyId": "the server does not know the access key: correct it, or get a new session token",
    "NoSuchBucket": "create the bucket first, or correct its name",
    "SignatureDoesNotMatch": "the secret key is not the one of the access key",
    **dict.fromkeys(FULL, "the bucket is full: raise its quota, or prune it with zbackup prune --at"),
}

# What botocore knows of services takes longer to read than a client takes to make: it is read once.
_MODELS = create_loader()
_PATHS = len(_MODELS.search_paths)

Result = TypeVar("Result")

MOST_WAIT_S = 30.0
"""The longest pause before a request is tried again."""


class S3Server:
    """The server that is asked for one bucket. Every request is tried again alone when what failed may pass.

    Raise ConnectionFailed when it cannot be reached, BucketRefused when it says no, with what to do, and
    ConfigError when there are no certificates in ca_file.
    """

    def __init__(self, bucket: str, table: S3, most_wait_s: float = MOST_WAIT_S) -> None:
        self._bucket, self._table, self._most_wait_s = bucket, table, most_wait_s
        self._trouble = Trouble()
        if table.ca_file:
            _require_certificates(table.ca_file)
        self.client: Any = self.ask("connect", "", lambda: _client(table))

    @property
    def address(self) -> str:
        return f"s3://{self._bucket}"

    def ask(self, verb: str, key: str, request: Callable[[], Result]) -> Result:
        """The answer; `verb` and `key` are for people."""
        try:
            answered = self._tries(verb, key)(request)
            self._trouble.passed()
            return answered
        except ClientError as refused:
            answer = refused.response
            raise self.refusal(verb, key, answer.get("Error", {}), date_of(answer)) from refused
        except (NoCredentialsError, ProfileNotFound) as missing:
            raise BucketRefused(f"no credentials for {self.address}: {missing}", "NoCredentials") from missing
        except (BotoCoreError, HTTPError, HTTPException, OSError) as failure:
            stranger = _stranger(failure)
            raise ConnectionFailed(
                ("s3", verb), -1, stranger or str(failure), self._table.endpoint or self.address
            ) from failure

    def _tries(self, verb: str, key: str) -> Retrying:
        def tell(state: Any) -> None:
            self._trouble.met(verb, key, state.attempt_number, str(state.outcome.exception()))

        return Retrying(
            retry=retry_if_exception(_may_pass),
            stop=stop_after_attempt(self._table.attempts),
            wait=wait_random_exponential(multiplier=0.2, max=self._most_wait_s),
            before_sleep=tell,
            reraise=True,
        )

    def close(self) -> None:
        self._trouble.over()
        self.client.close()

    def refusal(
        self, verb: str, key: str, error: Mapping[str, Any], date: str = ""
    ) -> NotFound | BucketRefused:
        """What an error of the server's (Code, Message) is called; `date` is when it was, at the
        server."""
        code, message = str(error.get("Code", "")), str(error.get("Message", "")).strip()
        where = f"{self.address}/{key}"
        if code in ABSENT:
            return NotFound(f"there is no object {where}")
        advice = ADVICE.get(code, "")
        if code in DENIED:
            right = RIGHTS.get(verb)
            advice = "the credentials do not allow it" + (f", which takes {right}" if right else "")
        if code == "RequestTimeTooSkewed":
            advice = "this host's clock is wrong: set it" + (f" (the server has {date})" if date else "")
        said = ": ".join(part for part in (code, message.rstrip("."), advice) if part)
        return BucketRefused(f"{verb} {where} was refused: {said}", code)


def date_of(answer: Mapping[str, Any]) -> str:
    """When it was given, at the server, in HTTP's words; "" when it does not say."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("date", ""))


def _may_pass(failure: BaseException) -> bool:
    if isinstance(failure, ClientError):
        status = failure.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(failure.response.get("Error", {}).get("Code", ""))
        lasting = status == 507 or code in NO_CONDITIONS | FULL
        return code in PASSING or (status >= 500 and not lasting)
    return isinstance(failure, PASSING_FAILURES) and not _stranger(failure)


def _stranger(failure: BaseException | None) -> str:
    """Return why the server is not the one it says; "" when something else failed."""
    while failure is not None:
        if isinstance(failure, SSLCertVerificationError):
            said = failure.verify_message
            return f"its certificate is not trusted: {said}; who may vouch for it is in ca_file"
        failure = failure.__cause__ or failure.__context__
    return ""


def _require_certificates(file: Path) -> None:
    try:
        create_default_context(cafile=file)
    except OSError as wrong:
        raise ConfigError([f"ca_file {file}: {wrong.strerror}"]) from wrong


def _client(table: S3) -> Any:
    core = Session(profile=table.profile or None)
    core.register_component("data_loader", _MODELS)
    session = BotoSession(botocore_session=core)
    # It adds its own models there each time, which no client of S3 needs.
    del _MODELS.search_paths[_PATHS:]
    proxies = {"http": table.proxy, "https": table.proxy} if table.proxy else None
    return session.client(
        "s3",
        aws_access_key_id=table.access_key or None,
        aws_secret_access_key=table.secret_key.read() if table.secret_key else None,
        aws_session_token=table.session_token.read() if table.session_token else None,
        region_name=table.region or None,
        endpoint_url=table.endpoint or None,
        verify=str(table.ca_file) if table.ca_file else None,
        config=Config(
            connect_timeout=table.connect_timeout,
            read_timeout=table.read_timeout,
            # Each request is tried again here, by tenacity: botocore would multiply that.
            retries={"total_max_attempts": 1},
            max_pool_connections=table.uploads,
            proxies=proxies,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
            s3={
                "addressing_style": "path" if table.path_style else "auto",
                # The checksum header is signed and checked: hashing the body once more would prove nothing.
                "payload_signing_enabled": False,
            },
        ),
    )
