"""A switch, and the way back, that are killed at their changes: then finished or taken back, in turn."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.system.switch_story import CLONE, Shop
from tests.system.zfs_door import ZfsDoor

LIMIT_S = 5400
"""Of each test, when every change is broken."""


class KillsThere:
    """Production is what it was, or what the clone is, and nothing in between: also the backups say so."""

    some = 19
    """Of this many changes one is broken; 1 breaks all of them."""
    twice = False
    """Whether each is broken before and after it takes effect, or in one of the two ways."""

    @pytest.mark.timeout(LIMIT_S)
    def test_there(self, shop: Shop, door: ZfsDoor) -> None:
        known = shop.backups()
        for nth, where in self.kills(shop, door, CLONE):
            if self.state(shop) == "switching" and nth // self.some % 2:
                assert "cut short" in shop.house.zb("snapshot", "-q", config=shop.config).refused(9), where
                assert shop.switch(CLONE).data["outcome"] == "switched", where
            if self.state(shop) == "switched":
                shop.require(shop.last, where)
            self.back(shop, where)
            assert known <= shop.backups(), where
        shop.require(shop.last)

    def state(self, shop: Shop) -> str:
        return str(shop.house.zb("clone", "show", CLONE, "--json").data["state"])

    def back(self, shop: Shop, where: str) -> None:
        if self.state(shop) != "ready":
            assert shop.switch("--undo").data["outcome"] == "undone", where
        shop.require(shop.bad, where)

    def kills(self, shop: Shop, door: ZfsDoor, word: str) -> Iterator[tuple[int, str]]:
        """Run the command and kill it at its changes in turn, until it has none left."""
        for nth in count(self.some, self.some):
            ways = ("before", "after") if self.twice else (("before", "after")[nth // self.some % 2],)
            for way in ways:
                door.kill(**{way: nth})
                ended = shop.switch(word, environment=door.environment)
                if ended.rc == 0:
                    assert nth > self.some, "there is nothing to kill it at"
                    return
                where = f"{word}, killed {way} change {nth}"
                assert ended.rc == -9, f"{where}: {ended}"
                yield nth, where


class SwitchKills(KillsThere):
    """And the way back."""

    @pytest.mark.timeout(LIMIT_S)
    def test_back(self, shop: Shop, door: ZfsDoor) -> None:
        if self.state(shop) == "ready":
            assert shop.switch(CLONE).data["outcome"] == "switched"
        known = shop.backups()
        for nth, where in self.kills(shop, door, "--undo"):
            if self.state(shop) == "switched":  # nothing was begun
                shop.require(shop.last, where)
                continue
            if self.state(shop) == "undoing" and nth // self.some % 2:
                assert shop.switch("--undo").data["outcome"] == "undone", where
            if self.state(shop) == "ready":
                shop.require(shop.bad, where)
            assert shop.switch(CLONE).data["outcome"] == "switched", where
            shop.require(shop.last, where)
            assert known <= shop.backups(), where
        shop.require(shop.bad)
        assert shop.restored(shop.moment)["shop.orders"] == shop.then["shop.orders"]
