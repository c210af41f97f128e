"""A restore killed at one of its zfs commands: the next one of the same name does it all, and only that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.load import Load, verify
from tests.lab.pool import run
from tests.lab.servers.templates import DAEMON
from tests.system.house import House, Variant, after_writing, next_second, utc
from tests.system.zfs_door import ZfsDoor

NAME = "again"


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


@pytest.fixture(scope="module")
def story(house: House) -> Iterator[tuple[str, Path]]:
    """A backup and a later moment (as zbackup is told it) up to which the log is to be replayed."""
    journal = house.home / "journal"
    with Load.start(house.server, 3, 60, journal):
        after_writing(journal, 40)
        house.snapshot()
        after_writing(journal, 60)
    moment = next_second()
    with Load.start(house.server, 3, 60, journal):
        after_writing(journal, 20)
    next_second()
    for name in (f"{NAME}x", f"{NAME}.other"):
        run("zfs", "create", "-p", "-o", "canmount=off", f"{house.pool.name}/elsewhere/{name}")
    yield moment.isoformat(), journal


def steps(house: House, door: ZfsDoor, moment: str) -> list[str]:
    """The changes that a restore makes, by their verbs; it is destroyed again with the log's snapshot."""
    before = house.snapshots()
    done = house.zb(*house.restoring(moment, NAME), environment=door.environment)
    assert done.rc == 0, str(done)
    calls = door.calls
    house.destroy(NAME)
    for name in sorted(house.snapshots() - before):
        run("zfs", "destroy", name)
    return calls


def test_killed_at_any_of_its_steps_the_next_restore_finishes(
    house: House, door: ZfsDoor, story: tuple[str, Path]
) -> None:
    moment, journal = story
    calls = steps(house, door, moment)
    assert {"snapshot", "set", "create", "clone", "mount", "destroy"} <= set(calls)
    before, servers = house.names(), running_servers(house)
    for where, number in cuts(calls):
        what = f"killed {where} change {number} ({calls[number - 1]})"
        if where == "before":
            door.kill(before=number)
        else:
            door.kill(after=number)
        cut = house.zb(*house.restoring(moment, NAME), environment=door.environment)
        assert cut.rc == -9, f"{what}: {cut}"
        report = house.restore(moment, NAME)
        with house.clone(report) as clone:
            verdict = verify(clone, journal, utc(report["replay"]["effective_target"]))
            assert verdict.required > 0, what
        assert len(running_servers(house) - servers) == 1, f"{what}: servers are left"
        house.destroy(NAME)
        # A snapshot taken for its log is a backup of its own: it stays, and later runs use it.
        taken = {name for name in house.names() - before if "@" in name}
        assert before <= house.names(), what
        assert house.names() - before - taken <= {house.clones}, what
        backups = house.backups()
        assert {name.partition("@")[2] for name in taken} <= {b["name"] for b in backups}, what
        assert all(b["complete"] and b["finished"] for b in backups), what
        for name in sorted(taken):
            run("zfs", "destroy", name)
    assert running_servers(house) == servers
    assert not [path for path in (house.home / "clones").iterdir() if path.name.startswith(NAME)]


def cuts(calls: list[str]) -> list[tuple[str, int]]:
    """Before the first change, and after a sample of all: the first and the last of every kind."""
    ends = {calls.index(verb) + 1 for verb in calls}
    ends |= {len(calls) - calls[::-1].index(verb) for verb in calls}
    return [("before", 1), ("before", len(calls)), *(("after", number) for number in sorted(ends))]


def running_servers(house: House) -> set[int]:
    """Process ids of all servers of this kind."""
    program = DAEMON[house.server.settings.kind]
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if any(Path(word.decode(errors="replace")).name == program for word in words):
            found.add(int(entry.name))
    return found
