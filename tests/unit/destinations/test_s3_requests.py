"""Requests to a bucket, by a client in memory in the place of boto3's: each page and each version."""

import base64
import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from zbackup.config.s3 import S3
from zbackup.destinations.s3 import client, server
from zbackup.destinations.s3.client import Bucket, Fill
from zbackup.model.errors import BucketRefused, NotFound, VerificationFailed

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Body(io.BytesIO):
    """An answer that is read; closed by whoever is done with it."""


def refused(code: str, status: int = 400) -> ClientError:
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "it")  # type: ignore[arg-type]


@dataclass
class Client:
    """Objects with all their versions, oldest first; `page` are shown at a time. `asked` grows.

    `fails` has what an operation raises, the next time.
    """

    versioned: bool = False
    page: int = 2
    objects: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)
    heads: dict[str, dict[str, Any]] = field(default_factory=dict)
    fails: dict[str, list[Exception]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    date: str = "Sun, 01 Nov 2026 12:00:00 GMT"
    errors: tuple[dict[str, str], ...] = ()
    unconditional: str = ""
    """What it says to who asks for a condition."""

    def _ask(self, operation: str, how: dict[str, Any]) -> None:
        assert how.pop("Bucket") == "b"
        self.asked.append((operation, how))
        if self.fails.get(operation):
            raise self.fails[operation].pop(0)

    def put_object(self, **how: Any) -> None:
        self._ask("put", how)
        digest = base64.b64encode(hashlib.sha256(how["Body"]).digest()).decode()
        assert how["ChecksumSHA256"] == digest
        if "IfNoneMatch" in how and self.unconditional:
            raise refused(self.unconditional, 501)
        if "IfNoneMatch" in how and how["Key"] in self.objects:
            raise refused("PreconditionFailed", 412)
        versions = self.objects.setdefault(how["Key"], [])
        versions[:] = [*(versions if self.versioned else ()), (f"v{len(self.asked)}", bytes(how["Body"]))]

    def get_object(self, **how: Any) -> dict[str, Any]:
        self._ask("get", how)
        if how["Key"] not in self.objects:
            raise refused("NoSuchKey", 404)
        content = self.objects[how["Key"]][-1][1]
        self.bodies.append(Body(content))
        return {"Body": self.bodies[-1], "ContentLength": len(content)}

    def head_object(self, **how: Any) -> dict[str, Any]:
        self._ask("head", how)
        if how["Key"] not in self.objects:
            raise refused("404", 404)
        return self.heads.get(how["Key"], {})

    def delete_object(self, **how: Any) -> None:
        self._ask("delete", how)
        self.objects.pop(how["Key"], None)

    def delete_objects(self, **how: Any) -> dict[str, Any]:
        self._ask("delete many", how)
        for each in how["Delete"]["Objects"]:
            versions = self.objects.get(each["Key"], [])
            if self.versioned and "VersionId" not in each:
                versions.append((f"m{len(self.asked)}", b""))
                continue
            versions[:] = [v for v in versions if self.versioned and v[0] != each["VersionId"]]
            if not versions:
                self.objects.pop(each["Key"], None)
        return {"Errors": self.errors} if self.errors else {}

    def list_objects_v2(self, **how: Any) -> dict[str, Any]:
        self._ask("list", how)
        keys = sorted(key for key in self.objects if key.startswith(how["Prefix"]))
        if "Delimiter" in how:
            below = {k.removeprefix(how["Prefix"]) for k in keys}
            keys = sorted({how["Prefix"] + k.partition("/")[0] + "/" for k in below if "/" in k})
        begin = int(how.get("ContinuationToken", 0))
        shown = keys[begin : begin + self.page]
        answer: dict[str, Any] = {"ResponseMetadata": {"HTTPHeaders": {"date": self.date}}}
        if "Delimiter" in how:
            answer["CommonPrefixes"] = [{"Prefix": key} for key in shown]
        elif shown:
            answer["Contents"] = [self._entry(key) for key in shown]
        more = begin + self.page < len(keys)
        return (
            answer
            | {"IsTruncated": more}
            | ({"NextContinuationToken": str(begin + self.page)} if more else {})
        )

    def _entry(self, key: str) -> dict[str, Any]:
        return {"Key": key, "Size": len(self.objects[key][-1][1]), "LastModified": NOON, "ETag": f'"{key}"'}

    def get_bucket_versioning(self, **how: Any) -> dict[str, Any]:
        self._ask("versioning", how)
        return {"Status": "Enabled"} if self.versioned else {}

    def list_object_versions(self, **how: Any) -> dict[str, Any]:
        self._ask("versions", how)
        every = [
            {"Key": key, "VersionId": version, "LastModified": NOON, "Marker": not body}
            for key, versions in sorted(self.objects.items())
            for version, body in versions
            if key.startswith(how["Prefix"])
        ]
        begin = int(how.get("KeyMarker", 0))
        assert ("VersionIdMarker" in how) == (begin == 2), "the server says whether there is one"
        shown = every[begin : begin + self.page]
        more = begin + self.page < len(every)
        answer = {
            "Versions": [each for each in shown if not each["Marker"]],
            "DeleteMarkers": [each for each in shown if each["Marker"]],
            "IsTruncated": more,
        }
        marks = {"NextKeyMarker": str(begin + self.page), "NextVersionIdMarker": "v" if begin == 0 else ""}
        return answer | (marks if more else {})

    def close(self) -> None:
        self.asked.append(("close", {}))


def table(**changes: Any) -> S3:
    return S3.model_construct(endpoint="http://there", attempts=1, **changes)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(server, "_client", lambda _: made)
    return made


@pytest.fixture
def bucket(asked: Client) -> Iterator[Bucket]:
    with Bucket("b", table(), lambda: NOON, 0.0) as made:
        yield made
    assert asked.asked[-1] == ("close", {}) and all(body.closed for body in asked.bodies)


def put(bucket: Bucket, *keys: str, body: bytes = b"body") -> None:
    for key in keys:
        bucket.put(key, body, hashlib.sha256(body).digest())


def test_an_object_is_put_with_its_checksum_and_as_the_table_says(asked: Client) -> None:
    until = NOON + timedelta(days=3)
    how = {
        "object_lock": "GOVERNANCE",
        "object_lock_days": 3,
        "storage_class": "COLD",
        "sse": "aws:kms",
        "kms_key": "k",
    }
    with Bucket("b", table(**how), lambda: NOON) as bucket:
        put(bucket, "a")
    ((_, said), _) = asked.asked
    del said["Body"], said["ChecksumSHA256"]
    assert said == {
        "Key": "a", "ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until,
        "StorageClass": "COLD", "ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "k",
    }  # fmt: skip


def test_by_itself_nothing_is_locked_and_no_class_is_named(asked: Client, bucket: Bucket) -> None:
    put(bucket, "a")
    assert set(asked.asked[0][1]) == {"Key", "Body", "ChecksumSHA256"}


def test_what_is_new_is_put_once(asked: Client, bucket: Bucket) -> None:
    assert bucket.put_new("a", b"one") and bucket.put_new("a", b"one")
    assert not bucket.put_new("a", b"two") and not bucket.put_new("a", b"longer than it is")
    assert bytes(bucket.get("a", 3)) == b"one"


@pytest.mark.parametrize("code", ["PreconditionFailed", "412", "ConditionalRequestConflict", "409"])
def test_who_is_told_that_it_is_there_looks_what_it_is(asked: Client, bucket: Bucket, code: str) -> None:
    for there, same in ((b"one", True), (b"two", False)):
        put(bucket, "a", body=there)
        asked.fails["put"] = [refused(code)]
        assert bucket.put_new("a", b"one") == same


@pytest.mark.parametrize("code", ["NotImplemented", "501"])
def test_a_server_without_conditions_is_asked_first(asked: Client, bucket: Bucket, code: str) -> None:
    asked.unconditional = code
    assert bucket.put_new("a", b"one") and bucket.put_new("a", b"one") and not bucket.put_new("a", b"two")
    assert bytes(bucket.get("a", 3)) == b"one"
    assert [name for name, _ in asked.asked].count("put") == 4, "nothing is put over another"


def test_another_refusal_is_told(asked: Client, bucket: Bucket) -> None:
    asked.fails["put"] = [refused("AccessDenied", 403)]
    with pytest.raises(BucketRefused, match="AccessDenied"):
        bucket.put_new("a", b"one")


def test_no_more_is_read_than_it_can_have(bucket: Bucket) -> None:
    put(bucket, "a")
    assert bytes(bucket.get("a", 4)) == b"body"
    with pytest.raises(VerificationFailed, match="larger than it can be"):
        bucket.get("a", 3)
    with pytest.raises(NotFound):
        bucket.get("b", 3)


def test_what_is_fetched_has_the_size_that_was_stored(asked: Client, bucket: Bucket) -> None:
    put(bucket, "a", body=b"0123456789")

    def read(fill: Fill) -> bytes:
        room = bytearray(10)
        for at, end in ((0, 3), (3, 10)):
            fill(memoryview(room)[at:end])
        return bytes(room)

    assert bucket.fetch("a", 10, read) == b"0123456789"
    for size in (9, 11):
        with pytest.raises(VerificationFailed, match="is not what was stored"):
            bucket.fetch("a", size, read)
    with pytest.raises(NotFound):
        bucket.fetch("b", 10, read)


def test_an_answer_that_breaks_off_is_no_object(asked: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is asked for anew."""
    with Bucket("b", table().model_copy(update={"attempts": 2}), lambda: NOON, 0.0) as bucket:
        put(bucket, "a")
        real = asked.get_object
        answers = iter([2, 0])

        def cut(**how: Any) -> dict[str, Any]:
            answer = real(**how)
            left = next(answers)
            return answer | ({"Body": Body(b"bo")} if left else {})

        monkeypatch.setattr(asked, "get_object", cut)
        assert bytes(bucket.get("a", 4)) == b"body"
        assert [name for name, _ in asked.asked].count("get") == 2


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ({}, ""),
        ({"ObjectLockLegalHoldStatus": "OFF"}, ""),
        ({"ObjectLockLegalHoldStatus": "ON"}, "there is a legal hold on it"),
        ({"ObjectLockRetainUntilDate": NOON}, ""),
        ({"ObjectLockRetainUntilDate": NOON + timedelta(1)}, "it is locked until 2026-11-02T12:00:00+00:00"),
    ],
)
def test_what_is_locked_says_until_when(
    asked: Client, bucket: Bucket, head: dict[str, Any], why: str
) -> None:
    put(bucket, "a")
    asked.heads["a"] = head
    assert bucket.locked("a") == why and bucket.has("a") and not bucket.has("b")
    with pytest.raises(NotFound):
        bucket.locked("b")


def test_all_pages_of_a_listing_are_read(asked: Client, bucket: Bucket) -> None:
    keys = [f"x/{n}" for n in range(5)]
    put(bucket, *keys, "y")
    asked.asked.clear()
    found = list(bucket.list("x/"))
    assert [e.key for e in found] == keys and {(e.size, e.written) for e in found} == {(4, NOON)}
    assert [e.etag for e in found] == [f'"{key}"' for key in keys]
    assert [how.get("ContinuationToken") for _, how in asked.asked] == [None, "2", "4"]
    assert list(bucket.list("z")) == []


def test_folders_are_what_has_more_below_it(bucket: Bucket) -> None:
    put(bucket, "x/a/1", "x/a/2", "x/b/1", "x/c/d/1", "x/file", "y/e/1")
    assert list(bucket.folders("x/")) == ["a", "b", "c"]


def test_the_time_is_the_servers(asked: Client, bucket: Bucket) -> None:
    assert bucket.time("x/") == NOON and asked.asked[-1][1] == {"Prefix": "x/", "MaxKeys": 1}
    asked.date = "tomorrow"
    with pytest.raises(BucketRefused, match="does not say what time it has, but 'tomorrow'"):
        bucket.time("x/")


def test_one_object_is_deleted(asked: Client, bucket: Bucket) -> None:
    put(bucket, "a", "ab")
    bucket.delete("a")
    bucket.delete("a")
    assert set(asked.objects) == {"ab"}


@pytest.mark.parametrize("versioned", [False, True])
def test_what_is_erased_leaves_no_version_and_takes_nothing_else(
    asked: Client, bucket: Bucket, versioned: bool
) -> None:
    asked.versioned = versioned
    for _ in range(3):
        put(bucket, "x/a", "x/ab", "x/b/1", "x/b/2", "x/b/", "y")
    asked.objects["x/a"].append(("marker", b""))
    bucket.erase("x/a")
    assert set(asked.objects) == {"x/ab", "x/b/1", "x/b/2", "x/b/", "y"}
    bucket.erase("x/b/", lambda key, written: key.endswith("2") and written == NOON)
    assert set(asked.objects) == {"x/ab", "x/b/1", "x/b/", "y"}
    bucket.erase("x/b/")
    assert set(asked.objects) == {"x/ab", "y"}
    assert len(asked.objects["y"]) == (3 if versioned else 1)
    assert ("versions" in [name for name, _ in asked.asked]) == versioned
    asked.asked.clear()
    bucket.erase("x/b/")
    assert "delete many" not in [name for name, _ in asked.asked]
    assert "versioning" not in [name for name, _ in asked.asked], "asked once"


def test_no_request_deletes_more_than_a_thousand(
    asked: Client, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "THOUSAND", 3)
    put(bucket, *(f"x/{n}" for n in range(7)), "y")
    asked.page = 100
    bucket.erase("x/")
    assert set(asked.objects) == {"y"}
    counts = [len(how["Delete"]["Objects"]) for name, how in asked.asked if name == "delete many"]
    assert counts == [3, 3, 1]


@pytest.mark.parametrize("code", ["NotImplemented", "501"])
def test_a_server_that_knows_no_versions_has_none(asked: Client, bucket: Bucket, code: str) -> None:
    put(bucket, "a")
    asked.fails["versioning"] = [refused(code, 501)]
    bucket.erase("a")
    assert not asked.objects


def test_who_may_not_ask_for_versions_deletes_nothing(asked: Client, bucket: Bucket) -> None:
    put(bucket, "a")
    asked.fails["versioning"] = [refused("AccessDenied", 403)]
    with pytest.raises(BucketRefused, match="s3:GetBucketVersioning"):
        bucket.erase("a")
    assert set(asked.objects) == {"a"}


def test_what_is_not_deleted_of_many_is_told(asked: Client, bucket: Bucket) -> None:
    put(bucket, "a")
    asked.errors = ({"Code": "NoSuchKey", "Key": "a"},)
    bucket.erase("a")
    put(bucket, "a")
    asked.errors = (
        {"Code": "NoSuchKey", "Key": "a"},
        {"Code": "AccessDenied", "Key": "a", "Message": "locked"},
    )
    with pytest.raises(BucketRefused, match=r"delete s3://b/a was refused: AccessDenied: locked"):
        bucket.erase("a")
