"""A backup of two nested datasets, to make clones of and to destroy them again."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.mysql_fixture import Settings
from tests.lab.pool import Pool, run
from tests.platform.contexts import context
from tests.unit.samples import PLAIN
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.errors import CommandFailed
from zbackup.model.record import to_properties
from zbackup.proc.run import run as really_run
from zbackup.zfs.mounting import KernelMounts


@pytest.fixture(scope="module")
def ctx(pool: Pool) -> Context:
    settings = Settings(flavour="mariadb-10.11", datadir=pool.data.mountpoint, run_dir=pool.home)
    return context(pool, settings, (pool.data.name,))


@pytest.fixture(scope="module")
def backup(pool: Pool, ctx: Context) -> Backup:
    """Of two nested datasets, whose names hold spaces, with a file in each."""
    members = tuple((d.name, str(d.mountpoint)) for d in (pool.data, pool.log))
    (pool.data.mountpoint / "ibdata1").write_text("data as it was")
    (pool.log.mountpoint / "binlog.000001").write_text("log as it was")
    record = replace(PLAIN, members=members)
    ctx.zfs.snapshot([f"{d}@zbackup-1" for d, _ in members], to_properties(record), timeout=60)
    (pool.data.mountpoint / "ibdata1").write_text("data as it is")
    (found,) = ctx.catalog().backups
    return found


@pytest.fixture
def whole_pool(pool: Pool, ctx: Context, backup: Backup) -> Iterator[Callable[[], list[str]]]:
    """A list of everything on the pool; what a test leaves below the clones' dataset is removed."""
    yield lambda: run("zfs", "list", "-Hrt", "all", "-o", "name,guid", pool.name).splitlines()
    if ctx.zfs.exists(ctx.clones):
        run("zfs", "destroy", "-rf", ctx.clones)
    shutil.rmtree(ctx.mountpoint, ignore_errors=True)


def clone(name: str) -> Clone:
    return Clone(
        id=clone_datasets.new_id(),
        name=name,
        instance="shop",
        engine="mariadb",
        kind="restore",
        state="building",
        created=PLAIN.taken,
        backup="zbackup-1",
    )


def destroy(ctx: Context, name: str) -> None:
    found = clone_datasets.find_clone(ctx, name)
    assert found is not None
    clone_datasets.destroy(ctx, *found)


class BrokenMounts(KernelMounts):
    """Mounts that count as changes do, and fail as these."""

    def __init__(self, fault: "FailAt") -> None:
        self._fault = fault

    def mount(self, name: str, path: Path, flags: int, options: str) -> None:
        self._fault(("true",))
        super().mount(name, path, flags, options)


class FailAt:
    """The nth change fails, and so does all that follows: we are dead.

    Before it took effect: after it did, things are as before the next one.
    """

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __call__(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        self.left -= mutates
        if self.left > 0:
            return really_run(argv, mutates=mutates, timeout=timeout)
        raise CommandFailed(tuple(argv), 255, "injected")
