"""Which streams make a copy, of all that lie in a bucket. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What listings and manifests say. `whole` and `begun` with when they were written.

    `unreadable` are pages that cannot be understood: (key, problem). `foreign` are streams that were not made
    by who has the key, where that counts. `withdrawn` are backups whose commit was taken back, and `strange`
    keys of objects that are not ours.
    """

    whole: Mapping[StreamId, datetime]
    begun: Mapping[StreamId, datetime]
    manifests: Sequence[Manifest]
    unreadable: Sequence[tuple[str, str]] = ()
    foreign: frozenset[StreamId] = frozenset()
    withdrawn: Sequence[str] = ()
    strange: Sequence[str] = ()

    def without(self, backup: str) -> "Found":
        """As it is when that backup's manifest is gone."""
        return replace(self, manifests=[m for m in self.manifests if m.backup != backup])

    def doubtful(self) -> list[StreamId]:
        """What committed backups are based on, perhaps, and no manifest tells whether it was made by us."""
        ways = Ways(self)
        return sorted(stream for stream in ways.leading() if stream not in ways.named)

    def incomplete(self) -> list[str]:
        """Committed backups of which a stream, or one that it is based on, is gone or foreign."""
        ways = Ways(self)
        return [
            m.backup for m in self.manifests if not all(ways.to(part.line, part.guid) for part in m.parts)
        ]


class Ways:
    """By which streams copies are made.

    What a manifest names as a copy's stream is that, and nothing else that claims to make the same copy. The
    streams of a copy that no manifest names (its backup was pruned) are all that are not foreign.
    """

    def __init__(self, found: Found) -> None:
        self.named = {
            StreamId(line=part.line, guid=part.guid, base=part.base)
            for manifest in found.manifests
            for part in manifest.parts
        }
        known = {(stream.line, stream.guid) for stream in self.named}
        self._making: dict[tuple[str, int], list[StreamId]] = {}
        self._real: dict[tuple[str, int], list[StreamId]] = {}
        for stream in found.whole:
            copy = (stream.line, stream.guid)
            if stream in self.named or stream not in found.foreign:
                self._real.setdefault(copy, []).append(stream)
                if stream in self.named or copy not in known:
                    self._making.setdefault(copy, []).append(stream)

    def making(self, line: str, guid: int) -> Sequence[StreamId]:
        """The whole streams that make this copy of what they are based on."""
        return self._making.get((line, guid), ())

    def to(self, line: str, guid: int) -> list[StreamId] | None:
        """The streams that make a copy, the full one first; None when one of them is not whole.

        Of several ways the shortest that manifests name. Where none of these is whole any more, of all that
        are not foreign: what was lost has been sent again, from another base.
        """
        return _shortest(self._making, line, guid) or _shortest(self._real, line, guid)

    def leading(self) -> Iterator[StreamId]:
        """All streams by which one may come to a committed copy, also if what they are based on is gone."""
        waiting = list({(stream.line, stream.guid) for stream in self.named})
        seen = set(waiting)
        while waiting:
            for stream in self._real.get(waiting.pop(), ()):
                yield stream
                if stream.base is not None and (base := (stream.line, stream.base)) not in seen:
                    seen.add(base)
                    waiting.append(base)


def _shortest(
    making: Mapping[tuple[str, int], Sequence[StreamId]], line: str, guid: int
) -> list[StreamId] | None:
    front = [[stream] for stream in making.get((line, guid), ())]
    seen = {guid}
    while front:
        ready = next((way for way in front if way[0].base is None), None)
        if ready:
            return ready
        longer = []
        for way in front:
            base = way[0].base
            if base is not None and base not in seen:
                seen.add(base)
                longer += [[stream, *way] for stream in making.get((line, base), ())]
        front = longer
    return None
