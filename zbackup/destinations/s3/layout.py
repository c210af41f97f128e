"""The layout of a bucket. Pure; docs/reference/s3-layout.md says the same to people.

PREFIX/INSTANCE/backups/BACKUP/manifest.json              the commit, written last
PREFIX/INSTANCE/streams/DATASET/@GUID-full/begun.json     written first: how the stream is stored
PREFIX/INSTANCE/streams/DATASET/@GUID-full/stream.json    the stream is whole; its segments by hash
PREFIX/INSTANCE/segments/DATASET/@GUID-full/NUMBER.SHA256 the bytes

@GUID-from-BASE for an incremental stream. An object's name says what it is, and no dataset's name has an @ in
it; a segment's name says what it contains, so nothing is ever written over anything else.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_STREAM = re.compile(r"(?P<dataset>[^@]+)/@(?P<guid>[0-9]{1,20})-(?:full|from-(?P<base>[0-9]{1,20}))")
_SEGMENT = re.compile(r"(?P<number>[0-9]{8,10})\.(?P<digest>[0-9a-f]{64})")

MOST_NAME = 256
"""Bytes of a dataset's name, with the one that ends it in C."""

MANIFEST, HEADER, INDEX = "manifest.json", "begun.json", "stream.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamId:
    """The identity of a stream: of the snapshot `guid` of the dataset, from the snapshot `base` on, or (None)
    full."""

    dataset: str
    guid: int
    base: int | None

    def __str__(self) -> str:
        kind = "full" if self.base is None else f"from-{self.base}"
        return f"{self.dataset}/@{self.guid}-{kind}"

    def __lt__(self, other: "StreamId") -> bool:
        """Sort streams by dataset and snapshot; of one snapshot the full stream comes first."""
        return self._order < other._order

    @property
    def _order(self) -> tuple[str, int, int]:
        return self.dataset, self.guid, -1 if self.base is None else self.base


@dataclass(frozen=True, slots=True)
class Layout:
    """`root` is PREFIX/INSTANCE."""

    root: str

    @property
    def backups(self) -> str:
        return f"{self.root}/backups/"

    @property
    def streams(self) -> str:
        return f"{self.root}/streams/"

    def manifest(self, backup: str) -> str:
        return f"{self.backups}{quote(backup, safe='')}/{MANIFEST}"

    def header(self, stream: StreamId) -> str:
        return f"{self.streams}{_path(stream)}/{HEADER}"

    def index(self, stream: StreamId) -> str:
        return f"{self.streams}{_path(stream)}/{INDEX}"

    def segments(self, stream: StreamId) -> str:
        return f"{self.root}/segments/{_path(stream)}/"

    def segment(self, stream: StreamId, number: int, digest: bytes) -> str:
        return f"{self.segments(stream)}{number:08}.{digest.hex()}"

    def stream_of(self, key: str) -> tuple[StreamId, str] | None:
        """Which stream a key below `streams` is about, and its last part; None for a stranger's.

        A stranger's is also what we would write in another way: of two keys for one stream only one is ours.
        """
        path, _, last = key.removeprefix(self.streams).rpartition("/")
        found = _STREAM.fullmatch(unquote(path))
        if not found or last not in (HEADER, INDEX) or not _is_dataset(found["dataset"]):
            return None
        base = int(found["base"]) if found["base"] else None
        stream = StreamId(dataset=found["dataset"], guid=int(found["guid"]), base=base)
        return (stream, last) if key == f"{self.streams}{_path(stream)}/{last}" else None

    def backup_of(self, key: str) -> str | None:
        """Which backup a key below `backups` is the manifest of; None for a stranger's."""
        backup = unquote(key.removeprefix(self.backups).rpartition("/")[0])
        return backup if backup.isprintable() and key == self.manifest(backup) else None

    def is_segment(self, stream: StreamId, key: str) -> bool:
        """Whether the key is one of that stream's segments, and nothing that somebody put beside
        them."""
        found = segment_of(key)
        return found is not None and key == self.segment(stream, *found)


def _is_dataset(name: str) -> bool:
    """Whether a dataset may be called so."""
    return name.isprintable() and len(name) < MOST_NAME


def segment_of(key: str) -> tuple[int, bytes] | None:
    """Number and SHA-256 of a segment, by its key; None for a stranger's."""
    found = _SEGMENT.fullmatch(key.rpartition("/")[2])
    return (int(found["number"]), bytes.fromhex(found["digest"])) if found else None


def root_of(prefix: str, instance: str) -> str:
    """PREFIX/INSTANCE; without a prefix just the instance."""
    return "/".join(part for part in (prefix.strip("/"), instance) if part)


def _path(stream: StreamId) -> str:
    return quote(str(stream), safe="/@:")
