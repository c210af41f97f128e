"""Answers of a server: which requests are tried again, and which failures are told at once, in which
words."""

import ssl
from http.client import IncompleteRead
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import botocore
import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ProfileNotFound,
    ResponseStreamingError,
    SSLError,
)
from structlog.testing import capture_logs
from urllib3.exceptions import ProtocolError

from tests.lab.said import said
from zbackup.config.s3 import S3
from zbackup.destinations.s3 import server
from zbackup.destinations.s3.server import S3Server, date_of
from zbackup.model.errors import BucketRefused, ConfigError, ConnectionFailed, NotFound, ZbackupError

DATE = "Sun, 01 Nov 2026 12:00:00 GMT"


def refused(code: str, status: int = 400, message: str = "no.") -> ClientError:
    answer = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {"date": DATE}},
    }
    return ClientError(answer, "it")  # type: ignore[arg-type]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> S3Server:
    monkeypatch.setattr(server, "_client", lambda _: SimpleNamespace(close=lambda: None))
    return S3Server("b", S3.model_construct(endpoint="http://there", attempts=3), 0.0)


def asked(asking: S3Server, *failures: Exception, verb: str = "get") -> tuple[int, Any]:
    found: Any
    left, count = list(failures), 0

    def request() -> str:
        nonlocal count
        count += 1
        if left:
            raise left.pop(0)
        return "an answer"

    try:
        found = asking.ask(verb, "key", request)
    except ZbackupError as failure:
        found = failure
    return count, found


PASSING = [
    *(refused(code) for code in sorted(server.PASSING)),
    refused("Odd", 500),
    refused("Odd", 599),
    EndpointConnectionError(endpoint_url="http://there"),
    ResponseStreamingError(error="cut"),
    ProtocolError("cut"),
    IncompleteRead(b""),
    ConnectionResetError(),
    TimeoutError(),
]
LASTING = [
    *(refused(code, 500) for code in sorted(server.FULL | server.NO_CONDITIONS)),
    refused("Odd", 507),
    refused("Odd", 499),
    refused("AccessDenied", 403),
    refused("NoSuchKey", 404),
    NoCredentialsError(),
    ProfileNotFound(profile="p"),
    ParamValidationError(report="r"),
]


def named(failure: Exception) -> str:
    code = failure.response["Error"]["Code"] if isinstance(failure, ClientError) else ""
    return f"{type(failure).__name__} {code}"


@pytest.mark.parametrize("failure", PASSING, ids=named)
def test_what_may_pass_is_tried_again_so_often(asking: S3Server, failure: Exception) -> None:
    with capture_logs() as log:
        assert asked(asking, failure, failure) == (3, "an answer")
        count, found = asked(asking, failure, failure, failure)
        asking.close()
    assert count == 3 and isinstance(found, BucketRefused | ConnectionFailed)
    assert [line["event"] for line in log if line["log_level"] != "debug"] == [
        "s3.retried",
        "s3.retries_over",
    ]


@pytest.mark.parametrize("failure", LASTING, ids=named)
def test_what_does_not_pass_is_told_at_once(asking: S3Server, failure: Exception) -> None:
    count, found = asked(asking, failure)
    assert count == 1 and isinstance(found, BucketRefused | ConnectionFailed | NotFound)
    assert "\n" not in str(found)


def test_a_stranger_is_told_at_once(asking: S3Server) -> None:
    wrong = ssl.SSLCertVerificationError(1, "failed")
    wrong.verify_message = "self-signed certificate"
    outer = SSLError(endpoint_url="http://there", error=wrong)
    outer.__context__ = wrong
    deeper = OSError("outside")
    deeper.__cause__ = outer
    for failure in (outer, deeper):
        count, found = asked(asking, failure)
        assert count == 1 and isinstance(found, ConnectionFailed)
        assert "its certificate is not trusted: self-signed certificate; who may vouch" in str(found)
    count, found = asked(asking, *[SSLError(endpoint_url="http://there", error="handshake")] * 3)
    assert count == 3 and "certificate is not trusted" not in str(found)
    assert str(found).startswith("no connection to http://there: ")


@pytest.mark.parametrize(
    ("code", "verb", "words"),
    [
        (
            "AccessDenied",
            "put",
            "put s3://b/key was refused: AccessDenied: no: the credentials do not allow it",
        ),
        ("AccessDenied", "put", ", which takes s3:PutObject"),
        ("403", "delete", "which takes s3:DeleteObject, and"),
        ("AccessDenied", "connect", "AccessDenied: no: the credentials do not allow it"),
        ("NoSuchBucket", "list", "create the bucket first"),
        ("QuotaExceeded", "put", "the bucket is full"),
        ("RequestTimeTooSkewed", "list", f"this host's clock is wrong: set it (the server has {DATE})"),
        ("Odd", "list", "list s3://b/key was refused: Odd: no"),
    ],
)
def test_a_refusal_says_what_to_do(asking: S3Server, code: str, verb: str, words: str) -> None:
    _, found = asked(asking, refused(code), verb=verb)
    assert isinstance(found, BucketRefused) and found.code == code
    assert words in str(found)
    if code == "Odd" or verb == "connect":
        assert str(found).endswith(words)


def test_what_is_not_there_is_told_so(asking: S3Server) -> None:
    for code in sorted(server.ABSENT):
        _, found = asked(asking, refused(code, 404))
        assert isinstance(found, NotFound) and str(found) == "there is no object s3://b/key"
    assert isinstance(asking.refusal("get", "key", {}), BucketRefused)


def test_a_clock_that_is_wrong_is_told_without_the_servers_too(asking: S3Server) -> None:
    assert str(asking.refusal("get", "key", {"Code": "RequestTimeTooSkewed"})).endswith("set it")
    assert date_of({}) == "" and date_of({"ResponseMetadata": {"HTTPHeaders": {"date": DATE}}}) == DATE


def test_without_credentials_nothing_is_asked(asking: S3Server) -> None:
    _, found = asked(asking, NoCredentialsError())
    assert isinstance(found, BucketRefused) and found.code == "NoCredentials"
    assert str(found).startswith("no credentials for s3://b: ")


def test_a_client_is_made_as_the_table_says() -> None:
    table = S3.model_construct(
        endpoint="http://127.0.0.1:1", region="here", access_key="access", secret_key=said("secret"),
        session_token=said("token"), path_style=True, attempts=1, connect_timeout=1, read_timeout=2,
        uploads=3, proxy="http://127.0.0.1:2",
    )  # fmt: skip
    client = S3Server("b", table).client
    config = client.meta.config
    credentials = client._request_signer._credentials
    assert (credentials.access_key, credentials.secret_key, credentials.token) == (
        "access",
        "secret",
        "token",
    )
    assert (client.meta.endpoint_url, client.meta.region_name) == ("http://127.0.0.1:1", "here")
    assert (config.connect_timeout, config.read_timeout, config.max_pool_connections) == (1, 2, 3)
    assert config.s3["addressing_style"] == "path" and config.proxies["https"] == "http://127.0.0.1:2"
    assert config.retries["total_max_attempts"] == 1
    client.close()


def test_what_a_table_leaves_open_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from the environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for name in ("AWS_SESSION_TOKEN", "AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    client = S3Server("b", S3.model_construct(region="us-east-1")).client
    assert client._request_signer._credentials.access_key == "from the environment"
    assert (
        client.meta.endpoint_url.endswith("amazonaws.com") and client._endpoint.http_session._verify is True
    )
    assert client.meta.config.proxies is None and client.meta.config.s3["addressing_style"] == "auto"
    client.close()


def test_a_profile_that_is_not_there_is_told() -> None:
    with pytest.raises(BucketRefused, match=r"no credentials for s3://b: .*nobody"):
        S3Server("b", S3.model_construct(profile="nobody", region="us-east-1"))


def test_who_may_vouch_is_asked() -> None:
    file = Path(botocore.__file__).with_name("cacert.pem")
    client = S3Server("b", S3.model_construct(region="us-east-1", ca_file=file)).client
    assert client._endpoint.http_session._verify == str(file)
    client.close()


def test_who_may_vouch_has_to_be_there(tmp_path: Path) -> None:
    for file in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(ConfigError, match=rf"ca_file {file}: "):
            S3Server("b", S3.model_construct(endpoint="http://there", ca_file=file))
