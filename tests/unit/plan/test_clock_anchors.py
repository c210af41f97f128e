"""Which clock readings bound the times in a log."""

from dataclasses import replace
from datetime import datetime, timedelta

from tests.unit.plan.histories import at_hour, made
from zbackup.model.anchors import bounds, dependable
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.commit_times import Rules, micros
from zbackup.plan.recovery.clock_anchors import anchors_of


def taken(number: int, role: str) -> Backup:
    backup = made(number, at_hour(number))
    reading = Reading("boot", number * 3600.0, synchronised=True)
    return replace(backup, record=replace(backup.record, role=role, clock=reading))


def places(backups: list[Backup], target: datetime) -> tuple[int, int | None, bool]:
    """Behind which backup's log the cut is, in front of which, and whether earlier times count as wrong."""
    rules = Rules(replica=backups[-1].record.role == "replica")
    found = bounds(dependable(anchors_of(backups, backups[0]), rules), micros(target), rules)
    return found.after[0], found.upto[0] if found.upto else None, found.floor > 0


def test_what_follows_a_replicas_snapshot_may_have_been_committed_before_it_was_taken() -> None:
    """It lagged, caught up and became the primary: the log's last holder tells nothing of what it was."""
    promoted = [taken(1, "replica"), taken(2, "replica"), taken(3, "primary"), taken(4, "primary")]
    assert places(promoted, at_hour(1.5)) == (1, 3, False)
    assert places(promoted, at_hour(2.5)) == (2, 3, False)
    assert places(promoted, at_hour(3.5)) == (3, 4, True)


def test_between_two_snapshots_of_a_primary_is_what_was_committed_between_them() -> None:
    primary = [taken(n, "primary") for n in (1, 2, 3)]
    assert places(primary, at_hour(1.5)) == (1, 2, True)
    assert places([taken(n, "replica") for n in (1, 2, 3)], at_hour(1.5)) == (1, None, False)


def test_a_second_before_a_snapshot_is_no_longer_certain() -> None:
    primary = [taken(n, "primary") for n in (1, 2, 3)]
    assert places(primary, at_hour(2) - timedelta(seconds=1)) == (1, 3, True)
