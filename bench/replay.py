"""Replay measured against what a DBA would run instead: the log decoded and piped into a client.

    python -m bench replay [--transactions 500 2000 48000] [--rounds 3] [--server mysql-9.7]

Both replay the same logs onto copies of the same cleanly stopped server, in turn, in one run. Timed is the
replay alone: zbackup's "replaying" phase, and the pipe from its first byte to the client's end. Told apart is
what comes before the first event is applied. Every result is compared by checksum with the original.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pymysql

from bench.guest import end_in_order
from bench.quiet import Silent, quiet
from bench.report import circumstances, median, table, write
from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.trusted import trusted
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.engines.mysql.server.connection import connect
from zbackup.engines.mysql.server.inspect import inspect
from zbackup.model.record import Record
from zbackup.model.recovery import RecoveryFiles, Serving
from zbackup.model.relocation import Relocation
from zbackup.model.target import Time
from zbackup.proc.detached import Process

SERVERS = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")
THREADS = 4
LOG_FILES = "binlog.[0-9][0-9][0-9][0-9][0-9][0-9]"
TOOLS = {"mysql": ("mysqlbinlog", "mysql"), "mariadb": ("mariadb-binlog", "mariadb")}
DAEMONS = {"mysql": "mysqld", "mariadb": "mariadbd"}


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A base, a log that goes on from it, and what the end must look like."""

    flavour: str
    work: Path
    original: Settings
    base: Path
    log: Path
    record: Record
    start: tuple[str, int]
    checksum: dict[str, int | None]

    @property
    def kind(self) -> str:
        return self.original.kind


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m bench replay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--server", action="append", choices=SERVERS)
    options.add_argument("--transactions", type=int, nargs="+", default=[500, 2000, 48_000])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dry", action="store_true", help="print the table only")
    return options


def main(argv: Sequence[str] = ()) -> int:
    """Measure, and put the table into the page."""
    said = parser().parse_args(argv)
    quiet()
    chosen = said.server or SERVERS
    servers.ensure(chosen)
    rows = [measure(flavour, count, said.rounds) for flavour in chosen for count in said.transactions]
    head = ["server", "version", "transactions", "zbackup", "of it to begin", "pipe", "pipe / zbackup"]
    text = f"seconds, median of {said.rounds} rounds side by side\n\n{table([*head, 'in each round'], rows)}"
    print(text)
    if not said.dry:
        write("replay", f"{circumstances('python -m bench replay')}; {text}")
    return 0


def measure(flavour: str, transactions: int, rounds: int) -> list[str]:
    """One row of the table."""
    with tempfile.TemporaryDirectory(prefix="zbench-", ignore_cleanup_errors=True) as directory:
        work = Path(directory)
        work.chmod(0o755)
        scene = prepare(flavour, work, transactions)
        ours, theirs, begun = [], [], []
        for number in range(rounds):
            took, to_begin = by_zbackup(scene, number)
            ours.append(took)
            begun.append(to_begin)
            theirs.append(by_pipe(scene, number))
            print(f"{flavour}: zbackup {ours[-1]:.2f} s, pipe {theirs[-1]:.2f} s", flush=True)
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        return [
            flavour,
            scene.record.server_version,
            f"{transactions}",
            f"{median(ours):.2f}",
            f"{median(begun):.2f}",
            f"{median(theirs):.2f}",
            f"{median(ratios):.2f}",
            ", ".join(f"{ratio:.2f}" for ratio in ratios),
        ]


def prepare(flavour: str, work: Path, transactions: int) -> Scene:
    settings = Settings(flavour=flavour, datadir=work / "data", run_dir=work / "run")
    server = DatabaseServer(settings)
    with server:
        server.sql(
            "CREATE TABLE workload.t (id INT PRIMARY KEY AUTO_INCREMENT, k INT, v VARCHAR(60), KEY (k))"
        )
        looked = inspect(
            connect(ConnectOptions(socket=str(settings.socket), user="root", password=lambda: ""))
        )
    shutil.copytree(settings.datadir, work / "base", symlinks=True)
    give(work / "base")
    newest = max((work / "base").glob(LOG_FILES))
    with server:
        write_rows(server, transactions)
        checksum = server.checksum()
    shutil.copytree(settings.datadir, work / "log", symlinks=True)
    give(work / "log")
    record = Record(
        backup="bench",
        instance="bench",
        engine=looked.flavor,
        members=((str(settings.datadir), str(settings.datadir)),),
        taken=datetime.now(UTC),
        lock="none",
        server_uuid=looked.server_uuid,
        server_version=looked.version,
        server=looked.server,
    )
    return Scene(
        flavour=flavour,
        work=work,
        original=settings,
        base=work / "base",
        log=work / "log",
        record=record,
        start=(newest.name, newest.stat().st_size),
        checksum=checksum,
    )


def write_rows(server: DatabaseServer, transactions: int) -> None:
    """Small transactions by several writers, three inserts to one update."""

    def one_writer(count: int) -> None:
        connection = server.connect(database="workload")
        with connection.cursor() as cursor:
            for n in range(count):
                if n % 4 == 3:
                    cursor.execute("UPDATE t SET v = CONCAT('u', %s) WHERE id = LAST_INSERT_ID()", (n,))
                else:
                    cursor.execute("INSERT INTO t (k, v) VALUES (%s, %s)", (n, f"value {n} of this row"))
        connection.close()

    writers = [threading.Thread(target=one_writer, args=(transactions // THREADS,)) for _ in range(THREADS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def by_zbackup(scene: Scene, number: int) -> tuple[float, float]:
    """Seconds of the replaying phase, and how much of it had gone when the applier was first looked at."""
    base, log = copies(scene, f"z{number}", "base", "log")
    clock = Silent()
    recovery = MysqlRecovery(
        flavor=scene.record.engine,
        table=RecoveryTable(
            server=(str(trusted(servers.path(scene.flavour) / "bin" / DAEMONS[scene.kind])),),
        ),
    )
    run = scene.work / f"zrun{number}"
    files = (_files(scene, base, run / "b"), _files(scene, log, run / "l"))
    # Times in MariaDB's log are whole seconds, and a target is rounded down to one.
    everything = datetime.now(UTC) + timedelta(seconds=1)
    recovery.recover(files[0], files[1], Time(everything), Serving(), clock)
    process = Process.parse(files[0].process.read_text())
    try:
        compare(scene, run / "b" / "mysqld.sock")
    finally:
        process.stop(60)
        remove(base, log)
    began = clock.began["replaying"]
    return clock.began["verifying"] - began, clock.advanced.get("replaying", began) - began


def _files(scene: Scene, where: Path, run: Path) -> RecoveryFiles:
    home = where.with_name(where.name + "-home")
    home.mkdir()
    home.chmod(0o755)
    moves = ((str(scene.original.datadir), str(where)),)
    return RecoveryFiles(record=scene.record, where=Relocation(moves), home=home, run=run, hide=())


def by_pipe(scene: Scene, number: int) -> float:
    """Seconds from the first byte of decoded log to the client's end."""
    (base,) = copies(scene, f"p{number}", "base")
    settings = Settings(
        flavour=scene.flavour, datadir=base, run_dir=scene.work / f"prun{number}", options=LAZY
    )
    names = sorted(f for f in scene.log.glob(LOG_FILES) if f.name >= scene.start[0])
    decode, client = (servers.path(scene.flavour) / "bin" / tool for tool in TOOLS[scene.kind])
    settings.run_dir.mkdir()
    give(settings.run_dir)
    with DatabaseServer(settings):
        began = time.monotonic()
        log = subprocess.Popen(
            [decode, "--disable-log-bin", f"--start-position={scene.start[1]}", *names],
            stdout=subprocess.PIPE,
        )
        subprocess.run(
            [client, "--no-defaults", f"--socket={settings.socket}", "--user=root", "--binary-mode"],
            stdin=log.stdout,
            check=True,
        )
        seconds = time.monotonic() - began
        if log.wait():
            sys.exit(f"{decode} failed")
        compare(scene, settings.socket)
    remove(base)
    return seconds


# What zbackup gives its temporary server too: nobody's data is at stake while replaying.
LAZY = ("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-buffer-pool-size=268435456")


def compare(scene: Scene, socket: Path) -> None:
    connection = pymysql.connect(unix_socket=str(socket), user="root")
    with connection.cursor() as cursor:
        for table, wanted in scene.checksum.items():
            cursor.execute(f"CHECKSUM TABLE {table}")
            if (found := cursor.fetchall()[0][1]) != wanted:
                sys.exit(f"{scene.flavour}: {table} at {socket} has checksum {found}, not {wanted}")


def copies(scene: Scene, prefix: str, *names: str) -> list[Path]:
    made = []
    for name in names:
        target = scene.work / f"{prefix}-{name}"
        shutil.copytree(scene.work / name, target, symlinks=True)
        give(target)
        made.append(target)
    return made


def give(directory: Path) -> None:
    """All files to the user that owns the original's."""
    subprocess.run(["chown", "-R", "27:27", str(directory)], check=True)


def remove(*directories: Path) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    end_in_order()
    sys.exit(main(sys.argv[1:]))
