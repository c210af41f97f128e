"""A real MariaDB whose restores are broken at one command after the other."""

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pymysql

from tests.faults.breaking import Fault, Way, fired
from tests.faults.holding import WRITE
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.pool import Pool, run
from tests.platform.contexts import context
from zbackup.catalog.local import clones
from zbackup.jobs.backup.complete_record import discard
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle
from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import RestoreReport, restore
from zbackup.model.moment import Moment
from zbackup.plan.clones.clone_name import log_name

COUNT = "SELECT COUNT(*), MAX(id) FROM shop.orders"
OPTIONS = RestoreOptions(name="r1")
LOG = log_name("r1")


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A server with a base backup, a moment after it with what was there then, and what is nobody's."""

    pool: Pool
    server: DatabaseServer
    moment: Moment
    expected: tuple[int, int]

    def context(self, fault: Fault | None = None) -> Context:
        datasets = (self.pool.data.name,)
        if fault is None:
            return context(self.pool, self.server.settings, datasets)
        return context(self.pool, self.server.settings, datasets, runner=fault)

    def listing(self) -> list[str]:
        """All there is in the pool."""
        return run("zfs", "list", "-Hrt", "all", "-o", "name,guid", self.pool.name).splitlines()

    def servers(self) -> list[str]:
        """Command lines of all processes that work for a clone."""
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                line = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.pool.home / "run") in line:
                    found.append(line)
        return found

    def break_every_one(self, ways: Sequence[Way], note: Path, *, questions: bool = False) -> int:
        """Break a restore's commands in turn, each in the next of the `ways`; the next restore does it all.

        Returns how many there are: changes, or with `questions` commands of any kind.
        """
        at_first = self.listing()
        for nth in itertools.count(1):
            fault = Fault(nth, ways[nth % len(ways)], questions=questions)
            broken = self.context(fault)
            happened = fired(fault, lambda job=broken: restore(job, self.moment, OPTIONS), note)  # type: ignore[misc]
            where = f"{fault.way}, command {nth}"
            self.require_production_is_well(where)
            if not (happened and self.is_as(at_first)):
                self.finish(where)
            self.forget_log_snapshots()
            assert self.listing() == at_first, where
            if not happened:
                return nth - 1
        raise AssertionError

    def require_production_is_well(self, where: str) -> None:
        """What was dropped in production is still dropped, and it takes writes."""
        assert self.server.checksum(["shop.orders"]) == {"shop.orders": None}, where
        self.server.sql("UPDATE shop.customers SET email = 'x' LIMIT 1")

    def require_recovered(self, report: RestoreReport) -> None:
        connection = pymysql.connect(unix_socket=report.socket, user="root", ssl_disabled=True)
        with connection, connection.cursor() as cursor:
            cursor.execute(COUNT)
            assert cursor.fetchone() == self.expected

    def finish(self, where: str) -> None:
        """A healthy restore, unless the broken one was done but for the answer; then all is destroyed."""
        ctx = self.context()
        found = {c.name: c.state for c, _ in clones(ctx.zfs, ctx.clones)}
        if "ready" not in found.values():
            self.require_recovered(restore(ctx, self.moment, OPTIONS))
        elif LOG in found:
            # The recovery had succeeded, and it was the removal of this that was broken: it was told of.
            lifecycle.destroy([ctx], LOG)
        names = [d.name.removeprefix(ctx.clones) for d in ctx.zfs.filesystems(ctx.clones)]
        assert names == ["", "/foreign", "/r1", "/r1/0", "/r1/1"], where
        assert len(self.servers()) == 1, where
        lifecycle.destroy([ctx], "r1")
        assert self.servers() == [], where

    def is_as(self, before: list[str]) -> bool:
        """Whether nothing is left of a restore but a log snapshot that is fit for use.

        Then the next one would meet what the broken one met, and need not be run to know how it ends.
        """
        if self.servers() or (self.pool.home / "run" / "r1").exists():
            return False
        logs = [b for b in self.context().catalog().backups if b.record.purpose == "log"]
        fit = {f"{s}\t{s.guid}" for b in logs if b.complete and b.finished for s in b.snapshots}
        return [line for line in self.listing() if line not in fit] == before

    def forget_log_snapshots(self) -> None:
        """So that the next restore has to take its own again."""
        ctx = self.context()
        for backup in ctx.catalog().backups:
            if backup.record.purpose == "log":
                assert backup.complete and backup.finished
                discard(ctx, backup)


def prepare(pool: Pool) -> Iterator[House]:
    """For a fixture: the server runs until the house is not needed any more."""
    settings = Settings(
        flavour="mariadb-10.11",
        datadir=pool.data.mountpoint / "data",
        binlog_dir=pool.log.mountpoint / "log",
        run_dir=pool.home / "db",
    )
    with DatabaseServer(settings) as server:
        server.sql(WRITE)
        ctx = context(pool, settings, (pool.data.name,), lock="backup-stage")
        snapshot(ctx)
        # The dataset that all clones lie below is made once and stays, with somebody else's in it.
        ctx.zfs.create(ctx.clones, {"mountpoint": str(ctx.mountpoint), "canmount": "off"})
        ctx.zfs.create(f"{ctx.clones}/foreign", {"canmount": "noauto"})
        time.sleep(1.1)
        for _ in range(20):
            server.sql(WRITE)
        ((count, last),) = server.sql(COUNT)
        time.sleep(1.1)
        moment = Moment(at=datetime.now(UTC), text="then", zone=ZoneInfo("UTC"))
        time.sleep(1.1)
        server.sql("DROP TABLE shop.orders")
        yield House(pool=pool, server=server, moment=moment, expected=(count, last))
        for note in (pool.home / "run").glob("*.process"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(note.read_text().split()[0]), signal.SIGKILL)


LEAST_CHANGES, LEAST_COMMANDS = 20, 50
"""With fewer than these, some of a restore's were skipped."""
