"""A source and a destination in memory, with ZFS's own rules of what can be received, for the planner."""

from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from tests.unit.samples import PLAIN, at
from zbackup.model.backup import Backup
from zbackup.model.record import Record
from zbackup.model.retention import EMPTY
from zbackup.model.shipping import Inventory, Origin, Partial, ReceivedSnapshot, SourceDataset, TargetDataset
from zbackup.model.snapshot import Snapshot
from zbackup.plan.ship.ship import Abort, Commit, Send, ShipPlan, Step, Steps, plan_ship
from zbackup.plan.ship.wanted import wanted

_UTC = ZoneInfo("UTC")


@dataclass
class There:
    """A dataset at the destination: copies, oldest first, and the guid of an interrupted stream."""

    copies: list[ReceivedSnapshot] = field(default_factory=list)
    partial: int | None = None
    base: int | None = None


@dataclass
class World:
    """`names` are the instance's datasets now. Bookmarks: as jobs/ship/holds_and_bookmarks.py makes them."""

    names: list[str] = field(default_factory=lambda: ["tank/a", "tank/a/log"])
    txg: int = 10
    guid: int = 1000
    backups: list[Backup] = field(default_factory=list)
    bookmarks: list[tuple[str, Origin]] = field(default_factory=list)
    there: dict[str, There] = field(default_factory=dict)

    # at the source

    def take(self) -> Backup:
        """A backup of all the datasets."""
        self.txg += 1
        members = tuple((name, f"/{name}") for name in self.names)
        record = replace(
            PLAIN, backup=f"b{self.txg}", members=members, taken=at(self.txg), as_of=at(self.txg)
        )
        snapshots = tuple(self._snapshot(record, name) for name in self.names)
        self.backups.append(Backup(record=record, snapshots=snapshots))
        return self.backups[-1]

    def _snapshot(self, record: Record, dataset: str) -> Snapshot:
        self.guid += 1
        return Snapshot(
            dataset=dataset, name=f"s{self.txg}", guid=self.guid, createtxg=self.txg, created=record.taken
        )

    def destroy(self, number: int) -> None:
        """One of the backups, oldest first; its bookmarks stay."""
        del self.backups[number]

    def sources(self) -> list[SourceDataset]:
        rows = [(s.dataset, _origin(s, "@")) for b in self.backups for s in b.snapshots] + self.bookmarks
        return [
            SourceDataset(name=name, origins=tuple(o for dataset, o in rows if dataset == name))
            for name in self.names
        ]

    # at the destination

    def inventory(self) -> Inventory:
        lines = [
            TargetDataset(
                name=name,
                copies=tuple(here.copies),
                bases=tuple(c.guid for c in here.copies[-1:]),
                partial=Partial(token=f"token {here.partial}") if here.partial else None,
            )
            for name, here in sorted(self.there.items())
        ]
        return Inventory(address="there", datasets=tuple(lines))

    def resumable(self) -> dict[str, int]:
        """What the source can continue: the snapshot is there, and what the stream began from."""
        origins = {o.guid: o.name for d in self.sources() for o in d.origins}
        whole = {guid for guid, name in origins.items() if "@" in name}
        whole |= {s.guid for b in self.backups for s in b.snapshots}
        return {
            name: here.partial
            for name, here in self.there.items()
            if here.partial in whole and (here.base is None or here.base in origins)
        }

    # shipping

    def plan(self, *, initial: bool = True) -> ShipPlan:
        inventory, resumable = self.inventory(), self.resumable()
        chosen = wanted(self.backups, inventory, set(resumable.values()), EMPTY, (at(0), _UTC))
        return plan_ship(chosen, self.sources(), inventory, resumable, initial=initial)

    def pin(self, steps: tuple[Step, ...]) -> None:
        """Bookmarks of what is to be sent."""
        known = {(dataset, o.guid) for dataset, o in self.bookmarks}
        for step in steps:
            if isinstance(step, Send) and (step.snapshot.dataset, step.snapshot.guid) not in known:
                self.bookmarks.append((step.snapshot.dataset, _origin(step.snapshot, "#")))

    def do(self, plan: ShipPlan, cut: int | None = None, *, partly: bool = False) -> None:
        """The plan's steps, but for those from number `cut` on; of a Send there `partly` a part arrives."""
        if not isinstance(plan, Steps):
            return
        self.pin(plan.steps)
        for number, step in enumerate(plan.steps):
            if number == cut:
                if partly and isinstance(step, Send):
                    self._begin(step)
                return
            self._step(step)

    def _begin(self, step: Send) -> There:
        here = self.there.setdefault(step.part.dataset, There())
        if step.token:
            assert here.partial == step.part.guid, "a token continues its own stream only"
        else:
            assert here.partial is None, "destination contains partially-complete state"
            newest = here.copies[-1].guid if here.copies else None
            assert step.part.base == newest, "the stream must start from the newest snapshot"
            here.partial, here.base = step.part.guid, step.part.base
        return here

    def _step(self, step: Step) -> None:
        match step:
            case Abort(line, _):
                here = self.there[line]
                assert here.partial is not None, "nothing to abort"
                here.partial = here.base = None
                if not here.copies:
                    del self.there[line]
            case Send(part):
                here = self._begin(step)
                here.copies.append(ReceivedSnapshot(name=part.name, guid=part.guid))
                here.partial = here.base = None
            case Commit(backup, parts):
                guids = tuple(part.guid for part in parts)
                assert guids == tuple(s.guid for s in backup.snapshots)
                for part in parts:
                    self._mark(part.dataset, part.guid, backup.record.backup, guids)

    def _mark(self, line: str, guid: int, backup: str, parts: tuple[int, ...]) -> None:
        copies = self.there[line].copies
        (number,) = [n for n, copy in enumerate(copies) if copy.guid == guid]
        copies[number] = replace(copies[number], backup=backup, parts=parts, marked=True)


def _origin(snapshot: Snapshot, sign: str) -> Origin:
    name = f"{snapshot.dataset}{sign}{snapshot.name}"
    return Origin(name=name, guid=snapshot.guid, createtxg=snapshot.createtxg)
