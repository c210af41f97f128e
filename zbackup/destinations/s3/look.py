"""What is in a bucket: one listing of streams, one of backups, and every backup's manifest."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from zbackup.destinations.s3.client import Entry
from zbackup.destinations.s3.layout import BEGUN, StreamId
from zbackup.destinations.s3.manifest import Manifest
from zbackup.destinations.s3.pages import Pages
from zbackup.destinations.s3.ways import Found, Ways
from zbackup.model.errors import NotFound, VerificationFailed


def look(pages: Pages, parallel: int) -> Found:
    """Pages that are not on the shelf are fetched, so many at a time."""
    whole: dict[StreamId, Entry] = {}
    begun: dict[StreamId, Entry] = {}
    for entry in pages.bucket.list(pages.layout.streams):
        if found := pages.layout.stream_of(entry.key):
            stream, page = found
            (begun if page == BEGUN else whole)[stream] = entry
    entries = list(pages.bucket.list(pages.layout.backups))
    with ThreadPoolExecutor(parallel) as pool:
        manifests = tuple(pool.map(lambda entry: _read(pages, entry), entries))
        seen = Found(
            whole={stream: entry.written for stream, entry in whole.items()},
            begun={stream: entry.written for stream, entry in begun.items()},
            manifests=tuple(m for m in manifests if isinstance(m, Manifest)),
            unreadable=tuple(
                (e.key, m) for e, m in zip(entries, manifests, strict=True) if isinstance(m, str)
            ),
        )
        doubtful = _doubtful(seen) if pages.sealed_only else []
        problems = tuple(pool.map(lambda stream: pages.foreign(stream, begun.get(stream)), doubtful))
    pages.shelf.keep_only([*entries, *(begun[stream] for stream in doubtful if stream in begun)])
    foreign = {stream: why for stream, why in zip(doubtful, problems, strict=True) if why}
    return _without(seen, foreign, pages)


def _read(pages: Pages, entry: Entry) -> Manifest | str | None:
    """The manifest, or why it cannot be understood; None when it has gone since it was listed."""
    try:
        return pages.listed(entry)
    except NotFound:
        return None
    except VerificationFailed as problem:
        return str(problem)


def _doubtful(found: Found) -> list[StreamId]:
    """What committed backups are based on, perhaps, and no manifest tells whether it was made by us."""
    ways = Ways(found)
    return sorted(stream for stream in ways.leading() if stream not in ways.named)


def _without(found: Found, foreign: Mapping[StreamId, str], pages: Pages) -> Found:
    """Without what is foreign. That is said where there is nothing else that leads to a committed backup."""
    ways = Ways(rest := replace(found, foreign=frozenset(foreign)))
    lacking = {
        (s.line, s.base) for s in ways.leading() if s.base is not None and not ways.making(s.line, s.base)
    }
    said = [(pages.layout.whole(s), why) for s, why in foreign.items() if (s.line, s.guid) in lacking]
    return replace(rest, unreadable=(*found.unreadable, *said))
