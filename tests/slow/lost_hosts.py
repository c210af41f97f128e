"""Hosts that are lost while they write, again and again, each with all of its datasets.

At a random moment under load the server and the archiver are killed (SIGKILL), with sync_binlog 0 and 1 in
turn, and the datasets are destroyed. What the destination has is restored, and judged by the journal of what
was acknowledged: all that was archived is there, it is a prefix of each writer's transactions, none in part.
"""

import random
import shutil
import time
from datetime import timedelta

from tests.lab.load import verify
from tests.lab.pool import Pool, create_pool, run
from tests.system.archive_story import archiving, lose_host
from tests.system.conftest import end_clones
from tests.system.forked import forks
from tests.system.house import House, Variant, build

ROUNDS = 50


def lose_hosts(pool: Pool, flavour: str, rounds: int = ROUNDS) -> None:
    """Print, at the end, how much was lost at most; `-rP` shows it."""
    chosen = random.Random(flavour)
    there, new = create_pool(), create_pool()
    exposed: list[timedelta] = []
    try:
        for number in range(rounds):
            exposed.append(_round(pool, (there, new), flavour, number, chosen))
            print(f"round {number}: archived up to {exposed[-1].total_seconds():.2f} s before the end")
    finally:
        new.destroy()
        there.destroy()
    print(f"{flavour}: {rounds} hosts lost, at most {max(exposed).total_seconds():.2f} s of log not archived")


def _round(
    pool: Pool, others: tuple[Pool, Pool], flavour: str, number: int, chosen: random.Random
) -> timedelta:
    there, new = others
    home = pool.home / f"h{number}"
    home.mkdir()
    data = pool.dataset(f"data {number}")
    log = pool.dataset(f"data {number}/log")
    root = f"{there.name}/copies{number}"
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", root)
    variant = Variant(flavour=flavour, options=(f"--sync-binlog={number % 2}",))
    with build(pool, home, variant, data, log) as server:
        house = House(pool, home, server, (data.name,))
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
            with house.clone(report) as connection:
                verify(connection, loss.journal, loss.archived, loss.gone)
            assert house.zb("clone", "destroy", "back", "--yes", config=burnt).rc == 0
            end_clones(house)
    run("zfs", "destroy", "-r", root)
    shutil.rmtree(home, ignore_errors=True)
    return loss.gone - loss.archived
