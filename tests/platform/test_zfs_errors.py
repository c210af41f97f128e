"""Every phrase of the error table, as a real ZFS says it, and what is not destroyed."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.lab.mysql_fixture import Settings
from tests.lab.pool import Dataset as Place
from tests.lab.pool import Pool
from tests.lab.pool import run as tool
from tests.platform.contexts import context
from tests.platform.zfs_places import ZFS, created, place, snapshot
from tests.system.house import wait_until
from zbackup.catalog.local import read, read_clones
from zbackup.jobs.clones.claim import everywhere
from zbackup.model.errors import (
    CommandFailed,
    CommandTimedOut,
    DatasetBusy,
    DatasetExists,
    DatasetNotFound,
    NotFound,
    PoolFull,
    PoolSuspended,
    Refused,
    StreamRefused,
)
from zbackup.model.snapshot import Dataset
from zbackup.proc.pipeline import Command, writing
from zbackup.proc.run import run
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.streams import failure_of, receive_argv

__all__ = ["place"]


# looking


# the error table, in the words of the real thing


@pytest.fixture
def busy(place: Place) -> Iterator[Dataset]:
    """A mounted file system with an open file in it."""
    made = created(f"{place.name}/busy", {"mountpoint": str(place.mountpoint / "busy")})
    ZFS.mount(made.name)
    with (place.mountpoint / "busy" / "open").open("w"):
        yield ZFS.filesystems(made.name)[0]


def test_busy(busy: Dataset) -> None:
    with pytest.raises(DatasetBusy):
        ZFS.destroy_filesystem(busy)
    assert ZFS.exists(busy.name)


def test_busy_for_a_moment_is_waited_out(place: Place) -> None:
    made = created(f"{place.name}/soon", {"mountpoint": str(place.mountpoint / "soon")})
    ZFS.mount(made.name)
    with subprocess.Popen(["sleep", "1"], cwd=place.mountpoint / "soon"):
        ZFS.destroy_filesystem(made)
    assert not ZFS.exists(made.name)


def test_dependent_clones(place: Place) -> None:
    made = snapshot(place, "s")
    ZFS.clone(made, f"{place.name}/clone", {})
    with pytest.raises(DatasetBusy, match="dependent clones"):
        ZFS.destroy_snapshot(made)


def test_not_found_in_all_its_ways(place: Place) -> None:
    made = snapshot(place, "s")
    ZFS.destroy_snapshot(made)
    for attempt in (
        lambda: ZFS.filesystems(f"{place.name}/no"),
        lambda: ZFS.filesystems("no-such-pool/db"),
        lambda: ZFS.snapshots(f"{place.name}/no"),
        lambda: ZFS.used(f"{place.name}/no"),
        lambda: ZFS.user_properties(f"{place.name}/no"),
        lambda: ZFS.destroy_snapshot(made),
        lambda: ZFS.clone(made, f"{place.name}/c", {}),
        lambda: ZFS.set_properties(str(made), {"zbackup:a": "1"}),
        lambda: ZFS.mount(f"{place.name}/no"),
    ):
        with pytest.raises(DatasetNotFound):
            attempt()


def test_exists_already(place: Place) -> None:
    made = snapshot(place, "s")
    ZFS.create(f"{place.name}/x", {})
    for attempt in (
        lambda: ZFS.create(f"{place.name}/x", {}),
        lambda: ZFS.clone(made, f"{place.name}/x", {}),
        lambda: ZFS.snapshot([str(made)], {}, timeout=60),
    ):
        with pytest.raises(DatasetExists):
            attempt()


def test_out_of_quota(pool: Pool) -> None:
    small = pool.dataset("a small place", quota="4M")
    made = snapshot(small, "s")
    with pytest.raises(OSError, match=r"quota|space"):
        (small.mountpoint / "file").write_bytes(os.urandom(8 << 20))
    tool("zpool", "sync")
    with pytest.raises(PoolFull):
        ZFS.clone(made, f"{small.name}/clone", {})


def test_out_of_space(tmp_path: Path) -> None:
    vdev = tmp_path / "vdev"
    with vdev.open("xb") as file:
        file.truncate(64 << 20)
    name = f"lab-full-{os.getpid()}"
    tool("zpool", "create", "-o", "cachefile=none", "-O", f"mountpoint={tmp_path / 'full'}", name, str(vdev))
    try:
        box = created(f"{name}/db", {"mountpoint": str(tmp_path / "full" / "db")})
        ZFS.mount(box.name)
        made = snapshot(box, "s")
        for size in (1 << 20, 128 << 10, 4096):
            try:
                with (tmp_path / "full" / "db" / f"file {size}").open("wb", buffering=0) as file:
                    while True:
                        file.write(os.urandom(size))
            except OSError:
                tool("zpool", "sync", name)
        with pytest.raises(PoolFull):
            ZFS.clone(made, f"{name}/clone", {})
        with pytest.raises(PoolFull):
            ZFS.create(f"{name}/more", {})
    finally:
        tool("zpool", "destroy", "-f", name)


def test_streams_that_nothing_can_be_made_of(place: Place) -> None:
    (place.mountpoint / "file").write_bytes(os.urandom(300_000))
    made = snapshot(place, "s")
    sent = subprocess.run(("zfs", "send", "--", str(made)), capture_output=True, check=True)
    damaged = bytearray(sent.stdout)
    damaged[-1000] ^= 1
    for number, stream in enumerate((bytearray(5000), damaged)):
        argv = receive_argv(f"{place.name}/back{number}")
        receiver = Command(argv=argv, failure=partial(failure_of, argv))
        with pytest.raises(StreamRefused), writing(receiver) as write:
            write(stream)


def test_what_has_no_name_of_its_own_is_a_plain_failure(place: Place) -> None:
    with pytest.raises(CommandFailed) as failure:
        ZFS.create(f"{place.name}/x", {"recordsize": "17"})
    assert type(failure.value) is CommandFailed
    assert "recordsize" in str(failure.value)


def test_a_late_answer_is_a_timeout(place: Place) -> None:
    def slow(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        return run(("sh", "-c", 'sleep 20; exec "$@"', "sh", *argv), mutates=mutates, timeout=timeout)

    with pytest.raises(CommandTimedOut):
        Zfs(slow).snapshot([f"{place.name}@s"], {}, timeout=0.3)
    assert not ZFS.exists(f"{place.name}@s")


# the catalogue


def test_the_catalogue_leaves_out_what_is_not_the_instances(place: Place) -> None:
    for below in ("clones", "clones/r1", "clones2", "log"):
        tool("zfs", "create", f"{place.name}/{below}")
    found = read(ZFS, "shop", [place.name], without=f"{place.name}/clones")
    assert [d.name for d in found.datasets] == [place.name, f"{place.name}/clones2", f"{place.name}/log"]
    assert (found.backups, found.unreadable) == ((), ())
    with pytest.raises(DatasetNotFound):
        read(ZFS, "shop", [place.name, f"{place.name}/no"], without="")


def test_a_damaged_clone_is_refused_by_name(place: Place) -> None:
    assert read_clones(ZFS, f"{place.name}/clones").found == ()
    tool("zfs", "create", f"{place.name}/clones")
    tool("zfs", "create", "-o", "zbackup:clone={}", f"{place.name}/clones/dev")
    there = read_clones(ZFS, f"{place.name}/clones")
    assert there.found == () and there.unreadable_names == {"dev"}
    with pytest.raises(
        Refused, match=f"{place.name}/clones/dev cannot be read: its property zbackup:clone is"
    ):
        there.require_readable("dev")
    there.require_readable("another")


@pytest.fixture
def lost(tmp_path: Path) -> Iterator[str]:
    """A pool whose disk takes nothing any more, until it is given room."""
    disk, name = tmp_path / "disk", f"lab-lost-{os.getpid()}"
    disk.mkdir()
    tool("mount", "-t", "tmpfs", "-o", "size=70m", "none", str(disk))
    with (disk / "vdev").open("xb") as file:
        file.truncate(300 << 20)
    made = ("zpool", "create", "-o", "cachefile=none", "-o", "failmode=wait")
    tool(*made, "-O", f"mountpoint={tmp_path / 'lost'}", name, str(disk / "vdev"))
    load = ("dd", "if=/dev/urandom", f"of={tmp_path / 'lost' / 'file'}", "bs=1M", "count=200")
    with subprocess.Popen(load, stderr=subprocess.DEVNULL) as writer:
        try:
            wait_until("it is suspended", lambda: health(name) == "SUSPENDED", 60)
            yield name
        finally:
            tool("mount", "-o", "remount,size=400m", str(disk))
            tool("zpool", "clear", name)
            writer.kill()
    tool("zpool", "destroy", "-f", name)
    tool("umount", str(disk))


def health(name: str) -> str:
    return tool("zpool", "list", "-Ho", "health", name).strip()


def test_a_pool_that_lost_its_disk_is_named_and_others_do_not_wait_for_it(
    pool: Pool, tmp_path: Path, lost: str
) -> None:
    with pytest.raises(PoolSuspended):
        ZFS.exists(f"{lost}/zbackup-clones")
    settings = Settings(flavour="mariadb-10.11", datadir=pool.data.mountpoint, run_dir=tmp_path)
    here = context(pool, settings, (pool.data.name,))
    ctx = replace(here, elsewhere=(f"{lost}/zbackup-clones",))
    assert ctx.everywhere() == (ctx,)
    assert everywhere(replace(ctx, cloning=replace(ctx.cloning, roots=(ctx.clones, *ctx.elsewhere)))) == []


# destroyed is what was meant, by its guid


def test_a_snapshot_is_destroyed_by_guid(place: Place) -> None:
    old, kept = snapshot(place, "s"), snapshot(place, "s2")
    tool("zfs", "destroy", str(old))
    new = snapshot(place, "s")
    with pytest.raises(NotFound, match="not the one expected"):
        ZFS.destroy_snapshot(old)
    assert {s.guid for s in ZFS.snapshots(place.name)} == {new.guid, kept.guid}
    ZFS.destroy_snapshot(new)
    assert [s.guid for s in ZFS.snapshots(place.name)] == [kept.guid]


def test_names_that_zfs_reads_as_ranges_destroy_nothing_else(place: Place) -> None:
    one, two = snapshot(place, "one"), snapshot(place, "two")
    for name in ("one%two", "%", "one,two"):
        with pytest.raises(CommandFailed):
            ZFS.destroy_snapshot(replace(one, name=name))
    assert [s.guid for s in ZFS.snapshots(place.name)] == [one.guid, two.guid]


def test_a_file_system_is_destroyed_by_guid(place: Place) -> None:
    old = created(f"{place.name}/x", {})
    ZFS.destroy_filesystem(old)
    new = created(f"{place.name}/x", {})
    with pytest.raises(NotFound):
        ZFS.destroy_filesystem(old)
    assert ZFS.filesystems(new.name)[0].guid == new.guid


def test_a_file_system_with_a_snapshot_stays(place: Place) -> None:
    box = created(f"{place.name}/x", {})
    snapshot(box, "s")
    with pytest.raises(CommandFailed):
        ZFS.destroy_filesystem(box)
    assert ZFS.exists(f"{box.name}@s")
