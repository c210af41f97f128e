"""Dev clones whose making, reset and destruction are killed half-way, told by several modules."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from tests.system.clone_story import asked, create, entered
from tests.system.house import House
from tests.system.zfs_door import ZfsDoor
from zbackup.proc.detached import Process


class CloneKills:
    """zbackup is killed at its changes, before one takes effect or after it did; then it is run again."""

    some = 4
    """Of this many changes one is broken; 1 breaks all of them."""
    twice = False
    """Whether each is broken before and after it takes effect, or in one of the two ways."""

    def test_making_one(self, house: House, history: dict[str, Any], door: ZfsDoor) -> None:
        before = house.names() | {house.clones}
        words = ("clone", "create", "--name", "dev1", "--json")
        for where in self.kills(house, door, words):
            if house.zb("clone", "dsn", "dev1").rc != 0:  # else it was done but for the answer
                self.again(house, words, where)
            self.require_whole(house, where)
            house.destroy("dev1")
            assert house.names() == before, where
        house.destroy("dev1")

    def test_resetting_it(self, house: House, history: dict[str, Any], door: ZfsDoor) -> None:
        create(house, "--name", "dev1")
        before = house.names()
        words = ("clone", "reset", "dev1", "--json")
        for where in self.kills(house, door, words):
            self.again(house, words, where)
            self.require_whole(house, where)
            assert house.names() == before, where
        house.destroy("dev1")

    def test_resetting_one_of_a_moment(self, house: House, history: dict[str, Any], door: ZfsDoor) -> None:
        """Reset again, or after every third kill destroyed, half reset as it is."""
        moment = ("--name", "dev1", "--at", history["moment"].isoformat())
        words = ("clone", "reset", "dev1", "--json")
        bare = house.names() | {house.clones}
        create(house, *moment)
        before = house.names()
        for number, where in enumerate(self.kills(house, door, words)):
            if number % 3 == 2:
                house.destroy("dev1")
                assert house.names() == bare, where
                create(house, *moment)
            else:
                self.again(house, words, where)
            self.require_whole(house, where)
            assert house.names() == before, where
        house.destroy("dev1")

    def test_destroying_it(self, house: House, history: dict[str, Any], door: ZfsDoor) -> None:
        before = house.names() | {house.clones}
        words = ("clone", "destroy", "dev1", "--yes", "--json")
        create(house, "--name", "dev1")
        for where in self.kills(house, door, words):
            listed = house.zb("clone", "list", "--json").data
            if listed:
                assert [c["name"] for c in listed] == ["dev1"], where
                self.again(house, words, where)
            assert house.names() == before, where
            create(house, "--name", "dev1")
        assert house.names() == before

    def again(self, house: House, words: tuple[str, ...], where: str) -> None:
        ended = house.zb(*words)
        assert ended.rc == 0, f"{where}: {ended}"

    def require_whole(self, house: House, where: str) -> None:
        with entered(house, "dev1") as clone:
            assert asked(clone, "SELECT COUNT(*) FROM shop.customers") == ((1000,),), where
        running = [note for note in (house.home / "run").glob("*.process") if alive(note)]
        assert [note.name for note in running] == ["dev1.process"], where

    def kills(self, house: House, door: ZfsDoor, words: tuple[str, ...]) -> Iterator[str]:
        """Run the command and kill it at its changes in turn, until it has none left."""
        for nth in count(self.some, self.some):
            ways = ("before", "after") if self.twice else (("before", "after")[nth // self.some % 2],)
            for way in ways:
                door.kill(**{way: nth})
                ended = house.begin(*words, environment=door.environment).end()
                if ended.rc == 0:
                    return
                where = f"killed {way} change {nth}"
                assert ended.rc == -9, f"{where}: {ended}"
                yield where


def alive(note: Path) -> bool:
    """Whether the process that is noted there runs."""
    return Process.parse(note.read_text()).alive
