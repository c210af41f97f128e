"""Jobs in threads of a pool: what happens to those that wait for one."""

import queue
import threading
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.clock import SystemClock
from zbackup.config.schedule import Notify
from zbackup.daemon.apscheduler_adapter import Scheduler
from zbackup.daemon.job_pings import HookNotifier
from zbackup.daemon.job_table import Ended, JobTable, Key, Task
from zbackup.daemon.worker import MOST_SAID, Worker
from zbackup.model.errors import DatabaseError, Postponed, Stopped
from zbackup.model.schedule import Interval, Retry
from zbackup.plan.due import History

LIMIT_S = 30


def test_who_waits_for_a_thread_when_the_daemon_is_told_to_stop_does_not_begin() -> None:
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    begun: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop, go_on = threading.Event(), threading.Event()

    def snapshot(context: Any) -> None:
        begun.put(context)
        assert go_on.wait(LIMIT_S)

    worker = Worker(
        SystemClock(), lambda name: name, lambda _: None, lambda _, context: snapshot(context), stop.is_set
    )  # type: ignore[arg-type, return-value]
    scheduler: Scheduler[Ended] = Scheduler(1, ended.put)
    job_table = JobTable(SystemClock(), scheduler, worker.run)
    keys: list[Key] = [("books", "snapshot"), ("shop", "snapshot"), ("wiki", "snapshot")]
    job_table.set_tasks([Task(key=k, timing=Interval(60), retry=Retry(first=1, most=2)) for k in keys], {})
    job_table.step()
    first = begun.get(timeout=LIMIT_S)
    assert sorted(job_table.running()) == keys
    stop.set()
    scheduler.stop(wait=False)
    go_on.set()
    told = [ended.get(timeout=LIMIT_S) for _ in keys]
    assert begun.empty()
    assert [e.outcome.instance for e in told if e.begun] == [first]
    for each in told:
        if not each.begun:
            job_table.not_begun((each.outcome.instance, each.outcome.job))
    assert job_table.running() == [(first, "snapshot")]


def test_whatever_goes_wrong_before_a_job_is_a_failure_of_that_job() -> None:
    def begin(_: Key) -> None:
        raise RuntimeError("no")

    worker = Worker(SystemClock(), lambda _: None, begin, lambda *_: None, lambda: False)  # type: ignore[arg-type, return-value]
    assert worker.run(("shop", "snapshot")).outcome.error == "RuntimeError"


def test_what_a_program_said_before_it_failed_is_made_fit_for_an_environment() -> None:
    def fail(_: Any) -> None:
        raise DatabaseError("a \0 byte\nand " + "more " * 10_000)

    worker = Worker(
        SystemClock(), lambda _: None, lambda _: None, lambda _, context: fail(context), lambda: False
    )  # type: ignore[arg-type, return-value]
    said = worker.run(("shop", "snapshot")).outcome.message
    assert "a byte and more" in said and len(said) == MOST_SAID


@pytest.mark.parametrize("failure", [Postponed("x"), Stopped(("zfs", "send"), -1, "zbackup was told to end")])
def test_what_a_stop_cut_short_has_not_failed_and_its_last_success_stays(failure: Exception) -> None:
    """Every restart would call for somebody; the next start goes on, as what is due since the last time."""

    def cut(_: Any) -> None:
        raise failure

    clock = SystemClock()
    worker = Worker(clock, lambda _: None, lambda _: None, lambda _, context: cut(context), lambda: False)  # type: ignore[arg-type, return-value]
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    job_table = JobTable(clock, Scheduler(1, ended.put), worker.run)
    key: Key = ("shop", "ship")
    last = clock.now() - timedelta(hours=2)
    task = Task(key=key, timing=Interval(3600), retry=Retry(first=600, most=900))
    job_table.set_tasks([task], {key: History(last=last)})
    job_table.step()
    outcome = ended.get(timeout=LIMIT_S).outcome
    told: list[object] = []
    teller = HookNotifier(cast(Any, SimpleNamespace(queue=lambda *_: SimpleNamespace(put=told.append))))
    teller.ended(outcome, Notify(ping={"ship": "http://127.0.0.1:1"}, on_failure=("/bin/false",)), 1)
    assert (outcome.postponed, outcome.error, outcome.message, told) == (True, "", str(failure), [])
    job_table.ended(outcome)
    history = job_table.histories()[key]
    assert (history.failures, history.last) == (0, last)


def test_a_drill_that_gives_way_neither_failed_nor_succeeded_and_comes_again() -> None:
    def give_way(_: Any) -> None:
        raise Postponed("a restore is being made")

    clock = SystemClock()
    worker = Worker(
        clock, lambda _: None, lambda _: None, lambda _, context: give_way(context), lambda: False
    )  # type: ignore[arg-type, return-value]
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    job_table = JobTable(clock, Scheduler(1, ended.put), worker.run)
    key: Key = ("shop", "drill")
    job_table.set_tasks([Task(key=key, timing=Interval(3600), retry=Retry(first=600, most=900))], {})
    job_table.step()
    outcome = ended.get(timeout=LIMIT_S).outcome
    assert (outcome.postponed, outcome.error, outcome.exit_status) == (True, "", 0)
    before = clock.now()
    job_table.ended(outcome)
    history, due = job_table.histories()[key], job_table.due()[key]
    assert (history.failures, history.last) == (0, None)
    assert due.reason == "postponed: a restore is being made"
    assert 590 < (due.at - before).total_seconds() < 610
