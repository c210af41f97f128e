"""Clock readings that bound the times in a log."""

from dataclasses import replace
from datetime import datetime, timedelta

from tests.unit.plan.histories import at_hour, made
from tests.unit.samples import lacking_one
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


def test_only_what_holds_the_base_s_binlog_bounds_its_times() -> None:
    base, other, third = (taken(n, "primary") for n in (1, 2, 3))
    assert len(anchors_of([base, other, third], base)) == 3
    for changes in ({"log_id": "another"}, {"log_id": "", "log_to": ""}, {"as_of": None}):
        strange = replace(other, record=replace(other.record, **changes))  # type: ignore[arg-type]
        assert anchors_of([base, strange, third], base) == anchors_of([base, third], base)
    assert anchors_of([base, lacking_one(other), third], base) == anchors_of([base, third], base)
    unknown = replace(base, record=replace(base.record, log_id="", log_to=""))
    assert anchors_of([unknown, other], unknown) == ()
    of_mongodb = replace(base, record=replace(base.record, engine="mongodb"))
    assert anchors_of([of_mongodb, other], of_mongodb) == ()


def test_an_anchor_says_when_the_clock_was_read_and_when_the_snapshot_was_there() -> None:
    backup = taken(1, "primary")
    late = replace(backup.snapshots[0], created=at_hour(1) + timedelta(seconds=5))
    (found,) = anchors_of([replace(backup, snapshots=(late, *backup.snapshots[1:]))], backup)
    assert (found.earliest, found.latest) == (micros(at_hour(1)), micros(at_hour(1) + timedelta(seconds=6)))
    early = replace(backup.snapshots[0], created=at_hour(0))
    (found,) = anchors_of([replace(backup, snapshots=(early, *backup.snapshots[1:]))], backup)
    assert found.latest == found.earliest


def test_only_a_replica_s_log_says_up_to_when_it_is_complete() -> None:
    def said(role: str, complete_to: datetime) -> int | None:
        backup = taken(1, role)
        backup = replace(backup, record=replace(backup.record, complete_to=complete_to))
        (found,) = anchors_of([backup], backup)
        return found.said

    assert said("replica", at_hour(0.5)) == micros(at_hour(0.5))
    assert said("replica", at_hour(1)) is None, "it had none, and this is when it was taken"
    assert said("primary", at_hour(0.5)) is None
