"""zbackup killed while it holds a mongod's lock."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab import mongo_load
from tests.lab.mongo_fixture import locked
from tests.system.house import after_writing, wait_until
from tests.system.mongo_house import MongoHouse
from tests.system.program import Run
from tests.system.zfs_door import ZfsDoor

CEILING = "3600s"
AT_ONCE = 600.0
"""Seconds within which others must go on when the one who held the lock is dead: long before the ceiling."""
LIMIT = 600.0
"""Seconds in which anything else has to happen, also on a machine that has other things to do."""


@contextmanager
def lock_held(house: MongoHouse, door: ZfsDoor, journal: Path) -> Iterator[Run]:
    """A snapshot that waits at the door with the lock held, while the server is written to."""
    door.shut("snapshot")
    config = house.configure("held", lock={"kind": "fsync", "hold": CEILING})
    # Who logs in under the lock may have to wait for its end.
    with (
        house.server.client() as witness,
        mongo_load.start(house.server, threads=3, rate=25, journal=journal),
    ):
        assert not locked(witness)
        command = house.begin("snapshot", config=config, environment=door.environment)
        try:
            wait_until("the lock is held", lambda: door.waiting or command.process.poll() is not None, LIMIT)
            assert door.waiting and locked(witness)
            yield command
        finally:
            if command.process.poll() is None:
                command.signal_group(signal.SIGKILL)
            print(command.end())
            door.open("snapshot")


def kill_under_the_lock(house: MongoHouse, door: ZfsDoor, journal: Path, *, group: bool) -> float:
    """Kill zbackup, or it and its process group: others go on, and the next snapshot is well.

    Returns the seconds until they went on.
    """
    before = house.snapshots()
    with lock_held(house, door, journal) as command:
        if group:
            command.signal_group(signal.SIGKILL)
        else:
            command.process.kill()
        began = time.monotonic()
        after_writing(journal, 20, within=AT_ONCE)
        stood = time.monotonic() - began
    assert not house.locked()
    wait_until("zfs has ended", lambda: not _zfs_runs(), LIMIT)
    taken = house.snapshot()
    ours = {name.partition("@")[2] for name in house.snapshots() - before}
    assert taken["name"] in ours
    assert all(backup["complete"] and backup["finished"] for backup in house.backups())
    return stood


def _zfs_runs() -> bool:
    """Whether a zfs snapshot that its caller left behind still waits at a door."""
    return any(
        b"door/zfs" in (process / "cmdline").read_bytes()
        for process in Path("/proc").iterdir()
        if process.name.isdigit() and (process / "cmdline").exists()
    )
