"""Writes after a snapshot's transaction group was closed are never in the snapshot."""

import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.pool import Dataset, Pool
from tests.lab.pool import run as tool
from zbackup.model.errors import DatasetExists
from zbackup.proc.run import run
from zbackup.proc.start import own_module
from zbackup.zfs.datasets import Zfs, open_group
from zbackup.zfs.prepared import MODULE, Prepared, prepared

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


def take(zfs: Zfs, place: Dataset, name: str, by: Prepared | None = None) -> tuple[bool, bool, str]:
    """Whether the group was seen to close and was the snapshot's, and what its file holds.

    The file gets "before" ahead of the snapshot, and "after" as soon as the group is closed.
    """
    file = place.mountpoint / name
    file.write_text("before")
    with zfs.taking([f"{place.name}@{name}"], {"zbackup:test": "1"}, timeout=60, by=by) as taking:
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
        at_once = []
        for n in range(ROUNDS // 3):
            with prepared() as by:
                assert by
                at_once.append(take(Zfs(_must_not_be_run), place, f"p{n}", by))
    for each in (rounds, at_once):
        assert any(early and proven for early, proven, _ in each)
        assert {held for _, proven, held in each if proven} == {"before"}


def _must_not_be_run(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
    assert argv[1] != "snapshot"
    return run(argv, mutates=mutates, timeout=timeout)


def test_what_stands_by_takes_all_with_their_properties_or_none(pool: Pool) -> None:
    places = [pool.dataset("all"), pool.dataset("or none")]
    names = [f"{place.name}@s" for place in places]
    properties = {"zbackup:test": "\xe4 '\"$(id)", "zbackup:more": "x" * 8000}
    with prepared() as by, Zfs().taking(names, properties, timeout=60, by=by) as taking:
        assert by
        taking.wait_taken()
        assert by.process.returncode == 0
    found = Zfs().snapshots_named(names)
    assert [dict(s.properties) for s in found] == [properties] * 2
    assert len({s.createtxg for s in found}) == 1
    # Where one is there already none is taken, and the command says so.
    names[0] = f"{places[0].name}@t"
    with (
        pytest.raises(DatasetExists, match="already exists"),
        prepared() as by,
        Zfs().taking(names, {}, timeout=60, by=by) as taking,
    ):
        taking.wait_taken()
    assert Zfs().snapshot_named(names[0]) is None


def test_what_stands_by_does_nothing_for_one_who_is_dead_and_its_own_death_costs_no_snapshot(
    pool: Pool,
) -> None:
    place = pool.dataset("dead")
    cut = f'{{"snapshots": ["{place.name}@s"], "properties": {{}}'.encode()
    for order in (cut, b""):
        done = subprocess.run(own_module(MODULE), input=order, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (1, b"ready\n")
    assert Zfs().snapshot_named(f"{place.name}@s") is None
    # A whole order does not wait for the end of the pipe, which another process of ours may have open.
    with subprocess.Popen(own_module(MODULE), stdin=subprocess.PIPE) as process:
        assert process.stdin
        process.stdin.write(cut.replace(b"@s", b"@open") + b"}\n")
        process.stdin.flush()
        assert process.wait(60) == 0
    assert Zfs().snapshot_named(f"{place.name}@open")
    with prepared() as by:
        assert by
        by.process.kill()
        by.process.wait(60)
        assert take(Zfs(), place, "s", by)[2] == "before"


def test_another_zfs_that_was_put_before_the_systems_is_the_one_that_is_asked(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "zfs"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin")
    with prepared() as by:
        assert by is None


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
