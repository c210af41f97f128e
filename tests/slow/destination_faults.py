"""A MariaDB whose backups lie on another pool, and restores from there that are broken at every command.

The whole of it runs in one kernel, so that the same destination is one to fetch from and one to restore at.
"""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tests.faults.breaking import AT_QUESTIONS, Fault, Way, fired
from tests.faults.recovery import OPTIONS, House, prepare
from tests.lab.pool import Pool, create_pool, run
from zbackup.catalog.local import clones
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.restore import RestoreReport, restore
from zbackup.jobs.ship.prune_at import prune_at
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.ship.verify_at import verify_at
from zbackup.model.shipping import RESTORE, hold_tag
from zbackup.plan.clones.clone_name import copy_name, log_name
from zbackup.proc.run import Runner
from zbackup.proc.run import run as really_run

Kind = Literal["fetched", "in place"]
NAME = OPTIONS.name or ""


@dataclass(frozen=True, slots=True)
class Away:
    """The house, and the vault that two of its backups lie in: one before the moment and one after it."""

    house: House
    vault: Pool

    def destination(self, runner: Runner = really_run) -> ShipDestination:
        root = f"{self.vault.name}/backups"
        destination = ZfsDestination(
            name="vault",
            address=f"zfs:{root}",
            root=root,
            instance="shop",
            target=None,
            control=Path("/nowhere"),
            runner=runner,
        )
        return ShipDestination(adapter=destination, tag=hold_tag("this.host", "shop", "vault"), initial=True)

    def context(self, fault: Fault | None = None) -> Context:
        made = self.house.context(fault)
        return replace(made, destinations=(self.destination(fault or really_run),), elsewhere=(self.clones,))

    @property
    def clones(self) -> str:
        """Below which clones of the copies are made."""
        return f"{self.vault.name}/zbackup-clones"

    def restore(self, kind: Kind, fault: Fault | None = None) -> RestoreReport:
        ctx = self.context(fault)
        source = DestinationSource(ctx.destinations[0], run_at_destination=kind == "in place")
        return restore(ctx, self.house.moment, OPTIONS, source)

    def break_every_one(self, kind: Kind, ways: Sequence[Way], note: Path) -> int:
        """Break the restore's commands in turn, each in one of the ways; each time it is done after all, or
        given up for good.

        Returns how many there are: changes, or where nothing takes effect commands of any kind.
        """
        at_first, questions = self.listing(), set(ways) <= set(AT_QUESTIONS)
        for nth in itertools.count(1):
            # Every third is given up: in all ways, too.
            way = ways[(nth + nth // 3) % len(ways)]
            fault = Fault(nth, way, questions=questions)
            happened = fired(fault, lambda broken=fault: self.restore(kind, broken), note)  # type: ignore[misc]
            where = f"{kind}, {way}, command {nth}: {' '.join(fault.broke)}"
            self.house.require_production_is_well(where)
            nothing_left = (self.held(), self.listing(), self.house.servers()) == ([], at_first, [])
            if not (happened and nothing_left):
                self.give_up(where) if happened and nth % 3 == 0 else self.finish(kind, where)
            assert (self.held(), self.listing()) == ([], at_first), where
            assert self.house.servers() == [], where
            self.require_copies_are_well(where)
            if not happened:
                return nth - 1
        raise AssertionError

    def finish(self, kind: Kind, where: str) -> None:
        """The same again, unless the broken one was done but for the answer. Then all is destroyed.

        What could not be released then, the next prune lets go, as the restore has said.
        """
        done = self.state(NAME) == "ready"
        if not done:
            self.house.require_recovered(self.restore(kind))
        assert len(self.house.servers()) == 1, where
        self.let_be()
        if done and self.held():
            prune_at(self.context(), self.destination())

    def give_up(self, where: str) -> None:
        """Nobody gives the command again: what is there is destroyed, and no hold outlives that."""
        self.let_be()
        assert self.house.servers() == [], where
        prune_at(self.context(), self.destination())

    def let_be(self) -> None:
        """Destroy the clones that there are, as somebody would."""
        both = self.context().everywhere()
        for name in (log_name(NAME), NAME, copy_name(NAME)):
            if self.state(name):
                lifecycle.destroy(both, name)

    def state(self, name: str) -> str:
        """Of the clone of that name, "" when there is none."""
        found = [c for ctx in self.context().everywhere() for c, _ in clones(ctx.zfs, ctx.clones)]
        return next((c.state for c in found if c.name == name), "")

    def listing(self) -> list[str]:
        """All there is in both pools."""
        pools = (self.house.pool.name, self.vault.name)
        return run("zfs", "list", "-Hrt", "all", "-o", "name,guid", *pools).splitlines()

    def held(self) -> list[str]:
        """The holds of restores."""
        rows = run("zfs", "list", "-Hrt", "snapshot", "-o", "name", self.vault.name).splitlines()
        return [row for row in run("zfs", "holds", "-H", *rows).splitlines() if RESTORE in row]

    def require_copies_are_well(self, where: str) -> None:
        """Both backups are listed, and are what is here."""
        report = verify_at(self.context(), self.destination(), most=-1)
        assert (report.problems, len(report.compared)) == ((), 2), where


@contextmanager
def away(pool: Pool) -> Iterator[Away]:
    """For a fixture: both backups have been shipped when it begins."""
    vault = create_pool()
    making = prepare(pool)
    house = next(making)
    try:
        made = Away(house, vault)
        run("zfs", "create", "-o", "mountpoint=none", f"{vault.name}/backups")
        ctx = made.context()
        ship(ctx, made.destination())
        snapshot(ctx)
        ship(ctx, made.destination())
        mounts = {"mountpoint": str(house.pool.home / "there"), "canmount": "off"}
        ctx.zfs.create(made.clones, mounts)
        yield made
    finally:
        next(making, None)
        vault.destroy()
