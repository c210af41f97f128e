"""Pruning under doubtful clocks: nothing goes that is not certainly old enough."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from tests.unit.plan.histories import made
from zbackup.clock import SystemClock
from zbackup.config.retention import tier
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.retention import Retention, Span
from zbackup.plan.recovery.clocks import of_any_machine
from zbackup.plan.retention.retention import RetentionPlan, plan_retention

BERLIN = ZoneInfo("Europe/Berlin")
START = datetime(2024, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class Machine:
    """A machine and its clock: what is really so, and what the clock says."""

    real: datetime = START
    off: timedelta = timedelta()
    boots: int = 1
    booted: datetime = START
    synchronised: bool = False

    def passes(self, time: timedelta) -> None:
        self.real += time

    def restarts(self, off: timedelta) -> None:
        self.real += off
        self.boots, self.booted, self.synchronised = self.boots + 1, self.real, False

    def is_set(self, by: timedelta) -> None:
        self.off, self.synchronised = self.off + by, False

    def synchronises(self) -> None:
        self.off, self.synchronised = timedelta(), True

    @property
    def now(self) -> datetime:
        return self.real + self.off

    @property
    def reading(self) -> Reading:
        return Reading(f"boot {self.boots}", (self.real - self.booted).total_seconds(), self.synchronised)

    def backup(self, number: int) -> Backup:
        one = made(number, self.now)
        return replace(one, record=replace(one.record, clock=self.reading))


def policy(hours: int) -> Retention:
    return Retention(tiers=(tier(f"every 1 minute for {hours} hours"),), minimum=1, window=Span(1, "minute"))


def plan(backups: list[Backup], rules: Retention, machine: Machine) -> RetentionPlan:
    return plan_retention(backups, rules, machine.now, BERLIN, {}, machine.reading)


def gone(backups: list[Backup], rules: Retention, machine: Machine) -> list[str]:
    return [b.record.backup for b in plan(backups, rules, machine).destroy]


happenings = st.sampled_from(["passes", "passes", "restarts", "is set", "synchronises"])


@given(
    st.lists(st.tuples(happenings, st.integers(-30, 30), st.integers(0, 4)), max_size=24), st.integers(1, 40)
)
@settings(max_examples=examples(300))
def test_nothing_goes_that_is_not_old_enough(life: list[tuple[str, int, int]], hours: int) -> None:
    """For a week at most, whatever its clock does; each backup has a minute of the hour to itself."""
    machine, backups, taken = lived(life)
    assert young(machine, taken, hours) & set(gone(backups, policy(hours), machine)) == set()


@given(
    st.lists(st.tuples(happenings, st.integers(-30, 30), st.integers(0, 4)), max_size=24),
    st.integers(1, 40),
    st.tuples(st.integers(0, 200 * 24), st.integers(-100, 100), st.booleans()),
)
@settings(max_examples=examples(300))
def test_nor_by_a_machine_that_did_not_take_them(
    life: list[tuple[str, int, int]], hours: int, other: tuple[int, int, bool]
) -> None:
    """It receives them, has been up for any time, and its clock is right or wrong."""
    machine, backups, taken = lived(life)
    up, off, synchronised = other
    receiver = Machine(real=machine.real, booted=machine.real - up * HOUR, boots=0)
    receiver.is_set(off * HOUR)
    if synchronised:
        receiver.synchronises()
    reading = of_any_machine(backups, receiver.reading)
    found = plan_retention(backups, policy(hours), receiver.now, BERLIN, {}, reading)
    assert young(machine, taken, hours) & {b.record.backup for b in found.destroy} == set()


def lived(life: list[tuple[str, int, int]]) -> tuple[Machine, list[Backup], dict[str, datetime]]:
    """The machine then, its backups, and when each was really taken."""
    machine, backups, taken = Machine(), [], {}
    for number, (what, by, length) in enumerate(life, 1):
        machine.passes(HOUR + timedelta(minutes=1))
        match what:
            case "passes":
                machine.passes(length * HOUR)
            case "restarts":
                machine.restarts(length * HOUR)
            case "is set":
                machine.is_set(by * HOUR)
            case "synchronises":
                machine.synchronises()
        if number % 2:
            backups.append(machine.backup(number))
            taken[f"backup-{number}"] = machine.real
    return machine, backups, taken


def young(machine: Machine, taken: dict[str, datetime], hours: int) -> set[str]:
    return {name for name, at in taken.items() if machine.real - at < hours * HOUR}


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 300)), min_size=1, max_size=40), st.integers(1, 40))
def test_a_clock_that_is_synchronised_is_believed(life: list[tuple[bool, int]], hours: int) -> None:
    """Also across restarts."""
    machine, backups = Machine(synchronised=True), []
    for number, (restarts, minutes) in enumerate(life, 1):
        machine.passes(timedelta(minutes=minutes))
        if restarts:
            machine.restarts(timedelta(minutes=minutes))
            machine.synchronises()
        backups.append(machine.backup(number))
    found = plan(backups, policy(hours), machine)
    assert found == plan_retention(backups, policy(hours), machine.now, BERLIN, {})


def day_of_backups() -> tuple[Machine, list[Backup]]:
    machine, backups = Machine(), []
    for number in range(1, 25):
        machine.passes(HOUR)
        backups.append(machine.backup(number))
    return machine, backups


@pytest.mark.parametrize("by", [timedelta(minutes=90), timedelta(hours=11), timedelta(days=2)])
def test_a_leap_of_hours_destroys_no_more_than_no_leap(by: timedelta) -> None:
    machine, backups = day_of_backups()
    before = gone(backups, policy(12), machine)
    machine.is_set(by)
    found = plan(backups, policy(12), machine)
    assert [b.record.backup for b in found.destroy] == before
    assert (
        found.note.startswith("the clock went on by ")
        and "ages are counted up to 2024-05-02 02:00" in found.note
    )
    backups.append(machine.backup(25))
    assert gone(backups, policy(12), machine) == before
    machine.is_set(-by)
    assert gone(backups, policy(12), machine) == before


def test_a_night_in_which_a_machine_was_off_counts_when_its_clock_is_synchronised() -> None:
    machine, backups = day_of_backups()
    before = gone(backups, policy(12), machine)
    machine.restarts(8 * HOUR)
    assert gone(backups, policy(12), machine) == before, "or was its clock put forward meanwhile?"
    backups = [replace(b, record=replace(b.record, clock=_synchronised(b))) for b in backups]
    machine.synchronises()
    assert len(gone(backups, policy(12), machine)) == len(before) + 8


def _synchronised(backup: Backup) -> Reading:
    clock = backup.record.clock
    assert clock
    return replace(clock, synchronised=True)


def test_after_a_week_a_leap_is_believed() -> None:
    machine, backups = day_of_backups()
    machine.is_set(11 * HOUR)
    for number in range(25, 25 + 24 * 8):
        machine.passes(HOUR)
        backups.append(machine.backup(number))
    assert plan(backups, policy(12), machine).note == ""


def test_this_machine() -> None:
    clock = SystemClock()
    one, other = clock.reading(), clock.reading()
    assert one.boot == other.boot and len(one.boot) == 36
    assert 0 < one.uptime <= other.uptime
    assert Reading.parse(str(one)) == one
    with pytest.raises(ValueError, match="no reading"):
        Reading.parse("boot 1.0 perhaps")
