"""The table of what the daemon has to do when: the jobs of all instances, how they went, and which is
next.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from zbackup.clock import Clock
from zbackup.daemon.apscheduler_adapter import Pool, Scheduler
from zbackup.model.event_log import log
from zbackup.model.schedule import Due, Interval, Job, Outcome, Retry, Timing, parted
from zbackup.plan import due
from zbackup.plan.due import History

Key = tuple[str, Job]
"""An instance's name and a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A job of an instance as it is configured. `timing` None: it is done once, before all others."""

    key: Key
    timing: Timing | None
    retry: Retry
    jitter: float = 0.0
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn that is over: how it went, and what the job reported if it went well.

    Not `begun`: the daemon was told to stop while it waited for a free thread, and nothing was done.
    """

    outcome: Outcome
    report: Any = None
    begun: bool = True


@dataclass(slots=True)
class _Entry:
    task: Task
    history: History
    due: Due | None = None
    outcome: Outcome | None = None


def lane(key: Key) -> str:
    """Jobs of one lane never run at the same time. What goes to destinations, which may take hours, has one
    of its own.

    No instance's name has a colon. Drills of all instances have one lane: a host makes one at a time.
    """
    if is_drill(key):
        return ":drill"
    return f"{key[0]}:ship" if is_long(key) else key[0]


def is_drill(key: Key) -> bool:
    """A drill, here or at a destination."""
    return parted(key[1])[0] == "drill"


def is_long(key: Key) -> bool:
    """Shipping, and what is done at a destination."""
    kind, destination = parted(key[1])
    return kind == "ship" or bool(destination)


class JobTable:
    """Belongs to the daemon's main thread; only `run` is called in others, and must not come back in here.

    A lane has one turn at a time: its most urgent job. The next is planned when that one has ended.
    """

    def __init__(self, clock: Clock, scheduler: Scheduler[Ended], run: Callable[[Key], Ended]) -> None:
        self._clock, self._scheduler, self._run = clock, scheduler, run
        self._entries: dict[Key, _Entry] = {}
        self._next: dict[str, Key] = {}
        self._running: dict[str, Key] = {}
        self._clocks = (clock.now(), clock.monotonic())

    def set_tasks(self, tasks: Iterable[Task], histories: Mapping[Key, History]) -> None:
        """The configuration is this now. What is known of jobs that were there before is kept."""
        before, self._entries = self._entries, {}
        for task in tasks:
            known = before.get(task.key)
            told = replace(histories.get(task.key, History()), since=self._clock.now())
            history = known.history if known else told
            self._entries[task.key] = _Entry(task, history, outcome=known.outcome if known else None)
        for each in {lane(key) for key in (*before, *self._entries)}:
            self._plan(each)

    def learn(self, key: Key, last: datetime | None) -> None:
        """What was found out of a job's last success, such as from the snapshots there are."""
        if entry := self._entries.get(key):
            entry.history = replace(entry.history, last=last)

    def ended(self, outcome: Outcome) -> None:
        """A job has ended: plan the instance's next."""
        key: Key = (outcome.instance, outcome.job)
        self._running.pop(lane(key), None)
        if entry := self._entries.get(key):  # it may be gone from the configuration meanwhile
            entry.outcome = outcome
            if outcome.postponed:
                now = self._clock.now()
                entry.history = replace(entry.history, postponed=now, gave_way=outcome.message)
            elif outcome.error:
                entry.history = entry.history.after(outcome.error, outcome.message, self._clock.now())
            else:
                # What is not done yet is none that the next start could go by.
                last = entry.history.last if outcome.more else outcome.evidence or outcome.started
                entry.history = History(last=last, more=outcome.more, since=self._clock.now())
        self._plan(lane(key))

    def not_begun(self, key: Key) -> None:
        """A turn was given up while it waited for a free thread."""
        self._running.pop(lane(key), None)

    def step(self) -> float | None:
        """Start what is due; seconds until the next is. A clock that was set makes all times new."""
        clocks = (self._clock.now(), self._clock.monotonic())
        jump = due.clock_jumped(self._clocks, clocks)
        self._clocks = clocks
        if jump is not None:
            log.warning("clock.jumped", seconds=round(jump.total_seconds(), 1))
            for each in {lane(key) for key in self._entries}:
                self._plan(each)
        step = self._scheduler.step()
        for each in step.started:
            self._running[each] = self._next.pop(each)
        return step.wait

    def due(self) -> dict[Key, Due]:
        """When each job is next; without those that are done for good."""
        return {key: entry.due for key, entry in self._entries.items() if entry.due is not None}

    def histories(self) -> dict[Key, History]:
        """What is known of each job."""
        return {key: entry.history for key, entry in self._entries.items()}

    def failures(self, outcome: Outcome) -> int:
        """How many times this job has failed now in a row."""
        entry = self._entries.get((outcome.instance, outcome.job))
        return entry.history.failures if entry else 0

    def outcomes(self) -> dict[Key, Outcome]:
        """How each job's last run ended, of those that ran."""
        return {key: entry.outcome for key, entry in self._entries.items() if entry.outcome is not None}

    def running(self) -> list[Key]:
        """The jobs that are under way, or wait for a free thread."""
        return list(self._running.values())

    def _plan(self, name: str) -> None:
        """Plan the lane's next turn: choose its job, and have it run when it is due. Not while one is under
        way."""
        if name in self._running:
            return
        entries = [entry for key, entry in self._entries.items() if lane(key) == name]
        for entry in entries:
            entry.due = self._due(entry)
        first = [e for e in entries if e.task.timing is None and e.due and not e.history.failures]
        # Of two that are due at the same time the one that was configured first.
        chosen = min((e for e in first or entries if e.due), key=_at, default=None)
        if chosen is None or chosen.due is None:
            self._scheduler.forget(name)
            self._next.pop(name, None)
            return
        key = chosen.task.key
        self._next[name] = key
        pool: Pool = "drill" if is_drill(key) else "long" if is_long(key) else "default"
        self._scheduler.at(name, chosen.due.at, lambda: self._run(key), pool=pool)

    def _due(self, entry: _Entry) -> Due | None:
        task, history = entry.task, entry.history
        if task.timing is None and history.last is not None:
            return None
        timing = task.timing or Interval(task.retry.most)
        share = due.offset(":".join(task.key), task.jitter)
        return due.due(timing, task.retry, history, self._clock.now(), task.zone, offset=share)


def _at(entry: _Entry) -> datetime:
    if entry.due is None:
        raise AssertionError("a job that is not due cannot be compared")
    return entry.due.at
