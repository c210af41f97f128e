"""What `window` promises is restored, and nothing else: over random histories of a server and its backups.

The log is real, in files, and all that reads and archives it; the server, ZFS and the replay are models.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.fast import conftest
from tests.fast.real_log import FileEngine, FileRecovery, LogWorld, WorldFollower
from tests.unit.destinations.bucket import Shop
from tests.unit.engines.mysql.archived import Archive
from tests.unit.examples import examples
from zbackup.destinations.zfs_destination import ZfsSession
from zbackup.jobs.archive.archive import archive_once
from zbackup.jobs.backup.prune import prune
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.lifecycle import destroy
from zbackup.jobs.context import live_files
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.ship.prune_at import prune_at
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.watch.window import WindowReport, window, window_at
from zbackup.model.archive import ArchiveRules, LogFileId
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import ZbackupError
from zbackup.model.moment import Moment
from zbackup.model.retention import Retention, Span
from zbackup.plan.clones.clone_name import copy_name

FEW = Retention(last=2, minimum=1, window=Span(1, "minute"))
ZONE = ZoneInfo("UTC")

Step = tuple[Any, ...]
STEPS = st.one_of(
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("rotate")),
    st.tuples(st.just("crash"), st.integers(0, 2)),
    st.tuples(st.just("reset")),
    st.tuples(st.just("purge")),
    st.tuples(st.just("backup")),
    st.tuples(st.just("backup")),
    st.tuples(st.just("ship")),
    st.tuples(st.just("archive")),
    st.tuples(st.just("archive")),
    st.tuples(st.just("prune")),
    st.tuples(st.just("prune there")),
    st.tuples(st.just("roll back"), st.integers(0, 3), st.sampled_from(["both", "data", "log"])),
)
FOUND: tuple[tuple[Step, ...], ...] = (
    # The archive gets what it lacks from a snapshot taken before the last of it was committed.
    (
        ("backup",), ("ship",), ("archive",), ("commit",), ("backup",), ("commit",), ("rotate",), ("commit",),
        ("rotate",), ("purge",), ("backup",), ("ship",), ("archive",),
    ),
    # Nothing was committed between a backup and a crash, or a rollback to it; also with backups since.
    (("backup",), ("roll back", 0, "both"), ("commit",)),
    (("backup",), ("commit",), ("backup",), ("crash", 0), ("commit",), ("backup",), ("ship",)),
    (("backup",), ("ship",), ("crash", 0), ("commit",), ("archive",)),
    (("rotate",), ("backup",), ("ship",), ("crash", 0), ("archive",)),
    # Archived log goes two ways.
    (
        ("backup",), ("commit",), ("commit",), ("ship",), ("archive",), ("crash", 1), ("commit",),
        ("archive",),
    ),
    # A file of the name that the backup's log ends in was begun after a reset.
    (("rotate",), ("backup",), ("commit",), ("reset",), ("rotate",), ("ship",), ("archive",)),
    # One dataset alone was rolled back.
    (("backup",), ("commit",), ("backup",), ("commit",), ("roll back", 0, "data"), ("commit",), ("backup",)),
)  # fmt: skip
"""Histories that broke a promise once, or would."""


def of_histories(test: Callable[..., None]) -> Callable[..., None]:
    """The test of those, and of random ones."""
    for steps in FOUND:
        for mariadb in (False, True):
            test = example(list(steps), mariadb, True)(test)
    given_some = given(st.lists(STEPS, max_size=16), st.booleans(), st.booleans())(test)
    quiet = list(HealthCheck)
    return settings(max_examples=examples(100), deadline=None, suppress_health_check=quiet)(given_some)


class Vault(Archive):
    """An archive that can be pruned."""

    def remove_log(self, file: LogFileId) -> None:
        self.files.pop(file.key, None)
        self.chunks.pop(file.key, None)


class Life:
    """A world, and what is done in it."""

    def __init__(self, world: LogWorld) -> None:
        self.world, recovery = world, FileRecovery(world)
        self.ctx = world.context(
            engine_name="mariadb" if world.mariadb else "mysql",
            engine=FileEngine(world),
            recovery=recovery,
            log_reader=recovery,
            follower=WorldFollower(world),
            zone=ZONE,
            retention=FEW,
            archive=ArchiveRules(to=("vault",), every=5.0),
            destinations=(world.destination(FEW),),
        )
        self.there = self.ctx.destinations[0]

    def do(self, step: Step) -> None:
        world, (name, *values) = self.world, step
        match name:
            case "backup":
                self._job(lambda: snapshot(self.ctx))
            case "ship":
                self._job(lambda: ship(self.ctx, self.there))
            case "archive":
                self._job(lambda: archive_once(self.ctx, self.there))
            case "prune":
                self._job(lambda: prune(self.ctx))
            case "prune there":
                self._job(lambda: prune_at(self.ctx, self.there))
            case "roll back":
                world.roll_back(*values)
            case _:
                getattr(world, name)(*values)

    def _job(self, job: Any) -> None:
        """What a job refuses, people see; the promises count all the same."""
        with suppress(ZbackupError):
            job()

    # promises

    def require_here(self) -> None:
        found = window(self.ctx)
        for moment in self.world.journal.moments():
            self._compare("here", found, moment, self._restored_here(moment))

    def _restored_here(self, moment: datetime) -> tuple[int, ...] | str:
        try:
            plan = LOCAL.plan(self.ctx, Moment(moment, "", ZONE), RestoreOptions(name="r"))
        except ZbackupError as refused:
            return str(refused)
        if plan.replay is None:
            return self.world.rows_of(plan.base)
        catalog = self.ctx.catalog()
        log = (
            plan.log.files(catalog.all_datasets)
            if plan.log
            else BackupFiles(plan.base.record, live_files(catalog.datasets))
        )
        return self.world.replayed(plan.base, log, plan.replay)

    def require_there(self) -> None:
        found = window_at(self.ctx, self.there)
        for moment in self.world.journal.moments():
            self._compare("there", found, moment, self._restored_there(moment))

    def _restored_there(self, moment: datetime) -> tuple[int, ...] | str:
        source = DestinationSource(self.there)
        try:
            with source.opened(self.ctx, Moment(moment, "", ZONE), RestoreOptions(name="r")) as opened:
                plan = opened.plan
                if plan.replay is None:
                    return self.world.rows_of(plan.base)
                assert plan.log is not None
                return self.world.replayed(
                    plan.base, plan.log.files(opened.catalog.all_datasets), plan.replay
                )
        except ZbackupError as refused:
            return str(refused)
        finally:
            with suppress(ZbackupError):
                destroy((self.ctx,), copy_name("r"))

    def _compare(
        self, where: str, found: WindowReport, moment: datetime, restored: tuple[int, ...] | str
    ) -> None:
        promised = any(r.after < moment <= r.to for r in found.window.ranges)
        right = self.world.journal.right(moment)
        told = f"{where}, {moment}: promised {promised}, right {right}, restored {restored}; {found.window}"
        assert isinstance(restored, str) or restored in right, told
        assert promised == (not isinstance(restored, str)), told


@contextmanager
def living(mariadb: bool, *, bucket: bool) -> Iterator[Life]:
    """With a log archive in memory, or in a `bucket`."""
    methods = ("archived", "claim_log", "append_log", "read_log", "proven_to", "remove_log")
    with ExitStack() as stack:
        place = conftest.SHM if os.access(conftest.SHM, os.W_OK) else None
        home = stack.enter_context(TemporaryDirectory(dir=place))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        world = LogWorld(Path(home), mariadb=mariadb)
        conftest._current.append(world)
        stack.callback(conftest._current.pop)
        shop = Shop(Path(home))
        vault = Vault()
        world.archive_session = shop.session if bucket else lambda: vault
        for name in methods:
            patch.setattr(ZfsSession, name, _delegate(world, name))
        own = (os.geteuid(), os.getegid())
        patch.setattr("zbackup.engines.mysql.recovery.added_log.owner_of", lambda _: own)
        yield Life(world)


def _delegate(world: LogWorld, name: str) -> Any:
    def method(_: ZfsSession, *arguments: Any) -> Any:
        return getattr(world.archive_session(), name)(*arguments)

    return method


@of_histories
def test_what_is_promised_here_is_restored(steps: Sequence[Step], mariadb: bool, bucket: bool) -> None:
    with living(mariadb, bucket=bucket) as life:
        for step in steps:
            life.do(step)
        life.require_here()


@of_histories
def test_what_is_promised_at_a_destination_is_restored(
    steps: Sequence[Step], mariadb: bool, bucket: bool
) -> None:
    with living(mariadb, bucket=bucket) as life:
        for step in steps:
            life.do(step)
        life.require_there()
