"""What is written once a snapshot's transaction group is closed is never in the snapshot."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab.pool import Dataset, Pool
from tests.lab.pool import run as tool
from zbackup.proc.run import run
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.txg import open_group

ROUNDS = 15
CHUNK = bytes(range(256)) * 1024


@contextmanager
def busy(directory: Path) -> Iterator[None]:
    """Somebody writes to the pool as fast as it takes it while the body runs."""
    end = threading.Event()

    def write() -> None:
        with (directory / "load").open("wb") as file:
            while not end.is_set():
                file.write(CHUNK)
                if file.tell() > 64 << 20:
                    file.seek(0)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        end.set()
        writer.join()


def take(zfs: Zfs, place: Dataset, name: str) -> tuple[bool, bool, str]:
    """Whether the group was seen to close and was the snapshot's, and what its file holds.

    The file gets "before" ahead of the snapshot, and "after" as soon as the group is closed.
    """
    file = place.mountpoint / name
    file.write_text("before")
    with zfs.taking([f"{place.name}@{name}"], {"zbackup:test": "1"}, timeout=60) as taking:
        taking.wait_closed()
        with file.open("a") as more:
            more.write(" after")
    snapshot = zfs.snapshot_named(f"{place.name}@{name}")
    assert snapshot
    held = (place.mountpoint / ".zfs/snapshot" / name / name).read_text()
    return taking.cut is not None, taking.proven(snapshot.createtxg), held


def test_nothing_written_later_is_in_the_snapshot_beside_a_writer_that_saturates_the_pool(pool: Pool) -> None:
    place = pool.dataset("groups")
    with busy(place.mountpoint):
        rounds = [take(Zfs(), place, f"r{n}") for n in range(ROUNDS)]
    assert any(early and proven for early, proven, _ in rounds)
    assert {held for _, proven, held in rounds if proven} == {"before"}


def test_a_group_that_closed_before_the_command_asked_is_told_from_the_snapshots(pool: Pool) -> None:
    place = pool.dataset("too early")
    written = threading.Event()

    def late(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        """Another's group closes first, and the command comes when the caller believes it is done."""
        if argv[1] == "snapshot":
            tool("zpool", "sync", pool.name)
            written.wait(1)
        return run(argv, mutates=mutates, timeout=timeout)

    early, proven, held = take(Zfs(late), place, "s")
    assert (early, proven) == (True, False)
    assert held == "before after"


def test_without_a_history_of_groups_the_commands_end_is_waited_for(pool: Pool, tmp_path: Path) -> None:
    place = pool.dataset("no history")
    assert open_group(pool.name) is not None
    assert open_group(pool.name, tmp_path) is None
    history = Path("/sys/module/zfs/parameters/zfs_txg_history")
    usual = history.read_text()
    try:
        history.write_text("0")
        early, proven, held = take(Zfs(), place, "s")
    finally:
        history.write_text(usual)
    assert (early, proven, held) == (False, True, "before")
