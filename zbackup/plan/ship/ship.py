"""Decide what to send so that a destination has the backups it should have. Pure; identity is the guid, order
is createtxg, and no clock and no name decides anything.

Asked again after a run that was cut short anywhere, it plans what is left. It never plans to overwrite or to
roll back: what has nothing in common with the source is said to have diverged, with what is on each side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from zbackup.model.backup import Backup
from zbackup.model.shipped import OtherKey
from zbackup.model.shipping import (
    Inventory,
    Origin,
    OutgoingStream,
    ReceivedSnapshot,
    SourceDataset,
    TargetDataset,
)
from zbackup.model.snapshot import Snapshot

SHOWN = 3
"""Snapshots of each side that the evidence of a divergence names."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Give up what a destination kept of an interrupted stream that cannot be continued."""

    target: str
    why: str


@dataclass(frozen=True, slots=True)
class Send:
    """Send one snapshot: from `origin` (None: a full stream), or on from where `token` says."""

    part: OutgoingStream
    snapshot: Snapshot
    origin: Origin | None
    token: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """All of the backup's parts are there: from now on the destination lists it."""

    backup: Backup
    parts: tuple[OutgoingStream, ...]


Step = Abort | Send | Commit


@dataclass(frozen=True, slots=True)
class Steps:
    """To be done in this order."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class UpToDate:
    """Nothing is to be sent. `newest` is the newest backup here that is committed there, if any."""

    newest: Backup | None


@dataclass(frozen=True, slots=True)
class NeedsInitial:
    """Nothing of these datasets is there that a stream could go on from, and nobody allowed a full one."""

    datasets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """No stream can go on from what is there. `here` and `there` are the newest of either side."""

    dataset: str
    target: str
    why: str
    here: tuple[str, ...]
    there: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyLocked:
    """An unencrypted dataset would be received below an encrypted one, whose key (`root`) is not loaded."""

    dataset: str
    root: str


ShipPlan = Steps | UpToDate | NeedsInitial | Divergence | OtherKey | KeyLocked


@dataclass(slots=True)
class _Track:
    """A dataset's target as it will be when the steps so far are done.

    `there` are the guids of what lies there already. `newest` is the createtxg, here, of its newest copy that
    is committed. `needed`: what is there in part is not given up.
    """

    dataset: SourceDataset
    target: str
    there: frozenset[int]
    bases: tuple[int, ...]
    partial: int | None
    token: str
    needed: bool
    restartable: bool
    newest: int

    def origin_before(self, snapshot: Snapshot) -> Origin | None:
        """What an incremental stream to the snapshot can start from, the newest there is."""
        found = [o for guid in self.bases if (o := self.dataset.origin(guid))]
        older = [o for o in found if o.createtxg < snapshot.createtxg]
        return max(older, key=lambda o: o.createtxg, default=None)

    def arrived(self, guid: int) -> None:
        self.bases = (guid,)
        self.partial, self.token = None, ""


def plan_ship(
    wanted: Sequence[Backup],
    datasets: Sequence[SourceDataset],
    inventory: Inventory,
    resumable: Mapping[str, int],
    *,
    initial: bool,
) -> ShipPlan:
    """Plan how the destination gets the backups `wanted` (finished and complete, oldest first).

    `resumable` has, by target, the guid that an interrupted stream there was of, if it can be continued; a
    partial of a target that is not in it is stale. `initial`: a full stream of everything is allowed.
    """
    if not wanted:
        return UpToDate(None)
    tracks = {d.name: _track(d, inventory, resumable) for d in datasets}
    members = {s.dataset for b in wanted for s in b.snapshots}
    mine = [tracks[d.name] for d in datasets if d.name in members]
    if problem := _divergence(mine, inventory):
        return problem
    sources = [t.dataset for t in mine]
    if changed := other_keys(sources, inventory):
        return changed[0]
    if not initial and not any(t.there or t.partial for t in mine):
        return NeedsInitial(tuple(t.dataset.name for t in mine))
    lost = {
        t.target: t.partial for t in mine if t.restartable and not t.there and (t.partial is None or t.needed)
    }
    steps = [step for b in wanted for step in _of_backup(b, tracks, inventory)]
    if not initial and (again := [s.snapshot.dataset for s in steps if _is_begun_in(s, lost)]):
        return NeedsInitial(tuple(dict.fromkeys(again)))
    if inventory.locked and (
        plain := [s.snapshot.dataset for s in steps if _is_encrypted_there(s, inventory)]
    ):
        return KeyLocked(plain[0], inventory.locked)
    if steps:
        return Steps(tuple(steps))
    committed = inventory.committed
    return UpToDate(next((b for b in reversed(wanted) if b.record.backup in committed), None))


def _is_encrypted_there(step: Step, inventory: Inventory) -> TypeGuard[Send]:
    """Whether the destination encrypts the received data: it does for a new copy below an encrypted
    dataset."""
    if not isinstance(step, Send) or step.part.raw:
        return False
    target = inventory.dataset(step.part.dataset)
    return target is None or target.encrypted or not target.copies


def other_keys(sources: Sequence[SourceDataset], inventory: Inventory) -> list[OtherKey]:
    """Find the copies of encrypted datasets that are no longer their own encryption root.

    A copy may share the root of another one if their sources do: the next streams bring both the same key.
    """
    targets = {source.name: target_of(source, inventory) for source in sources if source.encrypted}
    roots = {
        target.dataset: source.encryption_root for source in sources if (target := targets.get(source.name))
    }
    return [
        OtherKey(
            dataset=source.name,
            copy=target.dataset,
            root=target.encryption_root,
            overwritten=_overwritten(source, target),
        )
        for source in sources
        if (target := targets.get(source.name)) and target.copies
        if target.encryption_root not in ("", target.dataset)
        if roots.get(target.encryption_root) != source.encryption_root
    ]


def _overwritten(source: SourceDataset, target: TargetDataset) -> bool:
    """By the salt whether the copy has the source's wrapped key. Only passphrases have a salt."""
    return source.salt == target.salt and source.salt not in ("", "0", "-")


def _is_begun_in(step: Step, lost: Mapping[str, int | None]) -> TypeGuard[Send]:
    """A full stream into one of the targets whose streams make no copy any more: their beginning is gone.

    Where only its page is, the same stream writes that again, and what is there of it is skipped.
    """
    return (
        isinstance(step, Send)
        and step.origin is None
        and step.part.dataset in lost
        and step.part.guid != lost[step.part.dataset]
    )


def _track(dataset: SourceDataset, inventory: Inventory, resumable: Mapping[str, int]) -> _Track:
    target = target_of(dataset, inventory)
    partial = target.partial if target else None
    return _Track(
        dataset=dataset,
        target=target.name if target else dataset.name,
        there=frozenset(c.guid for c in target.copies) if target else frozenset(),
        bases=_bases(dataset, target),
        # A partial that cannot be continued is of no guid there can be.
        partial=resumable.get(target.name, -1) if target and partial else None,
        token=partial.token if partial else "",
        needed=partial is not None and partial.needed,
        restartable=target is not None and target.restartable,
        newest=max((o.createtxg for o in _committed(dataset, target)), default=0),
    )


def _committed(dataset: SourceDataset, target: TargetDataset | None) -> list[Origin]:
    guids = [copy.guid for copy in target.copies if copy.marked] if target else []
    return [o for guid in guids if (o := dataset.origin(guid))]


def _bases(dataset: SourceDataset, target: TargetDataset | None) -> tuple[int, ...]:
    if target is None or (target.restartable and dataset.encrypted and not target.encrypted):
        return ()
    return target.bases


def target_of(dataset: SourceDataset, inventory: Inventory) -> TargetDataset | None:
    """The target with this dataset's snapshots, whatever the dataset is called now; else that of its name."""
    own = {o.guid for o in dataset.origins}
    known = [target for target in inventory.datasets if any(c.guid in own for c in target.copies)]
    # A clone shares no guid with its origin: two target datasets that do are two receives of one dataset.
    return max(
        known,
        key=lambda target: (target.name == dataset.name, target.name),
        default=inventory.dataset(dataset.name),
    )


def _divergence(mine: Sequence[_Track], inventory: Inventory) -> Divergence | None:
    for track in mine:
        target = inventory.dataset(track.target)
        if target is None or (track.partial is not None and not target.copies):
            continue
        if why := _why_diverged(track, target):
            return _evidence(track, target.copies, why)
    common = any(track.there for track in mine)
    strangers = [target for target in inventory.datasets if target.copies or target.partial]
    if strangers and not common and not any(t.partial is not None for t in mine):
        why = "it holds backups of which no snapshot is of these datasets"
        return _evidence(mine[0], strangers[0].copies, why, strangers[0].name)
    return None


def _why_diverged(track: _Track, target: TargetDataset) -> str:
    if not target.copies:
        # Of streams whose beginning is lost none is a copy; where they lie beside each other, a full one can.
        return "" if track.restartable else "a dataset is in its place that holds no backup"
    known = any(track.dataset.origin(copy.guid) for copy in target.copies)
    if track.restartable and known:
        return ""
    if not any(track.dataset.origin(guid) for guid in track.bases):
        if known:
            return "its newest snapshot is not at the source: taken there, or the source was rolled back"
        return "no snapshot there is also at the source, nor a bookmark of one"
    if track.dataset.encrypted and not target.encrypted:
        return (
            "it was received unencrypted, and the source is encrypted now: raw streams cannot go on from that"
        )
    return ""


def _evidence(track: _Track, copies: Sequence[ReceivedSnapshot], why: str, target: str = "") -> Divergence:
    here = sorted(track.dataset.origins, key=lambda o: o.createtxg)[-SHOWN:]
    return Divergence(
        dataset=track.dataset.name,
        target=target or track.target,
        why=why,
        here=tuple(f"{o.name} (guid {o.guid})" for o in here),
        there=tuple(f"@{c.name} (guid {c.guid})" for c in copies[-SHOWN:]),
    )


def _of_backup(backup: Backup, tracks: Mapping[str, _Track], inventory: Inventory) -> list[Step]:
    """Nothing for one that is committed, or that a target has gone past without."""
    if backup.record.backup in inventory.committed:
        return []
    pairs = [(s, tracks[s.dataset]) for s in backup.snapshots]
    if any(_is_past(s, t) for s, t in pairs):
        return []
    steps: list[Step] = []
    parts = []
    for snapshot, track in pairs:
        more, part = _of_snapshot(snapshot, track, backup.record.server_uuid)
        steps += more
        parts.append(part)
    return [*steps, Commit(backup, tuple(parts))]


def _is_past(snapshot: Snapshot, track: _Track) -> bool:
    if track.restartable:
        # Its stream may still be there, of a backup that was taken away there: others need it.
        return snapshot.createtxg < track.newest
    if snapshot.guid in track.there or not track.there:
        return False
    return track.origin_before(snapshot) is None


def _of_snapshot(snapshot: Snapshot, track: _Track, server: str) -> tuple[list[Step], OutgoingStream]:
    raw = track.dataset.encrypted
    if snapshot.guid in track.there:
        part = OutgoingStream(
            dataset=track.target, guid=snapshot.guid, name=snapshot.name, base=None, raw=raw, server=server
        )
        return [], part
    origin = track.origin_before(snapshot)
    part = OutgoingStream(
        dataset=track.target,
        guid=snapshot.guid,
        name=snapshot.name,
        base=origin.guid if origin else None,
        raw=raw,
        server=server,
    )
    steps: list[Step] = []
    token = ""
    if track.partial == snapshot.guid:
        token = track.token
    elif track.partial is not None and not track.needed:
        steps.append(Abort(track.target, _why_aborted(track)))
    steps.append(Send(part, snapshot, origin, token))
    track.arrived(snapshot.guid)
    return steps, part


def _why_aborted(track: _Track) -> str:
    if track.partial == -1:
        return "the snapshot it was of is gone at the source, or its bookmark"
    return "it is of a snapshot that is not to be sent any more"
