"""The lab itself, seen from within: ZFS is real, the pool is as promised, the clock is right."""

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.lab.pool import Pool, create_pool, run

in_guest = pytest.mark.skipif(os.environ.get("LAB_INSIDE") != "guest", reason="about the guest kernel only")


def test_tools_and_module_are_real() -> None:
    tools, module = run("zfs", "version").splitlines()[:2]
    assert tools.startswith("zfs-2.")
    assert module.startswith("zfs-kmod-2.")


def test_the_pool_lies_on_the_disk_of_the_lab(pool: Pool) -> None:
    disks = os.environ["LAB_DISKS"].split(":")
    assert pool.vdev in disks
    assert run("zpool", "get", "-Ho", "value", "ashift,cachefile,health", pool.name).split() == [
        "12",
        "none",
        "ONLINE",
    ]


def test_datasets_have_odd_names_and_nest(pool: Pool) -> None:
    log = pool.log
    assert " " in pool.data.name
    assert log.mountpoint.is_mount()
    assert log.mountpoint.is_relative_to(pool.data.mountpoint)
    assert pool.data.mountpoint.is_relative_to(pool.root_mountpoint)


def test_properties_reach_zfs(pool: Pool) -> None:
    made = pool.dataset("props", {"zbackup:note": "a b"}, recordsize="16K")
    values = run("zfs", "get", "-Hpo", "value", "recordsize,zbackup:note", made.name).splitlines()
    assert values == ["16384", "a b"]


def test_one_snapshot_of_nested_datasets_is_atomic_and_readable(pool: Pool) -> None:
    (pool.log.mountpoint / "file").write_text("before")
    run("zfs", "snapshot", "-r", f"{pool.data.name}@one")
    (pool.log.mountpoint / "file").write_text("after")
    # Read through .zfs: the kernel mounts it by calling a program, which needs a proper root.
    assert (pool.log.mountpoint / ".zfs/snapshot/one/file").read_text() == "before"
    txgs = run("zfs", "list", "-Hpo", "createtxg", "-t", "snapshot", "-r", pool.data.name).split()
    assert len(set(txgs)) == 1


def test_a_clone_and_a_stream_work(pool: Pool) -> None:
    source = pool.dataset("stream source")
    (source.mountpoint / "file").write_bytes(os.urandom(1 << 20))
    run("zfs", "snapshot", f"{source.name}@s")
    run("zfs", "clone", f"{source.name}@s", f"{pool.name}/clone")
    with subprocess.Popen(["zfs", "send", "-Lec", f"{source.name}@s"], stdout=subprocess.PIPE) as sending:
        received = subprocess.run(
            ["zfs", "receive", "-s", f"{pool.name}/copy"], stdin=sending.stdout, check=False
        )
    assert (sending.returncode, received.returncode) == (0, 0)
    wanted = (source.mountpoint / "file").read_bytes()
    for copy in ("clone", "copy"):
        assert (pool.root_mountpoint / copy / "file").read_bytes() == wanted


def test_the_pool_survives_export_and_import(pool: Pool) -> None:
    (pool.data.mountpoint / "stays").write_text("here")
    pool.export()
    assert pool.name not in run("zpool", "list", "-Ho", "name").split()
    pool.bring_back()
    assert (pool.data.mountpoint / "stays").read_text() == "here"


def test_a_second_pool_lies_in_a_file_and_goes_without_a_trace(pool: Pool) -> None:
    second = create_pool(compression="zstd")
    try:
        assert second.vdev.startswith(str(second.home))
        assert run("zfs", "get", "-Ho", "value", "compression", second.name).strip() == "zstd"
    finally:
        second.destroy()
    assert run("zpool", "list", "-Ho", "name").split() == [pool.name]
    assert not second.home.exists()


def test_loopback_and_name_resolution_work() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        socket.create_connection(listening.getsockname(), timeout=5).close()
    assert socket.gethostbyname(socket.gethostname()).startswith("127.")


def test_time_runs_as_it_does_outside() -> None:
    wall, steady = time.time(), time.monotonic()
    time.sleep(1)
    assert time.time() - wall == pytest.approx(time.monotonic() - steady, abs=0.05)
    assert 1.0 <= time.monotonic() - steady < 1.5


def test_random_numbers_do_not_block() -> None:
    began = time.monotonic()
    assert len(os.getrandom(256)) == 256
    assert time.monotonic() - began < 1


@in_guest
def test_every_directory_can_be_written_and_the_host_is_out_of_reach() -> None:
    for directory in ("/", "/etc", "/usr/bin", "/tmp", "/run", "/dev/shm", "/var/lib"):
        probe = Path(directory, "written-in-the-guest")
        probe.write_text("x")
        assert probe.read_text() == "x"
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    assert next(mount for mount in mounts if mount[1] == "/")[2] == "overlay"
    # hostfs only where the lab was asked to share a directory.
    shared = [mount[1] for mount in mounts if mount[2] == "hostfs"]
    assert "/" not in shared
    assert not any(mount.startswith("/mnt") for mount in shared)


@in_guest
def test_file_systems_are_large_enough_and_in_memory() -> None:
    for directory in ("/tmp", "/run", "/dev/shm", "/"):
        space = os.statvfs(directory)
        assert space.f_bavail * space.f_frsize > 1 << 30, directory


@in_guest
def test_programs_of_the_host_still_run() -> None:
    done = subprocess.run(
        ["python3", "-c", "import ssl, sqlite3; print('fine')"], capture_output=True, check=True
    )
    assert done.stdout == b"fine\n"
