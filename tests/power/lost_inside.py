"""Work of a guest that is going to be lost, and of the one that brings everything back: see lost.

`python -m tests.power.lost_inside lose FLAVOUR SYNC PLACE` says "writing POOL" when it is archived to that
pool, and then "archived MOMENT SECONDS NOW" for each append, with how long it took and the guest's time.
`python -m tests.power.lost_inside back FLAVOUR POOL PLACE [OLD]` says "back COUNT SECONDS" about what was
lost, by `PLACE/loss.json`; with the name of the OLD pool, on a disk that survived, it also requires that the
server there recovers with no less than the archive has.
"""

import json
import os
import sys
import time
from datetime import datetime
from pathlib import Path

from tests.lab.load import Load, rows, verify
from tests.lab.pool import Dataset, Pool, create_pool, run
from tests.lab.server_user import SERVER_UID
from tests.lab.variants import Variant
from tests.power.inside import say
from tests.slow.lost_hosts import require_promise
from tests.system.archive_story import RATE, THREADS, Loss, archiving
from tests.system.forked import forks
from tests.system.house import House, after_writing, build, now, utc, wait_until
from zbackup.proc.run_directory import daemon_directory

DATA, LOG = "data", "data/log"


def lose(flavour: str, sync: str, place: Path) -> None:
    """Write and archive until the light goes out."""
    mine, there = create_pool(), create_pool()
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", f"{there.name}/copies")
    mine.dataset(DATA)
    mine.dataset(LOG)
    house = _house(mine, flavour, sync)
    config = house.configure("archiving", **archiving(_ship(there.name)))
    house.server.start()
    with forks(house.home) as house.forks:
        house.snapshot(config)
        assert house.zb("ship", config=config).rc == 0
    house.begin("archive", "shop", config=config)
    with Load.start(house.server, THREADS, RATE, place / "journal", durable=True):
        after_writing(place / "journal", 100)
        house.server.sql("FLUSH BINARY LOGS")
        after_writing(place / "journal", 100)
        state = daemon_directory(house.home / "run") / "shop.archive.there.json"
        written = now()
        wait_until("that is archived", lambda: (at := _archived(state)) is not None and at[0] > written, 120)
        say(f"writing {mine.name} {there.name}")
        last = None
        while True:
            at = _archived(state)
            if at and at != last:
                say(f"archived {at[0].isoformat()} {at[1]:.3f} {time.time():.3f}")
                last = at
            time.sleep(0.02)


def bring_back(flavour: str, pool: str, place: Path, old: str) -> None:
    """Restore what the destination has, on a host that has nothing else, and judge it."""
    disks = os.environ["LAB_DISKS"].split(":")
    new = create_pool()
    _imported(pool, disks[1])
    house = _house(new, flavour, "1")
    burnt = house.configure(
        "burnt",
        datasets=[f"{new.name}/gone"],
        ship=[_ship(pool)],
        recovery={"clones": f"{new.name}/back", "mountpoint": str(house.home / "back")},
    )
    told = json.loads((place / "loss.json").read_text())
    archived, gone = utc(told["archived"]), utc(told["gone"])
    loss = Loss(journal=place / "journal", moment=archived, archived=archived, gone=gone)
    words = ("restore", "--from", "there", "--to", "latest", "--name", "back", "--json")
    with forks(house.home) as house.forks:
        report = house.zb(*words, config=burnt).data
        with house.clone(report) as connection:
            verdict = verify(connection, loss.journal, loss.archived, loss.gone)
            found = rows(connection)
        assert house.zb("clone", "destroy", "back", "--yes", config=burnt).rc == 0
    lost = require_promise(loss, verdict, told["append"])
    say(f"back {lost.count} {lost.seconds:.2f} {verdict.present}")
    if old:
        _require_no_more(house, flavour, _imported(old, disks[2]), {t: c.last for t, c in found.items()})


def _require_no_more(house: House, flavour: str, pool: Pool, archived: dict[int, int]) -> None:
    """The server on the disk that survived recovers with everything that the archive has."""
    survivor = _house(pool, flavour, "1", house.home / "survivor")
    survivor.server.settings.run_dir.mkdir()
    os.chown(survivor.server.settings.run_dir, SERVER_UID, SERVER_UID)
    survivor.server.start()
    with survivor.server.connect() as connection:
        recovered = {thread: content.last for thread, content in rows(connection).items()}
    survivor.server.stop()
    ahead = {t: (last, recovered.get(t, 0)) for t, last in archived.items() if last > recovered.get(t, 0)}
    assert not ahead, f"the archive is ahead of what the pool recovered: {ahead}"
    say(f"survived {sum(recovered.values())}")


def _imported(name: str, disk: str) -> Pool:
    run("zpool", "import", "-d", disk, "-o", "cachefile=none", name)
    assert "No known data errors" in run("zpool", "status", name)
    pool = Pool(name=name, root_mountpoint=Path(), vdev=disk, home=Path())
    for below in (DATA, LOG):
        if f"{name}/{below}" in run("zfs", "list", "-Hr", "-o", "name", name).split():
            where = Path(run("zfs", "get", "-Hpo", "value", "mountpoint", f"{name}/{below}").strip())
            pool.datasets[below] = Dataset(name=f"{name}/{below}", mountpoint=where)
    return pool


def _house(pool: Pool, flavour: str, sync: str, home: Path | None = None) -> House:
    home = home or pool.home / "h"
    home.mkdir(mode=0o755)
    data, log = pool.dataset(DATA), pool.dataset(LOG)
    server = build(pool, home, Variant(flavour=flavour, options=(f"--sync-binlog={sync}",)), data, log)
    return House(pool, home, server, (data.name,))


def _ship(pool: str) -> dict[str, object]:
    return {"name": "there", "to": f"zfs:{pool}/copies", "initial": "allow"}


def _archived(state: Path) -> tuple[datetime, float] | None:
    """Everything before which is archived, by the state's file, and how many seconds that took."""
    try:
        written, said = state.stat().st_mtime, json.loads(state.read_text())["archived"]
    except FileNotFoundError:
        return None
    return (utc(said), written - utc(said).timestamp()) if said else None


if __name__ == "__main__":
    what, flavour, third, where, *more = sys.argv[1:]
    if what == "lose":
        lose(flavour, third, Path(where))
    else:
        bring_back(flavour, third, Path(where), *(more or [""]))
