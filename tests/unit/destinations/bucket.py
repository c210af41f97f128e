"""A bucket in memory, which keeps what s3.client.Bucket promises, and an instance's part of it.

tests/destinations/test_memory_bucket.py asks a real server the same, and compares.
"""

import hashlib
import itertools
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from tests.unit.samples import PLAIN
from zbackup.config.s3 import S3
from zbackup.config.secret import SecretRef
from zbackup.destinations.s3.cache import NO_CACHE, PageCache
from zbackup.destinations.s3.client import Bucket, Entry, Fill, Which
from zbackup.destinations.s3.encryption import KEY, KeyFiles
from zbackup.destinations.s3.layout import Layout, StreamId
from zbackup.destinations.s3.log_archive import S3Logs
from zbackup.destinations.s3.manifest_store import ManifestStore
from zbackup.destinations.s3.sealed_keys import PrivateKeys, PublicKey, public_of
from zbackup.destinations.s3.session import S3Session
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.destinations.s3.signatures import Signatures
from zbackup.destinations.s3.unfinished_keys import UnfinishedKeys
from zbackup.model.backup import Backup
from zbackup.model.drr_begin import MAGIC
from zbackup.model.errors import BucketRefused, NotFound, VerificationFailed
from zbackup.model.record import Record
from zbackup.model.shipping import OutgoingStream
from zbackup.proc.pipeline import Meter, local

DATASET = "tank/db"
INNER = f"{DATASET}/log"
WHEN = "2026-11-01T12:00:00+00:00"
ROOT = "a/shop"
LAYOUT = Layout(ROOT)
SEGMENT = 1000
SOME_KEY = SecretRef("env", "KEY")
"""Where nobody looks: tests have their keys by hand."""
SIZE = 2500
"""Bytes of a stream: three segments."""
SECRET = bytes(range(KEY))
OTHER_SECRET = bytes(reversed(SECRET))
PRIVATE = bytes([0x42]) * KEY
PUBLIC = public_of(PRIVATE)
_numbers = itertools.count()
_CHAINS: dict[object, tuple[dict[int, bytes], dict[str, tuple[bytes, datetime, str]], datetime]] = {}


@dataclass
class MemoryBucket:
    """Its objects with when they were written; a second passes at each. `locks` has why a key is locked.

    `refused` are the verbs that the credentials do not allow. `asked` grows. What hook() has named is done
    once, before (or with `after:` after) the first such request.
    """

    objects: dict[str, tuple[bytes, datetime, str]] = field(default_factory=dict)
    clock: datetime = datetime(2026, 11, 1, tzinfo=UTC)
    locks: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)
    hooks: list[tuple[str, str, Callable[[], object]]] = field(default_factory=list)
    address: str = "s3://bucket"

    def hook(self, verb: str, end: str, work: Callable[[], object]) -> None:
        self.hooks.append((verb, end, work))

    def put(self, key: str, body: bytes | bytearray, digest: bytes) -> None:
        self._ask("put", key)
        if hashlib.sha256(body).digest() != digest:
            raise BucketRefused(f"put {key} was refused: BadDigest", "BadDigest")
        self.set(key, bytes(body))
        self._did("put", key)

    def put_new(self, key: str, body: bytes) -> bool:
        self._ask("put_new", key)
        if key in self.objects:
            return self.objects[key][0] == body
        self.set(key, bytes(body))
        self._did("put_new", key)
        return True

    def get(self, key: str, most: int) -> bytearray:
        self._ask("get", key)
        body = self.body(key)
        if len(body) > most:
            raise VerificationFailed(f"{self.address}/{key} is larger than it can be")
        return bytearray(body)

    def fetch(self, key: str, size: int, use: Callable[[Fill], Any]) -> Any:
        self._ask("get", key)
        body = memoryview(self.body(key))
        if len(body) != size:
            raise VerificationFailed(f"{self.address}/{key} is not what was stored: it is damaged")
        given = 0

        def fill(room: memoryview) -> None:
            nonlocal given
            if len(room) > len(body) - given:
                raise OSError("the answer ended early")
            room[:] = body[given : given + len(room)]
            given += len(room)

        return use(fill)

    def has(self, key: str) -> bool:
        self._ask("head", key)
        return key in self.objects

    def locked(self, key: str) -> str:
        self._ask("head", key)
        self.body(key)
        return self.locks.get(key, "")

    def having(self, word: str = "") -> list[str]:
        return sorted(key for key in self.objects if word in key)

    def list(self, prefix: str) -> Iterator[Entry]:
        self._ask("list", prefix)
        for key in sorted(key for key in self.objects if key.startswith(prefix)):
            if key in self.objects:
                body, written, etag = self.objects[key]
                yield Entry(key, len(body), written, etag)

    def time(self, prefix: str) -> datetime:
        self._ask("list", prefix)
        return self.clock

    def delete(self, key: str) -> None:
        self._ask("delete", key)
        self.objects.pop(key, None)
        self._did("delete", key)

    def erase(self, key: str, which: Which = lambda key, written: True) -> None:
        self._ask("erase", key)
        locked = []
        for found, (_, written, _) in sorted(self.objects.items()):
            below = key.endswith("/") and found.startswith(key)
            if (found == key or below) and which(found, written):
                if found in self.locks:
                    locked.append(found)
                else:
                    del self.objects[found]
        if locked:
            raise BucketRefused(f"delete {locked[0]} was refused: AccessDenied", "AccessDenied")
        self._did("erase", key)

    # what only tests do

    def body(self, key: str) -> bytes:
        if key not in self.objects:
            raise NotFound(f"there is no object {self.address}/{key}")
        return self.objects[key][0]

    def set(self, key: str, body: bytes) -> None:
        self.clock += timedelta(seconds=1)
        self.objects[key] = body, self.clock, f'"{next(_numbers)}"'

    def drop(self, key: str) -> None:
        del self.objects[key]

    def later(self, **how: float) -> None:
        self.clock += timedelta(**how)

    def _ask(self, verb: str, key: str) -> None:
        self._do(verb, key)
        self.asked.append((verb, key))
        if verb in self.refused:
            raise BucketRefused(f"{verb} {key} was refused: AccessDenied", "AccessDenied")

    def _did(self, verb: str, key: str) -> None:
        self._do(f"after:{verb}", key)

    def _do(self, verb: str, key: str) -> None:
        due = [hook for hook in self.hooks if hook[0] == verb and key.endswith(hook[1])]
        for hook in due:
            self.hooks.remove(hook)
            hook[2]()


@dataclass(frozen=True)
class Shop:
    """An instance's part of a bucket in memory; `keys` are the host's, none for plain backups.

    With `public` what is new is sealed for that one, and `private` are the private keys that are here.
    """

    home: Path
    bucket: MemoryBucket = field(default_factory=MemoryBucket)
    keys: tuple[bytes, ...] = ()
    public: bytes | None = None
    private: tuple[bytes, ...] = ()

    def session(self, *, root: str = ROOT, cache: PageCache = NO_CACHE, **changes: Any) -> S3Session:
        """Another one each time, as of another process."""
        keys, public = changes.pop("keys", self.keys), changes.pop("public", self.public)
        private_keys = changes.pop("private", self.private)
        private = PrivateKeys(lambda: private_keys)
        how: dict[str, Any] = {"segment": SEGMENT, "uploads": 1, "max_chain": 0}
        table = S3.model_construct(**(how | {"key": SOME_KEY if keys else None} | changes))
        storing = StorageSettings(
            table=table,
            keys=KeyFiles(lambda: keys) if keys else None,
            public=PublicKey(public) if public else None,
            private=private,
        )
        layout, bucket = Layout(root), cast(Bucket, self.bucket)
        bound_only = not table.accept_unbound
        signing = Signatures(keys=storing.keys, root=root, bound_only=bound_only, private=private)
        return S3Session(
            bucket=bucket,
            layout=layout,
            address=f"s3://bucket/{root}",
            storing=storing,
            now=lambda: self.bucket.clock,
            unfinished=UnfinishedKeys(self.home / "run", (root,)),
            logs=S3Logs(bucket, root, f"s3://bucket/{root}", storing),
            pages=ManifestStore(
                bucket=bucket, layout=layout, signing=signing, signed_only=storing.signed_only, cache=cache
            ),
        )

    def store(self, wanted: OutgoingStream, content: bytes = b"", **changes: Any) -> bytes:
        content = content or stream(wanted.guid, wanted.base)
        path = self.home / f"stream{next(_numbers)}"
        path.write_bytes(content)
        assert self.session(**changes).store(wanted, local(("cat", str(path))), Meter()) == len(content)
        return content

    def ship(self, wanted: OutgoingStream, number: int, content: bytes = b"", **changes: Any) -> bytes:
        """A backup of this one dataset, by its own process."""
        content = self.store(wanted, content, **changes)
        self.session(**changes).commit(record(number, wanted.dataset), [wanted], WHEN)
        return content

    def chain(self, *pairs: tuple[int, int | None]) -> dict[int, bytes]:
        """Backups by (guid, base), one hour after the other: backup-1 and so on; in an empty bucket.

        What came of it is kept for the next test that asks for the same.
        """
        assert not self.bucket.objects
        known = self.keys, self.public, pairs
        if known not in _CHAINS:
            contents = {g: self.ship(part(g, base), number) for number, (g, base) in enumerate(pairs, 1)}
            _CHAINS[known] = contents, dict(self.bucket.objects), self.bucket.clock
        made, objects, self.bucket.clock = _CHAINS[known]
        self.bucket.objects |= objects
        return made

    def named(self, **changes: Any) -> dict[str, Backup]:
        """The backups that can be brought back."""
        return {b.record.backup: b for b in self.session(**changes).copies().backups}

    def fetched(self, wanted: OutgoingStream, **changes: Any) -> bytes:
        session = self.session(**changes)
        return b"".join(bytes(content) for content in session.stream(stream_id(wanted), Meter()))

    def problems(self, *, deep: bool = False, **changes: Any) -> dict[str, tuple[str, ...]]:
        found = self.session(**changes).verify(deep=deep, meter=Meter())
        return {checked.backup: checked.problems for checked in found}


def stream(guid: int, base: int | None = None, size: int = SIZE) -> bytes:
    """What begins as a send stream does, and goes on with bytes that cannot be compressed."""
    head = struct.pack("<IIQQQIIQQ", 0, 0, MAGIC, 1, 0, 2, 0, guid, base or 0)
    rest = (hashlib.sha256(f"{guid} {base} {n}".encode()).digest() for n in range(size // 32 + 1))
    return (head + b"".join(rest))[:size]


def part(guid: int, base: int | None = None, dataset: str = DATASET, **more: Any) -> OutgoingStream:
    return OutgoingStream(
        **({"dataset": dataset, "guid": guid, "name": f"zbackup-{guid}", "base": base, "raw": False} | more)
    )


def stream_id(wanted: OutgoingStream) -> StreamId:
    return StreamId(dataset=wanted.dataset, guid=wanted.guid, base=wanted.base)


def record(number: int, *datasets: str) -> Record:
    at = datetime(2026, 11, 1, number, tzinfo=UTC)
    members = tuple((name, f"/{name}") for name in datasets or (DATASET,))
    return replace(PLAIN, backup=f"backup-{number}", members=members, taken=at, as_of=at, complete_to=at)


def manifest_at(number: int) -> str:
    return LAYOUT.manifest(f"backup-{number}")
