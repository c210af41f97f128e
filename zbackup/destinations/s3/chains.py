"""Find which streams make a copy, of all that lie in a bucket. Pure.

What the streams and manifests in a bucket make: target datasets, chains, and what may be a base. Pure.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import Manifest, PartPage
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.model.record import PREFIX
from zbackup.model.shipping import Inventory, Partial, ReceivedSnapshot, TargetDataset


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketContents:
    """The contents of a bucket, as listings and manifests say. `indexes` and `headers` with when they were
    written.

    `unreadable` are pages that cannot be understood: (key, problem). `foreign` are streams that were not made
    by who has the key, where that counts. `withdrawn` are backups whose commit was taken back, and `strange`
    keys of objects that are not ours.
    """

    indexes: Mapping[StreamId, datetime]
    headers: Mapping[StreamId, datetime]
    manifests: Sequence[Manifest]
    unreadable: Sequence[tuple[str, str]] = ()
    foreign: frozenset[StreamId] = frozenset()
    withdrawn: Sequence[str] = ()
    strange: Sequence[str] = ()

    @property
    def sealed_for(self) -> tuple[str, ...]:
        """The ids of the public keys that contents of committed backups are sealed for."""
        return tuple(sorted({each for m in self.manifests for each in m.sealed_for}))

    def without(self, backup: str) -> "BucketContents":
        """The contents as they are when that backup's manifest is gone."""
        return replace(self, manifests=[m for m in self.manifests if m.backup != backup])

    def doubtful(self) -> list[StreamId]:
        """What committed backups are based on, perhaps, and no manifest tells whether it was made
        by us."""
        chains = ChainIndex(self)
        return sorted(stream for stream in chains.leading() if stream not in chains.named)

    def incomplete(self) -> list[str]:
        """Committed backups of which a stream, or one that it is based on, is gone or foreign."""
        chains = ChainIndex(self)
        return [
            m.backup
            for m in self.manifests
            if not all(chains.to(part.dataset, part.guid) for part in m.parts)
        ]


class ChainIndex:
    """The streams by which copies are made.

    What a manifest names as a copy's stream is that, and nothing else that claims to make the same copy. The
    streams of a copy that no manifest names (its backup was pruned) are all that are not foreign.
    """

    def __init__(self, contents: BucketContents) -> None:
        self.named = {
            StreamId(dataset=part.dataset, guid=part.guid, base=part.base)
            for manifest in contents.manifests
            for part in manifest.parts
        }
        known = {(stream.dataset, stream.guid) for stream in self.named}
        self._making: dict[tuple[str, int], list[StreamId]] = {}
        self._real: dict[tuple[str, int], list[StreamId]] = {}
        for stream in contents.indexes:
            copy = (stream.dataset, stream.guid)
            if stream in self.named or stream not in contents.foreign:
                self._real.setdefault(copy, []).append(stream)
                if stream in self.named or copy not in known:
                    self._making.setdefault(copy, []).append(stream)

    def making(self, dataset: str, guid: int) -> Sequence[StreamId]:
        """The whole streams that make this copy of what they are based on."""
        return self._making.get((dataset, guid), ())

    def to(self, dataset: str, guid: int) -> list[StreamId] | None:
        """The streams that make a copy, the full one first; None when one of them is not whole.

        Of several chains the shortest that manifests name. Where none of these is whole any more, of all that
        are not foreign: what was lost has been sent again, from another base.
        """
        return _shortest(self._making, dataset, guid) or _shortest(self._real, dataset, guid)

    def leading(self) -> Iterator[StreamId]:
        """All streams by which one may come to a committed copy, also if what they are based on is gone."""
        waiting = list({(stream.dataset, stream.guid) for stream in self.named})
        seen = set(waiting)
        while waiting:
            for stream in self._real.get(waiting.pop(), ()):
                yield stream
                if stream.base is not None and (base := (stream.dataset, stream.base)) not in seen:
                    seen.add(base)
                    waiting.append(base)


def _shortest(
    making: Mapping[tuple[str, int], Sequence[StreamId]], dataset: str, guid: int
) -> list[StreamId] | None:
    front = [[stream] for stream in making.get((dataset, guid), ())]
    seen = {guid}
    while front:
        ready = next((chain for chain in front if chain[0].base is None), None)
        if ready:
            return ready
        longer = []
        for chain in front:
            base = chain[0].base
            if base is not None and base not in seen:
                seen.add(base)
                longer += [[stream, *chain] for stream in making.get((dataset, base), ())]
        front = longer
    return None


@dataclass(frozen=True, slots=True)
class CommittedPart:
    """A part of a committed backup that is whole, and the streams that make it, the full one first."""

    manifest: Manifest
    part: PartPage
    chain: tuple[StreamId, ...]


def in_order(contents: BucketContents) -> list[CommittedPart]:
    """What is committed and whole, oldest first.

    Within a chain in the order of its streams. Of chains that one is older of which the oldest backup was
    taken first: where clocks were wrong, only which chain comes first may be, too.
    """
    chains = ChainIndex(contents)
    there = [
        CommittedPart(manifest, part, tuple(chain))
        for manifest in contents.manifests
        for part in manifest.parts
        if (chain := chains.to(part.dataset, part.guid))
    ]
    begins: dict[StreamId, str] = {}
    for each in there:
        full, taken = each.chain[0], _taken(each.manifest)
        begins[full] = min(taken, begins.get(full, taken))
    return sorted(there, key=lambda c: (begins[c.chain[0]], len(c.chain), _taken(c.manifest)))


def _taken(manifest: Manifest) -> str:
    """Return the time at which it was taken: in UTC, so that texts are in the order of times."""
    return manifest.record.get("taken", "")


def inventory_of(
    contents: BucketContents,
    address: str,
    rules: StorageSettings,
    now: datetime,
    needed: Collection[StreamId],
) -> Inventory:
    """The target datasets as a planner needs them. A stream whose chain is broken is no copy.

    `rules` say when a full stream is sent again, and whom new ones are sealed for: a chain is for one reader.
    `needed` is what committed backups may need.
    """
    names = sorted({stream.dataset for stream in (*contents.indexes, *contents.headers)})
    committed = in_order(contents)
    datasets = (
        _target(n, contents, [c for c in committed if c.part.dataset == n], rules, now) for n in names
    )
    parts = {n: _partial(n, contents, needed) for n in names}
    return Inventory(address=address, datasets=tuple(replace(d, partial=parts[d.name]) for d in datasets))


def _target(
    name: str,
    contents: BucketContents,
    committed: Sequence[CommittedPart],
    rules: StorageSettings,
    now: datetime,
) -> TargetDataset:
    chains = ChainIndex(contents)
    there = {s.guid for s in contents.indexes if s.dataset == name and chains.to(name, s.guid)}
    copies = [_copy(each.manifest, each.part) for each in committed]
    marked = {copy.guid for copy in copies}
    copies += [ReceivedSnapshot(name=f"guid {guid}", guid=guid) for guid in sorted(there - marked)]
    newest = committed[-1:]
    sizes = {each.part.guid: each.part.stored for each in committed}
    going_on = [each.part for each in newest if not _ends(each, contents, sizes, rules, now)]
    return TargetDataset(
        name=name,
        copies=tuple(copies),
        bases=tuple(part.guid for part in going_on),
        encrypted=any(each.part.raw for each in newest),
        restartable=True,
    )


def _copy(manifest: Manifest, part: PartPage) -> ReceivedSnapshot:
    return ReceivedSnapshot(
        name=part.snapshot,
        guid=part.guid,
        backup=manifest.record.get("backup", ""),
        parts=tuple(p.guid for p in manifest.parts),
        marked=True,
    )


def _ends(
    newest: CommittedPart,
    contents: BucketContents,
    sizes: Mapping[int, int],
    storing: StorageSettings,
    now: datetime,
) -> bool:
    """Whether the chain of the newest copy is to have no more streams."""
    if newest.part.public_key != storing.public_id:
        return True
    rules = storing.table
    full, *rest = newest.chain
    more = sum(sizes.get(stream.guid, 0) for stream in rest)
    return (
        bool(rules.max_chain and len(rest) >= rules.max_chain)
        or bool(rules.full_every and now - contents.indexes[full] >= timedelta(seconds=rules.full_every))
        or bool(rules.max_share and more > rules.max_share * sizes.get(full.guid, 0))
    )


def _partial(dataset: str, contents: BucketContents, needed: Collection[StreamId]) -> Partial | None:
    """The newest stream that was begun and is not whole; if there is none, one that is needed and lost its
    page. One whose base is lost cannot be sent again."""
    chains = ChainIndex(contents)
    open_ = [
        s
        for s in contents.headers
        if s.dataset == dataset
        and s not in contents.indexes
        and (s.base is None or chains.to(dataset, s.base))
    ]
    newest = max(open_, key=lambda s: (s not in needed, contents.headers[s]), default=None)
    return Partial(token="", guid=newest.guid, needed=newest in needed) if newest else None


def properties_of(manifest: Manifest) -> dict[str, str]:
    """The record as zbackup writes it on snapshots."""
    return {PREFIX + name: value for name, value in manifest.record.items()}
