"""zbackup ship killed at every command that changes something: the next run ends where it would have."""

import os
import signal
from pathlib import Path

from tests.lab.pool import Pool
from tests.lab.repeats import ALL
from tests.platform.shipping import Yard
from tests.system.zfs_door import ZfsDoor
from zbackup.jobs.ship.ship import ship
from zbackup.model.errors import DatasetBusy


def in_a_child(yard: Yard, door: ZfsDoor) -> int:
    """Ship in a process of its own, through the door; returns its exit status, or -signal."""
    child = os.fork()
    if child == 0:
        os.environ.update(door.environment)
        ctx = yard.context()
        ship(ctx, ctx.destinations[0])
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def ship_patiently(yard: Yard) -> None:
    """The receive of a run that was just killed may take a moment to end."""
    ctx = yard.context()
    for _ in range(50):
        try:
            ship(ctx, ctx.destinations[0])
            return
        except DatasetBusy:
            signal.sigtimedwait([], 0.1)
    raise AssertionError("it is busy for ever")


def test_killed_at_any_command_it_goes_on(pool: Pool, vault: Pool, tmp_path: Path) -> None:
    """Before a command is behind the one before it: each of both is done at every second."""
    yard = Yard(pool, vault)
    yard.backup()
    ship_patiently(yard)
    door = ZfsDoor(tmp_path / "door")
    yard.backup(20_000)
    assert in_a_child(yard, door) == 0
    verbs, killed = door.calls, 0
    # The two ends of a stream start at once, so which of them is killed at such a number is left to chance.
    numbers = range(1, len(verbs) + 1, 1 if ALL else 3)
    for number in numbers:
        when = "before" if number % 2 else "after"
        newest = yard.backup(20_000)
        door.kill(**{when: number})
        status = in_a_child(yard, door)
        assert status in (0, -signal.SIGKILL), f"{when} {number}: {door.calls}"
        killed += status != 0
        before = yard.committed()
        ship_patiently(yard)
        assert yard.committed()[-1] == newest, f"{when} {number}"
        assert len(yard.marks()) == 2 and all("#" in m for m in yard.marks()), f"{when} {number}"
        assert set(before) <= set(yard.committed())
    assert killed >= len(numbers) - 4 and killed, f"{killed} of {verbs}"
    assert {"hold", "bookmark", "send", "receive", "set", "destroy", "release"} <= set(verbs)
    assert yard.same(newest)
