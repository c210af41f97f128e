"""The story of a MongoDB host that is lost while it writes; see archive_story, whose words these are.

What was acknowledged by a majority before the archive's word is back, each writer's writes are a prefix, and
no transaction is there in part.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.lab import mongo_load
from tests.lab.load import Load
from tests.lab.mongo_fixture import Client
from tests.lab.pool import Pool, create_pool, run
from tests.system.archive_story import Loss, archive_under_load, archiving
from tests.system.house import after_writing, local, next_second, utc
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import opened
from tests.system.program import Result

THREADS, RATE = 3, 80.0


def lose_host(house: MongoHouse, config: Path, pause: Callable[[], object] = lambda: None) -> Loss:
    """Write with majority, archive, and lose it all; the newest backup at the destination is older."""

    def start(journal: Path) -> Load:
        return mongo_load.start(house.server, threads=THREADS, rate=RATE, journal=journal)

    def write(journal: Path) -> Any:
        after_writing(journal, 100)
        moment = next_second()
        return moment, after_writing(journal, 200)

    return archive_under_load(house, config, start, write, pause)


def require_all_back(house: MongoHouse, loss: Loss, at: str, back: Callable[..., Result]) -> dict[str, Any]:
    """Restore from the destination alone, on a host that has nothing else; returns the last report."""
    window = back("window", "--at", at, "--json").data[0]
    assert utc(window["ranges"][-1]["to"]) >= loss.archived
    found: dict[str, Any] = {}
    for to, name in (("latest", "phoenix"), (local(loss.moment), "earlier")):
        found = back("restore", "--from", at, "--to", to, "--name", name, "--json").data
        with house.clone(found) as client:
            if to == "latest":
                verdict = mongo_load.verify(client, loss.journal, loss.archived, loss.gone)
                assert verdict.required > 0
            else:
                mongo_load.verify(client, loss.journal, loss.moment)
        assert back("clone", "destroy", name, "--yes").rc == 0
    shown = back("log", "shop", "--at", at, "--table", "workload.progress", "--since", local(loss.moment))
    assert shown.rc == 0 and "workload.progress" in shown.out, shown
    return found


class Elsewhere:
    """A destination on another pool, and a host that has nothing but a third one."""

    def __init__(self, house: MongoHouse, there: Pool, new: Pool) -> None:
        run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", f"{there.name}/copies")
        ship = {"name": "there", "to": f"zfs:{there.name}/copies", "initial": "allow"}
        self.house = house
        self.config = house.configure("archiving", **archiving(ship))
        self.burnt = house.configure(
            "burnt",
            datasets=[f"{new.name}/gone"],
            ship=[ship],
            recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
        )

    def shipped(self) -> None:
        self.house.snapshot(self.config)
        assert self.house.zb("ship", config=self.config).rc == 0

    def archived(self) -> dict[str, Any]:
        """What one look at the log archived."""
        found: dict[str, Any] = self.house.zb("archive", "--once", "--json", config=self.config).data[0]
        return found

    def restoring(self, *to: str) -> tuple[str, ...]:
        return ("restore", "--from", "there", *to, "--name", "back", "--json")

    @contextlib.contextmanager
    def back(self, *to: str) -> Iterator[Client]:
        """A client of what a restore brings back, which goes afterwards."""
        report = self.house.zb(*self.restoring(*to), config=self.burnt).data
        with opened(report, login=self.house.server.settings.auth) as client:
            yield client
        assert self.house.zb("clone", "destroy", "back", "--yes", config=self.burnt).rc == 0


@contextlib.contextmanager
def elsewhere(house: MongoHouse) -> Iterator[Elsewhere]:
    there, new = create_pool(), create_pool()
    try:
        yield Elsewhere(house, there, new)
    finally:
        new.destroy()
        there.destroy()
