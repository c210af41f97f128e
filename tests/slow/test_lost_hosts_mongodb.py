"""Hosts with MongoDB are lost under load, and come back from their log archives: see lost_hosts.

Written is with majority, by the one member of a set, so that what is acknowledged is what must not be lost.
"""

import random
import shutil
import time
from datetime import timedelta

from tests.lab import mongo_load
from tests.lab.mongo_fixture import start_single
from tests.lab.pool import Pool, create_pool, run
from tests.system.archive_story import archiving
from tests.system.conftest import end_clones
from tests.system.forked import forks
from tests.system.mongo_archive_story import lose_host
from tests.system.mongo_house import MongoHouse, build

ROUNDS = 50


def test_what_was_archived_survives_each_of_them(pool: Pool) -> None:
    chosen = random.Random("mongodb")
    there, new = create_pool(), create_pool()
    exposed: list[timedelta] = []
    try:
        for number in range(ROUNDS):
            exposed.append(_round(pool, (there, new), number, chosen))
            print(f"round {number}: archived up to {exposed[-1].total_seconds():.2f} s before the end")
    finally:
        new.destroy()
        there.destroy()
    print(f"mongodb: {ROUNDS} hosts lost, at most {max(exposed).total_seconds():.2f} s of log not archived")


def _round(pool: Pool, others: tuple[Pool, Pool], number: int, chosen: random.Random) -> timedelta:
    there, new = others
    home = pool.home / f"h{number}"
    home.mkdir()
    data = pool.dataset(f"data {number}")
    root = f"{there.name}/copies{number}"
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", root)
    with start_single(build(pool, home, data=data, replica_set="rs0", auth=False)) as server:
        house = MongoHouse(pool, home, server, (data.name,))
        ship = {"name": "there", "to": f"zfs:{root}", "initial": "allow"}
        config = house.configure("archiving", **archiving(ship))
        burnt = house.configure(
            "burnt",
            datasets=[f"{new.name}/gone"],
            ship=[ship],
            recovery={"clones": f"{new.name}/back{number}", "mountpoint": str(home / "back")},
        )
        with forks(home) as house.forks:
            house.snapshot(config)
            assert house.zb("ship", config=config).rc == 0
            loss = lose_host(house, config, pause=lambda: time.sleep(chosen.uniform(0, 3)))
            report = house.zb(
                "restore", "--from", "there", "--to", "latest", "--name", "back", "--json", config=burnt
            ).data
            with house.clone(report) as client:
                mongo_load.verify(client, loss.journal, loss.archived, loss.gone)
            assert house.zb("clone", "destroy", "back", "--yes", config=burnt).rc == 0
            end_clones(house)  # type: ignore[arg-type]
    run("zfs", "destroy", "-r", root)
    shutil.rmtree(home, ignore_errors=True)
    return loss.gone - loss.archived
