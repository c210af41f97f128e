"""The dataset of a log archive: made once, and found again wherever a run that made it was cut short."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from zbackup.model.errors import CommandFailed, Refused
from zbackup.model.shipping import CONTAINER, RECEIVED
from zbackup.zfs import log_dataset
from zbackup.zfs.log_dataset import LogDataset
from zbackup.zfs.mounting import FACTS, KernelMounts

NAME = "tank/b/shop/log"


class Pool:
    """A zfs that knows the container and the archive's dataset; killed before a command of that number."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.datasets: dict[str, bool] = {"tank": True, "tank/b": True}
        self.mountable = True
        self.canmount = "on"
        self.mountpoint = str(directory)
        self.mounted_at = str(directory)
        self.changes = 0
        self.killed_at = 0

    def __call__(self, argv: tuple[str, ...], *, mutates: bool = True, timeout: float = 600) -> str:
        verb, name = argv[1], argv[-1]
        if mutates:
            self.changes += 1
            if self.changes == self.killed_at:
                if verb == "create":
                    self.datasets[name] = False  # it is there before it is mounted
                raise KeyboardInterrupt
        if verb == "create":
            self.datasets[name] = False
        elif name not in self.datasets:
            raise CommandFailed(argv, 1, f"cannot open '{name}': dataset does not exist")
        elif verb == "mount":
            self.datasets[name] = True
        elif verb == "get":
            return self.value(name, argv[-3])
        return name

    def value(self, name: str, asked: str) -> str:
        facts = dict.fromkeys(FACTS, "on") | {
            "nbmand": "off",
            "zoned": "off",
            "mountpoint": self.mountpoint,
            "mounted": "yes" if self.datasets[name] else "no",
            "canmount": self.canmount,
            "keystatus": "-" if self.mountable else "unavailable",
        }
        return "".join(f"{facts[key]}\n" for key in asked.split(","))


class PoolMounts(KernelMounts):
    """Its mounts, which count as its changes do."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def mount(self, name: str, path: Path, flags: int, options: str) -> None:
        self.pool(("zfs", "mount", "--", name))
        self.pool.mounted_at = str(path)

    def is_there(self, name: str, path: Path) -> bool:
        return self.pool.datasets[name] and self.pool.mounted_at == str(path)


def archive(pool: Pool) -> LogDataset:
    below = pool.directory.parents[3]
    return LogDataset(home="tank/b/shop", name=NAME, runner=pool, mounts=PoolMounts(pool), below=below)


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pool:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(log_dataset, "require_only_roots", lambda _: None)
    monkeypatch.setattr(log_dataset.secure_files, "claim_for_root", lambda _: None)
    place = tmp_path / NAME
    place.mkdir(parents=True)
    return Pool(place)


@pytest.mark.parametrize("killed_at", range(1, 4))
def test_killed_while_it_is_made_the_next_run_goes_on(pool: Pool, killed_at: int) -> None:
    """With the look at what is archived, which comes first."""
    assert archive(pool).directory() is None and not pool.changes
    pool.killed_at = killed_at
    try:
        archive(pool).prepared()
    except KeyboardInterrupt:
        assert pool.changes == killed_at
    assert archive(pool).directory() in (None, pool.directory)
    assert archive(pool).prepared() == pool.directory
    assert pool.datasets[NAME]


def test_what_cannot_be_mounted_is_told_with_the_command(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(pool).prepared()
    pool.datasets[NAME], pool.mountable = False, False
    with pytest.raises(Refused, match=r"is not mounted: .*encryption key not loaded"):
        archive(pool).directory()
    pool.mountable = True
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    changes = pool.changes
    with pytest.raises(
        Refused, match=f"is not mounted: as root, zbackup mount {NAME} --log-archive-of 54321"
    ):
        archive(pool).directory()
    assert pool.changes == changes


def test_what_is_read_only_is_told_to_be_that(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(pool).prepared()
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(Refused, match=f"is read-only: as root, zfs set readonly=off {NAME}"):
        archive(pool).prepared()


@pytest.mark.parametrize("mountpoint", ["none", "/etc/cron.d", "/tank/b/shop/log"])
@pytest.mark.parametrize("canmount", ["on", "noauto", "off"])
def test_what_has_another_place_is_not_mounted(pool: Pool, mountpoint: str, canmount: str) -> None:
    """Below the root of a key that may only add, ROOT/HOST/INSTANCE/log may be sent, and asked for then; and
    who receives may set both properties (`zfs allow`)."""
    assert {RECEIVED["canmount"], CONTAINER["canmount"]} == {"noauto", "off"}
    pool.datasets[NAME], pool.canmount, pool.mountpoint = False, canmount, mountpoint
    log = archive(pool)
    for asked in (log.directory, log.prepared, lambda: log.prepare_for((1, 1))):
        with pytest.raises(Refused) as refused:
            asked()
        assert str(refused.value) == (
            f"{NAME} is no log archive's, and not mounted: its mountpoint is {mountpoint} (to make it one: "
            f"zfs set canmount=noauto {NAME} && zfs set mountpoint={pool.directory} {NAME})"
        )
    assert not pool.changes and not pool.datasets[NAME]
    pool.datasets[NAME], pool.mounted_at = True, mountpoint  # an administrator did it
    if mountpoint != "none":
        assert log.directory() == Path(mountpoint)


def test_a_mountpoint_that_is_set_between_two_looks_is_not_followed(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.datasets[NAME] = False
    monkeypatch.setattr(
        log_dataset, "require_only_roots", lambda _: setattr(pool, "mountpoint", "/etc/cron.d")
    )
    with pytest.raises(Refused, match=r"is not mounted at /etc/cron.d: its mountpoint has to be"):
        archive(pool).directory()
    assert not pool.changes and not pool.datasets[NAME]


def test_a_mountpoint_that_was_set_while_it_is_mounted_is_not_believed(pool: Pool) -> None:
    """`zfs set -u mountpoint=…` mounts nothing."""
    log = archive(pool)
    assert log.prepared() == pool.directory
    pool.mountpoint = "/etc/cron.d"
    for asked in (log.directory, log.prepared, lambda: log.prepare_for((1, 1))):
        with pytest.raises(Refused, match=r"/etc/cron.d does not lead to"):
            asked()
