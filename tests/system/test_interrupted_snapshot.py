"""zbackup cut off while it holds the lock: others go on, the applier runs, the next run works."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.load import Load
from tests.lab.repeats import some
from tests.lab.variants import Variant
from tests.system.house import House, after_writing, wait_until
from tests.system.program import Run
from tests.system.replica_story import applier_runs
from tests.system.zfs_door import ZfsDoor

SLOW = 8.0
"""Seconds for which `zfs snapshot` is held up, and with it the lock."""
CEILING = 3
AT_ONCE = 4.0
"""Seconds within which others must go on when the one who held the lock is dead."""
THREADS, RATE = 3, 25.0


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


@pytest.fixture(scope="module")
def journal(source: House) -> Path:
    """Of the load on the source, which all tests here go on with."""
    return source.home / "journal"


@contextmanager
def lock_held(house: House, door: ZfsDoor, load: House, journal: Path, **lock: object) -> Iterator[Run]:
    """A snapshot of `house` that waits at the door with the lock held, while `load` is written to."""
    door.slow("snapshot", SLOW)
    config = house.configure("ftwrl", lock={"kind": "ftwrl", **lock})
    with Load.start(load.server, THREADS, RATE, journal):
        run = house.begin("snapshot", config=config, environment=door.environment, forked=True)
        wait_until("the lock is held", lambda: door.waiting or run.process.poll() is not None, 90)
        assert door.waiting, str(run.end())
        yield run


def assert_stands_still(journal: Path) -> None:
    with pytest.raises(AssertionError, match="the load goes on"):
        after_writing(journal, 2 * THREADS, within=1)


def assert_next_run_is_well(house: House, before: set[str]) -> None:
    """Nothing is left of the one that was cut off, and the next one succeeds."""
    wait_until("the sessions are gone", lambda: house.sessions() == [], 30)
    taken = house.snapshot()
    new = house.snapshots() - before
    assert {name.partition("@")[2] for name in new} == {taken["name"]}
    assert all(b["complete"] and b["finished"] for b in house.backups())


def test_ctrl_c_lets_go_and_leaves_nothing(source: House, door: ZfsDoor, journal: Path) -> None:
    before = source.snapshots()
    with lock_held(source, door, source, journal, hold="60s") as run:
        assert_stands_still(journal)
        run.signal_group(signal.SIGINT)
        after_writing(journal, 10, within=AT_ONCE)
        ended = run.end(20)
        assert ended.refused(130) == "interrupted"
    assert source.snapshots() == before
    assert_next_run_is_well(source, before)


def test_killed_with_its_children_it_lets_go(source: House, door: ZfsDoor, journal: Path) -> None:
    before = source.snapshots()
    with lock_held(source, door, source, journal, hold="60s") as run:
        assert_stands_still(journal)
        run.signal_group(signal.SIGKILL)
        after_writing(journal, 10, within=AT_ONCE)
        assert run.end(20).rc == -signal.SIGKILL
    assert_next_run_is_well(source, before)


def test_a_snapshot_that_comes_after_the_lock_is_never_a_backup(
    source: House, door: ZfsDoor, journal: Path
) -> None:
    """zbackup alone is killed: its `zfs snapshot` takes effect later, while the server is written to."""
    before = source.snapshots()
    with lock_held(source, door, source, journal, hold="60s") as run:
        run.process.kill()
        after_writing(journal, 10, within=AT_ONCE)
        run.end(SLOW + 20)
        wait_until("the late snapshot is there", lambda: source.snapshots() != before, SLOW + 20)
    late = {name.partition("@")[2] for name in source.snapshots() - before}
    assert [b["finished"] for b in source.backups() if b["name"] in late] == [False]
    assert_next_run_is_well(source, before)


def test_a_stopped_zbackup_loses_the_lock_at_its_ceiling(source: House, door: ZfsDoor, journal: Path) -> None:
    before = source.snapshots()
    with lock_held(source, door, source, journal, hold=f"{CEILING}s") as run:
        run.process.send_signal(signal.SIGSTOP)
        after_writing(journal, 10, within=CEILING + AT_ONCE)
        run.process.send_signal(signal.SIGCONT)
        assert "zfs snapshot" in run.end(20).refused(3)
    assert_next_run_is_well(source, before)


def test_a_zfs_that_does_not_answer_is_given_up_at_the_ceiling(
    source: House, door: ZfsDoor, journal: Path
) -> None:
    before = source.snapshots()
    with lock_held(source, door, source, journal, hold=f"{CEILING}s") as run:
        after_writing(journal, 10, within=CEILING + AT_ONCE)
        assert "no answer within" in run.end(20).refused(3)
    assert source.snapshots() == before
    assert_next_run_is_well(source, before)


def test_what_stands_by_and_does_not_answer_is_given_up_at_the_ceiling(source: House, journal: Path) -> None:
    """The system's own zfs, so that no program is started under the lock."""
    before = source.snapshots()
    source.server.sql("CREATE TABLE shop.locked (id INT)")
    config = source.configure("ftwrl", lock={"kind": "ftwrl", "hold": f"{CEILING}s"})
    with Load.start(source.server, THREADS, RATE, journal), source.server.connect() as session:
        with session.cursor() as cursor:
            cursor.execute("LOCK TABLES shop.locked WRITE")
            run = source.begin("snapshot", config=config, forked=True)
            wait_until("the lock is asked for", lambda: _asked_for(source), 60)
            os.kill(_standing_by(run), signal.SIGSTOP)
            cursor.execute("UNLOCK TABLES")
        ended = run.end(60).refused(3)
        assert "zfs snapshot" in ended
        assert "no answer within" in ended
        after_writing(journal, 10, within=AT_ONCE)
    assert source.snapshots() == before
    assert_next_run_is_well(source, before)


def _asked_for(house: House) -> bool:
    found = house.server.sql("SELECT INFO FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()")
    return any("FLUSH TABLES WITH READ LOCK" in str(info) for (info,) in found)


def _standing_by(run: Run) -> int:
    """The process that `run` has started to take the snapshot."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(run.process.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    [found] = [line.split()[0] for line in listed.splitlines() if "zbackup.zfs.stand_by" in line]
    return int(found)


@pytest.mark.parametrize("how", some(["ctrl-c", "kill", "kill-group"], "kill"))
def test_a_replicas_applier_runs_again(
    how: str, house: House, source: House, door: ZfsDoor, journal: Path
) -> None:
    before = house.snapshots()
    with lock_held(house, door, source, journal, hold="60s") as run:
        assert not applier_runs(house.server)
        match how:
            case "ctrl-c":
                run.signal_group(signal.SIGINT)
            case "kill":
                run.process.kill()
            case _:
                run.signal_group(signal.SIGKILL)
        wait_until("the applier runs", lambda: applier_runs(house.server), 60)
        run.end(SLOW + 20)
    house.server.catch_up(source.server)
    if how == "kill":
        wait_until("the late snapshot is there", lambda: house.snapshots() != before, SLOW + 20)
    assert_next_run_is_well(house, before)
    assert applier_runs(house.server)
    assert not list((house.home / "run").glob("*.applier-stopped"))
