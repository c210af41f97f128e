"""Events about a promise that is not kept, and how the daemon knows."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.unit.plan.histories import made
from tests.unit.reports import a_status
from tests.unit.samples import NOON
from zbackup.catalog.local import Catalog
from zbackup.clock import SystemClock
from zbackup.daemon.apscheduler_adapter import Scheduler
from zbackup.daemon.events import EventHandler
from zbackup.daemon.job_table import Ended, JobTable, Task
from zbackup.daemon.metrics import Metrics
from zbackup.daemon.sd_notify import Notifier
from zbackup.daemon.tasks import histories
from zbackup.jobs.job_history import JobHistory
from zbackup.jobs.journal import Journal
from zbackup.jobs.watch.status import lost_of
from zbackup.model.backup import Backup
from zbackup.model.schedule import Interval, Outcome, Retry
from zbackup.plan.recovery.window import LiveLog, recovery_window

HOUR = timedelta(hours=1)
NOW = NOON + 30 * HOUR


def test_a_window_that_is_not_kept_is_said_once_each_time_it_changes(tmp_path: Path) -> None:
    def never(_: object) -> Ended:
        raise AssertionError

    job_table = JobTable(SystemClock(), Scheduler(1, lambda _: None), never)
    news = EventHandler(job_table, Journal(tmp_path), Metrics(), Notifier({}))

    def hear(**changes: Any) -> list[str]:
        outcome = Outcome(instance="shop", job="watch", started=NOON, seconds=1)
        with capture_logs() as said:
            news.of(Ended(outcome, a_status(findings=(), **changes)))
        return [f"{line['log_level']} {line['event']}" for line in said]

    assert hear() == []
    assert hear(lost=HOUR) == ["error window.not_kept"]
    assert hear(lost=2 * HOUR) == []
    assert hear(lost=2 * HOUR, gaps=("binlog.000002 was purged",)) == ["error window.not_kept"]
    assert hear() == ["info window.kept"]


def test_an_instance_that_cannot_be_looked_at_is_not_ok(tmp_path: Path) -> None:
    """What the last look found is not what is the case: nobody knows that."""

    def never(_: object) -> Ended:
        raise AssertionError

    metrics = Metrics()
    job_table = JobTable(SystemClock(), Scheduler(1, lambda _: None), never)
    news = EventHandler(job_table, Journal(tmp_path), metrics, Notifier({}))

    def hear(job: Any, error: str = "", report: object = None) -> float | None:
        outcome = Outcome(instance="shop", job=job, started=NOON, seconds=1, error=error, message=error)
        with capture_logs():
            news.of(Ended(outcome, report))
        return metrics._registry.get_sample_value("zbackup_health", {"instance": "shop"})

    assert hear("watch", "PoolSuspended") == 2, "also before the first look"
    assert hear("watch", report=a_status(findings=())) == 0
    assert hear("ship", "ConnectionFailed") == 0, "a job that fails is what the next look tells of"
    assert hear("watch", "PoolSuspended") == 2
    assert hear("watch", report=a_status(findings=())) == 0


def test_what_another_host_said_may_be_no_text(tmp_path: Path) -> None:
    """It is told as zfs or ssh there told it, and the daemon goes on."""

    def never(_: object) -> Ended:
        raise AssertionError

    news = EventHandler(
        JobTable(SystemClock(), Scheduler(1, lambda _: None), never),
        Journal(tmp_path),
        Metrics(),
        Notifier({}),
    )
    said = "cannot receive: a\udcffb"
    outcome = Outcome(
        instance="shop", job="ship:vault", started=NOON, seconds=1, error="CommandFailed", message=said
    )
    news.of(Ended(outcome))
    (run,) = JobHistory(tmp_path).read()
    assert run.message == "cannot receive: a\\udcffb"


def test_a_difference_is_one_until_it_is_disproved(tmp_path: Path) -> None:
    """Not only until the next look fails for another reason, and also for a daemon that was started anew."""

    def never(_: object) -> Ended:
        raise AssertionError

    journal = Journal(tmp_path)

    def started() -> EventHandler:
        job_table = JobTable(SystemClock(), Scheduler(1, lambda _: None), never)
        week = Interval(7 * 86400.0)
        task = Task(key=("shop", "verify:here"), timing=week, retry=Retry(first=900, most=6 * 3600))
        job_table.set_tasks([task], histories(journal.read()))
        return EventHandler(job_table, journal, Metrics(), Notifier({}))

    def hear(news: EventHandler, error: str, message: str) -> tuple[int, str, str]:
        said = {"error": error, "message": message}
        news.of(Ended(Outcome(instance="shop", job="verify:here", started=NOON, seconds=1, **said)))  # type: ignore[arg-type]
        news.write()
        (row,) = journal.read()
        return row.failures, row.error, row.message

    news = started()
    assert hear(news, "ConnectionFailed", "no route") == (1, "ConnectionFailed", "no route")
    assert hear(news, "VerificationFailed", "other data") == (2, "VerificationFailed", "other data")
    assert hear(news, "ConnectionFailed", "no route") == (3, "VerificationFailed", "other data")
    news = started()
    news.write()
    assert journal.read()[0].error == "VerificationFailed"
    assert hear(news, "ConnectionFailed", "no route") == (4, "VerificationFailed", "other data")
    assert hear(news, "VerificationFailed", "a copy is gone") == (5, "VerificationFailed", "a copy is gone")
    assert hear(news, "", "") == (0, "", "")


def hourly(first: int, last: int, *, since: int | None = None) -> list[Backup]:
    """Backups of these hours; `since` is when there were backups first."""
    found = []
    for hour in range(first, last + 1):
        one = made(hour + 1, NOON + hour * HOUR)
        known = None if since is None else NOON + since * HOUR
        found.append(replace(one, record=replace(one.record, since=known)))
    return found


@pytest.mark.parametrize(
    ("backups", "hours"),
    [
        (hourly(0, 30, since=0), 0),  # as promised
        (hourly(20, 30, since=20), 0),  # it has not had the time to be longer
        (hourly(20, 30), 0),  # nobody wrote down whether there were others
        (hourly(20, 30, since=0), 10),  # there were, and somebody destroyed them
        (hourly(20, 30, since=15), 5),
    ],
)
def test_a_window_is_short_only_when_it_could_be_longer(backups: list[Backup], hours: int) -> None:
    """Twenty hours are promised."""
    reach = recovery_window(backups, LiveLog("log", "binlog.000001:4"), NOW)
    assert lost_of(Catalog((), tuple(backups), ()), reach, NOW - 20 * HOUR, NOW) == hours * HOUR
