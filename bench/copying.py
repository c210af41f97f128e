"""Measure the way of a table back into production: zbackup copy beside a dump that is loaded. Needs no ZFS.

python -m bench copy [--rows 5000000]

Those are about 1 GiB and take a quarter of an hour; fewer are quicker.
"""

import argparse
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import dumpers
from bench.quiet import Silent, quiet
from bench.report import circumstances, table, write
from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.said import said
from zbackup.config.copying import CopyBack
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.production.account import ProductionAccount, grants
from zbackup.features.copyback.copying import CopyWish
from zbackup.features.copyback.mysql.session import MysqlCopier
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import parse_table

FLAVOURS = {
    "mysql-9.7": ("mysqldump", "mysql", "--set-gtid-purged=OFF"),
    "mariadb-11.8": ("mariadb-dump", "mariadb", "--single-transaction"),
}
HEAD = ("server", "what", "how", "seconds", "best dump / it", "CPU seconds", "best dump / it")
NAME = "workload.big"
HISTORY = 100
"""Transactions that InnoDB may have left to purge: a few of its own are always there."""
DIRTY = 100
"""Pages that it may have left to write, of its own, too."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m bench copy")
    options.add_argument("--rows", type=int, default=5_000_000, help="default: 5000000, about 1 GiB")
    return options


def main(options: Sequence[str] = ()) -> int:
    """Measure, and write the table."""
    count = parser().parse_args(options).rows
    quiet()
    root = dumpers.fetch()
    found = []
    for flavour in FLAVOURS:
        with tempfile.TemporaryDirectory(prefix="zbc-", dir="/tmp") as directory:
            home = Path(directory)
            home.chmod(0o755)
            with _server(flavour, home / "p") as production, _server(flavour, home / "c") as clone:
                _make(clone, count)
                found += measure(flavour, production, clone, root, home / "dump")
    said = f"{count} rows of about 200 bytes with two indexes; CPU seconds of both servers and the client"
    write("copy", f"{circumstances('python -m bench copy')}; {said}\n\n{table(HEAD, found)}")
    return 0


def measure(
    flavour: str, production: DatabaseServer, clone: DatabaseServer, root: Path, directory: Path
) -> list[list[str]]:
    """The rows of one kind of server. A dump knows no missing rows: it brings the whole table."""
    production.sql("CREATE USER zcopy@localhost IDENTIFIED BY 'x'")
    production.sql(grants("zcopy@localhost", "workload").rstrip(";"))
    ways = (
        (f"{FLAVOURS[flavour][0]}, piped", True, "ON", lambda: _dump(flavour, production, clone)),
        ("mydumper, myloader", True, "ON", lambda: _mydumper(production, clone, root, directory)),
        ("zbackup copy", True, "ON", lambda: _copy(production, clone, missing=False)),
        ("zbackup copy, local_infile off", True, "OFF", lambda: _copy(production, clone, missing=False)),
        ("zbackup copy --missing", False, "ON", lambda: _copy(production, clone, missing=True)),
    )
    found: list[tuple[str, str, float, float]] = []
    for how, whole, local_infile, action in ways:
        if whole:
            production.sql(f"DROP TABLE IF EXISTS {NAME}")
        else:
            production.sql(f"DELETE FROM {NAME} WHERE id % 10 = 0")
        _settle(production)
        _settle(clone)
        production.sql(f"SET GLOBAL local_infile = {local_infile}")
        wall, cpu = _measured(action, production, clone)
        if production.checksum([NAME]) != clone.checksum([NAME]):
            raise AssertionError(f"{how}: {NAME} is not what it was")
        found.append(("the whole table" if whole else "a tenth of its rows", how, wall, cpu))
    return [[flavour, *row] for row in beside_the_best_dump(found)]


def beside_the_best_dump(found: Sequence[tuple[str, str, float, float]]) -> list[list[str]]:
    """Make the rows: what, how, seconds and CPU seconds, with their ratio to the better dump; dumps first."""
    wall_of_dump = min(wall for _, _, wall, _ in found[:2])
    cpu_of_dump = min(cpu for _, _, _, cpu in found[:2])
    return [
        [what, how, f"{wall:.1f}", f"{wall_of_dump / wall:.2f}", f"{cpu:.1f}", f"{cpu_of_dump / cpu:.2f}"]
        for what, how, wall, cpu in found
    ]


def _settle(server: DatabaseServer) -> None:
    """Wait until it has cleared away and written what was done before: that is no part of what comes."""
    length = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
    while int(server.sql(length)[0][0]) > HISTORY:
        time.sleep(1)
    (most,) = server.sql("SELECT @@innodb_max_dirty_pages_pct")[0]
    server.sql("SET GLOBAL innodb_max_dirty_pages_pct = 0")
    while int(server.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'")[0][1]) > DIRTY:
        time.sleep(1)
    server.sql(f"SET GLOBAL innodb_max_dirty_pages_pct = {most}")


def _make(clone: DatabaseServer, rows: int) -> None:
    clone.sql(
        f"CREATE TABLE {NAME} (id INT PRIMARY KEY AUTO_INCREMENT, k INT, at DATETIME(3), v VARCHAR(120), "
        "w VARCHAR(60), KEY (k), KEY (at)) ENGINE=InnoDB"
    )
    clone.sql(f"INSERT INTO {NAME} (k, at, v, w) VALUES (1, '2026-01-01', REPEAT('v', 100), REPEAT('w', 50))")
    count = 1
    while count < rows:
        more = min(count, rows - count)
        clone.sql(
            f"INSERT INTO {NAME} (k, at, v, w) SELECT id * 7919 % 100003, at + INTERVAL id SECOND, "
            f"CONCAT(id, v), w FROM (SELECT id, at, LEFT(v, 100) AS v, w FROM {NAME} LIMIT {more}) AS t"
        )
        count += more


def _copy(production: DatabaseServer, clone: DatabaseServer, *, missing: bool) -> None:
    usual = ConnectOptions(socket=str(production.settings.socket), user="root", password=lambda: "")
    rules = CopyBack.model_construct(user="zcopy", password=said("x"), max_running=1000)
    copier = MysqlCopier(account=ProductionAccount(instance="bench", usual=usual, rules=rules))
    wish = CopyWish(tables=(parse_table(NAME, "mysql"),), missing=missing, clone=str(time.monotonic()))
    entrance = Entrance(socket=str(clone.settings.socket), user="root")
    with copier.session(entrance, wish, Silent()) as session:
        session.act(session.plan())


def _dump(flavour: str, production: DatabaseServer, clone: DatabaseServer) -> None:
    dump, load, option = FLAVOURS[flavour]
    programs = servers.path(flavour) / "bin"
    schema, name = NAME.split(".")
    first = [
        str(programs / dump),
        "--no-defaults",
        option,
        f"--socket={clone.settings.socket}",
        "--user=root",
    ]
    second = [str(programs / load), "--no-defaults", f"--socket={production.settings.socket}", "--user=root"]
    with subprocess.Popen([*first, schema, name], stdout=subprocess.PIPE) as dumping:
        subprocess.run([*second, schema], stdin=dumping.stdout, check=True)
    if dumping.returncode:
        raise AssertionError(f"{dump} failed")


def _mydumper(production: DatabaseServer, clone: DatabaseServer, root: Path, directory: Path) -> None:
    schema, name = NAME.split(".")
    shutil.rmtree(directory, ignore_errors=True)
    for program, server, options in (
        ("mydumper", clone, (f"--outputdir={directory}", f"--database={schema}", f"--tables-list={name}")),
        ("myloader", production, (f"--directory={directory}", "--overwrite-tables", "--enable-binlog")),
    ):
        login = (f"--socket={server.settings.socket}", "--user=root", "--threads=2")
        command = [str(root / "usr/bin" / program), *login, *options]
        subprocess.run(command, check=True, env=dumpers.environment(root))


def _measured(action: Callable[[], None], *running: DatabaseServer) -> tuple[float, float]:
    def spent() -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        return ours + sum(_cpu_seconds(server.pid) for server in running)

    before, began = spent(), time.monotonic()
    action()
    return time.monotonic() - began, spent() - before


def _cpu_seconds(pid: int) -> float:
    """Read the CPU time of a process: fields 14 and 15 of its stat, behind the name (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _server(flavour: str, home: Path) -> DatabaseServer:
    options = ("--innodb-buffer-pool-size=256M",)
    return DatabaseServer(
        Settings(flavour=flavour, datadir=home / "data", run_dir=home / "run", options=options)
    )
