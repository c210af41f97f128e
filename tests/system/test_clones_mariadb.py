"""Dev clones of MariaDB 11.8."""

import signal

import pytest

from tests.lab.mysql_fixture import free_port
from tests.system.clone_care_story import CloneCareStory, MaskingFails, ReplicaStory
from tests.system.clone_kills_story import CloneKills
from tests.system.clone_story import CloneStory, create, history
from tests.system.house import House, Variant, wait_until
from zbackup.proc.detached import Process

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    network = ("--skip-networking=OFF", f"--port={free_port()}", "--bind-address=127.0.0.1")
    return Variant(flavour="mariadb-11.8", options=network)


class TestClones(CloneStory):
    """See CloneStory."""

    resets = True


class TestMasking(MaskingFails):
    """See MaskingFails."""


class TestReplica(ReplicaStory):
    """See ReplicaStory."""


class TestCare(CloneCareStory):
    """See CloneCareStory."""


class TestKills(CloneKills):
    """See CloneKills."""

    some = 9


def test_the_daemon_brings_a_clone_back_and_ends_it_when_its_lease_is_over(house: House) -> None:
    """As after a reboot, when no server runs."""
    house.snapshot()
    boot = house.configure("boot", clones={"start": "boot"}, schedule={"snapshot": "180d"})
    create(house, "--name", "left", "--lease", "never", config=boot)
    create(house, "--name", "back", "--lease", "never", config=boot)
    house.zb("clone", "stop", "left", "--json").data  # noqa: B018  somebody's wish
    Process.parse((house.home / "run" / "back.process").read_text()).send(signal.SIGKILL)
    daemon = house.begin("daemon", "--log-format", "json", config=boot)
    try:
        wait_until("the clone runs again", lambda: running(house) == {"back": True, "left": False}, 60)
        house.zb("clone", "extend", "back", "--lease", "1s", "--json").data  # noqa: B018
        wait_until("the clone is gone", lambda: running(house) == {"left": False}, 120)
    finally:
        daemon.signal_group(signal.SIGTERM)
        assert daemon.end().rc == 0
    house.destroy("left")


def running(house: House) -> dict[str, bool]:
    return {c["name"]: c["running"] for c in house.zb("clone", "list", "--json").data}
