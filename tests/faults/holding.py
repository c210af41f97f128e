"""A real server whose snapshots are broken at one command after the other."""

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.breaking import Fault, Way, fired
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.pool import Pool, run
from tests.platform.contexts import context
from tests.system.replica_story import applier_runs
from zbackup.jobs.backup.complete_record import discard
from zbackup.jobs.backup.snapshot import SnapshotReport, snapshot
from zbackup.jobs.context import Context
from zbackup.plan.recovery.window import usable_bases

WRITE = "INSERT INTO shop.orders (customer_id, amount, state, placed) VALUES (1, 1, 'new', NOW())"
FOREIGN = "foreign"


class House:
    """A server, how zbackup is set up for it, and things beside it that nobody may touch."""

    def __init__(self, pool: Pool, server: DatabaseServer, source: DatabaseServer | None = None) -> None:
        self.pool, self.server, self.source = pool, server, source
        self._foreign = [f"{pool.data.name}@{FOREIGN}", f"{pool.data.name}@zbackup-{FOREIGN}"]
        for name in self._foreign:
            run("zfs", "snapshot", name)

    def context(self, fault: Fault | None = None) -> Context:
        datasets = (self.pool.data.name,)
        if fault is None:
            return context(self.pool, self.server.settings, datasets)
        return context(self.pool, self.server.settings, datasets, runner=fault)

    def write(self) -> None:
        (self.source or self.server).sql(WRITE)

    def break_every_one(self, way: Way, tmp: Path, *, questions: bool = False) -> int:
        """Break the changes of a snapshot in turn, or with `questions` all of its commands.

        Each time what is left is looked at, and what comes next. Returns how many there were. Where nothing
        is left the next one would meet what the broken one met, and is not run to find out how it ends.
        """
        for nth in itertools.count(1):
            before = self.listing()
            fault = Fault(nth, way, questions=questions)
            broken = self.context(fault)
            happened = fired(fault, lambda job=broken: snapshot(job), tmp / "child")  # type: ignore[misc]
            where = f"{way}, command {nth}"
            self.require_nobody_waits(where)
            if self.listing() == before:
                assert happened
                continue
            self.require_finished_ones_are_true()
            self.require_next_is_well(where)
            if not happened:
                return nth - 1
        raise AssertionError

    def listing(self) -> str:
        """All there is in the pool, and what is written on it."""
        names = run("zfs", "list", "-Hrt", "all", "-o", "name,guid", self.pool.name)
        return names + run("zfs", "get", "-Hrs", "local", "-o", "name,property,value", "all", self.pool.name)

    def require_next_is_well(self, where: str) -> None:
        self.write()
        report = snapshot(self.context())
        self.require_nobody_waits(where)
        self.require_finished_ones_are_true()
        self.require_all_finished(where)
        self.forget_others(report)

    def require_nobody_waits(self, where: str) -> None:
        """The lock is gone with the one who took it: writes go through, and no session of his is left.

        An applier that was stopped for it runs again.
        """
        self.server.sql("FLUSH TABLES")  # would wait for any of zbackup's locks
        self.write()
        _wait(lambda: not self._sessions(), f"{where}: sessions left")
        if self.source:
            _wait(lambda: applier_runs(self.server), f"{where}: the applier stands still")
            note = self.pool.home / "run" / "shop.applier-stopped"
            _wait(lambda: not note.exists(), f"{where}: {note} is left")
            self.server.catch_up(self.source)

    def _sessions(self) -> list[tuple[object, ...]]:
        return self.server.sql("SELECT * FROM information_schema.PROCESSLIST WHERE USER = 'zbackup'")

    def require_finished_ones_are_true(self) -> None:
        """Whatever a restore would start from is what it says it is."""
        ctx = self.context()
        catalog = ctx.catalog()
        assert catalog.unreadable == ()
        for backup in usable_bases(catalog.backups):
            where, created = backup.browse(catalog.datasets), backup.snapshots[0].created
            reach = ctx.log_reader.reach(backup.record, where, created)
            assert (reach.as_of, reach.complete_to) == (backup.record.as_of, backup.record.complete_to)
            assert backup.record.position and backup.record.lock == "ftwrl"

    def require_all_finished(self, where: str) -> None:
        ctx = self.context()
        datasets = {d.name for d in ctx.catalog().datasets}
        backups = ctx.catalog().backups
        assert all(b.complete and b.finished for b in backups), where
        # And no snapshot is left that belongs to no backup, but for what was there before.
        there = {str(s) for d in datasets for s in ctx.zfs.snapshots(d)}
        assert there == {str(s) for b in backups for s in b.snapshots} | set(self._foreign), where

    def forget_others(self, report: SnapshotReport) -> None:
        """Keep the newest only, so that looking does not take longer and longer."""
        ctx = self.context()
        *older, newest = ctx.catalog().backups
        assert newest.record == report.backup.record
        for backup in older:
            discard(ctx, backup)


def least_commands(*, questions: bool = False) -> int:
    """Fewer than that, and a matrix has skipped some."""
    # One snapshot, and the end written on each of its two datasets; or these and the questions between.
    return 7 if questions else 3


def _wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
