"""Each command under fsyncLock, or asking for it, is never answered: no lock outlives its ceiling.

The commands are those that a lock that goes well takes, so a new one is tried by itself.
"""

from collections.abc import Callable

import pytest

from tests.unit.engines.clock import Timer
from tests.unit.engines.mongodb.lock_server import CONNECT, Mongod, serving
from tests.unit.engines.watchdog import Killed
from zbackup.config.lock import Lock
from zbackup.engines.mongodb.lock.lock import heal, locked
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.record import LockKind

__all__ = ["serving"]
Serve = Callable[..., Mongod]
LIMITS = Lock.model_construct(wait=30.0, hold=10.0)
LONGEST_S = 30 + 2 * 30
"""Seconds until zbackup has ended."""


def lock_once(server: Mongod, kind: LockKind) -> None:
    with locked(CONNECT, LIMITS, kind, server.note, oplog=server.replicates) as lock:
        server.clock.sleep(1)
        lock.confirm()


@pytest.mark.parametrize("replicates", [True, False])
@pytest.mark.parametrize("kind", ["fsync", "none"])
def test_no_lock_stays_and_zbackup_ends(kind: LockKind, replicates: bool, serving: Serve) -> None:
    whole = serving(replicates=replicates)
    lock_once(whole, kind)
    for number, name in enumerate(whole.said, 1):
        server = serving(replicates=replicates, hangs_at=number)
        began = server.clock.now
        try:
            lock_once(server, kind)
        except (DatabaseError, LockNotTaken):
            pass
        else:
            assert name == "fsyncUnlock", "the watchdog unlocks then"
        assert server.clock.now - began <= LONGEST_S, name
        server.clock.sleep(LIMITS.hold + 6)
        assert server.ours == 0 and server.wrongly_released == 0, name
        assert all(held_for <= LIMITS.hold + 1 for held_for in server.held_for), name
        server.hangs_at = 0
        heal(CONNECT, server.note)
        assert not server.note.path.exists(), name


@pytest.mark.parametrize("replicates", [True, False])
def test_no_lock_stays_when_zbackup_is_killed_meanwhile(replicates: bool, serving: Serve) -> None:
    whole = serving(replicates=replicates)
    lock_once(whole, "fsync")
    for number, name in enumerate(whole.said, 1):
        server = serving(replicates=replicates, hangs_at=number)
        Timer(server.clock, 3, server.kill).start()
        with pytest.raises(Killed):
            lock_once(server, "fsync")
        server.clock.sleep(LIMITS.hold + 6)
        assert server.ours == 0 and server.wrongly_released == 0, name
        assert all(held_for <= LIMITS.hold + 1 for held_for in server.held_for), name
