"""An instance's part of a bucket, and send streams of which only the first record is read by anybody."""

import itertools
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.lab.s3_server import S3Server, client, s3_server
from tests.lab.said import said
from tests.unit.samples import PLAIN
from zbackup.config.s3 import S3
from zbackup.config.secret import SecretRef
from zbackup.destinations.s3.destination import S3Destination
from zbackup.destinations.s3.encryption import KEY, KeyFiles
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.sealed_keys import PrivateKeys, PublicKey, public_of
from zbackup.destinations.s3.session import S3Session
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.model.drr_begin import MAGIC
from zbackup.model.record import Record
from zbackup.model.shipping import OutgoingStream
from zbackup.proc.pipeline import Command, Meter, local

SEGMENT = 1 << 20
BUCKET = "zbackup-tests"
LINE = "tank/my data"
WHEN = "2026-11-01T12:00:00+00:00"
PRIVATE = bytes([0x42]) * KEY
PUBLIC = public_of(PRIVATE)
_numbers = itertools.count()


@dataclass(frozen=True)
class Shop:
    """A prefix of its own; `direct` is boto3's client, to look and to do harm with."""

    server: S3Server
    prefix: str
    home: Path
    bucket: str = BUCKET

    @property
    def root(self) -> str:
        return f"{self.prefix}/shop"

    @property
    def direct(self) -> Any:
        return _direct(self.server)

    def destination(
        self,
        *,
        endpoint: str = "",
        attempts: int = 5,
        keys: tuple[bytes, ...] = (),
        secret: str = "",
        lock_days: int = 0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        cache: Path | None = None,
        ca: Path | None = None,
        public: bytes = b"",
        private: tuple[bytes, ...] = (),
        **others: Any,
    ) -> S3Destination:
        """With `public` what is new is sealed for that one; `private` are the private keys that are here."""
        table = S3.model_construct(
            endpoint=endpoint or self.server.endpoint,
            region="us-east-1",
            access_key=self.server.access or None,
            secret_key=said(secret or self.server.secret) if self.server.access else None,
            session_token=said(self.server.token) if self.server.token else None,
            path_style=True,
            ca_file=ca,
            attempts=attempts,
            object_lock="GOVERNANCE" if lock_days else None,
            object_lock_days=lock_days,
            key=SecretRef("env", "KEY") if keys else None,
            **({"segment": SEGMENT, "uploads": 4, "max_chain": 0} | others),
        )
        return S3Destination(
            name="bucket",
            address=f"s3://{self.bucket}/{self.prefix}",
            prefix=self.prefix,
            instance="shop",
            bucket=self.bucket,
            most_wait_s=0.5,
            storing=StorageSettings(
                table=table,
                keys=KeyFiles(lambda: keys) if keys else None,
                public=PublicKey(public) if public else None,
                private=PrivateKeys(lambda: private),
            ),
            now=now,
            cache=cache,
            unfinished=self.home / "unfinished",
        )

    @contextmanager
    def session(self, **changes: object) -> Iterator[S3Session]:
        with self.destination(**changes).connect() as session:  # type: ignore[arg-type]
            yield session

    def sender(self, content: bytes) -> Command:
        path = self.home / f"stream{next(_numbers)}"
        path.write_bytes(content)
        return local(("cat", str(path)))

    def objects(self, below: str = "") -> list[str]:
        listed = self.direct.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.root}/{below}")
        return [found["Key"] for found in listed.get("Contents", ())]

    def segments(self) -> list[str]:
        return self.objects("segments/")

    def written(self) -> dict[str, datetime]:
        """When each segment was stored."""
        listed = self.direct.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.root}/segments/")
        return {found["Key"]: found["LastModified"] for found in listed.get("Contents", ())}

    def body(self, key: str) -> bytes:
        return bytes(self.direct.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def replace(self, key: str, body: bytes) -> None:
        self.direct.put_object(Bucket=self.bucket, Key=key, Body=body)


@contextmanager
def seaweed_of(server: S3Server) -> Iterator[S3Server]:
    """That one, or where it is another kind a SeaweedFS: it can be told who may do what."""
    if server.shell:
        yield server
        return
    with s3_server(other="") as started:
        client(started).create_bucket(Bucket=BUCKET)
        yield started


@cache
def _direct(server: S3Server) -> Any:
    """Making one takes as long as ten requests."""
    return client(server)


def new_shop(server: S3Server, home: Path) -> Shop:
    return Shop(server, f"test-{next(_numbers)}", home)


def stream(guid: int, base: int | None = None, *, size: int = 5 * SEGMENT // 2, order: str = "<") -> bytes:
    """What begins as a send stream does and goes on with bytes that cannot be compressed."""
    head = struct.pack(f"{order}IIQQQIIQQ", 0, 0, MAGIC, 1, 0, 2, 0, guid, base or 0)
    return head + os.urandom(size - len(head))


def part(guid: int, base: int | None = None, *, dataset: str = LINE, raw: bool = False) -> OutgoingStream:
    return OutgoingStream(dataset=dataset, guid=guid, name=f"zbackup-{guid}", base=base, raw=raw)


def record(number: int, *lines: str) -> Record:
    at = datetime(2026, 11, 1, number, tzinfo=UTC)
    members = tuple((line, f"/{line}") for line in lines or (LINE,))
    return replace(PLAIN, backup=f"backup-{number}", members=members, taken=at, as_of=at, complete_to=at)


def ship(session: S3Session, shop: Shop, content: bytes, wanted: OutgoingStream, number: int) -> None:
    session.store(wanted, shop.sender(content), Meter())
    session.commit(record(number), [wanted], WHEN)


def fetched(session: S3Session, wanted: OutgoingStream) -> bytes:
    stream_id = StreamId(dataset=wanted.dataset, guid=wanted.guid, base=wanted.base)
    return b"".join(bytes(content) for content in session.stream(stream_id, Meter()))


def some_key() -> bytes:
    return os.urandom(KEY)
