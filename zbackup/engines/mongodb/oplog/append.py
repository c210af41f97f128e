"""Copies what a base's oplog lacks from a log source's."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import bson
from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.oplog.continuation import Continuation
from zbackup.engines.mongodb.oplog.oplog import Oplog
from zbackup.engines.mongodb.oplog.oplog_entry import LARGEST_WRITABLE, describe
from zbackup.engines.mongodb.optime import OPLOG, timestamp
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import how_many
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.progress import Progress

# Under the 16 MiB of one command. A single entry may be larger than this, and goes alone.
BATCH_BYTES = 8 * 1024**2
BATCH_ENTRIES = 50_000


def append(
    base: Connection, log: Oplog, continued: Continuation, end: Timestamp, progress: Progress
) -> tuple[int, int]:
    """Fill the base's holes and append all entries up to `end`. How many entries that were, and bytes.

    Raise NotRecoverable when one is larger than what mongod lets anybody write.
    """
    total = log.size()[0]
    oplog.make_room(base, total)
    filled = [one for one in continued.missing if bson.decode(one)["ts"] <= end]
    behind = log.raw({"ts": {"$gt": timestamp(continued.tail), "$lte": end}})
    entries = bytes_ = 0
    with ThreadPoolExecutor(max_workers=1) as writer:
        # One batch is written while the next is read.
        written: Future[None] | None = None
        for batch in batches(writable(_chained(filled, behind))):
            if written:
                written.result()
            written = writer.submit(base.insert_raw, OPLOG, batch)
            entries += len(batch)
            bytes_ += sum(map(len, batch))
            progress.advance(min(bytes_, total), total)
        if written:
            written.result()
    return entries, bytes_


def add_commits(
    base: Connection, applied: oplog.Entry, commits: Sequence[bytes], progress: Progress
) -> OplogPosition:
    """Append entries that commit what is prepared up to `applied`, the stop point's; the end that the oplog
    gets.

    Raise NotRecoverable when the base has entries behind the stop point already: they would come with them.
    """
    end = OplogPosition.of(applied)
    if not commits:
        return end
    tail = OplogPosition.of(oplog.last(oplog.ServerOplog(base)))
    if tail.cluster_time > end.cluster_time:
        raise NotRecoverable(
            f"the base's oplog leads up to {tail}, behind the target, before which transactions are to be "
            "committed: start from an older backup (--base)"
        )
    base.insert_raw(OPLOG, list(commits))
    progress.note(
        f"{how_many(len(commits))} prepared and committed before the target, as other shards have it"
    )
    return OplogPosition.of(oplog.last(oplog.ServerOplog(base)))


def batches(documents: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Documents in their order, as many together as one command takes. Pure."""
    batch: list[bytes] = []
    size = 0
    for document in documents:
        if batch and (size + len(document) > BATCH_BYTES or len(batch) == BATCH_ENTRIES):
            yield batch
            batch, size = [], 0
        batch.append(document)
        size += len(document)
    if batch:
        yield batch


def writable(documents: Iterable[bytes]) -> Iterator[bytes]:
    """The documents; raise NotRecoverable at one that is larger than mongod takes."""
    for document in documents:
        if len(document) > LARGEST_WRITABLE:
            entry = bson.decode(document)
            raise NotRecoverable(
                f"the oplog entry at {OplogPosition.of(entry)} ({describe(entry)}) is {len(document)} bytes, "
                f"more than mongod takes from anybody ({LARGEST_WRITABLE}): restore to before it "
                f"(--to-timestamp {entry['ts'].time},{entry['ts'].inc}), or from a backup taken after it"
            )
        yield document


def _chained(first: Sequence[bytes], then: Iterator[bytes]) -> Iterator[bytes]:
    yield from first
    yield from then
