"""Log-only snapshots that a newer backup replaces are destroyed on the way, and never in the way."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from tests.unit.plan.test_log_snapshots import base, log_only
from zbackup.clock import SystemClock
from zbackup.jobs.backup.prune import drop_replaced_logs, pins
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.errors import CommandFailed, DatasetBusy
from zbackup.model.snapshot import Snapshot

BACKUPS = (base(1), log_only(2), log_only(3), base(4))


class Pool:
    """ZFS as far as destroying needs it; `busy` is a snapshot's name that cannot go."""

    def __init__(self, *, busy: str = "", fails: bool = False) -> None:
        self.gone: list[str] = []
        self.marked: list[Snapshot] = []
        self._busy, self._fails = busy, fails

    def holds(self, snapshots: list[Snapshot]) -> dict[int, tuple[str, ...]]:
        if self._fails:
            raise CommandFailed(("zfs", "holds"), 1, "no")
        return {}

    def in_use(self, names: list[str]) -> dict[str, list[str]]:
        return {}

    def mark_snapshot(self, snapshot: Snapshot, *_: object) -> None:
        self.marked.append(snapshot)

    def destroy_snapshot(self, snapshot: Snapshot) -> None:
        if snapshot.name == self._busy:
            raise DatasetBusy(("zfs", "destroy"), 1, "dataset is busy")
        self.gone.append(snapshot.name)


def context(pool: Pool) -> Context:
    made = SimpleNamespace(zfs=cast(Any, pool), clones="tank/clones", clock=SystemClock(), catalog=not_again)
    return cast(Context, made)


def not_again() -> None:
    """Nobody can look a second time: that is no failure of its own."""
    raise CommandFailed(("zfs", "list"), 1, "no")


def test_exactly_those_go() -> None:
    pool = Pool()
    assert drop_replaced_logs(context(pool), BACKUPS) == (BACKUPS[0], BACKUPS[3])
    assert set(pool.gone) == {"zbackup-2", "zbackup-3"}


def test_one_that_is_busy_stays_and_the_other_goes() -> None:
    pool = Pool(busy="zbackup-2")
    assert drop_replaced_logs(context(pool), BACKUPS) == (*BACKUPS[:2], BACKUPS[3])
    assert set(pool.gone) == {"zbackup-3"}


def test_a_zfs_that_fails_harms_no_backup_that_was_just_taken() -> None:
    pool = Pool(fails=True)
    assert drop_replaced_logs(context(pool), BACKUPS) == BACKUPS
    assert pool.gone == []


def test_what_goes_at_once_is_not_marked_before() -> None:
    """Of one snapshot nothing is ever half gone."""
    for backup, marked in ((BACKUPS[1], 1), (lacking_members(BACKUPS[1]), 0)):
        pool = Pool()
        assert drop_replaced_logs(context(pool), (BACKUPS[0], backup, BACKUPS[3])) == (BACKUPS[0], BACKUPS[3])
        assert len(pool.marked) == marked and pool.gone


def lacking_members(backup: Backup) -> Backup:
    """The same of an instance on one dataset."""
    record = replace(backup.record, members=backup.record.members[:1])
    return Backup(record=record, snapshots=backup.snapshots[:1])


def test_what_pins_a_backup_is_named_by_the_clone_that_somebody_knows() -> None:
    made = BACKUPS[0].snapshots
    cloned = replace(made[0], clones=("tank/clones/r1/0", "tank/clones/r1/1", "tank/other"))
    found = pins(context(Pool()), [Backup(record=BACKUPS[0].record, snapshots=(cloned, made[1])), BACKUPS[3]])
    assert found == {BACKUPS[0].record.backup: ["origin of clone r1", "origin of clone tank/other"]}
