"""A stream from a bucket that was cut on its way to a real zfs receive goes on, without what has arrived."""

import os
import shlex
import struct
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import cast

import pytest

from tests.destinations.shop import BUCKET, SEGMENT, new_shop, some_key
from tests.lab.pool import Pool, run
from tests.lab.s3_proxy import Proxy, proxy
from tests.lab.s3_server import S3Server, client, s3_server
from tests.platform.bucket import Bucketed
from zbackup.destinations.base import Session
from zbackup.destinations.copies import StreamStep
from zbackup.destinations.s3.session import S3Session, _stream_of
from zbackup.jobs.restore.fetch import fetch as fetch_all
from zbackup.jobs.ship.ship import ship
from zbackup.model.drr_begin import RECORD
from zbackup.model.errors import CommandFailed, NotResumable
from zbackup.proc.pipeline import Command, Meter, local, writing
from zbackup.zfs.resume_token import resume_point
from zbackup.zfs.resumed_stream import StreamPieces, beginning, resumed
from zbackup.zfs.streams import ZfsStreams, receive_argv

CUTS = 3
AROUND = 6
"""The first segment, those that are partly missing, and those that are looked at to find where to go on."""
RANGE = 6
"""How ZFS encrypted an object stands before the first of 32, which may be so many segments before."""
TWICE = 200_000
"""Bytes that are sent once more after a cut, at most: ZFS counts them again."""


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        client(started).create_bucket(Bucket=BUCKET)
        yield started


@pytest.fixture(scope="module")
def through(server: S3Server) -> Iterator[Proxy]:
    with proxy(server.endpoint, lambda number, method: None) as made:
        yield made


@pytest.fixture(params=["compressed and encrypted by us", "encrypted by ZFS"])
def yard(
    request: pytest.FixtureRequest, pool: Pool, vault: Pool, server: S3Server, tmp_path: Path
) -> Bucketed:
    shop = new_shop(server, tmp_path)
    if request.param == "encrypted by ZFS":
        key = pool.home / "passphrase"
        key.write_text("correct horse battery staple")
        encrypted = {"encryption": "on", "keyformat": "passphrase", "keylocation": f"file://{key}"}
        return Bucketed(pool, vault, shop, properties=encrypted)
    return Bucketed(pool, vault, shop, keys=(some_key(),), compression="zstd")


def change(yard: Bucketed, chance: Random) -> None:
    """Files of all sizes, some gone again: with holes, blocks that are embedded and many small objects."""
    where = yard.outer.mountpoint
    for number in range(40):
        content = os.urandom(chance.choice((10, 5000, 40_000, 700_000)))
        (where / f"file{chance.randrange(60)}").write_bytes(content + bytes(chance.choice((0, 90_000))))
        if number % 7 == 0:
            (where / f"file{number}").unlink(missing_ok=True)


def cut_at(target: str, count: int) -> tuple[str, ...]:
    """A receiver of that many bytes, and no more."""
    return ("sh", "-c", f"head -c {count} | {shlex.join(receive_argv(target))}")


def fetch(
    session: S3Session, step: StreamStep, target: str, chance: Random, through: Proxy, more: int
) -> None:
    """Cut at random moments, and each time no more is fetched than is missing, and what is around it."""
    streams, size = ZfsStreams(), session.size(step)
    for attempt in range(CUTS + 1):
        token = streams.partial(target)
        missing = size
        if token:
            missing -= resume_point(token).passed - attempt * TWICE
        cut = attempt < CUTS
        argv = cut_at(target, chance.randrange(SEGMENT // 2, size // 4)) if cut else receive_argv(target)
        through.seen.clear()
        with pytest.raises(CommandFailed) if cut else nullcontext():
            session.fetch(step, token, local(argv), Meter())
        asked = [seen for seen in through.seen if "/segments/" in seen]
        assert len(asked) <= missing // SEGMENT + more, (attempt, size, missing, asked)


def test_it_goes_on_where_it_was_cut(yard: Bucketed, through: Proxy) -> None:
    chance = Random(os.environ.get("LAB_SEED", "7"))
    ctx = yard.context()
    for _ in range(2):
        change(yard, chance)
        yard.backup(3_000_000)
        ship(ctx, ctx.destinations[0])
    target = f"{yard.vault.name}/{yard.shop.prefix}"
    more = AROUND + (0 if yard.storing else RANGE)
    with yard.shop.session(endpoint=through.endpoint, **yard.storing) as session:
        backups = session.copies().backups
        stream_steps = session.stream_steps([backups[-1].snapshots[0]])
        assert [step.base is None for step in stream_steps] == [True, False]
        for step in stream_steps:
            fetch(session, step, target, chance, through, more)
            assert ZfsStreams().guid(f"{target}@{step.copy.name}") == step.copy.guid
        last = stream_steps[-1]
        with pytest.raises(NotResumable):
            session.fetch(last, "1-e604ea4bf-e0-789c", local(("cat",)), Meter())
    if run("zfs", "get", "-Hpo", "value", "encryption", target).strip() != "off":
        run("zfs", "load-key", "-L", f"file://{yard.pool.home}/passphrase", target)
    assert yard._content(yard.outer.name, last.copy.name) == yard._content(target, last.copy.name)
    run("zfs", "destroy", "-r", target)


@dataclass(frozen=True)
class Troubled:
    """A session in which the first stream is cut, and the rest of one is not what the receiver awaits."""

    session: S3Session
    asked: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.session, name)

    def fetch(self, step: StreamStep, token: str, receiver: Command, meter: Meter) -> int:
        self.asked.append(token)
        if len(self.asked) == 1:
            return self.session.fetch(step, token, local(cut_at(receiver.argv[-1], SEGMENT)), meter)
        if token:
            whole = b"".join(bytes(some) for some in self.session.stream(_stream_of(step), meter))
            point = resume_point(token)
            begin = beginning(StreamPieces(iter((memoryview(whole),))))
            other = b"".join(resumed(begin, point, StreamPieces(iter((memoryview(whole)[len(begin) :],)))))
            place = other.rindex(struct.pack("=Q", point.offset), 0, RECORD + 200)
            with writing(receiver) as write:
                write(other[:place] + struct.pack("=Q", point.offset + 8) + other[place + 8 :])
        return self.session.fetch(step, token, receiver, meter)


def test_a_rest_that_is_refused_is_fetched_from_the_beginning(
    pool: Pool, vault: Pool, server: S3Server, tmp_path: Path
) -> None:
    yard = Bucketed(pool, vault, new_shop(server, tmp_path))
    yard.backup(3_000_000)
    ctx = yard.context()
    ship(ctx, ctx.destinations[0])
    with yard.shop.session() as session:
        (backup,) = session.copies().backups
        troubled = Troubled(session)
        with pytest.raises(CommandFailed):
            fetch_all(ctx, cast(Session, troubled), "trouble", backup, backup, 0)
        fetched = fetch_all(ctx, cast(Session, troubled), "trouble", backup, backup, 0)
    assert [bool(token) for token in troubled.asked] == [False, True, False, False]
    assert [s.guid for s in fetched.backups[0].snapshots] == [s.guid for s in backup.snapshots]
