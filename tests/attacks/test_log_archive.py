"""Attacks by the daemon's user on where root mounts a log archive: links of his on the way."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.file_attacks import Canary, as_user
from tests.lab.pool import Pool, run
from zbackup.model.errors import Refused
from zbackup.zfs.log_dataset import LogDataset

UID = 3333
STATE = Path("/var/lib/zbackup")
BELOW = STATE / "log-archive"


@pytest.fixture
def archive(pool: Pool) -> Iterator[LogDataset]:
    """On a host as systemd/zbackup.tmpfiles.conf made it before, and after it was installed anew."""
    if os.environ.get("LAB_INSIDE") == "guest" and f" {STATE}" not in Path("/proc/self/mounts").read_text():
        shutil.rmtree(STATE, ignore_errors=True)  # what another module of this guest has left
    assert not STATE.exists(), "this host has a zbackup of its own"
    Path("/dev/zfs").chmod(0o666)  # as the rules of udev that come with OpenZFS do
    STATE.mkdir(mode=0o755)
    os.chown(STATE, 0, UID)
    STATE.chmod(0o1771)
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", f"{pool.name}/b")
    home = f"{pool.name}/b/shop"
    yield LogDataset(home=home, name=f"{home}/log")
    run("zfs", "destroy", "-r", f"{pool.name}/b")
    shutil.rmtree(STATE)


def mounts_of(archive: LogDataset) -> list[str]:
    rows = (line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [words[4] for words in rows if words[words.index("-") + 2] == archive.name]


def plant(archive: LogDataset, target: Path) -> None:
    """The daemon's user makes the directories first, with a link where the archive is mounted."""
    place = BELOW / archive.name

    def attack() -> None:
        place.parent.mkdir(parents=True)
        place.symlink_to(target)

    assert as_user(UID, attack) == 0


def test_root_mounts_through_no_link(archive: LogDataset, tmp_path: Path) -> None:
    canary = Canary(tmp_path / "canary")
    plant(archive, canary.home)
    for _ in range(2):
        with pytest.raises(Refused, match=r"log-archive.* has to be root's alone"):
            archive.prepared()
        assert mounts_of(archive) == []
        canary.assert_untouched()
    # As the package makes it at the next start, whatever lies in it:
    os.chown(BELOW, 0, 0)
    with pytest.raises(Refused):
        archive.prepared()
    assert mounts_of(archive) == []
    canary.assert_untouched()
    shutil.rmtree(BELOW)
    assert archive.prepared() == BELOW / archive.name and mounts_of(archive) == [str(BELOW / archive.name)]


def test_what_root_is_told_to_run_gives_nothing_of_roots_away(archive: LogDataset, tmp_path: Path) -> None:
    canary = Canary(tmp_path / "canary")
    reading, writing = os.pipe()

    def ask() -> None:
        try:
            archive.prepared()
        except Refused as refused:
            os.write(writing, str(refused).encode())

    assert as_user(UID, ask) == 0
    os.close(writing)
    said = os.read(reading, 4096).decode().rpartition("as root, ")[2]
    os.close(reading)
    assert said
    plant(archive, canary.home)
    told = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", said], env=told, check=False)
    assert mounts_of(archive) == []
    canary.assert_untouched()
    shutil.rmtree(BELOW)
    subprocess.run(["sh", "-c", said], env=told, check=True)
    place = BELOW / archive.name
    assert mounts_of(archive) == [str(place)]
    assert (place.stat().st_uid, place.stat().st_mode & 0o777) == (UID, 0o700)
    assert (place.parent.stat().st_uid, place.parent.stat().st_mode & 0o022) == (0, 0)


def test_who_receives_has_root_mount_it_nowhere_else(archive: LogDataset, tmp_path: Path) -> None:
    """He may set both properties, as `zfs receive` needs it that is to leave them alone."""
    canary = Canary(tmp_path / "canary")
    place = archive.prepare_for((UID, UID))
    run("zfs", "unmount", archive.name)  # as after a start, with a key that came late
    run("zfs", "allow", "-u", str(UID), "canmount,mountpoint", archive.name)

    def attack() -> None:
        for setting in ("canmount=noauto", f"mountpoint={canary.home}", "canmount=on"):
            subprocess.run(["zfs", "set", setting, archive.name], check=True)

    assert as_user(UID, attack) == 0
    for asked in (archive.directory, archive.prepared, lambda: archive.prepare_for((UID, UID))):
        with pytest.raises(Refused, match="is no log archive's"):
            asked()
    assert mounts_of(archive) == []
    canary.assert_untouched()
    run("zfs", "set", "canmount=noauto", archive.name)
    run("zfs", "set", f"mountpoint={place}", archive.name)
    assert archive.prepare_for((UID, UID)) == place and mounts_of(archive) == [str(place)]
