"""Months of the real scheduler with a clock of ours: what ran, when, and what did not."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import apscheduler.schedulers.base
import pytest
from apscheduler.executors.debug import DebugExecutor

from zbackup.daemon.apscheduler_adapter import Scheduler
from zbackup.daemon.job_table import Ended, JobTable, Key, Task
from zbackup.model.cron import Cron
from zbackup.model.schedule import Interval, Job, Outcome, Retry, Timing
from zbackup.plan.due import History

START = datetime(2024, 1, 1, 0, 0, 7, tzinfo=UTC)
BEFORE_SUMMER = datetime(2024, 3, 18, 0, 0, 7, tzinfo=UTC)
"""Two weeks before the clocks are put forward."""
RETRY = Retry(first=30, most=900)
BERLIN = ZoneInfo("Europe/Berlin")
TICK = 5.0


@dataclass
class FakeClock:
    """Wall and monotonic clock; the wall can be set."""

    wall: datetime = START
    steady: float = 1000.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def sleep(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.steady += seconds


@dataclass
class World:
    """The daemon's main loop on a fake clock. What has run survives a restart, as snapshots do in ZFS."""

    tasks: list[Task]
    clock: FakeClock = field(default_factory=FakeClock)
    takes: Callable[[Key], float] = lambda _: 1.0
    fails: Callable[[Key, datetime], bool] = lambda *_: False
    has_more: Callable[[Key], bool] = lambda _: False
    ran: list[tuple[Key, datetime]] = field(default_factory=list)
    last: dict[Key, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.ended: list[Ended] = []
        self.job_table = JobTable(self.clock, Scheduler(1, self.ended.append, DebugExecutor()), self._run)
        self.job_table.set_tasks(self.tasks, {key: History(last=when) for key, when in self.last.items()})

    def _run(self, key: Key) -> Ended:
        started = self.clock.now()
        self.ran.append((key, started))
        self.clock.sleep(self.takes(key))
        failed = self.fails(key, started)
        if not failed:
            self.last[key] = started
        instance, job = key
        error = "LockNotTaken" if failed else ""
        more = self.has_more(key)
        return Ended(Outcome(instance=instance, job=job, started=started, seconds=1, error=error, more=more))

    def run(self, seconds: float) -> None:
        end = self.clock.steady + seconds
        while self.clock.steady < end:
            wait = self.job_table.step()
            if self.ended:
                for ended in self.ended:
                    self.job_table.ended(ended.outcome)
                self.ended.clear()
                continue
            # Long sleeps are as good as many short ones when nobody sets the clock meanwhile.
            self.clock.sleep(min(end - self.clock.steady, TICK if wait is None else max(wait, 0.001)))

    def times(self, job: Job = "snapshot", instance: str = "shop") -> list[datetime]:
        return [when for key, when in self.ran if key == (instance, job)]


def task(timing: Timing | None, job: Job = "snapshot", instance: str = "shop", jitter: float = 0) -> Task:
    return Task(key=(instance, job), timing=timing, retry=RETRY, jitter=jitter, zone=BERLIN)


@pytest.fixture(autouse=True)
def the_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FakeClock]]:
    """APScheduler asks the same clock."""
    clocks: list[FakeClock] = []

    class Fake(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return clocks[-1].wall.astimezone(tz)

    monkeypatch.setattr(apscheduler.schedulers.base, "datetime", Fake)
    original = FakeClock.__init__

    def remembered(self: FakeClock, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)  # type: ignore[arg-type]
        clocks.append(self)

    monkeypatch.setattr(FakeClock, "__init__", remembered)
    yield clocks


DAY = 86_400.0


def test_three_weeks_at_five_minutes_and_both_are_there() -> None:
    """Every slot has its snapshot, once, also over the change to summer time."""
    world = World(
        [task(Interval(300)), task(Interval(3600), "prune"), task(Cron.parse("0 3 * * *"), "watch")],
        FakeClock(BEFORE_SUMMER),
    )
    world.run(21 * DAY)
    snapshots, prunes, nights = world.times(), world.times("prune"), world.times("watch")
    slots = [t.timestamp() // 300 for t in snapshots]
    assert slots[0] == BEFORE_SUMMER.timestamp() // 300
    assert slots[1:] == [slots[0] + n for n in range(1, len(slots))]
    assert abs(len(snapshots) - 21 * 288) <= 1
    assert abs(len(prunes) - 21 * 24) <= 1
    assert all(t.astimezone(BERLIN).hour == 3 for t in nights[1:]) and len(nights) == 22
    assert max(t.timestamp() % 300 for t in snapshots[1:]) < 3, "what comes at the same time waits a moment"


def test_an_instance_does_one_thing_at_a_time() -> None:
    world = World([task(Interval(10)), task(Interval(10), "prune")], takes=lambda key: 7.0)
    world.run(600)
    ends = [when + timedelta(seconds=7) for _, when in world.ran]
    assert all(end <= begin for end, (_, begin) in zip(ends, world.ran[1:], strict=False))
    assert min(len(world.times()), len(world.times("prune"))) > 30, "neither starves the other"


def test_what_takes_many_turns_goes_on_at_once_and_lets_others_in_between() -> None:
    """The first prune there ever is has a month's snapshots to destroy."""
    turns = iter([True] * 40)
    world = World(
        [task(Interval(300)), task(Cron.parse("0 3 * * *"), "prune")],
        takes=lambda key: 30.0 if key[1] == "prune" else 1.0,
        has_more=lambda key: key[1] == "prune" and next(turns, False),
    )
    world.run(3000)
    assert len(world.times("prune")) == 41
    assert len(world.times()) == 11
    assert max(t.timestamp() % 300 for t in world.times()[1:]) < 31


def test_what_takes_many_turns_is_gone_on_with_by_the_next_daemon() -> None:
    """It would else be done only the next night, as if all of it had been done."""
    turns = iter([True] * 9)
    world = World([task(Cron.parse("0 3 * * *"), "prune")], has_more=lambda _: next(turns, False))
    known = world.job_table.histories
    world.run(3)
    assert len(world.times("prune")) == 3
    world.last = {key: history.last for key, history in known().items() if history.last}
    world.restart()
    world.run(60)
    assert len(world.times("prune")) == 10


@pytest.mark.parametrize("more", [False, True])
def test_a_job_that_takes_longer_than_its_interval_starves_no_other(more: bool) -> None:
    """Such as snapshots on a pool that is full of work: prune is what helps it."""
    jobs: tuple[Job, ...] = ("prune", "watch", "leases")
    world = World(
        [task(Interval(10)), *(task(Interval(60), job) for job in jobs)],
        takes=lambda key: 30.0 if key[1] == "snapshot" else 1.0,
        has_more=lambda key: more and key[1] == "prune",
    )
    world.run(1200)
    assert min(len(world.times(job)) for job in jobs) >= 15
    assert len(world.times()) >= 15


def test_what_is_done_once_comes_first_and_never_again() -> None:
    world = World([task(Interval(10)), task(None, "reconcile")])
    world.run(60)
    assert [key[1] for key, _ in world.ran][:2] == ["reconcile", "snapshot"]
    assert len(world.times("reconcile")) == 1


def test_what_fails_the_first_time_does_not_keep_the_others_waiting() -> None:
    world = World([task(Interval(10)), task(None, "reconcile")], fails=lambda key, _: key[1] == "reconcile")
    world.run(120)
    assert len(world.times()) == 13, "one at once, and one every ten seconds"
    assert [round((t - START).total_seconds()) for t in world.times("reconcile")] == [0, 31, 92]


def test_restarts_forget_nothing_and_repeat_nothing() -> None:
    """A daemon that is restarted every 70 seconds does what one does that never is."""
    steady = World([task(Interval(300)), task(Cron.parse("30 */2 * * *"), "prune")])
    steady.run(2 * DAY)
    shaken = World([task(Interval(300)), task(Cron.parse("30 */2 * * *"), "prune")])
    for _ in range(int(2 * DAY // 70)):
        shaken.run(70)
        shaken.restart()
    for job in ("snapshot", "prune"):
        ours = [t.replace(second=0, microsecond=0) for t in shaken.times(job)]
        theirs = [t.replace(second=0, microsecond=0) for t in steady.times(job)][: len(ours)]
        assert ours == theirs and len(ours) > 20


def test_after_a_night_without_power_there_is_one_snapshot() -> None:
    world = World([task(Interval(300))])
    world.run(1000)
    world.clock.sleep(10 * 3600)
    world.restart()
    before = len(world.ran)
    world.run(600)
    made_up, *regular = world.times()[before:]
    assert (made_up - START).total_seconds() == pytest.approx(37_000, abs=2)
    assert [t.timestamp() % 300 < 1 for t in regular] == [True, True]


def test_a_laptop_that_slept_goes_on_at_once() -> None:
    world = World([task(Interval(300))])
    world.run(1000)
    world.clock.wall += timedelta(hours=8)  # the monotonic clock stands still meanwhile
    before = len(world.ran)
    world.run(1)
    assert len(world.ran) == before + 1


@pytest.mark.parametrize("hours", [-5, -0.5, 5])
def test_a_clock_that_is_set_stops_nothing(hours: float) -> None:
    world = World([task(Interval(300)), task(Cron.parse("0 * * * *"), "prune")])
    world.run(3600)
    world.clock.wall += timedelta(hours=hours)
    before = len(world.times())
    world.run(3600)
    assert 12 <= len(world.times()) - before <= 14


def test_failures_are_tried_again_ever_more_rarely_and_then_all_is_as_before() -> None:
    begin, end = START + timedelta(hours=1), START + timedelta(hours=10)
    world = World([task(Interval(300))], fails=lambda _, when: begin <= when < end)
    world.run(12 * 3600)
    bad = [t for t in world.times() if begin <= t < end]
    gaps = [(b - a).total_seconds() for a, b in pairwise(bad)]
    assert [round(g) for g in gaps[:6]] == [31, 61, 121, 241, 481, 901]
    assert set(map(round, gaps[5:])) == {901}
    after = [t for t in world.times() if t >= end]
    assert after[0] - end < timedelta(seconds=902)
    assert [round(t.timestamp()) % 300 for t in after[1:]] == [0] * (len(after) - 1)


def test_instances_with_jitter_do_not_all_begin_at_once() -> None:
    tasks = [task(Interval(300), instance=f"db{n}", jitter=200) for n in range(20)]
    world = World(tasks, last={t.key: START for t in tasks})
    world.run(300 * 4)
    offsets = {n: {round(t.timestamp() % 300) for t in world.times(instance=f"db{n}")} for n in range(20)}
    assert all(max(times) - min(times) <= 20 for times in offsets.values()), "its own second every time"
    assert len({min(times) for times in offsets.values()}) > 12


def test_a_new_configuration_keeps_what_is_known() -> None:
    world = World([task(Interval(300)), task(Interval(300), instance="wiki")])
    world.run(100)
    known: Mapping[Key, datetime] = dict(world.last)
    world.job_table.set_tasks([task(Interval(60)), task(Interval(60), instance="blog")], {})
    world.run(10)
    assert world.last["wiki", "snapshot"] == known["wiki", "snapshot"]
    assert len(world.times(instance="blog")) == 1, "the first at once"
    assert len(world.times()) == 2, "the next minute has begun"
    assert {key[0] for key in world.job_table.due()} == {"shop", "blog"}
