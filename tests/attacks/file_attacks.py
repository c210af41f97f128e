"""Files that users put into directories of theirs which root works in: the server's user, and the daemon's.

A canary is a directory of root's with files in it. Whatever was tried, it has to be as it was.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.lab.server_user import SERVER_UID
from tests.system.house import House, Zbackup
from tests.system.program import spoken

DAEMON_UID = 3333
FILES = ("file", "auto.cnf", "mongod.lock", "init.sql")
POLL_S = 0.0005


@dataclass
class Canary:
    """Root's, as it was when it was made."""

    home: Path
    before: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(mode=0o755)
        for name in FILES:
            (self.home / name).write_text("root's")
            (self.home / name).chmod(0o600)
        self.before = self.now()

    def now(self) -> dict[str, object]:
        """Owner, mode and content of all of it."""
        found: dict[str, object] = {".": _facts(self.home)}
        return found | {p.name: (_facts(p), p.read_bytes()) for p in sorted(self.home.iterdir())}

    def assert_untouched(self) -> None:
        assert self.now() == self.before


def _facts(path: Path) -> tuple[int, int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid, found.st_mode


def as_user(uid: int, what: Callable[[], None]) -> int:
    """The exit status of a process of that user's that does this."""
    child = os.fork()
    if child == 0:
        _become(uid)
        try:
            what()
        except OSError as refused:
            os._exit(refused.errno or 1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@contextmanager
def swapping(attack: Callable[[], int]) -> Iterator[list[int]]:
    """The server's user does this again and again meanwhile; then: how often he had success."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _become(SERVER_UID)
        while True:
            with contextlib.suppress(OSError):
                for _ in range(attack()):
                    os.write(writing, b"x")
            time.sleep(POLL_S)
    os.close(writing)
    count: list[int] = []
    try:
        yield count
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as file:
            count.append(len(file.read()))


def _become(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def swap_data(clones: Path, canary: Path) -> int:
    """The data directory moves aside, and a link lies there instead."""
    swapped = 0
    for clone in clones.iterdir():
        data = clone / "0" / "data"
        with contextlib.suppress(OSError):
            if data.is_dir() and not data.is_symlink():
                data.rename(data.with_name("aside"))
                data.symlink_to(canary)
                swapped += 1
    return swapped


class FileAttacks:
    """The tests, in order. `house` has its data in a directory `data` of its first dataset."""

    pid_file: Callable[[Zbackup], Path]

    @pytest.fixture(scope="class", autouse=True)
    def given_away(self, house: Zbackup) -> None:
        """As on a host whose administrator gave the whole dataset to the server's user."""
        os.chown(house.pool.data.mountpoint, SERVER_UID, SERVER_UID)
        house.snapshot()

    def test_a_data_directory_that_becomes_a_link(self, house: Zbackup, tmp_path: Path) -> None:
        canary = Canary(tmp_path / "canary")
        with swapping(lambda: swap_data(house.home / "clones", canary.home)) as swapped:
            ended = house.zb(*house.restoring("now", "r2"), "-q")
        canary.assert_untouched()
        assert swapped[0] > 0
        assert "Traceback" not in ended.err and len(spoken(ended.err)) == 1, str(ended)
        assert ended.rc != 0 and ended.err.startswith("zbackup: "), str(ended)

    def test_a_link_of_the_daemons_users_in_front_of_a_clone(self, house: Zbackup, tmp_path: Path) -> None:
        canary = Canary(tmp_path / "canary")
        run = house.home / "run"
        assert as_user(DAEMON_UID, lambda: (run / "r3").symlink_to(canary.home)) != 0
        # A run directory of a zbackup from before, which was the daemon's.
        old = house.home / "old"
        old.mkdir()
        os.chown(old, DAEMON_UID, DAEMON_UID)
        old.chmod(0o2771)

        def plant() -> None:
            (old / "r3").symlink_to(canary.home)
            (old / "r3.process").symlink_to(canary.home / "file")
            (old / ".daemon").symlink_to(canary.home)
            (old / "shop.lock").symlink_to(canary.home / "file")

        assert as_user(DAEMON_UID, plant) == 0
        ended = house.zb(*house.restoring("now", "r3"), config=house.configure("old", run_dir=old))
        canary.assert_untouched()
        report = ended.data
        assert Path(report["socket"]).parent == old / "r3" and not (old / "r3").is_symlink()
        assert _facts(old)[0] == 0 and _facts(old)[2] & 0o7777 == 0o755
        assert _facts(old / ".daemon")[0] == DAEMON_UID
        assert house.zb("clone", "destroy", "r3", "--yes", config=house.home / "old.toml").rc == 0
        assert not (old / "r3").exists()
        canary.assert_untouched()

    def test_a_fifo_as_pid_file_hangs_nobody(self, house: Zbackup) -> None:
        file = type(self).pid_file(house)
        aside = file.with_name("aside")

        def plant() -> None:
            file.rename(aside)
            os.mkfifo(file)

        assert as_user(SERVER_UID, plant) == 0
        try:
            checked = house.begin("check").end(60)
            assert "Traceback" not in checked.err
        finally:
            aside.replace(file)


class SqlFileAttacks(FileAttacks):
    """The same for MySQL and MariaDB."""

    @staticmethod
    def pid_file(house: Zbackup) -> Path:
        assert isinstance(house, House)
        return house.server.settings.run_dir / "server.pid"
