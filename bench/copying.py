"""How long a table takes back into production: zbackup copy beside a dump that is loaded. Needs no ZFS.

python -m bench copy
"""

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.quiet import Silent, quiet
from bench.report import circumstances, table, write
from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer, Settings
from zbackup.engines.mysql.copy.account import grants
from zbackup.engines.mysql.copy.brake import BrakeOptions
from zbackup.engines.mysql.copy.session import MysqlCopier
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.model.copying import CopyWish, Entrance, parse_table

FLAVOURS = {
    "mysql-9.7": ("mysqldump", "mysql", "--set-gtid-purged=OFF"),
    "mariadb-11.8": ("mariadb-dump", "mariadb", "--single-transaction"),
}
ROWS = 100_000
NAME = "workload.big"


def main() -> int:
    """Measure, and write the table."""
    quiet()
    rows = []
    for flavour in FLAVOURS:
        with tempfile.TemporaryDirectory(prefix="zbc-", dir="/tmp") as directory:
            home = Path(directory)
            home.chmod(0o755)
            with _server(flavour, home / "p") as production, _server(flavour, home / "c") as clone:
                rows += measure(flavour, production, clone)
    text = f"{ROWS} rows of about 200 bytes with two indexes; CPU seconds of both servers and the client\n\n"
    text += table(["server", "what", "how", "seconds", "CPU seconds"], rows)
    write("copy", f"{circumstances('python -m bench copy')}; {text}")
    return 0


def measure(flavour: str, production: DatabaseServer, clone: DatabaseServer) -> list[list[str]]:
    """The rows of one kind of server."""
    _make(clone)
    production.sql("CREATE USER zcopy@localhost IDENTIFIED BY 'x'")
    production.sql(grants("zcopy@localhost", "workload").rstrip(";"))
    found = []
    for what, missing in (("the whole table", False), ("a tenth of its rows", True)):
        for how, action in (
            ("zbackup copy", lambda m=missing: _copy(production, clone, missing=m)),
            (FLAVOURS[flavour][0], lambda: _dump(flavour, production, clone)),
        ):
            production.sql(f"DROP TABLE IF EXISTS {NAME}")
            if missing:
                _dump(flavour, production, clone)
                production.sql(f"DELETE FROM {NAME} WHERE id % 10 = 0")
            wall, cpu = _measured(action, production, clone)
            if production.checksum([NAME]) != clone.checksum([NAME]):
                raise AssertionError(f"{how}: {NAME} is not what it was")
            found.append([flavour, what, how, f"{wall:.1f}", f"{cpu:.1f}"])
    return found


def _make(clone: DatabaseServer) -> None:
    clone.sql(
        f"CREATE TABLE {NAME} (id INT PRIMARY KEY AUTO_INCREMENT, k INT, at DATETIME(3), v VARCHAR(120), "
        "w VARCHAR(60), KEY (k), KEY (at)) ENGINE=InnoDB"
    )
    clone.sql(f"INSERT INTO {NAME} (k, at, v, w) VALUES (1, '2026-01-01', REPEAT('v', 100), REPEAT('w', 50))")
    count = 1
    while count < ROWS:
        more = min(count, ROWS - count)
        clone.sql(
            f"INSERT INTO {NAME} (k, at, v, w) SELECT id * 7919 % 100003, at + INTERVAL id SECOND, "
            f"CONCAT(id, v), w FROM (SELECT id, at, LEFT(v, 100) AS v, w FROM {NAME} LIMIT {more}) AS t"
        )
        count += more


def _copy(production: DatabaseServer, clone: DatabaseServer, *, missing: bool) -> None:
    account = ConnectOptions(socket=str(production.settings.socket), user="zcopy", password=lambda: "x")
    copier = MysqlCopier(instance="bench", account=account, brake=BrakeOptions(max_running=1000))
    wish = CopyWish(tables=(parse_table(NAME),), missing=missing, clone=str(time.monotonic()))
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
    """What a process has used: fields 14 and 15 of its stat, behind the name (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _server(flavour: str, home: Path) -> DatabaseServer:
    options = ("--innodb-buffer-pool-size=256M",)
    return DatabaseServer(
        Settings(flavour=flavour, datadir=home / "data", run_dir=home / "run", options=options)
    )
