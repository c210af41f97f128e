"""A prune at a destination: what it takes away, and what it says of what it could not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from structlog.testing import capture_logs

from tests.unit.plan.histories import made
from tests.unit.samples import NOON
from zbackup.clock import SystemClock
from zbackup.config.retention import tier
from zbackup.destinations.copies import Copies
from zbackup.jobs.backup.prune import PruneReport
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.prune_at import prune_at
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import (
    CommandFailed,
    CommandTimedOut,
    ConnectionFailed,
    DatasetBusy,
    PoolReadOnly,
    VerificationFailed,
    ZbackupError,
)
from zbackup.model.progress import Silent
from zbackup.model.retention import Retention, Span

HOUR = timedelta(hours=1)
LAST = Retention(tiers=(), last=2, minimum=1, window=Span(1, "minute"))
TWO_DAYS = Retention(tiers=(tier("every 1 hour for 48 hours"),), minimum=1, window=Span(1, "minute"))


@dataclass
class Place:
    """A destination that holds these backups and fails as it is told to, by Record.backup."""

    backups: Sequence[Backup]
    failures: dict[str, ZbackupError] = field(default_factory=dict)
    name: str = "offsite"
    address: str = "zfs:vault/b"
    removed: list[str] = field(default_factory=list)
    swept: bool = False

    @contextmanager
    def connect(self) -> Iterator["Place"]:
        yield self

    def copies(self) -> Copies:
        return Copies(tuple(self.backups), ())

    def remove(self, backup: Backup, _: str) -> None:
        if failure := self.failures.get(backup.record.backup):
            raise failure
        self.removed.append(backup.record.backup)

    def collect_garbage(self) -> tuple[str, ...]:
        self.swept = True
        return ()


@dataclass
class Now(SystemClock):
    at: datetime
    known: Reading

    def now(self) -> datetime:
        return self.at

    def reading(self) -> Reading:
        return self.known


@dataclass
class Receiver:
    """A host with a clock of its own that prunes what others sent there."""

    run_dir: Path
    now: datetime = NOON + 6 * HOUR + timedelta(minutes=1)
    reading: Reading = field(default_factory=lambda: Reading("receiver", 100 * 86400.0, synchronised=False))

    def prunes(self, place: Place, rules: Retention) -> PruneReport:
        ctx = SimpleNamespace(
            shared=self.run_dir,
            instance="shop",
            clock=Now(self.now, self.reading),
            zone=ZoneInfo("UTC"),
            progress=Silent(),
        )
        destination = ShipDestination(adapter=cast(Any, place), tag="tag", retention=rules)
        return prune_at(cast(Context, ctx), destination)


@pytest.fixture
def receiver(tmp_path: Path) -> Receiver:
    return Receiver(tmp_path)


def hourly(count: int) -> list[Backup]:
    found = [made(number, NOON + number * HOUR) for number in range(1, count + 1)]
    clocks = [Reading("sender", 86400 + number * 3600.0, synchronised=False) for number in range(count)]
    return [replace(b, record=replace(b.record, clock=clock)) for b, clock in zip(found, clocks, strict=True)]


def test_a_receiver_whose_clock_is_ahead_destroys_nothing_for_its_uptime(receiver: Receiver) -> None:
    place = Place(hourly(72))
    receiver.now = NOON + 72 * HOUR + timedelta(days=2.9)
    with capture_logs() as said:
        report = receiver.prunes(place, TWO_DAYS)
    assert place.removed == [f"backup-{number}" for number in range(1, 24)]
    assert "may be wrong" in report.plan.retention.note
    assert [line["why"] for line in said if line["event"] == "prune.clock_in_doubt"] == [
        report.plan.retention.note
    ]


def test_a_connection_that_broke_is_no_success(receiver: Receiver) -> None:
    lost = ConnectionFailed(("ssh",), 255, "vault: Connection reset")
    with pytest.raises(ConnectionFailed):
        receiver.prunes(Place(hourly(6), {"backup-3": lost}), LAST)
    with pytest.raises(ConnectionFailed):
        receiver.prunes(Place(hourly(6), {"backup-1": lost}), LAST)


@pytest.mark.parametrize("kind", [CommandFailed, CommandTimedOut])
def test_when_nothing_could_be_destroyed_that_is_no_success(
    receiver: Receiver, kind: type[CommandFailed]
) -> None:
    failures: dict[str, ZbackupError] = {f"backup-{n}": kind(("zfs",), 1, "no") for n in range(1, 5)}
    with pytest.raises(kind):
        receiver.prunes(Place(hourly(6), failures), LAST)


def test_of_a_pool_that_may_not_change_nothing_more_is_tried(receiver: Receiver) -> None:
    fixed = PoolReadOnly(("zfs", "destroy"), 1, "cannot destroy snapshots: pool is read-only")
    with capture_logs() as said, pytest.raises(PoolReadOnly, match="without readonly=on"):
        receiver.prunes(Place(hourly(6), {f"backup-{n}": fixed for n in range(1, 5)}), LAST)
    assert said == []


def test_what_is_held_is_skipped(receiver: Receiver) -> None:
    failures: dict[str, ZbackupError] = {f"backup-{n}": DatasetBusy(("zfs",), 1, "held") for n in range(1, 5)}
    report = receiver.prunes(Place(hourly(6), failures), LAST)
    assert [s.backup.record.backup for s in report.skipped] == list(failures)


def test_a_broken_chain_keeps_no_other_from_going_and_is_no_success(receiver: Receiver) -> None:
    place = Place(hourly(6), {"backup-2": VerificationFailed("without it x could not be brought back")})
    with (
        capture_logs() as said,
        pytest.raises(VerificationFailed, match=r"3 went, 1 had to stay"),
    ):
        receiver.prunes(place, LAST)
    assert place.removed == ["backup-1", "backup-3", "backup-4"] and place.swept
    assert [line["snapshot"] for line in said if line["event"] == "prune.skipped"] == ["zbackup-2"]


def of_server(backups: list[Backup], number: int, *, dataset: str = "", identity: str = "") -> list[Backup]:
    """The same as another server took them, with datasets of another name or the same."""
    return [
        Backup(
            record=replace(
                b.record,
                backup=f"{b.record.backup}-of-{number}",
                server_uuid=identity or b.record.server_uuid,
            ),
            snapshots=tuple(replace(s, dataset=f"{dataset}{s.dataset}") for s in b.snapshots),
        )
        for b in backups
    ]


@pytest.mark.parametrize("other", [{"dataset": "other/"}, {"identity": "another server"}])
def test_what_one_server_has_there_lets_nothing_of_another_go(
    receiver: Receiver, other: dict[str, str]
) -> None:
    mine, others = hourly(6), of_server(hourly(6), 2, **other)
    place = Place([b for pair in zip(mine, others, strict=True) for b in pair])
    with capture_logs() as said:
        report = receiver.prunes(place, LAST)
    gone = [f"backup-{number}" for number in range(1, 5)]
    assert place.removed == [name for one in gone for name in (one, f"{one}-of-2")]
    note = report.plan.retention.note
    assert note.startswith("backups of 2 servers, or from before") and note.endswith("by themselves")
    assert "prune.shared" in [line["event"] for line in said]


def test_backups_of_another_instance_are_left_alone(receiver: Receiver) -> None:
    other = [replace(b, record=replace(b.record, instance="wiki")) for b in of_server(hourly(6), 2)]
    place = Place([*other, *hourly(2)])
    report = receiver.prunes(place, LAST)
    assert (place.removed, report.destroyed) == ([], ())


def test_a_server_that_was_set_up_anew_is_the_same_one(receiver: Receiver) -> None:
    backups = hourly(6)
    anew = of_server(backups[4:], 2, identity="set up anew")
    place = Place([*backups[:4], *anew])
    report = receiver.prunes(place, LAST)
    assert place.removed == [f"backup-{number}" for number in range(1, 5)]
    assert "servers" not in report.plan.retention.note
