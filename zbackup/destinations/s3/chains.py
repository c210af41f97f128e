"""What the streams and manifests in a bucket make: lines of copies, chains, and what may be a base. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest import Manifest, PartPage
from zbackup.destinations.s3.ways import Found, Ways
from zbackup.model.record import PREFIX
from zbackup.model.shipping import Copy, Inventory, Line, Partial


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """When a full stream is sent anew: 0 for never by this rule.

    `most` incremental streams behind a full one; `every` after so long; `share` when the incremental ones
    of a chain are together larger than this share of the full one.
    """

    most: int = 0
    every: timedelta = timedelta(0)
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Held:
    """A part of a committed backup that is whole, and the streams that make it, the full one first."""

    manifest: Manifest
    part: PartPage
    way: tuple[StreamId, ...]


def in_order(found: Found) -> list[Held]:
    """What is committed and whole, oldest first.

    Within a chain in the order of its streams. Of chains that one is older of which the oldest backup was
    taken first: where clocks were wrong, only which chain comes first may be, too.
    """
    ways = Ways(found)
    there = [
        Held(manifest, part, tuple(way))
        for manifest in found.manifests
        for part in manifest.parts
        if (way := ways.to(part.line, part.guid))
    ]
    begins: dict[StreamId, str] = {}
    for held in there:
        begins[held.way[0]] = min(_taken(held.manifest), begins.get(held.way[0], _taken(held.manifest)))
    return sorted(there, key=lambda h: (begins[h.way[0]], len(h.way), _taken(h.manifest)))


def _taken(manifest: Manifest) -> str:
    """In UTC, so that texts are in the order of times."""
    return manifest.record.get("taken", "")


def inventory_of(found: Found, place: str, rules: Chains, now: datetime) -> Inventory:
    """The lines as a planner needs them. A stream whose chain is broken is no copy."""
    names = sorted({stream.line for stream in (*found.whole, *found.begun)})
    held = in_order(found)
    lines = (_line(n, found, [h for h in held if h.part.line == n], rules, now) for n in names)
    return Inventory(place=place, lines=tuple(lines))


def _line(name: str, found: Found, committed: Sequence[Held], rules: Chains, now: datetime) -> Line:
    ways = Ways(found)
    there = {s.guid for s in found.whole if s.line == name and ways.to(name, s.guid)}
    copies = [_copy(held.manifest, held.part) for held in committed]
    marked = {copy.guid for copy in copies}
    copies += [Copy(name=f"guid {guid}", guid=guid) for guid in sorted(there - marked)]
    newest = committed[-1:]
    sizes = {held.part.guid: held.part.stored for held in committed}
    going_on = [held.part for held in newest if not _ends(held, found, sizes, rules, now)]
    return Line(
        name=name,
        copies=tuple(copies),
        bases=tuple(part.guid for part in going_on),
        partial=_partial(name, found),
        encrypted=any(held.part.raw for held in newest),
        restartable=True,
    )


def _copy(manifest: Manifest, part: PartPage) -> Copy:
    return Copy(
        name=part.snapshot,
        guid=part.guid,
        backup=manifest.record.get("backup", ""),
        parts=tuple(p.guid for p in manifest.parts),
        marked=True,
    )


def _ends(newest: Held, found: Found, sizes: Mapping[int, int], rules: Chains, now: datetime) -> bool:
    """Whether the chain of the newest copy is to have no more streams."""
    full, *rest = newest.way
    more = sum(sizes.get(stream.guid, 0) for stream in rest)
    return (
        bool(rules.most and len(rest) >= rules.most)
        or bool(rules.every and now - found.whole[full] >= rules.every)
        or bool(rules.share and more > rules.share * sizes.get(full.guid, 0))
    )


def _partial(line: str, found: Found) -> Partial | None:
    """The newest stream that was begun and is not whole."""
    open_ = [s for s in found.begun if s.line == line and s not in found.whole]
    newest = max(open_, key=lambda s: found.begun[s], default=None)
    return Partial(token="", guid=newest.guid) if newest else None


def properties_of(manifest: Manifest) -> dict[str, str]:
    """The record as zbackup writes it on snapshots."""
    return {PREFIX + name: value for name, value in manifest.record.items()}
