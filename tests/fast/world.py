"""A machine in memory: pools, production, clones with servers, files, and a clock that commands move on.

Whatever changes anything passes World.door, where it can be broken. All that there is can be kept, and put
back for the next trial.
"""

import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pytest

from tests.adapters import GivenAdapters, changed
from tests.fast import runner
from tests.fast.objects import FileSystem
from tests.fast.pool import Pools
from tests.fast.server import DATA, LOG, FakeEngine, FakeRecovery, Server
from tests.fast.zfs import FakeZfs
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.progress import Silent
from zbackup.model.proof import Sight
from zbackup.model.retention import EMPTY, Retention
from zbackup.model.shipping import hold_tag
from zbackup.model.switch import ServiceCommands
from zbackup.proc.pipeline import Command, Meter
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.stream_content import Content

Result = TypeVar("Result")
T0 = datetime(2024, 5, 1, 12, tzinfo=UTC)
CLONES, MOUNTS = "tank/zbackup", "/srv/clones"
VAULT = "vault/backups"
STEP = timedelta(seconds=1)
"""How long each command takes."""


@dataclass(slots=True)
class State:
    """All that there is. `servers` are those of clones, by name; `files` those outside of the pools.

    `archive` are the transactions that were archived at the destination.
    """

    pools: Pools = field(default_factory=Pools)
    server: Server = field(default_factory=Server)
    servers: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    archive: tuple[int, ...] = ()
    elapsed: timedelta = timedelta()


Door = Callable[[tuple[str, ...], bool, Callable[[], Any]], Any]
"""What is asked or done, whether it changes anything, and how it is done."""


def unbroken(argv: tuple[str, ...], mutates: bool, act: Callable[[], Any]) -> Any:
    """The door that lets everything pass."""
    return act()


class FakeMounts:
    """The mounts of the pools, made by commands that can be broken like all others."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def is_host(self) -> bool:
        return True

    def is_empty(self, path: Path) -> bool:
        return True

    def mount(self, name: str, path: Path, flags: int, options: str) -> None:
        self._world.run(("zfs", "mount", "--", name))

    def is_there(self, name: str, path: Path) -> bool:
        return self._world.pools.file_system(name).mounted == str(path)

    def unmount(self, name: str, path: Path) -> None:
        self._world.run(("zfs", "unmount", "--", name))

    def in_use(self, names: Mapping[str, str], apart_from: int | None = None) -> dict[str, list[str]]:
        return {name: [who] for name, who in self._world.mounted_elsewhere.items() if name in names}


class World:
    """State, and the doors to it. `writing`: production commits with every change that is made.

    `only_reads`: a replay does no more with its log, and needs no clone of it.

    The stream of number `cut` from now on ends in its middle; `resumed` counts those that were continued.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.state, self.passing, self.writing = home, State(), unbroken, True
        self.notes: list[str] = []
        self.damaged_tables: tuple[str, ...] = ()
        self.mounted_elsewhere: dict[str, str] = {}
        """Dataset or snapshot -> who has it mounted elsewhere, in words."""
        self.cut = self.resumed = 0
        self.only_reads = True
        self.sights = (Sight(), Sight(holds=True))
        self.production_has: bool | None = None
        self.zfs = FakeZfs(self.pools)
        self.build()

    def build(self) -> None:
        """Production on two datasets, and beside it what is nobody's business."""
        pools = self.pools
        pools.create("tank", {"mountpoint": "/tank"})
        pools.create("tank/db", {"mountpoint": DATA, "recordsize": "16384"}).mounted = DATA
        pools.create("tank/db/log", {}).mounted = LOG
        pools.datasets["tank/db"].files["rows"] = ()
        pools.datasets["tank/db/log"].files["log"] = ()
        pools.create(CLONES, {"mountpoint": MOUNTS, "canmount": "off", "zbackup:clones": "1"})
        pools.create("vault", {"mountpoint": "/vault"})
        pools.create(VAULT, {"mountpoint": "none", "canmount": "off"})
        for name in ("tank/other", f"{CLONES}/foreign", f"{VAULT}/foreign", f"{VAULT}/foreign/db"):
            pools.create(name, {"canmount": "noauto", "mine": "1", "my:own": "1"})
        for _ in range(3):
            self.commit()
        pools.snapshot([f"{VAULT}/foreign/db@zbackup-1"], {})
        pools.snapshot(["tank/db@by-hand", "tank/db/log@by-hand", "tank/other@zbackup-1"], {"my:own": "1"})
        pools.snapshot(["tank/db@zbackup-20200101T000000Z"], {})
        pools.snapshot_called("tank/db@by-hand").holds["mine"] = 0
        pools.bookmark("tank/db@by-hand", "tank/db#mine")
        self.foreign = frozenset(_guids(pools))

    # what there is

    @property
    def pools(self) -> Pools:
        return self.state.pools

    @property
    def server(self) -> Server:
        return self.state.server

    @property
    def now(self) -> datetime:
        return T0 + self.state.elapsed

    def keep(self) -> bytes:
        return pickle.dumps((self.state, self.foreign))

    def put_back(self, kept: bytes) -> None:
        self.state, self.foreign = pickle.loads(kept)
        self.passing, self.writing, self.notes = unbroken, True, []

    def content(self, path: str) -> dict[str, Any]:
        """What is in the file system or the snapshot that this is the path of."""
        mount, inside, snapshot = path.partition("/.zfs/snapshot/")
        dataset = self.dataset_at(mount)
        if inside and snapshot not in dataset.snapshots:
            raise FileNotFoundError(path)
        return dataset.snapshots[snapshot].files if inside else dataset.files

    def content_of(self, backup: Backup) -> tuple[int, ...]:
        """The rows of a backup that is here."""
        guid = backup.snapshots[0].guid
        found = next(s for s in self.pools.all_snapshots() if s.guid == guid and s.of.name.startswith("tank"))
        rows: tuple[int, ...] = found.files["rows"]
        return rows

    def dataset_at(self, path: str) -> FileSystem:
        found = self.pools.mounted_at(path)
        assert found, f"nothing is mounted at {path}"
        assert not found[1], f"{path} is inside of {found[0].name}"
        return found[0]

    # what happens by itself

    def commit(self) -> None:
        """A transaction of production's."""
        number, self.server.next = self.server.next, self.server.next + 1
        self.server.times[number] = self.now
        data, log = self.dataset_at(DATA), self.dataset_at(LOG)
        if self.server.logs:
            log.files["log"] = (*log.files["log"], number)
        data.files["rows"] = (*data.files["rows"], number)

    def archive(self) -> None:
        """All of production's log, at the destination."""
        self.state.archive = self.dataset_at(LOG).files["log"]

    # doors

    def inside(self, directory: str) -> list[tuple[int, str]]:
        """See zbackup.proc.open_files."""
        mount, _, inner = directory.partition("/.zfs")
        read = [n for n, s in self.dataset_at(mount).snapshots.items() if s.looked_into]
        return [(os.getpid(), "zbackup")] if (Path(inner).name in read if inner else read) else []

    @contextmanager
    def kept_mounted(self, path: Path) -> Iterator[None]:
        """See zbackup.proc.kept_mounted."""
        mount, _, name = str(path).partition("/.zfs/snapshot/")
        snapshot = self.dataset_at(mount).snapshots.get(name)
        if snapshot is None:
            raise FileNotFoundError(path)
        snapshot.looked_into += 1
        try:
            yield
        finally:
            snapshot.looked_into -= 1

    def door(self, argv: tuple[str, ...], act: Callable[[], Result], *, mutates: bool = True) -> Result:
        """Everything that is done passes here."""
        self.state.elapsed += STEP
        if mutates and self.writing and self.server.running and not self.server.locked:
            self.commit()
        result: Result = self.passing(argv, mutates, act)
        return result

    def run(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600, **_: object) -> str:
        """proc.run.Runner."""
        words = tuple(argv)
        if words[0] == "service":
            return self.door(words, lambda: self._service(words[1]))
        return self.door(words, lambda: runner.run(self._zfs(), words), mutates=mutates)

    def _zfs(self) -> FakeZfs:
        if self.zfs.pools is not self.pools:
            self.zfs = FakeZfs(self.pools)
        return self.zfs

    def _service(self, what: str) -> str:
        self.server.running = what == "start"
        return ""

    def transfer(self, sender: Command, receiver: Command, meter: Meter) -> int:
        zfs = self._zfs()
        argv = ("zfs", "send", *receiver.argv)
        self.resumed += "-t" in sender.argv
        self.cut -= 1
        cut = self.cut == 0
        return self.door(argv, lambda: runner.transfer(zfs, sender, receiver, meter, cut=cut))

    def read_content(self, sender: Command, most: int, meter: Meter) -> Content:
        zfs = self._zfs()
        return self.door(sender.argv, lambda: runner.read_content(zfs, sender, most, meter), mutates=False)

    def read_bytes(self) -> bytes:
        """/proc/self/mountinfo, as far as it is read."""
        found = [d for d in self.pools.datasets.values() if d.mounted]
        return "\n".join(f"1 1 0:1 / {d.mounted} rw - zfs {d.name} rw" for d in found).encode()

    # servers of clones

    def start_clone(self, name: str, places: Sequence[str]) -> None:
        assert name not in self.state.servers, f"two servers of {name}"
        self.state.servers[name] = list(places)
        for place in places:
            self.dataset_at(place).users.add(name)

    def stop_clone(self, name: str) -> None:
        for each in self.pools.datasets.values():
            each.users.discard(name)
        self.state.servers.pop(name, None)

    def server_process(self, ctx: Context, name: str) -> "Process | None":
        return Process(self, name) if name in self.state.servers else None

    # a job's context

    def context(self, **changes: Any) -> Context:
        zfs = Zfs(self.run, self, mounts=FakeMounts(self))  # type: ignore[arg-type]
        recovery = FakeRecovery(self)
        made = Context(
            instance="shop",
            engine_name="mysql",
            datasets=("tank/db",),
            clones=CLONES,
            mountpoint=Path(MOUNTS),
            run_dir=self.home / "run",
            zone=ZoneInfo("Europe/Berlin"),
            zfs=zfs,
            adapters=GivenAdapters(
                engine=FakeEngine(self), recovery=recovery, log_reader=recovery, log_search=recovery
            ),
            clock=Clock(self),
            progress=Noting(self.notes),
            service=ServiceCommands(stop=("service", "stop"), start=("service", "start"), limit=10.0),
        )
        return changed(made, **changes)

    def destination(self, retention: Retention = EMPTY) -> ShipDestination:
        """A destination on the other pool."""
        destination = ZfsDestination(
            name="vault",
            address=f"zfs:{VAULT}",
            root=VAULT,
            instance="shop",
            target=None,
            control=Path("/nowhere"),
            runner=self.run,
        )
        tag = hold_tag("this.host", "shop", "vault")
        return ShipDestination(adapter=destination, tag=tag, retention=retention, initial=True)


@dataclass(frozen=True)
class Process:
    """proc.detached.Process, of a clone's server."""

    world: World
    name: str
    pid: int = 4711
    alive: bool = True

    def stop(self, timeout: float) -> bool:
        self.kill(timeout)
        return True

    def kill(self, timeout: float) -> None:
        self.world.door(("kill", self.name), lambda: self.world.stop_clone(self.name))


@dataclass(frozen=True)
class Clock:
    """zbackup.clock.Clock. Commands move it on, and nothing else."""

    world: World

    def now(self) -> datetime:
        return self.world.now

    def monotonic(self) -> float:
        return self.world.state.elapsed.total_seconds()

    def reading(self) -> Reading:
        return Reading("boot", self.monotonic(), True)


class Noting(Silent):
    """Keeps what the operator is told."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def note(self, text: str) -> None:
        self.notes.append(text)


class WorldFiles:
    """proc.secure_files, as far as jobs with clones use it: in what is mounted, else outside of the pools."""

    def __init__(self, current: Callable[[], World]) -> None:
        self._current = current

    def _at(self, path: Path) -> tuple[dict[str, Any], str]:
        world = self._current()
        found = world.pools.mounted_at(str(path))
        return (found[0].files, found[1]) if found and found[1] else (world.state.files, str(path))

    def replace(self, path: Path, text: str, **_: object) -> None:
        files, name = self._at(path)
        self._current().door(("file", "write", str(path)), lambda: files.update({name: text}))

    write_new = replace

    def read_text(self, path: Path, limit: int = 0) -> str:
        files, name = self._at(path)
        if name not in files:
            raise FileNotFoundError(str(path))
        found: str = files[name]
        return found

    def exists(self, path: Path) -> bool:
        files, name = self._at(path)
        return name in files

    def unlink(self, path: Path) -> None:
        files, name = self._at(path)
        if name in files:
            self._current().door(("file", "unlink", str(path)), lambda: files.pop(name))

    def remove_tree(self, path: Path) -> None:
        files, name = self._at(path)
        for each in [each for each in files if each.startswith(f"{name}/")]:
            del files[each]

    def remove_empty(self, path: Path) -> None:
        """There is nothing in memory but files."""


@contextmanager
def at_the_doors(current: Callable[[], World]) -> Iterator[None]:
    """zbackup works in the world that is the current one."""
    files = WorldFiles(current)
    doors: Mapping[str, object] = {
        "zbackup.jobs.clones.clone_datasets.secure_files": files,
        "zbackup.jobs.clones.provision.secure_files": files,
        "zbackup.jobs.clones.lifecycle.secure_files": files,
        "zbackup.features.copyback.copy.secure_files": files,
        "zbackup.jobs.clones.temporary.kept_mounted": lambda path: current().kept_mounted(path),
        "zbackup.jobs.clones.clone_datasets.server_process": lambda *a: current().server_process(*a),
        "zbackup.jobs.clones.find_leftovers.server_process": lambda *a: current().server_process(*a),
        "zbackup.jobs.clones.claim.claim_for_root": lambda _: None,
        "zbackup.jobs.clones.claim._in_use": lambda _: "",
        "zbackup.destinations.zfs_destination.transfer": lambda *a: current().transfer(*a),
        "zbackup.destinations.zfs_destination.read_content": lambda *a: current().read_content(*a),
        "zbackup.jobs.dev_clones.promote.transfer": lambda *a: current().transfer(*a),
        "zbackup.jobs.ship.verify_at.read_content": lambda *a: current().read_content(*a),
        "zbackup.jobs.backup.prune.processes_in": lambda directory: current().inside(directory),
        "zbackup.features.switch.inspect.processes_in": lambda directory: current().inside(directory),
        "zbackup.features.switch.switch.run": lambda *a, **k: current().run(*a, **k),
        "zbackup.zfs.datasets.BUSY_PAUSE_S": 0.0,
        "zbackup.jobs.backup.prune.PAUSE_S": 0.0,
        "zbackup.features.switch.switch.POLL_S": 0.0,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, door in doors.items():
            patch.setattr(name, door)
        yield


def _guids(pools: Pools) -> Iterator[int]:
    for each in pools.datasets.values():
        yield each.guid
        yield from (s.guid for s in each.snapshots.values())
