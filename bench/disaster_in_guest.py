"""One server of one size, its disasters, and all ways back in turn: see bench.disaster, which starts this.

    python -m bench.disaster_in_guest FILE SERVER GIB ROUNDS TRANSACTIONS SCENE...

What is timed ends with the answer to a query; that all tables have the right checksums is looked at after it.
"""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from bench.disaster_far import far
from bench.disaster_taking import Standstills, Take, add_costs, standstills, take_all
from bench.disaster_turns import Asked, Note, Rows, Turn, asked_for, in_turn, noting
from bench.disaster_ways import (
    DUMP,
    FETCHED,
    HAND,
    IN_PLACE,
    LARGEST_DUMP,
    MYDUMPER,
    PHYSICAL,
    RECEIVE,
    ZBACKUP,
    Scene,
    Way,
    by_dump,
    by_hand,
    by_mydumper,
    by_physical,
    by_receive,
    by_zbackup,
    cold,
    take_dump,
    take_mydumper,
    take_physical,
)
from bench.guest import end_in_order
from bench.quiet import quiet
from bench.replay import write_rows
from tests.lab.demo_stage import Stage, stage
from tests.lab.pool import create_pool, run

OPTIONS = {
    "mysql-9.7": ("--innodb-redo-log-capacity=256M", "--innodb-buffer-pool-size=256M"),
    "mariadb-10.11": ("--innodb-log-file-size=256M", "--innodb-buffer-pool-size=256M"),
}
TABLES, FIRST, ROW = 4, 1000, 260
"""So many tables, rows to begin with, and bytes that a row takes in InnoDB."""
DROPPED = "bench.t4"
SHIP = '\n[[instance.shop.ship]]\nname = "there"\nto = "{place}"\ninitial = "allow"\n'


def main(out: Path, flavour: str, asked: Asked) -> None:
    """Measure, and leave rows for bench.disaster in the file, each as soon as it is known."""
    quiet()
    end_in_order()
    rows: Rows = []
    with stage(flavour, OPTIONS[flavour]) as made:
        load(made, asked.gib)
        there = create_pool()
        try:
            still = _all_of_it(made, there.name, asked, noting(rows, flavour, asked.gib, out))
            if "taking" in asked.scenes:
                add_costs(made, rows, still, partial(write_rows, made.server, asked.transactions))
                out.write_text(json.dumps(rows))
        finally:
            there.destroy()


def _all_of_it(made: Stage, pool: str, asked: Asked, note: Note) -> Standstills:
    """The disasters in turn; returns how long writers stood still."""
    others = made.pool.dataset("others").mountpoint
    place = _ship_to(made, pool)
    dumped = asked.gib <= LARGEST_DUMP
    still = _stood_still(made, others, dumped) if "taking" in asked.scenes else {}
    base = _taken(made, others, dumped, note if "taking" in asked.scenes else _unnoted)
    scene = after(made, base, asked.transactions)
    ways = _ways(made, others, dumped)
    if asked.scenes & {"destroyed", "cold"}:
        with gone(made):
            if "destroyed" in asked.scenes:
                measure("destroyed", scene, ways, asked.rounds, note)
            if "cold" in asked.scenes:
                from_disk = {way: cold(ways[way]) for way in (ZBACKUP, HAND)}
                measure("cold", scene, from_disk, asked.rounds, note)
    if "dropped" in asked.scenes:
        # Before the host is lost: a newer backup is taken for that, which would leave nothing to replay here.
        made.server.sql(f"DROP TABLE {DROPPED}")
        by_drop = by_zbackup("--before-drop", DROPPED, "--yes")
        measure("dropped", scene, {**ways, ZBACKUP: by_drop}, asked.rounds, note)
        scene = replace(scene, wanted={name: sum_ for name, sum_ in scene.wanted.items() if name != DROPPED})
    if asked.scenes & {"host", "far"}:
        newest = str(made.ask("snapshot")[0]["snapshot"]["name"])
        made.ask("ship")
        if "host" in asked.scenes:
            measure("host", scene, _near(place, newest), min(asked.rounds, 2), note)
        if "far" in asked.scenes:
            _far_away(scene, newest, asked.rounds, note)
    return still


def _unnoted(*_: object) -> None:
    """For what has to be done and is not asked for."""


def _ship_to(made: Stage, pool: str) -> str:
    """Have the copies go to that pool; the dataset that they go to."""
    place = f"{pool}/copies"
    run("zfs", "create", place)
    configuration = made.home / "zbackup.toml"
    configuration.write_text(configuration.read_text() + SHIP.format(place=f"zfs:{place}"))
    return place


def load(made: Stage, gib: float) -> None:
    """Tables as sysbench has them, without a log of that.

    Indexes are built at the end: once one is larger than the buffer pool, a MySQL reads a page of it for each
    row, which takes hours for 10 GiB.
    """
    sql = made.server.sql
    sql("CREATE DATABASE bench")
    sql("CREATE TABLE workload.t (id INT PRIMARY KEY AUTO_INCREMENT, k INT, v VARCHAR(60), KEY (k))")
    wanted = int(gib * (1 << 30) / TABLES / ROW)
    connection = made.server.connect(database="bench")
    with connection.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for number in range(1, TABLES + 1):
            cursor.execute(
                f"CREATE TABLE t{number} (id INT PRIMARY KEY AUTO_INCREMENT, k INT, c CHAR(120), "
                "pad CHAR(60)) CHARACTER SET latin1"
            )
        fresh = "FLOOR(RAND() * 1e6), LEFT(SHA2(RAND(), 512), 120), LEFT(SHA2(RAND(), 256), 60)"
        cursor.execute(f"INSERT INTO t1 (k, c, pad) SELECT {fresh}")
        rows = 1
        while rows < wanted:
            more = min(rows, wanted - rows, 100_000)
            cursor.execute(f"INSERT INTO t1 (k, c, pad) SELECT {fresh} FROM t1 LIMIT {more}")
            connection.commit()
            rows += more
        for number in range(2, TABLES + 1):
            for begin in range(0, 2 * wanted, 100_000):
                # Their numbers have gaps.
                cursor.execute(
                    f"INSERT INTO t{number} SELECT * FROM t1 WHERE id BETWEEN {begin} AND {begin + 99_999}"
                )
                connection.commit()
        for number in range(1, TABLES + 1):
            cursor.execute(f"ALTER TABLE t{number} ADD KEY k (k)")
    connection.close()
    run("zpool", "sync", made.pool.name)


def _stood_still(made: Stage, others: Path, dumped: bool) -> Standstills:
    """While each kind of backup is taken once more than is needed."""
    taken = others / "stood-still"
    taken.mkdir()
    try:
        return standstills(made, _takes(made, taken, dumped))
    finally:
        shutil.rmtree(taken)


def _taken(made: Stage, others: Path, dumped: bool, note: Note) -> str:
    """Take a base in every way; returns the name of zbackup's snapshot."""
    take_all(_takes(made, others, dumped), note)
    return str(made.ask("list")[0]["backups"][-1]["name"])


def _takes(made: Stage, others: Path, dumped: bool) -> dict[str, Take]:
    takes: dict[str, Take] = {ZBACKUP: partial(_snapshot, made)}
    if made.kind == "mariadb":
        takes[PHYSICAL] = partial(take_physical, made, others / "physical")
    if dumped:
        takes[DUMP] = partial(take_dump, made, others / "dump.sql")
        takes[MYDUMPER] = partial(take_mydumper, made, others / "mydumper")
    return takes


def _snapshot(made: Stage) -> int:
    made.ask("snapshot")
    return 0


def _far_away(scene: Scene, newest: str, rounds: int, note: Note) -> None:
    """Bring the newest backup back from another host and from a bucket."""
    with far(scene.made) as ways_from:
        scene.made.ask("ship")
        measure("far", scene, ways_from(newest), min(rounds, 2), note)


def after(made: Stage, base: str, transactions: int) -> Scene:
    """Small transactions since the base, and what has to be there in the end."""
    start = position(made)
    write_rows(made.server, transactions)
    names = [t for t in made.server.tables() if t.startswith(("bench.", "workload."))]
    wanted = made.server.checksum(names)
    return Scene(made=made, base=base, start=start, stop=position(made), wanted=wanted)


def position(made: Stage) -> tuple[str, int]:
    """Ask where the log ends now."""
    row = made.server.sql("SHOW MASTER STATUS" if made.kind == "mariadb" else "SHOW BINARY LOG STATUS")[0]
    return str(row[0]), int(row[1])


def _ways(made: Stage, others: Path, dumped: bool) -> dict[str, Way]:
    ways: dict[str, Way] = {ZBACKUP: by_zbackup("--to", "latest"), HAND: by_hand}
    if made.kind == "mariadb":
        ways[PHYSICAL] = by_physical(others / "physical")
    if dumped:
        ways[DUMP] = by_dump(others / "dump.sql")
        ways[MYDUMPER] = by_mydumper(others / "mydumper")
    return ways


def _near(place: str, newest: str) -> dict[str, Way]:
    """The ways back from copies on another pool."""
    return {
        RECEIVE: by_receive(place, newest),
        IN_PLACE: by_zbackup("--from", "there", "--run-at-destination", "--to", "latest"),
        FETCHED: by_zbackup("--from", "there", "--to", "latest"),
    }


@contextmanager
def gone(made: Stage) -> Iterator[None]:
    """Without the server, and without its files."""
    data = made.server.settings.datadir
    made.server.kill()
    data.rename(data.with_name("gone"))
    yield
    data.with_name("gone").rename(data)
    made.server.start()


def measure(name: str, scene: Scene, ways: Mapping[str, Way], rounds: int, note: Note) -> None:
    """All ways in turn; dumps once."""
    turns: dict[str, Turn] = {way: partial(run_it, scene) for way, run_it in ways.items()}
    in_turn(name, turns, rounds, note, once=frozenset({DUMP, MYDUMPER}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], asked_for(sys.argv[3:]))
