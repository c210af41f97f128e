"""A bucket as a destination: what it makes of its settings, and whose backups lie below an address."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.destinations.bucket import SOME_KEY, MemoryBucket, Shop, part, stream
from zbackup.config.s3 import S3
from zbackup.destinations.s3 import destination as module
from zbackup.destinations.s3.destination import S3Destination
from zbackup.destinations.s3.encryption import KeyFiles
from zbackup.destinations.s3.settings import StorageSettings, require_stream
from zbackup.model.errors import NotFound, VerificationFailed

KEYS = KeyFiles(lambda: (bytes(32),))


class Folders(MemoryBucket):
    """With the listing that only a destination asks for."""

    def folders(self, prefix: str) -> Iterator[str]:
        below = [key.removeprefix(prefix) for key in sorted(self.objects) if key.startswith(prefix)]
        yield from dict.fromkeys(key.partition("/")[0] for key in below if "/" in key)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Folders:
    made = Folders()

    @contextmanager
    def opened(*asked: object) -> Iterator[Folders]:
        made.asked.append(("open", str(asked[0])))
        yield made

    monkeypatch.setattr(module, "Bucket", opened)
    return made


def destination(bucket: MemoryBucket, prefix: str = "a", **settings: Any) -> S3Destination:
    keys = settings.pop("keys", None)
    cache = settings.pop("cache", None)
    table = S3.model_construct(**settings)
    return S3Destination(
        name="bucket",
        address=f"s3://b/{prefix}",
        prefix=prefix,
        instance="shop",
        bucket="b",
        storing=StorageSettings(table=table, keys=keys),
        now=lambda: bucket.clock,
        cache=cache,
    )


def test_what_the_settings_say_reaches_the_session(bucket: Folders, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"endpoint": "https://there", "object_lock": "GOVERNANCE"}
    given = destination(bucket, keys=KEYS, key=SOME_KEY, accept_unbound=False, cache=tmp_path, **settings)
    with given.connect() as session:
        assert session.layout.root == "a/shop" and session.address == "s3://b/a"
        assert session.logs.locked and session.logs.root == "a/shop"
        assert session.pages.signed_only and session.pages.signing.bound_only
        assert session.pages.signing.keys is KEYS
        assert session.pages.cache.address == ("https://there", "b", "a/shop")
        assert session.pages.cache.home == tmp_path
    with destination(bucket).connect() as session:
        assert not session.logs.locked and session.pages.cache.address == ("", "b", "a/shop")
        assert not session.pages.signed_only and not session.pages.signing.bound_only
    with destination(bucket, keys=KEYS, accept_plain=True).connect() as session:
        assert not session.pages.signed_only


@pytest.mark.parametrize("prefix", ["a", ""])
def test_the_instances_of_an_address_are_those_with_backups(prefix: str, bucket: Folders) -> None:
    below = f"{prefix}/" if prefix else ""
    for key in ("shop/backups/x", "mail/backups/x", "begun/streams/x", "no name/backups/x", "file"):
        bucket.set(below + key, b"")
    bucket.set("elsewhere/deep/backups/x", b"")
    assert destination(bucket, prefix).instances() == [("", "mail"), ("", "shop")]
    assert destination(bucket, "nothing/there").instances() == []


def test_the_address_of_one_instance_is_refused(bucket: Folders) -> None:
    for key in ("backups/x", "streams/x"):
        bucket.set(f"a/shop/{key}", b"")
    with pytest.raises(NotFound, match="s3://b/a/shop is that of one instance alone: name the prefix above"):
        destination(bucket, "a/shop").instances()
    bucket.set("a/shop/inner/backups/x", b"")
    assert destination(bucket, "a/shop").instances() == [("", "inner")], "whatever lies beside it"


def test_what_is_no_prefix_of_an_instance_is_none(bucket: Folders) -> None:
    bucket.set("a/shop/streams/x", b"")
    assert destination(bucket, "a/shop").instances() == [], "nothing was committed yet"


def test_new_streams_are_encrypted_by_a_key_of_the_table() -> None:
    assert StorageSettings(table=S3.model_construct(key=SOME_KEY), keys=KEYS).encrypts_new
    assert not StorageSettings(table=S3.model_construct(key=SOME_KEY)).encrypts_new
    assert not StorageSettings(table=S3.model_construct(), keys=KEYS).encrypts_new
    assert not StorageSettings(table=S3.model_construct()).signed_only


def test_what_was_shipped_is_found_there(bucket: Folders, tmp_path: Path) -> None:
    shop = Shop(tmp_path, bucket)
    shop.ship(part(11), 1, stream(11))
    with destination(bucket).connect() as session:
        assert [b.record.backup for b in session.copies().backups] == ["backup-1"]


def test_only_the_stream_that_was_asked_for_is_one() -> None:
    with pytest.raises(VerificationFailed, match="is no ZFS send stream"):
        require_stream(memoryview(b"x" * 400), part(11))
    for other in (stream(12), stream(11, 5)):
        with pytest.raises(VerificationFailed, match="not of 11 from None"):
            require_stream(memoryview(other), part(11))
    require_stream(memoryview(stream(11)), part(11))
