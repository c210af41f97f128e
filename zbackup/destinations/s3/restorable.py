"""Tell what can be brought back from a bucket, and by which streams. Pure."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from zbackup.destinations.copies import Copies, StreamStep
from zbackup.destinations.s3.chains import BucketContents, ChainIndex, CommittedPart, in_order, properties_of
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import Manifest
from zbackup.model import bounds
from zbackup.model.backup import Backup
from zbackup.model.errors import VerificationFailed
from zbackup.model.record import Record, from_properties
from zbackup.model.snapshot import Snapshot

_LACKING = "a stream that it needs is gone or damaged: zbackup verify --at says which"


def copies_of(contents: BucketContents, address: str, *, keyless: bool) -> Copies:
    """The committed backups of which every stream is there. `keyless`: no key is here to prove signatures by.

    Their snapshots are what a receiver would have, as a receiver names them; `createtxg` is their order here.
    """
    committed = in_order(contents)
    by_backup: dict[str, dict[int, CommittedPart]] = {}
    for one in committed:
        by_backup.setdefault(one.manifest.record.get("backup", ""), {})[one.part.guid] = one
    needed = Counter(stream for one in committed for stream in one.chain)
    backups, unreadable = [], list(contents.unreadable)
    if not unreadable:
        # Else that is why, perhaps.
        unreadable += [(name, _LACKING) for name in contents.incomplete()]
    for rank, (name, there) in enumerate(by_backup.items(), 1):
        manifest = next(iter(there.values())).manifest
        if not all(part.guid in there for part in manifest.parts):
            continue
        try:
            record = _record(manifest)
        except ValueError as problem:
            unreadable.append((name, str(problem)))
            continue
        parts = [there[part.guid] for part in manifest.parts]
        shown = tuple(_snapshot(record, one, rank, alone=needed[one.chain[-1]] == 1) for one in parts)
        backups.append(Backup(record=record, snapshots=shown))
    unproven = ""
    if keyless and any(manifest.encryption for manifest in contents.manifests):
        unproven = f"backups at {address} are signed, and this host cannot tell forged ones: give it the key"
    return Copies(tuple(backups), tuple(unreadable), unproven=unproven)


def _record(manifest: Manifest) -> Record:
    record = from_properties(properties_of(manifest))
    if record is None or len(record.members) != len(manifest.parts):
        raise ValueError("it has no record of that many datasets")
    for part in manifest.parts:
        bounds.zfs_name(part.dataset)
        bounds.zfs_name(part.snapshot)
    return record


def _snapshot(record: Record, committed: CommittedPart, rank: int, *, alone: bool) -> Snapshot:
    """`alone`: no other backup needs its stream."""
    return Snapshot(
        dataset=committed.part.dataset,
        name=committed.part.snapshot,
        guid=committed.part.guid,
        createtxg=rank,
        created=record.taken,
        used=committed.part.stored if alone else 0,
        written=committed.part.stored,
    )


def steps_to(
    contents: BucketContents, wanted: Sequence[Snapshot], named: Callable[[StreamId], str]
) -> list[StreamStep]:
    """The streams that bring these copies of one dataset. Where none leads on from one, a full one is next.

    `named` is what the snapshot is called that a stream makes. Raise VerificationFailed when one is gone.
    """
    known = {(p.dataset, p.guid): p.snapshot for m in contents.manifests for p in m.parts}
    chains = ChainIndex(contents)
    stream_steps: list[StreamStep] = []
    before: list[StreamId] = []
    for copy in wanted:
        streams = chains.to(copy.dataset, copy.guid)
        if streams is None:
            raise VerificationFailed(f"a stream that {copy} needs is gone")
        goes_on = streams[: len(before)] == before
        for stream in streams[len(before) :] if goes_on else streams:
            name = known.get((stream.dataset, stream.guid)) or named(stream)
            base = stream_steps[-1].copy if stream.base is not None else None
            stream_steps.append(StreamStep(replace(copy, name=name, guid=stream.guid), base))
        before = streams
    return stream_steps


def needed_by(contents: BucketContents, without: str = "") -> set[StreamId]:
    """The streams that committed backups need, but for the backup `without`.

    All streams that lead to one of their copies, also where another is missing: rather too many.
    """
    leading: dict[tuple[str, int], list[StreamId]] = {}
    for stream in contents.indexes:
        leading.setdefault((stream.dataset, stream.guid), []).append(stream)
    others = [m for m in contents.manifests if m.record.get("backup") != without]
    waiting = [(part.dataset, part.guid) for manifest in others for part in manifest.parts]
    seen = set(waiting)
    needed: set[StreamId] = set()
    while waiting:
        for stream in leading.get(waiting.pop(), ()):
            needed.add(stream)
            if stream.base is not None and (base := (stream.dataset, stream.base)) not in seen:
                seen.add(base)
                waiting.append(base)
    return needed


def needed_with_lost(contents: BucketContents) -> set[StreamId]:
    """The same, and with them the streams of which only the page is gone, or is not listed."""
    return needed_by(replace(contents, indexes={**contents.headers, **contents.indexes}))
