"""The dataset of a log archive: made once, and found again wherever a run that made it was cut short."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from zbackup.model.errors import CommandFailed, Refused
from zbackup.model.shipping import CONTAINER, RECEIVED
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
        self.own_mountpoint = ""
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
            return self.own_mountpoint if "local" in argv else self.value(name, argv[-3])
        return name

    def value(self, name: str, asked: str) -> str:
        facts = dict.fromkeys(FACTS, "on") | {
            "nbmand": "off",
            "mountpoint": str(self.directory),
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


def archive(pool: Pool) -> LogDataset:
    return LogDataset(home="tank/b/shop", name=NAME, runner=pool, mounts=PoolMounts(pool))


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pool:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return Pool(tmp_path)


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
    with pytest.raises(Refused, match=f"is not mounted: as root, zbackup mount {NAME}"):
        archive(pool).directory()
    pool.mountable = True
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    changes = pool.changes
    with pytest.raises(Refused, match="is not mounted"):
        archive(pool).directory()
    assert pool.changes == changes


def test_what_is_read_only_is_told_to_be_that(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    archive(pool).prepared()
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    with pytest.raises(Refused, match=f"is read-only: as root, zfs set readonly=off {NAME}"):
        archive(pool).prepared()


@pytest.mark.parametrize("canmount", ["noauto", "off"])
def test_what_was_received_under_its_name_is_not_mounted(pool: Pool, canmount: str) -> None:
    """Below the root of a key that may only add: ROOT/HOST/INSTANCE/log may be sent, and asked for then."""
    assert {RECEIVED["canmount"], CONTAINER["canmount"]} == {"noauto", "off"}
    pool.datasets[NAME], pool.canmount = False, canmount
    for asked in (archive(pool).directory, archive(pool).prepared):
        with pytest.raises(Refused) as refused:
            asked()
        assert str(refused.value) == (
            f"{NAME} is no log archive's, and not mounted: its canmount is {canmount} "
            f"(if it is one: zfs set canmount=on {NAME})"
        )
    assert not pool.changes and not pool.datasets[NAME]
    pool.datasets[NAME] = True  # an administrator did it
    assert archive(pool).directory() == pool.directory
