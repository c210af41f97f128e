"""With which options a file system is mounted, and what cannot be."""

from pathlib import Path

import pytest

from zbackup.model.errors import CommandFailed, KeyNotLoaded, Refused
from zbackup.proc.mounts import MS_NOATIME, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_RELATIME, mount
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.mounting import FACTS, KernelMounts, mount_options, place_of

USUAL = dict.fromkeys(FACTS, "none") | {
    "canmount": "on", "keystatus": "-", "atime": "on", "relatime": "on", "devices": "on", "exec": "on",
    "readonly": "off", "setuid": "on", "nbmand": "off", "mountpoint": "/srv/a b",
}  # fmt: skip


def test_as_zfs_mount_does_it() -> None:
    assert mount_options(USUAL) == (
        MS_RELATIME,
        "defaults,atime,relatime,dev,exec,rw,suid,nomand,mntpoint=/srv/a b,zfsutil",
    )
    harmless = (
        USUAL | dict.fromkeys(("devices", "exec", "setuid"), "off") | {"readonly": "on", "atime": "off"}
    )
    assert mount_options(harmless) == (
        MS_NOATIME | MS_NODEV | MS_NOEXEC | MS_NOSUID | MS_RDONLY,
        "defaults,noatime,nodev,noexec,ro,nosuid,nomand,mntpoint=/srv/a b,zfsutil",
    )
    labelled = USUAL | {"context": "system_u:object_r:mysqld_db_t:s0"}
    assert 'context="system_u:object_r:mysqld_db_t:s0"' in mount_options(labelled)[1]


def test_no_name_of_a_directory_is_an_option() -> None:
    assert "rw,rw" not in mount_options(USUAL | {"mountpoint": "/srv/x,rw", "readonly": "on"})[1]
    assert ",rw" not in mount_options(USUAL | {"mountpoint": "/srv/x,rw", "readonly": "on"})[1]


@pytest.mark.parametrize(
    ("fact", "said", "kind"),
    [
        ({"canmount": "off"}, "'canmount' property is set to 'off'", CommandFailed),
        ({"keystatus": "unavailable"}, "encryption key not loaded", KeyNotLoaded),
        ({"mountpoint": "legacy"}, "its mountpoint is legacy", CommandFailed),
        ({"mountpoint": "none"}, "its mountpoint is none", CommandFailed),
    ],
)
def test_what_cannot_be_mounted(fact: dict[str, str], said: str, kind: type[CommandFailed]) -> None:
    with pytest.raises(kind, match=said):
        place_of("tank/a", USUAL | fact, KernelMounts())
    assert place_of("tank/a", USUAL, KernelMounts()) == Path("/srv/a b")


def test_what_another_unmounts_meanwhile_is_unmounted(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("36 35 0:32 / /srv/a rw - zfs tank/a rw\n")

    class Raced(KernelMounts):
        def __init__(self, failure: Exception, *, gone: bool) -> None:
            self.failure, self.gone = failure, gone

        def unmount(self, name: str, path: Path) -> None:
            assert (name, path) == ("tank/a", Path("/srv/a"))
            if self.gone:
                table.write_text("")
            raise self.failure

    failed = CommandFailed(("zfs", "unmount"), 1, "cannot unmount 'tank/a': Invalid argument")
    for failure in (failed, Refused("/srv/a does not lead to tank/a")):
        with pytest.raises(type(failure)):
            Zfs(mountinfo=table, mounts=Raced(failure, gone=False)).unmount("tank/a")
    for failure in (failed, Refused("/srv/a does not lead to tank/a")):
        table.write_text("36 35 0:32 / /srv/a rw - zfs tank/a rw\n")
        Zfs(mountinfo=table, mounts=Raced(failure, gone=True)).unmount("tank/a")


def test_a_name_need_not_be_utf_8() -> None:
    flags, options = mount_options(USUAL | {"mountpoint": "/srv/caf\udce9"})
    with pytest.raises(OSError, match="not there"):
        mount("tank/a", "/srv/not there", "zfs", flags, options)


class Place(KernelMounts):
    """One place, of a host or of a container."""

    def __init__(self, *, host: bool = True) -> None:
        self.host, self.mounted = host, 0

    def is_host(self) -> bool:
        return self.host

    def mount(self, name: str, path: Path, flags: int, options: str) -> None:
        self.mounted += 1


def mounting(tmp_path: Path, place: Place, **facts: str) -> None:
    values = USUAL | {"mountpoint": str(tmp_path / "place")} | facts
    table = tmp_path / "mountinfo"
    table.touch()
    told = "".join(f"{values[key]}\n" for key in FACTS)
    Zfs(lambda *_, **__: told, mountinfo=table, mounts=place).mount("tank/a")


def test_no_container_says_where_the_host_mounts(tmp_path: Path) -> None:
    """Its root may set the mountpoint of what was given to it (zfs-zone(8)), and `zfs mount` refuses, too."""
    host, container = Place(), Place(host=False)
    with pytest.raises(CommandFailed, match="it is delegated to a container"):
        mounting(tmp_path, host, zoned="on")
    mounting(tmp_path, container, zoned="on")
    assert (host.mounted, container.mounted) == (0, 1)


def test_files_are_covered_unless_overlay_forbids_it(tmp_path: Path) -> None:
    place = Place()
    mounting(tmp_path, place, overlay="off")
    (tmp_path / "place").mkdir()
    mounting(tmp_path, place, overlay="off")
    (tmp_path / "place/file").touch()
    mounting(tmp_path, place, overlay="on")
    assert place.mounted == 3
    with pytest.raises(CommandFailed, match=r"/place is not empty, and overlay is off"):
        mounting(tmp_path, place, overlay="off")
    assert place.mounted == 3
