"""An instance on one pool and a vault on another, to drive shipping without a database."""

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.lab.mysql_fixture import Settings
from tests.lab.pool import Pool, run
from tests.platform.contexts import context
from tests.unit.samples import PLAIN
from zbackup.clock import SystemClock
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.record import to_properties
from zbackup.model.retention import EMPTY, Retention
from zbackup.model.shipping import Inventory, hold_tag
from zbackup.proc.run import Runner
from zbackup.proc.run import run as really_run
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.streams import ZfsStreams

_numbers = iter(range(10**6))
START = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=48)


class Skewed(SystemClock):
    """A wall clock that is a day off, to one side and to the other by turns."""

    day = timedelta(days=1)

    def now(self) -> datetime:
        self.day = -self.day
        return super().now() + self.day


class Yard:
    """Two datasets, one in the other, with spaces in their names, and a root for their copies."""

    def __init__(
        self,
        pool: Pool,
        vault: Pool,
        *,
        properties: Mapping[str, str] | None = None,
        there: Mapping[str, str] | None = None,
        name: str = "yard {}/bin log",
    ) -> None:
        """`properties` are of the outer dataset, and `there` of the root over there."""
        number = next(_numbers)
        name = name.format(number)
        self.outer = pool.dataset(name.partition("/")[0], properties, recordsize="16K")
        self.inner = pool.dataset(name)
        self.members = [self.outer, self.inner]
        self.pool, self.vault = pool, vault
        self.root = vault.dataset(f"vault {number}", there, mountpoint="none").name
        self.home = f"{self.root}/shop"
        self.taken = 0

    def context(self, runner: Runner = really_run, **changes: Any) -> Context:
        """With one destination, `vault`; `changes` are of its ShipDestination."""
        settings = Settings(flavour="mariadb-10.11", datadir=self.outer.mountpoint, run_dir=self.pool.home)
        made = context(self.pool, settings, (self.outer.name,), runner=runner)
        return replace(made, destinations=(self.destination(runner, **changes),))

    def destination(
        self,
        runner: Runner = really_run,
        *,
        initial: bool = True,
        limit: int = 0,
        retention: Retention = EMPTY,
    ) -> ShipDestination:
        destination = ZfsDestination(
            name="vault",
            address=f"zfs:{self.root}",
            root=self.root,
            instance="shop",
            target=None,
            control=Path("/nowhere"),
            runner=runner,
        )
        tag = hold_tag("this.host", "shop", "vault")
        return ShipDestination(
            adapter=destination, tag=tag, retention=retention, initial=initial, limit=limit
        )

    def backup(self, size: int = 300_000, *, every: timedelta = timedelta(hours=1)) -> str:
        """Change `size` bytes of each dataset and take a finished backup; returns its name."""
        self.taken += 1
        at = START + every * self.taken
        for member in self.members:
            (member.mountpoint / f"table{self.taken % 3}").write_bytes(os.urandom(size))
        name = f"zbackup-{self.taken}"
        record = replace(
            PLAIN,
            backup=f"{self.root}-{self.taken}",
            members=tuple((d.name, str(d.mountpoint)) for d in self.members),
            taken=at,
            as_of=at,
            complete_to=at,
            log_id="log",
            log_from="binlog.000001:4",
            log_to=f"binlog.{self.taken:06}:100",
        )
        Zfs().snapshot([f"{d.name}@{name}" for d in self.members], to_properties(record), timeout=60)
        return name

    def inventory(self) -> Inventory:
        return Inventory(address="", datasets=tuple(ZfsStreams().target_datasets(self.home)))

    def committed(self) -> list[str]:
        """Names of the committed backups over there."""
        inventory = self.inventory()
        copies = {c.backup: c.name for line in inventory.datasets for c in line.copies}
        return sorted((copies[backup] for backup in inventory.committed), key=lambda n: (len(n), n))

    def copies(self) -> list[str]:
        """All snapshots over there, below the instance's home."""
        names = run("zfs", "list", "-Hrt", "snapshot", "-o", "name", self.root).splitlines()
        return [name.removeprefix(f"{self.home}/{self.pool.name}/") for name in names]

    def marks(self) -> list[str]:
        """Bookmarks and held snapshots at the source, without the name of the dataset they are of."""
        what = ("-t", "snapshot,bookmark", "-o", "name,userrefs")
        rows = [r.split("\t") for r in run("zfs", "list", "-Hr", *what, self.outer.name).splitlines()]
        return [name.removeprefix(self.outer.name) for name, refs in rows if "#" in name or refs != "0"]

    def same(self, name: str) -> bool:
        """Whether both sides have the same bytes in the snapshot, read through a mount of a clone."""
        return all(self._content(d.name, name) == self._copied(d.name, name) for d in self.members)

    def _content(self, dataset: str, name: str) -> dict[str, bytes]:
        clone = f"{dataset.partition('/')[0]}/look{next(_numbers)}"
        where = self.pool.home / f"look{next(_numbers)}"
        run("zfs", "clone", "-o", f"mountpoint={where}", "-o", "canmount=on", f"{dataset}@{name}", clone)
        try:
            return {f.name: f.read_bytes() for f in where.iterdir() if f.is_file()}
        finally:
            run("zfs", "destroy", clone)

    def _copied(self, dataset: str, name: str) -> dict[str, bytes]:
        return self._content(f"{self.home}/{dataset}", name)
