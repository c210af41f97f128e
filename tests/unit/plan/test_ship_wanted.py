"""Backups that a destination should have."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import NOON, backup
from zbackup.model.backup import Backup
from zbackup.model.retention import EMPTY, Retention, Span, Tier
from zbackup.model.shipping import Inventory, ReceivedSnapshot, TargetDataset
from zbackup.plan.ship.wanted import wanted

ZONE = ZoneInfo("UTC")
HOURLY = Retention(tiers=(Tier(step=Span(1, "hour"), span=None),), minimum=1, window=Span(1, "minute"))
NOTHING = Inventory(address="there")


def half_hourly(count: int, **changes: object) -> list[Backup]:
    """From noon on, with a log that is never purged."""
    return [
        backup(n, n * 1800, n * 1800, taken=NOON + timedelta(minutes=30 * n), log_id="l",
               log_from="binlog.000001:4", log_to=f"binlog.{n:06}:4", **changes)
        for n in range(1, count + 1)
    ]  # fmt: skip


def numbers(backups: list[Backup]) -> list[int]:
    return [b.createtxg for b in backups]


def test_without_rules_the_newest() -> None:
    assert numbers(wanted(half_hourly(4), NOTHING, (), EMPTY, (NOON, ZONE))) == [4]


def test_with_rules_what_they_keep_and_the_newest() -> None:
    now = NOON + timedelta(hours=3)
    assert numbers(wanted(half_hourly(5), NOTHING, (), HOURLY, (now, ZONE))) == [1, 2, 4, 5]


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_is_a_day_wrong_loses_nothing(days: int) -> None:
    """Ages in doubt keep what the rules would let go; the newest is the newest by ZFS's own order."""
    now = NOON + timedelta(hours=3, days=days)
    assert {1, 2, 4, 5} <= set(numbers(wanted(half_hourly(5), NOTHING, (), HOURLY, (now, ZONE))))
    skewed = half_hourly(4)
    skewed[-1] = replace(skewed[-1], record=replace(skewed[-1].record, taken=NOON - timedelta(days=1)))
    assert numbers(wanted(skewed, NOTHING, (), EMPTY, (now, ZONE))) == [4]


def test_what_was_begun_or_lacks_only_its_commit() -> None:
    backups = half_hourly(5)
    begun = {backups[1].snapshots[0].guid}
    copies = tuple(ReceivedSnapshot(name=s.name, guid=s.guid) for s in backups[2].snapshots)
    there = Inventory(address="there", datasets=(TargetDataset(name="x", copies=copies),))
    assert numbers(wanted(backups, there, begun, EMPTY, (NOON, ZONE))) == [2, 3, 5]


def test_only_what_can_be_restored_from_there() -> None:
    first, second, third, fourth = half_hourly(4)
    lacking = Backup(record=fourth.record, snapshots=fourth.snapshots[:1])
    unfinished = replace(third, record=replace(third.record, as_of=None))
    log_only = replace(second, record=replace(second.record, purpose="log"))
    assert numbers(wanted([first, log_only, unfinished, lacking], NOTHING, (), EMPTY, (NOON, ZONE))) == [1]
    assert wanted([log_only], NOTHING, (), EMPTY, (NOON, ZONE)) == []
