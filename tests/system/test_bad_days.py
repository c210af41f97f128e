"""The night on which things go wrong in the middle of a restore or a snapshot."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.pool import PoolError, run
from tests.system.house import House, checksums, next_second, wait_until
from tests.system.program import Result
from tests.system.test_interrupted_restore import running_servers
from tests.system.zfs_door import ZfsDoor
from tests.unit.docs.typed import typed

VARIANTS = ("mysql-9.7",)
SLOW_VARIANTS = ("mariadb-10.11",)

NAME = "night"
ROWS = 60
ROOM = {"mysql": 24 << 20, "mariadb": 110 << 20}
"""Bytes that a full pool has left: enough to clone and start, not for what is to be replayed. MariaDB makes
itself a new redo log, and the replay a relay log."""


@pytest.fixture(scope="module")
def sums(house: House) -> dict[str, int | None]:
    """A backup, much to replay behind it, and what production holds then."""
    server = house.server
    server.sql("CREATE TABLE shop.big (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB")
    server.sql("CREATE TABLE shop.old (id INT PRIMARY KEY) ENGINE=MyISAM")
    house.snapshot(house.configure("ftwrl", lock="ftwrl"))
    for _ in range(ROWS):
        server.sql("INSERT INTO shop.big (b) VALUES (%s)", (os.urandom(1 << 20),))
    next_second()
    return server.checksum()


@contextmanager
def full(house: House, room: int) -> Iterator[None]:
    """The pool is full but for `room` bytes, for a reservation of somebody else's.

    Production may not survive that, which is not zbackup's doing. MariaDB also dies of it when there is room
    again, some seconds later; so it is always started anew.
    """
    filler = f"{house.pool.name}/filler"
    run("zfs", "create", "-u", filler)
    try:
        _fill(house, filler, room)
        yield
    finally:
        run("zfs", "destroy", filler)
        if house.server.settings.kind == "mariadb" and house.server.running:
            house.server.kill()
        if not house.server.running:
            house.server.start()


def _fill(house: House, filler: str, room: int) -> None:
    """What was freed a moment ago is not there yet, and what was written is not counted yet."""
    for spare in range(10):
        run("zpool", "sync", house.pool.name)
        free = int(run("zfs", "get", "-Hpo", "value", "available", house.pool.name))
        try:
            run("zfs", "set", f"reservation={free - room - (spare << 14)}", filler)
            return
        except PoolError as late:
            assert "greater than available" in str(late)
    raise AssertionError("the pool cannot be filled")


@pytest.fixture
def nothing_left(house: House, sums: dict[str, int | None]) -> Iterator[None]:
    """No clone, no server, no lock. That a restore succeeds then, the last of them shows after all others."""
    yield
    assert len(running_servers(house)) == 1, "a server is left beside production's"
    assert not [n for n in house.names() if n.startswith(f"{house.clones}/")]
    assert house.sessions() == []


def said(result: Result, status: int) -> str:
    """A failure's message. With --keep it says before it what was kept."""
    assert result.rc == status, str(result)
    assert "Traceback" not in result.err
    assert all(line.startswith("zbackup: ") for line in result.err.splitlines()), str(result)
    return result.err


def replaying(house: House) -> int:
    """Wait until the restore that runs replays; its server's process id."""
    relay = house.home / "clones" / NAME / "relay"
    wait_until("it replays", lambda: any(relay.glob("*relay*.0*")) or any(relay.glob("*zbackup*")), 60)
    return int((house.home / "run" / f"{NAME}.process").read_text().split()[0])


class TestBadDays:
    """Each leaves the house as it found it."""

    def test_a_pool_that_is_full_refuses_a_restore(self, house: House, nothing_left: None) -> None:
        with full(house, 0):
            text = said(house.zb("-q", *house.restoring("now", NAME)), 3)
            assert "space" in text

    def test_a_pool_that_fills_up_while_replaying(self, house: House, nothing_left: None) -> None:
        with full(house, ROOM[house.server.settings.kind]):
            result = house.zb("-q", *house.restoring("now", NAME))
            assert result.rc in (3, 7, 11), str(result)
            text = said(result, result.rc)
            # Or the server died of it, and the end of its log is a trace.
            assert any(word in text.lower() for word in ("space", "full", "error 28", "ended while")), text

    def test_a_server_on_a_full_pool_is_given_up(self, house: House, nothing_left: None) -> None:
        """Stopped, it can neither write nor fail by itself: it is zbackup that ends it."""
        restoring = house.begin("-q", *house.restoring("now", NAME), forked=True)
        os.kill(replaying(house), signal.SIGSTOP)
        with full(house, 0):
            text = said(restoring.end(), 7)
        assert "the temporary server was given up: the pool is full" in text

    def test_a_temporary_server_that_dies_while_replaying(self, house: House, nothing_left: None) -> None:
        restoring = house.begin("-q", *house.restoring("now", NAME), "--keep", forked=True)
        os.kill(replaying(house), signal.SIGKILL)
        text = said(restoring.end(), 7)
        assert "the temporary server ended while it was worked on" in text
        assert str(house.home / "clones" / NAME / "server.log") in text
        assert re.search(r"\[(System|Note|Warning|ERROR)\]", text), f"the end of its log is not shown: {text}"
        kept = {c["name"]: c["state"] for c in house.zb("clone", "list", "--json").data}
        assert kept[NAME] == "building"
        assert (house.home / "clones" / NAME / "server.log").exists()
        house.destroy(*kept)

    def test_a_restore_needs_neither_the_server_nor_its_password(
        self, house: House, nothing_left: None, sums: dict[str, int | None]
    ) -> None:
        config = house.configure(
            "nothing", password={"file": str(house.home / "no such file")}, socket="/no/socket"
        )
        house.server.stop()
        try:
            words = typed("protect-a-host.md", "zbackup restore --to now --name look", {"look": NAME})
            report = house.zb(*words, "--json", config=config).data
            assert report["replay"]["transactions"] > 0
            with house.clone(report) as clone:
                assert checksums(clone, list(sums)) == sums
            words = typed("protect-a-host.md", "zbackup clone destroy look", {"look": NAME})
            assert house.zb(*words, "--yes", config=config).rc == 0
        finally:
            house.server.start()

    def test_a_late_snapshot_of_tables_without_transactions_is_discarded(
        self, house: House, door: ZfsDoor, sums: dict[str, int | None]
    ) -> None:
        """zbackup alone is killed while its `zfs snapshot` hangs: the lock goes before the snapshot is there.

        Nothing is written, so the log stands where it was recorded to.
        """
        before = house.snapshots()
        door.slow("snapshot", 2)
        ftwrl = house.home / "ftwrl.toml"
        run = house.begin("snapshot", config=ftwrl, environment=door.environment, forked=True)
        wait_until("the lock is held", lambda: door.waiting, 90)
        run.process.kill()
        run.end()
        wait_until("the lock is gone", lambda: house.sessions() == [], 8)
        wait_until("the late snapshot is there", lambda: house.snapshots() != before, 90)
        late = {name.partition("@")[2] for name in house.snapshots() - before}
        taken = house.zb("snapshot")
        assert taken.rc == 0, str(taken)
        assert "whether the lock ftwrl lasted" in taken.err
        assert not late & {name.partition("@")[2] for name in house.snapshots()}

    # MariaDB itself does not survive a pool without any room.
    @pytest.mark.told_with("mysql-9.7")
    def test_a_pool_that_is_full_takes_no_snapshot_and_keeps_no_lock(
        self, house: House, sums: dict[str, int | None]
    ) -> None:
        before = house.names()
        with full(house, 0):
            text = house.zb("-q", "snapshot", config=house.home / "ftwrl.toml").refused(3)
            assert "out of space" in text or "no space" in text
        assert house.sessions() == []
        assert house.names() == before
        house.server.sql("FLUSH TABLES")
