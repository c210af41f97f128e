"""The bucket in memory of the quick tests answers as a real server does."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.destinations.shop import new_shop
from tests.lab.s3_server import S3Server
from tests.unit.destinations.bucket import MemoryBucket
from zbackup.model.errors import ZbackupError

Ask = Callable[[Callable[[], object]], None]


def told(bucket: Any, root: str) -> list[object]:
    """What each of these requests answers, one after the other; when something was written is not said."""
    heard: list[object] = []

    def ask(what: Callable[[], object]) -> None:
        try:
            heard.append(what())
        except ZbackupError as wrong:
            heard.append(type(wrong).__name__)

    written(bucket, root, ask)
    read(bucket, root, ask)
    erased(bucket, root, ask)
    return heard


def put(bucket: Any, key: str, body: bytes, digest: bytes = b"") -> None:
    bucket.put(key, body, digest or hashlib.sha256(body).digest())


def written(bucket: Any, root: str, ask: Ask) -> None:
    for key in ("b/2", "a/1", "a/10", "a/2/x", "ab"):
        ask(partial(put, bucket, f"{root}/{key}", key.encode()))
    ask(lambda: put(bucket, f"{root}/bad", b"one", hashlib.sha256(b"another").digest()))
    ask(lambda: put(bucket, f"{root}/ab", b"again"))
    for body in (b"first", b"first", b"other"):
        ask(partial(bucket.put_new, f"{root}/new", body))
    etag = next(iter(bucket.list(f"{root}/b/"))).etag
    ask(lambda: put(bucket, f"{root}/b/2", b"b/3"))
    ask(lambda: next(iter(bucket.list(f"{root}/b/"))).etag == etag)


def listed(bucket: Any, root: str, below: str) -> list[tuple[str, int]]:
    return [(e.key.removeprefix(root), e.size) for e in bucket.list(f"{root}/{below}")]


def filled(bucket: Any, key: str, size: int) -> object:
    def use(fill: Any) -> bytes:
        room = bytearray(size)
        fill(memoryview(room)[:1])
        fill(memoryview(room)[1:])
        return bytes(room)

    return bucket.fetch(key, size, use)


def read(bucket: Any, root: str, ask: Ask) -> None:
    for below in ("", "a", "a/", "a/1", "none"):
        ask(partial(listed, bucket, root, below))
    for key in (f"{root}/ab", f"{root}/none"):
        for size in (4, 5, 6):
            ask(partial(bucket.get, key, size))
            ask(partial(filled, bucket, key, size))
        for request in (bucket.has, bucket.locked, bucket.delete, bucket.has, bucket.delete):
            ask(partial(request, key))


def erased(bucket: Any, root: str, ask: Ask) -> None:
    """An object alone; of what is below one only some; and all of it."""
    every = partial(listed, bucket, root, "")
    ask(lambda: bucket.erase(f"{root}/a/1"))
    ask(every)
    ask(lambda: bucket.erase(f"{root}/a/", lambda key, written: key.endswith("x")))
    ask(every)
    ask(lambda: bucket.erase(f"{root}/a/"))
    ask(every)


def test_the_bucket_in_memory_answers_as_a_server_does(server: S3Server, tmp_path: Path) -> None:
    shop = new_shop(server, tmp_path)
    with shop.session(attempts=1) as session:
        real = told(session.bucket, shop.root)
    assert told(MemoryBucket(), shop.root) == real
    assert {"BucketRefused", "VerificationFailed", "NotFound"} <= {each for each in real if type(each) is str}
