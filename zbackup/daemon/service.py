"""The daemon: takes up its work, does it until it is told to stop, and leaves nothing behind."""

import os
import queue
import signal
from collections.abc import Callable

import structlog

from zbackup import app
from zbackup.clock import Clock, SystemClock
from zbackup.config.settings import Settings
from zbackup.daemon.agenda import Agenda, Ended, Key
from zbackup.daemon.bell import Bell
from zbackup.daemon.scheduler import Scheduler
from zbackup.daemon.sd_notify import Notifier
from zbackup.daemon.tasks import histories, tasks
from zbackup.daemon.worker import JOBS, LogProgress, Worker
from zbackup.jobs.context import Context
from zbackup.jobs.journal import Journal, Remembered
from zbackup.jobs.reconcile import Reconciled
from zbackup.model.errors import ConfigError, ZbackupError
from zbackup.proc.lock import exclusive

log = structlog.get_logger()

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOP = {signal.SIGTERM, signal.SIGINT}

# How late a clock that was set may be noticed, and the longest sleep.
LOOK_S = 5.0


class Service:
    """`load` reads the configuration, at the start and at every reload."""

    def __init__(self, load: Callable[[], Settings], clock: Clock | None = None) -> None:
        self._load = load
        self._settings = load()
        self._clock = clock or SystemClock()
        self._notifier = Notifier(os.environ)
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._journal = Journal(self._settings.daemon.state_dir)

    def run(self) -> None:
        """Until SIGTERM or SIGINT. Raise ConfigError, or Taken when another daemon runs."""
        wanted = tasks(self._settings)
        lock = self._settings.run_dir / "zbackup.daemon.lock"
        with exclusive(lock, "zbackup daemon", wait=1):
            self._bell = Bell(SIGNALS)
            scheduler = Scheduler(self._settings.daemon.workers, self._tell)
            worker = Worker(self._clock, self._context, self._begin, JOBS)
            self._agenda = Agenda(self._clock, scheduler, worker.run)
            self._agenda.set_tasks(wanted, histories(self._journal.read()))
            log.info("daemon.started", instances=sorted({t.key[0] for t in wanted}))
            self._notifier.ready()
            self._work()
            self._stop(scheduler)

    # in the main thread

    def _work(self) -> None:
        while True:
            self._collect()
            wait = self._agenda.step()
            self._say_alive()
            arrived = self._bell.wait(self._sleep(wait))
            if arrived & STOP:
                return
            if signal.SIGHUP in arrived:
                self._reload()

    def _sleep(self, wait: float | None) -> float:
        limits = (LOOK_S, wait, self._notifier.watchdog_s)
        return min(limit for limit in limits if limit is not None)

    def _say_alive(self) -> None:
        if self._notifier.watchdog_s is not None:
            self._notifier.alive()

    def _collect(self) -> None:
        """Take in what jobs reported that have ended."""
        news = False
        while not self._ended.empty():
            ended = self._ended.get()
            news = True
            if isinstance(ended.report, Reconciled):
                self._agenda.learn((ended.outcome.instance, "snapshot"), ended.report.last)
            self._agenda.ended(ended.outcome)
        if news:
            self._write_down()

    def _reload(self) -> None:
        """Take on the configuration as it is now, or keep the old one if it is not valid."""
        self._notifier.reloading()
        try:
            settings = self._load()
            wanted = tasks(settings)
        except ConfigError as invalid:
            log.error("config.invalid", problems=invalid.problems, kept="the settings from before")
            self._notifier.status(f"reload failed, old settings kept: {invalid.problems[0]}")
        else:
            self._settings = settings
            self._agenda.set_tasks(wanted, {})
            log.info("config.reloaded", instances=sorted({t.key[0] for t in wanted}))
            self._notifier.status("reloaded")
        self._notifier.ready()

    def _stop(self, scheduler: Scheduler[Ended]) -> None:
        """Begin nothing any more and wait for what is running, up to the limit.

        Past it the process ends as if it were killed: the database servers end its sessions and the locks
        with them, the kernel drops its lock files, and the next start puts right what is unfinished.
        """
        self._notifier.stopping()
        limit = self._settings.daemon.stop_limit
        log.info("daemon.stopping", running=[":".join(key) for key in self._agenda.running()], limit_s=limit)
        scheduler.stop(wait=False)
        deadline = self._clock.monotonic() + limit
        while self._agenda.running():
            left = deadline - self._clock.monotonic()
            if left <= 0 or self._bell.wait(self._sleep(left)) & STOP:
                self._give_up()
            self._collect()
            self._say_alive()
        log.info("daemon.stopped")

    def _give_up(self) -> None:
        log.error("daemon.gave_up", running=[":".join(key) for key in self._agenda.running()])
        os._exit(ZbackupError.exit_status)

    def _write_down(self) -> None:
        due, outcomes = self._agenda.due(), self._agenda.outcomes()
        rows = []
        for (instance, job), history in self._agenda.histories().items():
            outcome, planned = outcomes.get((instance, job)), due.get((instance, job))
            rows.append(
                Remembered(
                    instance=instance,
                    job=job,
                    last=history.last,
                    failures=history.failures,
                    failed=history.failed,
                    seconds=outcome.seconds if outcome else None,
                    error=outcome.error if outcome else "",
                    message=outcome.message if outcome else "",
                    next=planned.at if planned else None,
                    why=planned.reason if planned else "",
                )
            )
        try:
            self._journal.write(rows)
        except OSError as failure:
            log.warning("journal.not_written", reason=str(failure))

    # in the jobs' threads

    def _context(self, instance: str) -> Context:
        settings = self._settings
        return app.context(settings, settings.instance[instance], LogProgress())

    def _begin(self, key: Key) -> None:
        log.debug("job.started")

    def _tell(self, ended: Ended) -> None:
        self._ended.put(ended)
        self._bell.ring()
