"""One server of one size, its disasters, and all ways back in turn: see bench.disaster, which starts this.

Up to half a GiB also what is much work or takes much room: cold caches, copies on another host and in a
bucket, writers that stand still while a backup is taken, and what a day of backups occupies.

    python -m bench.disaster_in_guest FILE SERVER GIB ROUNDS TRANSACTIONS SCENE...

What is timed ends with the answer to a query; that all tables have the right checksums is looked at after it.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.disaster_far import far
from bench.disaster_taking import day, standstills
from bench.disaster_ways import (
    DUMP,
    FETCHED,
    HAND,
    IN_PLACE,
    PHYSICAL,
    RECEIVE,
    ZBACKUP,
    Scene,
    Spent,
    Stopwatch,
    Way,
    by_dump,
    by_hand,
    by_physical,
    by_receive,
    by_zbackup,
    cold,
    take_dump,
    take_physical,
)
from bench.guest import end_in_order
from bench.quiet import quiet
from bench.replay import write_rows
from bench.report import median
from tests.lab.demo_stage import Stage, say, stage
from tests.lab.pool import create_pool, run

OPTIONS = {
    "mysql-9.7": ("--innodb-redo-log-capacity=256M", "--innodb-buffer-pool-size=256M"),
    "mariadb-10.11": ("--innodb-log-file-size=256M", "--innodb-buffer-pool-size=256M"),
}
TABLES, FIRST, ROW = 4, 1000, 260
"""So many tables, rows to begin with, and bytes that a row takes in InnoDB."""
SMALL = 0.5
"""GiB up to which also that is measured which is much work."""
DROPPED = "bench.t4"
LARGEST_DUMP = 3.0
"""GiB. Above it nobody waits for a dump to be loaded, here or anywhere."""
SHIP = '\n[[instance.shop.ship]]\nname = "there"\nto = "{place}"\ninitial = "allow"\n'


Note = Callable[[str, str, list[Spent], int], None]


def main(out: Path, flavour: str, gib: float, rounds: int, transactions: int, scenes: Sequence[str]) -> None:
    """Measure, and leave rows for bench.disaster in the file, each as soon as it is known."""
    quiet()
    end_in_order()
    rows: list[dict[str, Any]] = []

    def note(scene: str, way: str, spent: list[Spent], size: int = 0) -> None:
        seconds = [each.seconds for each in spent]
        row = {"server": flavour, "gib": gib, "scene": scene, "way": way, "seconds": median(seconds)}
        row |= {"cpu": median([each.cpu for each in spent]), "rounds": seconds, "bytes": size}
        rows.append(row)
        out.write_text(json.dumps(rows))
        say(f"{flavour} {gib:g} GiB, {scene}, {way}: {', '.join(f'{s:.1f}' for s in seconds)} s")

    with stage(flavour, OPTIONS[flavour]) as made:
        load(made, gib)
        there = create_pool()
        try:
            asked = Asked(gib, rounds, transactions, frozenset(scenes))
            still = _all_of_it(made, there.name, asked, note)
            if asked.small:
                _costs(made, [row for row in rows if row["scene"] == "taking"], still)
        finally:
            there.destroy()
    out.write_text(json.dumps(rows))


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be measured."""

    gib: float
    rounds: int
    transactions: int
    scenes: frozenset[str]

    @property
    def small(self) -> bool:
        """So small that what is much work is measured, too."""
        return self.gib <= SMALL


def _all_of_it(made: Stage, pool: str, asked: Asked, note: Note) -> Mapping[str, Mapping[str, Any]]:
    """The disasters in turn; returns how long writers stood still, of a small server."""
    others = made.pool.dataset("others").mountpoint
    still = standstills(made, others) if asked.small else {}
    place = _ship_to(made, pool)
    dumped = asked.gib <= LARGEST_DUMP
    taken = _taken(made, others, dumped, note)
    scene = after(made, taken, asked.transactions)
    ways = _ways(made, others, dumped)
    if "destroyed" in asked.scenes:
        with gone(made):
            measure("destroyed", scene, ways, asked.rounds, note)
            if asked.small:
                from_disk = {way: cold(ways[way]) for way in (ZBACKUP, HAND)}
                measure("cold", scene, from_disk, asked.rounds, note)
    if "dropped" in asked.scenes:
        # Before the host is lost: a newer backup is taken for that, which would leave nothing to replay here.
        made.server.sql(f"DROP TABLE {DROPPED}")
        by_drop = by_zbackup("--before-drop", DROPPED, "--yes")
        measure("dropped", scene, {**ways, ZBACKUP: by_drop}, asked.rounds, note)
        scene = replace(scene, wanted={name: sum_ for name, sum_ in scene.wanted.items() if name != DROPPED})
    if "host" in asked.scenes:
        newest = str(made.ask("snapshot")[0]["snapshot"]["name"])
        made.ask("ship")
        measure("host", scene, _near(place, newest), min(asked.rounds, 2), note)
        if asked.small:
            _far_away(scene, newest, asked.rounds, note)
    return still


def _ship_to(made: Stage, pool: str) -> str:
    """Have the copies go to that pool; the dataset that they go to."""
    place = f"{pool}/copies"
    run("zfs", "create", place)
    configuration = made.home / "zbackup.toml"
    configuration.write_text(configuration.read_text() + SHIP.format(place=f"zfs:{place}"))
    return place


def load(made: Stage, gib: float) -> None:
    """Tables as sysbench has them, without a log of that."""
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
                "pad CHAR(60), KEY (k)) CHARACTER SET latin1"
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
    connection.close()
    run("zpool", "sync", made.pool.name)


def _taken(made: Stage, others: Path, dumped: bool, note: Note) -> str:
    """Take a base in every way; returns the name of zbackup's snapshot."""
    watch = Stopwatch()
    name = str(made.ask("snapshot")[0]["snapshot"]["name"])
    note("taking", ZBACKUP, [watch.spent()], 0)
    if made.kind == "mariadb":
        watch = Stopwatch()
        take_physical(made, others / "physical")
        note("taking", PHYSICAL, [watch.spent()], _size(others / "physical"))
    if dumped:
        watch = Stopwatch()
        take_dump(made, others / "dump.sql")
        note("taking", DUMP, [watch.spent()], _size(others / "dump.sql"))
    return name


def _far_away(scene: Scene, newest: str, rounds: int, note: Note) -> None:
    """Bring the newest backup back from another host and from a bucket."""
    with far(scene.made) as ways_from:
        scene.made.ask("ship")
        measure("far", scene, ways_from(newest), min(rounds, 2), note)


def _costs(made: Stage, taking: list[dict[str, Any]], still: Mapping[str, Mapping[str, Any]]) -> None:
    """Add to the rows what taking costs besides."""
    for row in taking:
        row |= still[row["way"]]
        if row["way"] == ZBACKUP:
            row["day"] = day(made)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(f.stat().st_size for f in files if f.is_file())


def after(made: Stage, base: str, transactions: int) -> Scene:
    """Small transactions since the base, and what has to be there in the end."""
    start = position(made)
    write_rows(made.server, transactions)
    names = [t for t in made.server.tables() if t.startswith(("bench.", "workload."))]
    wanted = made.server.checksum(names)
    return Scene(made=made, base=base, start=start, stop=position(made), wanted=wanted)


def position(made: Stage) -> tuple[str, int]:
    """Where the log ends now."""
    row = made.server.sql("SHOW MASTER STATUS" if made.kind == "mariadb" else "SHOW BINARY LOG STATUS")[0]
    return str(row[0]), int(row[1])


def _ways(made: Stage, others: Path, dumped: bool) -> dict[str, Way]:
    ways: dict[str, Way] = {ZBACKUP: by_zbackup("--to", "latest"), HAND: by_hand}
    if made.kind == "mariadb":
        ways[PHYSICAL] = by_physical(others / "physical")
    return {**ways, DUMP: by_dump(others / "dump.sql")} if dumped else ways


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
    """All ways in turn, the other way round every second time; a dump once."""
    spent: dict[str, list[Spent]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways)[:: -1 if number % 2 else 1]:
            if way != DUMP or number == 0:
                spent[way].append(ways[way](scene, f"{name}{number}{list(ways).index(way)}"))
    for way, all_of_it in spent.items():
        note(name, way, all_of_it, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6:])
