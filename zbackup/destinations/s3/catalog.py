"""List what is in a bucket: one listing of streams, one of backups, and every backup's manifest."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from zbackup.destinations.s3.chains import BucketContents, ChainIndex
from zbackup.destinations.s3.client import Entry
from zbackup.destinations.s3.layout import BEGUN, StreamId
from zbackup.destinations.s3.manifest_schema import Manifest
from zbackup.destinations.s3.manifest_store import ManifestStore
from zbackup.destinations.s3.stream_headers import StreamHeaders
from zbackup.model.errors import NotFound, VerificationFailed
from zbackup.model.event_log import log

LOOKS = 3
"""Listings that are tried while something that was listed is not there when it is read."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """An object that was listed, and then was not there."""

    key: str


def scan(pages: ManifestStore, parallel: int) -> BucketContents:
    """Pages that are not in the cache are fetched, several at a time.

    What is listed and then is not there was pruned meanwhile, if another listing does not show it any more.
    What is listed again and again and cannot be read is unknown, and counts among the unreadable.
    """
    for _ in range(LOOKS):
        contents, gone = _scan_once(pages, parallel)
        if not gone:
            break
        log.info("s3.listed_again", gone=len(gone), first=ascii(gone[0].key))
    lost = tuple((g.key, "it is listed, and reading it says that there is no such object") for g in gone)
    return replace(contents, unreadable=(*contents.unreadable, *lost))


def _scan_once(pages: ManifestStore, parallel: int) -> tuple[BucketContents, Sequence[_Gone]]:
    whole, begun, strange = _streams(pages)
    entries = []
    for entry in pages.bucket.list(pages.layout.backups):
        if pages.layout.backup_of(entry.key) is None:
            strange.append(entry.key)
        else:
            entries.append(entry)
    with ThreadPoolExecutor(parallel) as pool:
        read = tuple(pool.map(lambda entry: _read(pages, entry), entries))
        manifests = [m for m in read if isinstance(m, Manifest)]
        seen = BucketContents(
            whole={stream: entry.written for stream, entry in whole.items()},
            begun={stream: entry.written for stream, entry in begun.items()},
            manifests=tuple(m for m in manifests if not m.withdrawn),
            withdrawn=tuple(m.backup for m in manifests if m.withdrawn),
            unreadable=tuple((e.key, m) for e, m in zip(entries, read, strict=True) if isinstance(m, str)),
            strange=tuple(strange),
        )
        doubtful = seen.doubtful() if pages.signed_only else []
        problems = tuple(pool.map(lambda stream: _foreign(pages, stream, begun.get(stream)), doubtful))
    pages.cache.keep_only([*entries, *(begun[stream] for stream in doubtful if stream in begun)])
    foreign = {s: why for s, why in zip(doubtful, problems, strict=True) if isinstance(why, str) and why}
    return _without(seen, foreign, pages), [g for g in (*read, *problems) if isinstance(g, _Gone)]


def _streams(pages: ManifestStore) -> tuple[dict[StreamId, Entry], dict[StreamId, Entry], list[str]]:
    """Their pages and their headers as listed, and keys that are not ours."""
    whole: dict[StreamId, Entry] = {}
    begun: dict[StreamId, Entry] = {}
    strange: list[str] = []
    for entry in pages.bucket.list(pages.layout.streams):
        if found := pages.layout.stream_of(entry.key):
            stream, page = found
            (begun if page == BEGUN else whole)[stream] = entry
        else:
            strange.append(entry.key)
    return whole, begun, strange


def _read(pages: ManifestStore, entry: Entry) -> Manifest | str | _Gone:
    """The manifest, or why it cannot be understood."""
    try:
        return pages.listed(entry)
    except NotFound:
        return _Gone(entry.key)
    except VerificationFailed as problem:
        return str(problem)


def _foreign(pages: ManifestStore, stream: StreamId, entry: Entry | None) -> str | _Gone:
    try:
        return StreamHeaders(pages).foreign(stream, entry)
    except NotFound:
        return _Gone(pages.layout.whole(stream))


def _without(
    contents: BucketContents, foreign: Mapping[StreamId, str], pages: ManifestStore
) -> BucketContents:
    """Without what is foreign. That is said where there is nothing else that leads to a committed backup."""
    chains = ChainIndex(rest := replace(contents, foreign=frozenset(foreign)))
    lacking = {
        (s.dataset, s.base)
        for s in chains.leading()
        if s.base is not None and not chains.making(s.dataset, s.base)
    }
    said = [(pages.layout.whole(s), why) for s, why in foreign.items() if (s.dataset, s.guid) in lacking]
    return replace(rest, unreadable=(*contents.unreadable, *said))
