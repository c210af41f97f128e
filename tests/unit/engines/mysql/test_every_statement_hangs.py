"""Each statement under a lock, or asking for one, is never answered: no lock outlives its ceiling.

The statements are those that a lock that goes well takes, so a new one is tried by itself. The server in
memory ends by KILL what waits for a lock, and nothing else: a question about the log may wait for a mutex
that a commit keeps for as long as no semi-sync replica acknowledges it. tests/lab/selftest_lock_stalled.py
sees real servers.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.engines.clock import Timer
from tests.unit.engines.mysql.lock_server import CONNECT, RELEASES, TAKES, Server, serving
from tests.unit.engines.watchdog import Killed
from zbackup.config.lock import Lock
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.record import LockKind

__all__ = ["serving"]
Serve = Callable[..., Server]
KINDS: list[tuple[str, LockKind]] = [
    ("9.7.4", "ftwrl"),
    ("9.7.4", "backup-lock"),
    ("9.7.4", "none"),
    ("10.11.18-MariaDB", "ftwrl"),
    ("10.11.18-MariaDB", "backup-stage"),
    ("10.11.18-MariaDB", "none"),
]
LIMITS = Lock.model_construct(wait=30.0, hold=10.0, applier_stop=30.0)
LONGEST_S = 30 + 10 + 2 * 50
"""Seconds until zbackup has ended: to wait, to hold, and where a replica's applier does not stop or start."""


def lock_once(server: Server, kind: LockKind, role: str, run: Path) -> None:
    engine = MysqlEngine(instance="shop", connect=CONNECT, lock=LIMITS, run_dir=run)
    facts: Any = SimpleNamespace(role=role, flavor="mariadb" if server.mariadb else "mysql")
    with engine.consistent(cast(Any, facts), kind) as lock:
        server.clock.sleep(1)
        lock.confirm()


def serve(serving: Serve, version: str, role: str, **like: Any) -> Server:
    return serving(version=version, appliers={"east": True} if role == "replica" else {}, **like)


def hangs(server: Server, run: Path, kind: LockKind, role: str) -> BaseException | None:
    try:
        lock_once(server, kind, role, run)
    except (DatabaseError, LockNotTaken, Killed) as failure:
        return failure
    return None


@pytest.mark.parametrize("role", ["primary", "replica"])
@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_no_lock_stays_and_zbackup_ends(
    version: str, kind: LockKind, role: str, serving: Serve, tmp_path: Path
) -> None:
    whole = serve(serving, version, role)
    lock_once(whole, kind, role, tmp_path / "whole")
    for number, text in enumerate(whole.texts, 1):
        server = serve(serving, version, role, hangs_at=number)
        began = server.clock.now
        failure = hangs(server, tmp_path / str(number), kind, role)
        assert server.hung == [text]
        assert server.clock.now - began <= LONGEST_S, text
        # What is said when the lock is given back may fail: its session ends all the same.
        after = text.startswith(("SHOW PROCESSLIST", *RELEASES))
        again = any(later.startswith("SET SESSION lock_wait_timeout") for later in server.texts[number:])
        assert failure is not None or after or again, text
        # The first stage of a MariaDB's is had while the second is waited for.
        most = LIMITS.wait if text in TAKES else LIMITS.hold
        assert all(held_for <= most + 1 for held_for in server.held_for), text
        server.clock.sleep(1)
        assert server.holder is None, text
        server.clock.sleep(400)
        assert all(server.appliers.values()), text


@pytest.mark.parametrize("role", ["primary", "replica"])
@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_no_lock_stays_when_zbackup_is_killed_meanwhile(
    version: str, kind: LockKind, role: str, serving: Serve, tmp_path: Path
) -> None:
    whole = serve(serving, version, role)
    lock_once(whole, kind, role, tmp_path / "whole")
    for number, text in enumerate(whole.texts, 1):
        server = serve(serving, version, role, hangs_at=number)
        Timer(server.clock, 3, server.kill).start()
        hangs(server, tmp_path / str(number), kind, role)
        server.clock.sleep(1)
        assert server.holder is None, text
        assert all(held_for <= LIMITS.hold + 1 for held_for in server.held_for), text
        server.clock.sleep(400)
        assert all(server.appliers.values()), text


def test_one_that_is_never_granted_is_not_granted_to_the_dead(serving: Serve, tmp_path: Path) -> None:
    """MySQL goes on waiting for a client that is gone: the watchdog ends that at once."""
    server = serving(free_in={"FLUSH TABLES WITH READ LOCK": 20.0})
    Timer(server.clock, 1, server.kill).start()
    hangs(server, tmp_path, "ftwrl", "primary")
    assert any(text.startswith("KILL ") for text in server.by_watchdog)
    assert not any(session.alive for session in server.clock.sessions if session.ours)
