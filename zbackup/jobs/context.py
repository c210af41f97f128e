"""The context that every job works with: one instance, and the adapters to reach it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from zbackup.catalog.local import Catalog, FoundClones, own_datasets, read
from zbackup.catalog.switched import among, formerly, require_settled, switches
from zbackup.clock import Clock
from zbackup.destinations.base import Destination
from zbackup.engines.base import Adapters, Engine, LogFollower, LogReader, ProductionAccess, Recovery
from zbackup.engines.log_search import FileSearch, ServerSearch
from zbackup.model.archive import ArchiveRules
from zbackup.model.cloning import DEFAULTS, CloneRules
from zbackup.model.errors import DatasetNotFound, PoolSuspended
from zbackup.model.progress import Progress
from zbackup.model.relocation import Relocation
from zbackup.model.retention import EMPTY, Retention
from zbackup.model.snapshot import Dataset
from zbackup.model.switch import ServiceCommands
from zbackup.proc.lock import exclusive
from zbackup.proc.run_directory import daemon_directory
from zbackup.zfs.datasets import Zfs


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipDestination:
    """A destination of the instance, and what is wanted of it.

    `tag` is the tag of the holds on what is being sent there; `initial` allows a full stream of everything;
    `limit` is in bytes a second, 0 for none; `sample` is how many bytes of each dataset a verification on
    schedule reads, 0 for all, -1 for none. `max_lag` is how far it may be behind, None if nobody said.
    `grace` is how long what arrived makes nothing superfluous that was there before
    (plan.retention.received_backups).
    """

    adapter: Destination
    tag: str
    retention: Retention = EMPTY
    initial: bool = False
    limit: int = 0
    sample: int = -1
    max_lag: timedelta | None = None
    grace: timedelta = timedelta()

    @property
    def name(self) -> str:
        return self.adapter.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """`datasets` are the instance's root datasets; clones go below the dataset `clones`, mounted below
    the directory `mountpoint`; `run_dir` (see proc.run_directory) is for sockets and locks and is
    empty after a reboot. `helper` is the socket of the one who does what only root may, and `drill_helper` of
    the one who makes drills on schedule, None where they are not needed or not there. `service` is how its
    server is stopped and started, None where that is not configured. `elsewhere` are datasets on other pools
    of this host that there may be clones below, of copies that were shipped there. `copier` makes a
    features.copyback.ports.Copier, and `undoer` a features.undo.ports.Undoer. `archive` says where its log is
    archived."""

    instance: str
    engine_name: str
    datasets: tuple[str, ...]
    clones: str
    mountpoint: Path
    run_dir: Path
    zone: ZoneInfo
    zfs: Zfs
    adapters: Adapters
    clock: Clock
    progress: Progress
    retention: Retention = EMPTY
    destinations: tuple[ShipDestination, ...] = ()
    cloning: CloneRules = DEFAULTS
    helper: Path | None = None
    drill_helper: Path | None = None
    service: ServiceCommands | None = None
    elsewhere: tuple[str, ...] = ()
    copier: Callable[[], ProductionAccess] | None = None
    archive: ArchiveRules | None = None
    undoer: Callable[[], object] | None = None

    @property
    def engine(self) -> Engine:
        return self.adapters.engine

    @property
    def recovery(self) -> Recovery:
        return self.adapters.recovery

    @property
    def log_reader(self) -> LogReader:
        return self.adapters.log_reader

    @property
    def log_search(self) -> FileSearch | ServerSearch:
        return self.adapters.log_search

    @property
    def follower(self) -> LogFollower:
        return self.adapters.follower

    def at(self, clones: str) -> "Context":
        """The same, with its clones below another dataset."""
        rest = (root for root in (self.clones, *self.elsewhere) if root != clones)
        return replace(self, clones=clones, elsewhere=tuple(rest))

    def everywhere(self) -> tuple["Context", ...]:
        """One for each dataset that the instance's clones may be below, but on pools that lost their disks.

        Nobody can work on a clone there, and this one's must not wait for that.
        """
        return (self, *(self.at(root) for root in self.elsewhere if self._answers(root)))

    def _answers(self, root: str) -> bool:
        try:
            self.zfs.exists(root)
        except PoolSuspended as lost:
            self.progress.note(f"clones below {root} are left out: {lost}")
            return False
        return True

    def catalog(self, clones: FoundClones | None = None) -> Catalog:
        """The instance's datasets, without clones that may lie below them, and its backups.

        `clones` are those below its clones dataset, of somebody who has just looked. Raise Refused while a
        switch (features.switch.switch) is half done.
        """
        if clones is None:
            found = switches(self.zfs, self.clones, self.instance)
        else:
            found = among((clone for clone, _ in clones.found), self.instance)
        require_settled(found)
        former = formerly(found, self.clones)
        return read(self.zfs, self.instance, self.datasets, without=self.clones, formerly=former)

    def members(self) -> tuple[Dataset, ...]:
        """The instance's datasets alone: quicker than the catalogue where there are many snapshots.

        Of those that are here at all: a server that was brought back from elsewhere may be on a host without.
        """
        found: list[Dataset] = []
        for root in self.datasets:
            with suppress(DatasetNotFound):
                found += own_datasets(self.zfs, (root,), without=self.clones)
        return tuple(found)

    @property
    def shared(self) -> Path:
        """Where the locks are that root's commands and the daemon share."""
        return daemon_directory(self.run_dir)

    @property
    def lock_file(self) -> Path:
        """Held by whoever works on this instance."""
        return self.shared / f"{self.instance}.lock"

    @property
    def claims_lock(self) -> Path:
        """Held by whoever takes a name or a port for a clone, of whatever instance."""
        # No instance's lock can be called so: a name has no dot.
        return self.shared / "zbackup.clones.lock"

    @contextmanager
    def instance_lock(self, what: str) -> Iterator[None]:
        """Lock the instance: nobody else works on it meanwhile. Raise Taken, saying who does, if any does."""
        with exclusive(self.lock_file, what, waiting=self.progress.note):
            yield


def mounted(datasets: tuple[Dataset, ...]) -> dict[str, str]:
    """Dataset -> where it is mounted, of those that are."""
    return {d.name: d.mountpoint for d in datasets if d.mountpoint}


def live_files(datasets: tuple[Dataset, ...]) -> Relocation:
    """The server's own files: where they are now is where they always are."""
    return Relocation(tuple((path, path) for path in mounted(datasets).values()))
