"""Dev clones whose making, reset and destruction are killed half-way, told by several modules."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.system.clone_story import asked, create, entered
from tests.system.house import House
from tests.system.zfs_door import ZfsDoor
from zbackup.proc.detached import Process

LIMIT_S = 5400
"""Of the longest test, when every change is broken."""


class Kills:
    """zbackup is killed at its changes, before one takes effect or after it did."""

    some = 4
    """Of this many changes one is broken; 1 breaks all of them."""
    twice = False
    """Whether each is broken before and after it takes effect, or in one of the two ways."""

    def again(self, house: House, words: tuple[str, ...], where: str) -> None:
        ended = house.zb(*words)
        assert ended.rc == 0, f"{where}: {ended}"

    def require_whole(self, house: House, where: str) -> None:
        with entered(house, "dev1") as clone:
            assert asked(clone, "SELECT COUNT(*) FROM shop.customers") == ((1000,),), where
        running = [note for note in (house.home / "run").glob("*.process") if alive(note)]
        assert [note.name for note in running] == ["dev1.process"], where

    def kills(self, house: House, door: ZfsDoor, words: tuple[str, ...], most: int = 100) -> Iterator[str]:
        """Run the command and kill it at its changes in turn, until it has none left; at every `most`th."""
        some = min(self.some, most)
        for nth in count(some, some):
            ways = ("before", "after") if self.twice else (("before", "after")[nth // some % 2],)
            for way in ways:
                door.kill(**{way: nth})
                ended = house.zb(*words, environment=door.environment)
                if ended.rc == 0:
                    assert nth > some, "there is nothing to kill it at"
                    return
                where = f"killed {way} change {nth}"
                assert ended.rc == -9, f"{where}: {ended}"
                yield where


class CloneKills(Kills):
    """Then it is run again. The tests are in order: each goes on with the clone of the one before."""

    def test_making_one(self, house: House, history: dict[str, Any], door: ZfsDoor) -> None:
        before = house.names() | {house.clones}
        words = ("clone", "create", "--name", "dev1", "--json")
        for where in self.kills(house, door, words, most=4):
            if house.zb("clone", "dsn", "dev1").rc != 0:  # else it was done but for the answer
                self.again(house, words, where)
            self.require_whole(house, where)
            house.destroy("dev1")
            assert house.names() == before, where

    def test_resetting_it(self, house: House, history: dict[str, Any], door: ZfsDoor) -> None:
        before = house.names()
        words = ("clone", "reset", "dev1", "--json")
        for where in self.kills(house, door, words):
            self.again(house, words, where)
            self.require_whole(house, where)
            assert house.names() == before, where

    def test_destroying_it(self, house: House, history: dict[str, Any], door: ZfsDoor) -> None:
        before = {name for name in house.names() if not name.startswith(f"{house.clones}/")}
        words = ("clone", "destroy", "dev1", "--yes", "--json")
        for where in self.kills(house, door, words, most=3):
            listed = house.zb("clone", "list", "--json").data
            if listed:
                assert [c["name"] for c in listed] == ["dev1"], where
                self.again(house, words, where)
            assert house.names() == before, where
            create(house, "--name", "dev1")
        assert house.names() == before


class MomentKills(Kills):
    """A reset of a clone that was recovered first."""

    @pytest.mark.timeout(LIMIT_S)
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


def alive(note: Path) -> bool:
    """Whether the process that is noted there runs."""
    return Process.parse(note.read_text()).alive
