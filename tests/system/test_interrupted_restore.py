"""A restore killed at one of its steps: the next one of the same name does it all, and only that."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.lab.load import Load, verify
from tests.lab.pool import run
from tests.lab.repeats import some
from tests.lab.servers.templates import DAEMON
from tests.lab.variants import Variant
from tests.system.house import House, after_writing, next_second, utc, wait_until
from tests.system.zfs_door import ZfsDoor

NAME = "again"
FOREIGN = (f"{NAME}x", f"{NAME}.other")


@dataclass(frozen=True, kw_only=True)
class Story:
    """`moment` is one up to which the log has to be replayed, `steps` the changes of a restore by verbs."""

    moment: str
    journal: Path
    steps: list[str]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


@pytest.fixture(scope="module")
def story(house: House) -> Story:
    """A backup, a moment after it, and one restore that nobody disturbs."""
    journal = house.home / "journal"
    with Load.start(house.server, 3, 60, journal):
        after_writing(journal, 40)
        house.snapshot()
        after_writing(journal, 60)
    moment = next_second().isoformat()
    with Load.start(house.server, 3, 60, journal):
        after_writing(journal, 20)
    next_second()
    door = ZfsDoor(house.home / "count")
    before = house.names()
    make_place(house)
    done = house.zb(*house.restoring(moment, NAME), environment=door.environment)
    assert done.rc == 0, str(done)
    house.destroy(NAME)
    forget(house, before)
    return Story(moment=moment, journal=journal, steps=door.calls)


@pytest.fixture
def untouched(house: House, story: Story) -> Iterator[set[str]]:
    """All that there is beforehand, among it what has names like the clone's; exactly that must be left."""
    make_place(house)
    for name in FOREIGN:
        run("zfs", "create", f"{house.clones}/{name}")
    before, servers = house.names(), running_servers(house)
    yield before
    taken = forget(house, before)
    assert len({name.partition("@")[2] for name in taken}) <= 1, "each run took a snapshot of its own"
    assert house.names() == before
    assert running_servers(house) == servers
    assert not (house.home / "clones" / NAME).exists()
    assert not (house.home / "run" / NAME).exists()
    run("zfs", "destroy", "-r", house.clones)


def make_place(house: House) -> None:
    """For clones: the first restore of all would make it."""
    run("zfs", "create", "-p", "-o", "canmount=off", house.clones)


def forget(house: House, before: set[str]) -> list[str]:
    """Destroy what may rightly stay after a restore: its log's snapshot, and the place for clones."""
    taken = sorted(name for name in house.names() - before if "@" in name)
    for name in taken:
        run("zfs", "destroy", name)
    if house.clones not in before:
        run("zfs", "destroy", house.clones)
    return taken


def assert_next_restore_is_well(house: House, story: Story) -> None:
    """It succeeds, is exact, and leaves one server, its own."""
    report = house.restore(story.moment, NAME)
    took = {phase["phase"]: phase["seconds"] for phase in report["phases"]}
    assert took["replaying"] > 0 and {"inspecting", "cloning", "verifying", "handing over"} <= set(took), took
    with house.clone(report) as clone:
        verdict = verify(clone, story.journal, utc(report["replay"]["effective_target"]))
        assert verdict.required > 0
    # The original's server, and the clone's.
    assert len(running_servers(house)) == 2
    assert all(b["complete"] and b["finished"] for b in house.backups())
    house.destroy(NAME)


@pytest.mark.parametrize(
    ("when", "verb", "which"),
    some([("after", "snapshot", 0), ("before", "set", -1)], ("before", "set", -1)),
)
def test_killed_at_a_step_the_next_restore_does_it_all(
    house: House, story: Story, door: ZfsDoor, untouched: set[str], when: str, verb: str, which: int
) -> None:
    steps = story.steps
    number = [index for index, step in enumerate(steps, start=1) if step == verb][which]
    door.kill(**{when: number})
    cut = house.zb(*house.restoring(story.moment, NAME), environment=door.environment)
    assert cut.rc == -signal.SIGKILL, str(cut)
    assert door.calls == steps[:number]
    assert_next_restore_is_well(house, story)


def test_killed_while_its_server_works(
    house: House, story: Story, door: ZfsDoor, untouched: set[str]
) -> None:
    door.wait_at(len(story.steps))  # so that it cannot be done before it is stopped
    words = house.restoring(story.moment, NAME)
    restoring = house.begin(*words, environment=door.environment, forked=True)
    wait_until("its server runs", (house.home / "run" / f"{NAME}.process").exists, 120)
    restoring.signal_group(signal.SIGSTOP)
    assert leftovers(house) == {}, "it is being worked on"
    restoring.signal_group(signal.SIGKILL)
    restoring.end()
    assert leftovers(house) == {NAME: f"zbackup clone destroy {NAME}"}
    assert_next_restore_is_well(house, story)


def test_interrupted_by_ctrl_c_it_leaves_nothing(house: House, story: Story, untouched: set[str]) -> None:
    process = house.home / "run" / f"{NAME}.process"
    restoring = house.begin("-q", *house.restoring(story.moment, NAME))
    wait_until("its server runs", process.exists, 60)
    restoring.signal_group(signal.SIGINT)
    assert restoring.end().refused(130) == "interrupted"
    assert house.zb("clone", "list", "--json").data == []


def test_killed_after_the_last_step_the_clone_is_there(
    house: House, story: Story, door: ZfsDoor, untouched: set[str]
) -> None:
    door.kill(after=len(story.steps))
    cut = house.zb(*house.restoring(story.moment, NAME), environment=door.environment)
    assert cut.rc == -signal.SIGKILL, str(cut)
    said = house.zb("-q", *house.restoring(story.moment, NAME)).refused(10)
    assert f"{house.clones}/{NAME} exists" in said
    (listed,) = house.zb("clone", "list", "--json").data
    assert (listed["name"], listed["state"], listed["running"]) == (NAME, "ready", True)
    with house.clone(listed) as clone:
        assert verify(clone, story.journal, utc(listed["target"])).required > 0
    house.destroy(NAME)


def leftovers(house: House) -> dict[str, str]:
    """The clones that status calls unfinished, each with what it says to do; check says the same."""
    (status,) = house.zb("status", "--json").data
    (check,) = house.zb("check", "--json").data
    told = [f for f in status["findings"] if f["subject"] == "clones"]
    assert [f for f in check["findings"] if f["subject"] == "clones" and f["severity"] != "ok"] == told
    assert all(f["severity"] == "warning" for f in told)
    assert not told or status["health"] == "warning", status
    found = dict(zip(status["clones_unfinished"], told, strict=True))
    assert all(("its server runs" in f["text"]) is (name == NAME) for name, f in found.items()), found
    return {name: f["fix"] for name, f in found.items()}


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
