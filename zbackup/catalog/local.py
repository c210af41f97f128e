"""The backups and clones of this host, read from ZFS: there is no other list of them."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from posixpath import commonpath

from zbackup.model.backup import Backup
from zbackup.model.bounds import shown
from zbackup.model.clone import INTENT, PROPERTY, Clone, from_property
from zbackup.model.command_line import command_line
from zbackup.model.errors import DatasetNotFound, Refused
from zbackup.model.record import Record, from_properties
from zbackup.model.snapshot import Dataset, Snapshot
from zbackup.zfs.datasets import Zfs

_Row = tuple[Record, Snapshot]


@dataclass(frozen=True, slots=True)
class Catalog:
    """An instance's datasets and backups (oldest first), and snapshots whose record cannot be read.

    `taken` is what the datasets' snapshots are called, anybody's, without the dataset. `former` are datasets
    that were the instance's once (zbackup switch): there are backups on them, too. `promoted` are datasets of
    the instance that are clones of a clone of theirs, each with its origin: somebody promoted that, and it
    has their older snapshots now.
    """

    datasets: tuple[Dataset, ...]
    backups: tuple[Backup, ...]
    unreadable: tuple[tuple[str, str], ...]
    taken: frozenset[str] = frozenset()
    former: tuple[Dataset, ...] = ()
    promoted: tuple[tuple[str, str], ...] = ()

    @property
    def all_datasets(self) -> tuple[Dataset, ...]:
        """The datasets that backups are on: those of now, and the former ones."""
        return (*self.datasets, *self.former)


def read(
    zfs: Zfs,
    instance: str,
    roots: Sequence[str],
    *,
    without: str,
    formerly: Mapping[str, str] | None = None,
) -> Catalog:
    """Everything of `instance` on and below the datasets `roots`, but not on or below `without`; and on those
    that are named `formerly`, each with what it was called when it was the instance's.

    Raise DatasetNotFound when a root does not exist.
    """
    datasets = own_datasets(zfs, roots, without=without)
    former = _still_there(zfs, formerly or {})
    names = {d.name for d in datasets}
    snapshots = [s for root in roots for s in zfs.snapshots_below(root) if s.dataset in names]
    aside = [s for d in former for s in zfs.snapshots(d.name)]
    backups, unreadable = group([*aside, *snapshots], formerly)
    return Catalog(
        datasets=datasets,
        former=former,
        backups=tuple(b for b in backups if b.record.instance == instance),
        unreadable=tuple(unreadable),
        taken=frozenset(s.name for s in snapshots),
        promoted=tuple((d.name, d.origin) for d in datasets if d.origin.startswith(f"{without}/")),
    )


def own_datasets(zfs: Zfs, roots: Sequence[str], *, without: str) -> tuple[Dataset, ...]:
    """All on and below the datasets `roots`, but not on or below `without`. Raise DatasetNotFound."""
    found = (d for root in roots for d in _on_and_below(zfs, root))
    return tuple(d for d in found if d.name != without and not d.name.startswith(without + "/"))


def _on_and_below(zfs: Zfs, root: str) -> list[Dataset]:
    try:
        return zfs.filesystems(root)
    except DatasetNotFound as gone:
        pool = root.partition("/")[0]
        if not zfs.exists(pool):
            hint = f"there is no pool {pool} here now: {command_line('zpool', 'import', pool)}"
            gone.args = (f"{gone}; {hint}",)
        raise


def _still_there(zfs: Zfs, names: Iterable[str]) -> tuple[Dataset, ...]:
    """The datasets of these names that nobody destroyed."""
    found = []
    for name in names:
        with contextlib.suppress(DatasetNotFound):
            found.append(zfs.filesystems(name)[0])
    return tuple(found)


def group(
    snapshots: Sequence[Snapshot], formerly: Mapping[str, str] | None = None
) -> tuple[list[Backup], list[tuple[str, str]]]:
    """Backups, oldest first, and (snapshot, problem) for those whose record cannot be understood. Pure.

    A backup's record is on every member's snapshot; the steps after the snapshot are written on the first
    member last, so the first member's is the one that counts. `formerly`: see read().
    """
    members: dict[str, list[_Row]] = defaultdict(list)
    unreadable = []
    for snapshot in snapshots:
        try:
            record = from_properties(dict(snapshot.properties))
        except ValueError as problem:
            unreadable.append((str(snapshot), str(problem)))
            continue
        if record is not None:
            members[record.backup].append((record, snapshot))
    backups = [_backup(rows, formerly or {}) for rows in members.values()]
    return sorted(backups, key=lambda b: b.createtxg), unreadable


def _backup(rows: list[_Row], formerly: Mapping[str, str]) -> Backup:
    """The members' snapshots in the members' order; never a copy of one that was received elsewhere."""
    members = [dataset for dataset, _ in rows[0][0].members]
    there = {formerly.get(row[1].dataset, row[1].dataset): row for row in rows}
    if not any(member in there for member in members):
        there = _renamed(members, there)
    found = [there[member] for member in members if member in there] or rows[:1]
    return Backup(record=found[0][0], snapshots=tuple(s for _, s in found))


def _renamed(members: list[str], there: Mapping[str, _Row]) -> dict[str, _Row]:
    """Under the members' old names, if the dataset that all of them lie in (or the pool) was renamed."""
    old, new = commonpath(members), commonpath(there)
    return {old + dataset.removeprefix(new): row for dataset, row in there.items()}


@dataclass(frozen=True, slots=True)
class FoundClones:
    """Clones in order of creation, each with its own dataset; and (dataset, problem) of each dataset below
    `root` whose description cannot be read. Such a one is left alone, and so is whatever it may need.

    `datasets` are the names of all file systems there, whosoever they are, with `root`."""

    root: str
    found: tuple[tuple[Clone, Dataset], ...]
    unreadable: tuple[tuple[str, str], ...] = ()
    datasets: frozenset[str] = frozenset()

    def problem(self, name: str) -> str:
        """What is wrong with the clone of this name, and what to do; "" when nothing is."""
        dataset = f"{self.root}/{name}"
        problem = dict(self.unreadable).get(dataset)
        done = "set it right, or destroy the dataset yourself when no backup is in it"
        return f"{dataset} cannot be read: {problem}; {done}" if problem else ""

    def require_readable(self, name: str) -> None:
        """Raise Refused when there is a clone of this name, and nobody knows what it is."""
        if problem := self.problem(name):
            raise Refused(problem)

    @property
    def unreadable_names(self) -> frozenset[str]:
        """Names that are somebody's, though nobody knows whose."""
        return frozenset(dataset.rpartition("/")[2] for dataset, _ in self.unreadable)


def clones(zfs: Zfs, root: str) -> list[tuple[Clone, Dataset]]:
    """The clones below the dataset `root` that can be read, each with its own dataset, oldest first."""
    return list(read_clones(zfs, root).found)


def read_clones(zfs: Zfs, root: str) -> FoundClones:
    """All clones below the dataset `root`."""
    try:
        datasets = zfs.filesystems(root)
    except DatasetNotFound:
        return FoundClones(root, ())
    # Mostly there is none: every instance is looked at every few minutes, and asking ZFS is what that takes.
    properties = zfs.user_properties(root) if len(datasets) > 1 else {}
    found, unreadable = [], []
    for dataset in datasets:
        text = properties.get(dataset.name, {}).get(PROPERTY) or _intent(root, dataset, properties)
        if text:
            try:
                found.append((_clone(root, dataset, text), dataset))
            except ValueError as damaged:
                unreadable.append((dataset.name, f"its property {PROPERTY} is damaged: {damaged}"))
    return FoundClones(
        root=root,
        found=tuple(sorted(found, key=lambda pair: pair[0].created)),
        unreadable=tuple(unreadable),
        datasets=frozenset(dataset.name for dataset in datasets),
    )


def _intent(root: str, dataset: Dataset, properties: Mapping[str, Mapping[str, str]]) -> str:
    """What a dataset was to become that lost its description in a power cut; "" if none was to be made.

    ZFS makes a file system in one transaction group and sets its properties in the next.
    """
    parent, _, name = dataset.name.rpartition("/")
    if parent != root or dataset.mountpoint:
        return ""
    return properties.get(root, {}).get(INTENT + name, "")


def _clone(root: str, dataset: Dataset, text: str) -> Clone:
    """Raise ValueError unless it is the description of the clone that the dataset is called after: a clone's
    name leads to its directories, its locks and its dataset."""
    clone = from_property(text)
    if f"{root}/{clone.name}" != dataset.name:
        raise ValueError(f"it is that of a clone {shown(clone.name)}")
    return clone
