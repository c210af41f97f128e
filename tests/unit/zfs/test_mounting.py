"""With which options a file system is mounted, and what cannot be."""

from pathlib import Path

import pytest

from zbackup.model.errors import CommandFailed, KeyNotLoaded
from zbackup.proc.mounts import MS_NOATIME, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_RELATIME
from zbackup.zfs.mounting import FACTS, mount_options, place_of

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
        place_of("tank/a", USUAL | fact)
    assert place_of("tank/a", USUAL) == Path("/srv/a b")
