"""Measure the time from the order for a dev clone to its first answer, and the space of a fresh one.

    python -m bench cloning [--rounds 5] [--doublings 18]

Beside it stands the least that anybody would have to do: `zfs clone` of the same snapshots, and the same
server started on them with the original's settings, which leaves its accounts, events and replication as
they are.

Once of a server that has hardly any data and a small log, and once of one that is set up as production is and
was written to, a table doubled so many times: whoever starts it on a snapshot has to redo what was not in its
files yet.
"""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pymysql

from bench.quiet import quiet
from bench.report import median, table
from tests.lab.demo_stage import Stage, stage
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.pool import run
from tests.lab.server_user import SERVER_UID

PRODUCTION = {
    "mysql-9.7": ("--innodb-redo-log-capacity=1G", "--innodb-buffer-pool-size=2G"),
    "mariadb-10.11": ("--innodb-log-file-size=1G", "--innodb-buffer-pool-size=2G"),
}
"""What a database of some size would have."""
ADMIN = "zbackup_clone"
HEAD = (
    "server", "to redo", "zfs clone and server", "zbackup clone create", "ratio", "in each round",
    "occupies, bare", "zbackup",
)  # fmt: skip


def main(out: Path, rounds: int, doublings: int) -> None:
    """Measure, and leave the table in the file."""
    quiet()
    rows = []
    for flavour, options in PRODUCTION.items():
        with stage(flavour) as made:
            rows.append([flavour, "nothing", *measure(made, rounds)])
        with stage(flavour, options) as made:
            write(made, doublings)
            rows.append([flavour, f"{unwritten(made) >> 20} MiB", *measure(made, rounds)])
    text = f"median of {rounds}, taken in turn, seconds to the first answer and MiB in ZFS after it, "
    text += f"in a guest with one CPU\n\n{table(HEAD, rows)}"
    out.write_text(text)


def write(made: Stage, doublings: int) -> None:
    """As many rows as keep InnoDB from having all of them in its files at once."""
    made.server.sql(
        "CREATE TABLE workload.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, k INT, v VARCHAR(400), KEY (k))"
    )
    made.server.sql("INSERT INTO workload.t (k, v) VALUES (1, REPEAT('x', 300))")
    for _ in range(doublings):
        made.server.sql(
            "INSERT INTO workload.t (k, v) "
            "SELECT FLOOR(RAND() * 1e6), CONCAT(UUID(), REPEAT('x', 250)) FROM workload.t"
        )


def unwritten(made: Stage) -> int:
    """Bytes of the log that a server would have to redo now."""
    said = str(made.server.sql("SHOW ENGINE INNODB STATUS")[0][2])
    newest, checkpoint = (
        int(next(line for line in said.splitlines() if line.startswith(name)).split()[-1])
        for name in ("Log sequence number", "Last checkpoint at")
    )
    return newest - checkpoint


def measure(made: Stage, rounds: int) -> list[str]:
    """The row of one server."""
    taken = str(made.ask("snapshot")[0]["snapshot"]["name"])
    by_hand, by_zbackup = [], []
    for number in range(rounds):
        by_hand.append(bare(made, taken, number))
        by_zbackup.append(created(made, number))
    times = [median([seconds for seconds, _ in each]) for each in (by_hand, by_zbackup)]
    sizes = [median([size for _, size in each]) for each in (by_hand, by_zbackup)]
    return [
        *(f"{seconds:.1f}" for seconds in times),
        f"{times[1] / times[0]:.2f}",
        ", ".join(f"{z / b:.2f}" for (b, _), (z, _) in zip(by_hand, by_zbackup, strict=True)),
        *(f"{size / (1 << 20):.1f}" for size in sizes),
    ]


def created(made: Stage, number: int) -> tuple[float, int]:
    """Seconds and bytes of a clone of zbackup's."""
    name = f"bench{number}"
    began = time.monotonic()
    (clone,) = made.ask("clone", "create", "--name", name)["clones"]
    password = Path(clone["password_file"]).read_text().strip()
    with pymysql.connect(host="127.0.0.1", port=clone["port"], user=ADMIN, password=password) as connection:
        connection.query("SELECT COUNT(*) FROM shop.orders")
    took = time.monotonic() - began
    size = used(clone["dataset"])
    made.ask("clone", "destroy", name, "--yes")
    return took, size


def bare(made: Stage, taken: str, number: int) -> tuple[float, int]:
    """The same by hand. The log's index names its files where they were: that has to be put right."""
    original = made.server.settings
    home = made.home / f"bare{number}"
    home.mkdir()
    places = {"data": made.pool.data.name, "log": made.pool.log.name}
    began = time.monotonic()
    for part, dataset in places.items():
        where = f"mountpoint={home / part}"
        run("zfs", "clone", "-o", where, f"{dataset}@{taken}", f"{made.pool.name}/bare-{part}")
    index = home / "log" / "binlog.index"
    index.write_text(index.read_text().replace(str(original.binlog_dir), str(home / "log")))
    (home / "data" / "data" / "auto.cnf").unlink(missing_ok=True)
    run_dir = home / "run"
    run_dir.mkdir()
    subprocess.run(["chown", str(SERVER_UID), str(run_dir)], check=True)
    settings = replace(original, datadir=home / "data" / "data", binlog_dir=home / "log", run_dir=run_dir)
    with DatabaseServer(settings) as server:
        server.sql("SELECT COUNT(*) FROM shop.orders")
        took = time.monotonic() - began
        run("zpool", "sync", made.pool.name)
        size = sum(used(f"{made.pool.name}/bare-{part}") for part in places)
    for part in places:
        run("zfs", "destroy", f"{made.pool.name}/bare-{part}")
    return took, size


def used(dataset: str) -> int:
    """Bytes, once what was written has reached the disk."""
    run("zpool", "sync", dataset.partition("/")[0])
    return int(run("zfs", "get", "-Hpo", "value", "used", dataset))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
