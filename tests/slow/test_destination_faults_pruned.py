"""Work at a destination without a restore, broken at every command: prune and verify, by hand and by the
daemon's schedule. What is listed is whole at any time, and the next run does the rest."""

import itertools
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tests.faults.breaking import AT_QUESTIONS, WAYS, Fault, Way, fired
from tests.lab.pool import run
from tests.platform.conftest import vault, yard
from tests.platform.shipping import Yard
from tests.system.house import ZBACKUP, now, wait_until
from tests.system.zfs_door import ZfsDoor
from zbackup.jobs.journal import Journal
from zbackup.jobs.ship.prune_at import prune_at
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.ship.verify_at import prove_at, verify_at
from zbackup.model.retention import Retention, Span

__all__ = ["vault", "yard"]

pytestmark = pytest.mark.timeout(5400)

KEPT = 2
RULES = Retention(tiers=(), last=KEPT, minimum=1, window=Span(1, "minute"))
CHANGES = 6
"""Of a prune of two backups of two datasets: each is condemned, and loses one part and the other."""
LIMIT_S = 240


@pytest.fixture
def door(tmp_path: Path) -> Iterator[ZfsDoor]:
    made = ZfsDoor(tmp_path / "door")
    yield made
    made.close()


def add(yard: Yard, count: int) -> None:
    ctx = yard.context()
    for _ in range(count):
        yard.backup(20_000)
        ship(ctx, ctx.destinations[0])


def names(yard: Yard) -> list[str]:
    """All backups ever taken."""
    return [f"zbackup-{number + 1}" for number in range(yard.taken)]


def require_listed_ones_are_whole(yard: Yard, where: str) -> None:
    """Nothing that was wanted is gone, and all that is listed has the bytes that were sent."""
    committed = yard.committed()
    assert committed[-KEPT:] == names(yard)[-KEPT:], where
    assert all(yard.same(name) for name in committed), where


def require_pruned(yard: Yard, where: str) -> None:
    assert yard.committed() == names(yard)[-KEPT:], where
    assert {copy.partition("@")[2] for copy in yard.copies()} == set(yard.committed()), where
    require_listed_ones_are_whole(yard, where)


def listing(yard: Yard) -> list[str]:
    pools = (yard.pool.name, yard.vault.name)
    return run("zfs", "list", "-Hrt", "all", "-o", "name,guid,userrefs", *pools).splitlines()


@pytest.mark.parametrize("way", WAYS)
def test_the_next_prune_does_the_rest(yard: Yard, way: Way, tmp_path: Path) -> None:
    add(yard, KEPT)
    for nth in itertools.count(1):
        add(yard, 2)
        fault = Fault(nth, way, questions=way in AT_QUESTIONS)
        broken = yard.context(fault, retention=RULES)
        happened = fired(fault, lambda ctx=broken: prune_at(ctx, ctx.destinations[0]), tmp_path / "child")  # type: ignore[misc]
        where = f"{way}, command {nth}"
        require_listed_ones_are_whole(yard, where)
        healthy = yard.context(retention=RULES)
        prune_at(healthy, healthy.destinations[0])
        require_pruned(yard, where)
        if not happened:
            break
    print(f"prune, {way}: {nth - 1} commands")
    assert nth - 1 >= CHANGES


@pytest.mark.parametrize("way", AT_QUESTIONS)
def test_a_broken_verification_never_says_that_all_is_well(yard: Yard, way: Way, tmp_path: Path) -> None:
    add(yard, 3)
    before = listing(yard)

    def verify(fault: Fault) -> None:
        ctx = yard.context(fault)
        report = verify_at(ctx, ctx.destinations[0], most=0)
        assert report.problems or not fault.broke, fault.broke
        assert report.problems or (len(report.compared), len(report.read)) == (3, 2)

    for nth in itertools.count(1):
        fault = Fault(nth, way, questions=True)
        happened = fired(fault, lambda broken=fault: verify(broken), tmp_path / "child")  # type: ignore[misc]
        assert listing(yard) == before, f"{way}, command {nth}"
        if not happened:
            break
    print(f"verify, {way}: {nth - 1} commands")
    assert nth - 1 >= 8
    prove_at(yard.context(), yard.destination())


def test_the_daemon_goes_on_wherever_it_was_killed(yard: Yard, door: ZfsDoor, tmp_path: Path) -> None:
    config = tmp_path / "zbackup.toml"
    config.write_text(
        f'run_dir = "{tmp_path}"\ndaemon = {{ state_dir = "{tmp_path}" }}\n'
        f'[instance.shop]\nengine = "mysql"\ndatasets = ["{yard.outer.name}"]\n'
        f'[[instance.shop.ship]]\nto = "zfs:{yard.root}"\nname = "vault"\nprune = "1s"\nverify = "1s"\n'
        f'verify_read = "all"\ngrace = "0s"\n'
        f'retention = {{ last = {KEPT}, minimum = 1, window = "1 minute" }}\n'
    )
    argv = [str(ZBACKUP), "--config", str(config), "daemon"]
    add(yard, KEPT)
    killed: list[str] = []
    for nth, way in itertools.product(range(1, 10), ("before", "after")):
        add(yard, 1)
        where = f"killed {way} {nth}"
        door.kill(**{way: nth})
        broken = subprocess.Popen(argv, stderr=subprocess.DEVNULL, env=dict(door.environment))
        assert broken.wait(LIMIT_S) == -signal.SIGKILL, where
        killed.append(door.calls[nth - 1])
        require_listed_ones_are_whole(yard, where)
        since = now()
        healthy = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        try:
            wait_until(where, lambda began=since: both_went_well(tmp_path, began), LIMIT_S)
        finally:
            healthy.terminate()
            assert healthy.wait(LIMIT_S) == 0, where
        require_pruned(yard, where)
    print(f"the daemon, killed at: {' '.join(killed)}")
    assert {"set", "destroy", "send"} <= set(killed)


def both_went_well(home: Path, since: datetime) -> bool:
    """Whether the daemon has pruned and verified there since."""
    well = {row.job for row in Journal(home).read() if row.last and row.last >= since and not row.failures}
    return well == {"prune:vault", "verify:vault"}
