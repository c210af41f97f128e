"""The report of a host that receives backups on the log that is archived there."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.model.test_archive import NOW, file
from tests.unit.proc.test_log_store import append
from zbackup.jobs.watch.received_log import archived_lots
from zbackup.model.errors import CommandFailed
from zbackup.proc.log_store import LogStore
from zbackup.zfs.mounting import KernelMounts


@pytest.fixture(autouse=True)
def mounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory stands for what is mounted there."""
    monkeypatch.setattr(KernelMounts, "is_there", lambda *_: True)


def zfs(directory: Path, mounted: str = "yes") -> object:
    """Only the archive of shop has a dataset."""

    def run(argv: tuple[str, ...], *, mutates: bool = True, timeout: float = 600) -> str:
        if "keystatus" in argv[-3]:
            raise CommandFailed(argv, 1, "cannot mount: encryption key not loaded")
        assert not mutates
        if "tank/shop/log" not in argv:
            raise CommandFailed(argv, 1, f"cannot open '{argv[-1]}': dataset does not exist")
        return "on\n" if "canmount" in argv else f"{mounted}\n{directory}\n"

    return run


@pytest.mark.parametrize("ahead", [0, 3600])
def test_what_is_there_and_how_old_it_is(tmp_path: Path, ahead: int) -> None:
    runner, homes = zfs(tmp_path), ("tank/shop", "tank/wiki")
    assert archived_lots(runner, homes, NOW) == ()  # type: ignore[arg-type]
    append(LogStore(tmp_path), 0, 100)
    append(LogStore(tmp_path), 100, 200)
    (lot,) = archived_lots(runner, homes, NOW + timedelta(seconds=7 - ahead))  # type: ignore[arg-type]
    assert (lot.instance, lot.files, lot.size, lot.newest) == ("shop", 1, 200, NOW)
    assert lot.age == (timedelta() if ahead else timedelta(seconds=7)) and lot.problems == ()


def test_what_is_wrong_with_it(tmp_path: Path) -> None:
    append(LogStore(tmp_path), 0, 100)
    next(tmp_path.rglob("*.log")).write_bytes(b"")
    (lot,) = archived_lots(zfs(tmp_path), ["tank/shop"], NOW)  # type: ignore[arg-type]
    assert lot.problems == (f"{file()} has 0 bytes and should have 100: what is missing was taken away",)
    (lot,) = archived_lots(zfs(tmp_path, "no"), ["tank/shop"], NOW)  # type: ignore[arg-type]
    assert lot.files == 0 and "no log archive's, and not mounted" in lot.problems[0]
