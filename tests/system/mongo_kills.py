"""zbackup killed while it holds a mongod's lock."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import mongo_load
from tests.system.house import Run, after_writing, wait_until
from tests.system.mongo_house import MongoHouse
from tests.system.zfs_door import ZfsDoor

SLOW = 6.0
"""Seconds for which `zfs snapshot` is held up, and with it the lock."""
AT_ONCE = 8.0
"""Seconds within which others must go on when the one who held the lock is dead."""


@contextmanager
def lock_held(house: MongoHouse, door: ZfsDoor, journal: Path) -> Iterator[Run]:
    """A snapshot that waits at the door with the lock held, while the server is written to."""
    door.slow("snapshot", SLOW)
    config = house.configure("held", lock={"kind": "fsync", "hold": "60s"})
    with mongo_load.start(house.server, threads=3, rate=60, journal=journal):
        command = house.begin("snapshot", config=config, environment=door.environment)
        wait_until("the lock is held", lambda: door.waiting or command.process.poll() is not None, 30)
        assert door.waiting, str(command.end())
        assert house.locked()
        yield command


def kill_under_the_lock(house: MongoHouse, door: ZfsDoor, journal: Path, *, group: bool) -> None:
    """Kill zbackup, or it and its process group: others go on, and the next snapshot is well."""
    before = house.snapshots()
    with lock_held(house, door, journal) as command:
        if group:
            command.signal_group(signal.SIGKILL)
        else:
            command.process.kill()
        after_writing(journal, 20, within=AT_ONCE)
        command.process.communicate()
    assert not house.locked()
    wait_until("zfs has ended", lambda: not _zfs_runs(), 2 * SLOW)
    taken = house.snapshot()
    ours = {name.partition("@")[2] for name in house.snapshots() - before}
    assert taken["name"] in ours
    assert all(backup["complete"] and backup["finished"] for backup in house.backups())


def _zfs_runs() -> bool:
    """Whether a zfs snapshot that its caller left behind still waits at a door."""
    return any(
        b"door/zfs" in (process / "cmdline").read_bytes()
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and (process / "cmdline").exists()
    )
