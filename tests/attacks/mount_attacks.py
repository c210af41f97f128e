"""Attacks by the server's user on what root mounts at a switch, and on its way back.

Production is laid out as the tutorial does it: a dataset whose directory is the server's user's, and another
in it. In the clone both are side by side, and the directory of the inner one lies in one that he owns.
"""

import contextlib
import os
import select
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.file_attacks import Canary, as_user, swapping
from tests.lab.server_user import SERVER_UID
from tests.system.house import Zbackup, next_second
from tests.system.program import Result

CLONE = "good"
BURST = 300


class Scene:
    """Production with its log within its data, whose directory is the server's user's, and a clone of it."""

    def __init__(self, house: Zbackup, service: dict[str, Any], change: Callable[[], object]) -> None:
        self.house = house
        house.patience = 600.0  # the attacker takes most of the CPU
        self.data, self.log = house.pool.data.mountpoint, house.pool.log.mountpoint
        os.chown(self.data, SERVER_UID, SERVER_UID)
        self.config = house.configure("service", service=service)
        house.snapshot()
        moment = next_second()
        change()
        house.snapshot()
        house.zb(*house.restoring(moment, CLONE), config=self.config).data  # noqa: B018  checks the exit status
        self.place = house.home / "clones" / CLONE / "0" / self.log.name
        """Where the clone's own log would be mounted, were it production."""

    def switch(self, *words: str) -> Result:
        argv = ("switch", "shop", *words, "--confirm", "shop", "--json", "-q")
        return self.house.zb(*argv, config=self.config)

    def mounted(self) -> dict[str, str]:
        """Dataset -> where it is mounted, of those that were made."""
        lines = [line.split(" ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        rows = [(words[words.index("-") + 2], words[4]) for words in lines]
        return {_text(name): _text(at) for name, at in rows if name.startswith(self.house.pool.name)}

    @contextlib.contextmanager
    def watched(self) -> Iterator[set[str]]:
        """Wherever datasets of the pool are mounted meanwhile, be it for a moment."""
        seen: set[str] = set()
        done = threading.Event()

        def watch() -> None:
            with Path("/proc/self/mountinfo").open("rb") as table:
                changes = select.poll()
                changes.register(table, select.POLLERR | select.POLLPRI)
                while not done.is_set():
                    changes.poll(100)  # proc(5): the table says so when it changes
                    seen.update(self.mounted().values())

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield seen
        finally:
            done.set()
            thread.join()

    def in_place(self) -> bool:
        """Whether production is mounted where it belongs."""
        found = self.mounted()
        wanted = {self.house.pool.data.name: str(self.data), self.house.pool.log.name: str(self.log)}
        return wanted.items() <= found.items()


def _text(word: str) -> str:
    return word.replace("\\040", " ")


def clear(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)


def files(place: Path) -> None:
    place.mkdir()
    (place / "mine").touch()


PLANTS: dict[str, Callable[[Path, Path], None]] = {
    "a link": lambda place, target: place.symlink_to(target),
    "a link of a link": lambda place, target: (
        place.with_name("hop").symlink_to(target), place.symlink_to("hop"))[1],
    "a link to nowhere": lambda place, _: place.symlink_to("/run/not there"),
    "a FIFO": lambda place, _: os.mkfifo(place),
    "a file": lambda place, _: place.touch(),
    "files": lambda place, _: files(place),
}  # fmt: skip


class MountAttacks:
    """The tests, in order."""

    rounds = 2

    @pytest.mark.parametrize("what", PLANTS)
    def test_what_lies_in_the_logs_place_is_refused_first(
        self, scene: Scene, what: str, tmp_path: Path
    ) -> None:
        canary, before = Canary(tmp_path / "canary"), scene.mounted()

        def plant() -> None:
            clear(scene.place)
            PLANTS[what](scene.place, canary.home)

        assert as_user(SERVER_UID, plant) == 0
        try:
            said = scene.switch(CLONE).refused(9)
        finally:
            clear(scene.place)
            scene.place.with_name("hop").unlink(missing_ok=True)
            scene.place.mkdir()
        assert str(scene.place) in said
        assert scene.in_place() and scene.mounted() == before
        canary.assert_untouched()
        self.require_runs(scene)

    def test_an_ordinary_directory_will_do(self, scene: Scene) -> None:
        """There and back, whoever owns the directory, and if there is none."""
        os.chown(scene.place, SERVER_UID, SERVER_UID)
        assert scene.switch(CLONE).rc == 0 and scene.in_place()
        self.require_runs(scene)
        assert scene.switch("--undo").rc == 0 and scene.in_place()
        self.require_runs(scene)
        scene.place.rmdir()
        assert scene.switch(CLONE).rc == 0 and scene.in_place()
        assert scene.switch("--undo").rc == 0 and scene.in_place()
        self.require_runs(scene)

    def test_links_and_directories_by_turns(self, scene: Scene, tmp_path: Path) -> None:
        """Whatever comes of it, nothing is mounted elsewhere, and what is left half done can be finished."""
        canary = Canary(tmp_path / "canary")
        elsewhere = *canary.home.parents, canary.home

        def attack() -> int:
            done = 0
            for _ in range(BURST):
                for place in (scene.place, scene.log):
                    with contextlib.suppress(OSError):
                        place.rmdir()
                        place.symlink_to(canary.home)
                        done += 1
                    with contextlib.suppress(OSError):
                        place.unlink()
                        place.mkdir()
            return min(done, 1)  # each is a byte in a pipe, which holds no more than 64 KiB

        strayed: set[str] = set()
        count = 0
        for words in ((CLONE,), (CLONE, "--undo")) * self.rounds:
            with scene.watched() as seen, swapping(attack) as swapped:
                ended = scene.switch(*words)
            strayed |= {at for at in seen if Path(at) in elsewhere}
            print(words, ended.rc, swapped, ended.err)  # shown where the test fails
            assert "Traceback" not in ended.err
            count += swapped[0]
        assert not strayed and count > 0
        canary.assert_untouched()
        for place in (scene.place, scene.log):
            if place.is_symlink():
                place.unlink()
        back = scene.switch(CLONE, "--undo")
        assert back.rc in (0, 4), back
        assert scene.in_place()
        self.require_runs(scene)

    def require_runs(self, scene: Scene) -> None:
        raise NotImplementedError
