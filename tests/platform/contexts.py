"""A job's context on a test's pool, of the real adapters, to drive jobs without the command line."""

from pathlib import Path
from zoneinfo import ZoneInfo

from tests.adapters import GivenAdapters
from tests.lab import servers
from tests.lab.mysql_fixture import Settings
from tests.lab.pool import Pool
from tests.lab.servers.accounts import ZBACKUP_PASSWORD, ZBACKUP_USER
from tests.lab.servers.templates import DAEMON
from tests.lab.trusted import trusted
from zbackup.clock import SystemClock
from zbackup.config.lock import Lock
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.recovery.log_reader import MysqlLogReader
from zbackup.engines.mysql.recovery.log_search import MysqlLogSearch
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.jobs.context import Context
from zbackup.model.progress import Silent
from zbackup.model.record import LockKind
from zbackup.proc.run import Runner, run
from zbackup.zfs.datasets import Zfs

MEMORY = 64 << 20


def context(
    pool: Pool,
    settings: Settings,
    datasets: tuple[str, ...],
    *,
    lock: LockKind = "ftwrl",
    runner: Runner = run,
) -> Context:
    """Of the instance "shop" on `datasets`; `runner` runs the zfs commands."""
    connect = ConnectOptions(
        socket=str(settings.socket), user=ZBACKUP_USER, password=lambda: ZBACKUP_PASSWORD
    )
    run_dir = pool.home / "run"
    return Context(
        instance="shop",
        engine_name=settings.kind,
        datasets=datasets,
        clones=f"{pool.name}/zbackup",
        mountpoint=pool.home / "clones",
        run_dir=run_dir,
        zone=ZoneInfo("Europe/Berlin"),
        zfs=Zfs(runner),
        adapters=GivenAdapters(
            engine=MysqlEngine(
                instance="shop",
                connect=connect,
                lock=Lock.model_construct(kind=lock, hold=10),
                run_dir=run_dir,
            ),
            recovery=MysqlRecovery(
                flavor=settings.kind,
                table=RecoveryTable.model_construct(
                    server=(str(_program(settings)),), memory=MEMORY, workers=2
                ),
            ),
            log_reader=MysqlLogReader(flavor=settings.kind),
            log_search=MysqlLogSearch(flavor=settings.kind),
            follower=MysqlLogFollower(),
        ),
        clock=SystemClock(),
        progress=Silent(),
    )


def _program(settings: Settings) -> Path:
    return trusted(servers.path(settings.flavour) / "bin" / DAEMON[settings.kind])
