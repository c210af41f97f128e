"""Hard days of a log archive: files of 4 KiB, kills, a destination that is full or cannot be written to, and
a transaction of more than 1 GiB.

What comes back from the destination alone is judged by the journal of what was acknowledged.
"""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymysql.connections import Connection

from tests.lab.load import Load, verify
from tests.lab.pool import Pool, create_pool, run
from tests.lab.server_user import SERVER_UID
from tests.lab.variants import Variant
from tests.slow.large_transactions import insert_large, log_size
from tests.system.archive_story import archiving
from tests.system.house import ZBACKUP, House, after_writing, build, checksums, wait_until
from tests.system.program import spoken

VARIANTS = ("mysql-9.7", "mariadb-10.11")

KILLS = 25
SMALL_FILES = "--max-binlog-size=4096"
MOST_MEMORY = 512 << 20
ARCHIVE = "there"


@pytest.fixture(scope="module")
def house(pool: Pool, variant: Variant) -> Iterator[House]:
    """A server that begins a log file every 4 KiB, with its temporary files on the pool."""
    scratch = pool.data.mountpoint / "scratch"
    scratch.mkdir()
    os.chown(scratch, SERVER_UID, SERVER_UID)
    options = (f"--tmpdir={scratch}", "--max-allowed-packet=64M", SMALL_FILES, *variant.options)
    server = build(pool, pool.home, Variant(flavour=variant.flavour, options=options), pool.data, pool.log)
    with server:
        yield House(pool, pool.home, server, (pool.data.name,))


@pytest.fixture(scope="module")
def there() -> Iterator[Pool]:
    """The pool of the destination."""
    made = create_pool()
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", f"{made.name}/copies")
    try:
        yield made
    finally:
        made.destroy()


@pytest.fixture(scope="module")
def config(house: House, there: Pool) -> Path:
    """The configuration, with a first backup at the destination."""
    ship = {"name": ARCHIVE, "to": f"zfs:{there.name}/copies", "initial": "allow"}
    config = house.configure("archiving", **archiving(ship))  # type: ignore[arg-type]
    house.snapshot(config)
    assert house.zb("ship", config=config).rc == 0
    return config


class TestHardArchive:
    """The tests, in this order."""

    @pytest.mark.timeout(1800)
    def test_killed_at_any_moment_while_files_are_of_4_kib(self, house: House, config: Path) -> None:
        chosen = random.Random(17)
        journal = house.home / "killed"
        with Load.start(house.server, 2, 20, journal):
            for _ in range(KILLS):
                archiver = house.begin("archive", "shop", config=config)
                time.sleep(chosen.uniform(0.5, 3))
                archiver.signal_group(signal.SIGKILL)
                archiver.end()
            after_writing(journal, 10)
        _require_all_back(house, config, journal)

    @pytest.mark.timeout(1800)
    def test_a_destination_that_is_full_or_read_only_is_told_in_a_line_and_caught_up_with(
        self, house: House, config: Path, there: Pool
    ) -> None:
        archive = f"{there.name}/copies/shop/log"
        journal = house.home / "full"
        archiver = house.begin("archive", "shop", config=config)
        try:
            with Load.start(house.server, 2, 20, journal):
                wait_until("it is archived", lambda: not _state(house, config)["error"], 180)
                room = int(run("zfs", "get", "-Hpo", "value", "used", archive)) + (128 << 10)
                for broken, mended in (
                    ((f"quota={room}",), ("quota=none",)),
                    (("readonly=on",), ("readonly=off",)),
                ):
                    run("zfs", "set", *broken, archive)
                    wait_until("that fails", lambda: bool(_state(house, config)["error"]), 180)
                    print(_state(house, config)["error"])
                    after_writing(journal, 20)
                    run("zfs", "set", *mended, archive)
                    wait_until("it works again", lambda: not _state(house, config)["error"], 180)
        finally:
            archiver.signal_group(signal.SIGTERM)
            ended = archiver.end()
        assert "Traceback" not in ended.err
        _require_all_back(house, config, journal)

    @pytest.mark.timeout(3600)
    def test_one_transaction_of_more_than_a_gibibyte(self, house: House, config: Path) -> None:
        server = house.server
        server.sql("CREATE TABLE shop.big (id INT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB")
        size = log_size(house)
        insert_large(house)
        assert log_size(house) - size > 1 << 30
        argv = (str(ZBACKUP), "--config", str(config), "archive", "shop", "--once")
        with subprocess.Popen(argv) as archiver:
            _, status, used = os.wait4(archiver.pid, 0)
            archiver.returncode = os.waitstatus_to_exitcode(status)
        assert archiver.returncode == 0
        print(
            f"the archiver took {used.ru_maxrss >> 10} MiB and {used.ru_utime + used.ru_stime:.1f} s of CPU"
        )
        assert used.ru_maxrss << 10 < MOST_MEMORY
        with _restored(house, config) as clone:
            assert checksums(clone, server.tables()) == server.checksum()


def _state(house: House, config: Path) -> dict[str, str]:
    said = house.zb("archive", "status", "--json", config=config)
    assert len(spoken(said.err)) <= 1, said
    found: dict[str, str] = said.data[0]
    return found


def _require_all_back(house: House, config: Path, journal: Path) -> None:
    """Everything that was acknowledged is there, nothing is wrong with the archive, and no epoch began."""
    done = house.zb("archive", "shop", "--once", config=config)
    assert done.rc == 0 and "epoch" not in done.out, done
    with _restored(house, config) as clone:
        verdict = verify(clone, journal)
        assert verdict.present > 0 and verdict.undecided < 10
    checked = house.zb("verify", "--at", ARCHIVE, "--read", "all", "--json", config=config).data[0]
    assert checked["problems"] == [] and checked["archived_log"]["ends"] == []
    print(f"{checked['archived_log']['files']} files, {checked['archived_log']['size']} bytes")


@contextlib.contextmanager
def _restored(house: House, config: Path) -> Iterator["Connection[Any]"]:
    words = ("restore", "--from", ARCHIVE, "--to", "latest", "--name", "back", "--json")
    report = house.begin(*words, config=config).end(timeout=1800).data
    try:
        with house.clone(report) as clone:
            yield clone
    finally:
        house.zb("clone", "destroy", "back", "--yes", config=config)
