"""The daemon: takes up its work, does it until it is told to stop, and leaves nothing behind."""

import os
import queue
import select
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import FrameType

import structlog

from zbackup import app
from zbackup.clock import Clock, SystemClock
from zbackup.config.settings import Instance, Settings
from zbackup.daemon.apscheduler_adapter import Scheduler
from zbackup.daemon.events import EventHandler
from zbackup.daemon.health_notifier import HealthNotifier, SeenFindings
from zbackup.daemon.job_pings import TOLD, HookNotifier, Queues
from zbackup.daemon.job_table import Ended, JobTable, Key
from zbackup.daemon.metrics import Metrics
from zbackup.daemon.sd_notify import Notifier
from zbackup.daemon.tasks import histories, jobs, tasks
from zbackup.daemon.worker import LogProgress, Worker
from zbackup.jobs.archive.keep_up import KeepUp
from zbackup.jobs.archive.state import ArchiveState, known_state
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.journal import Journal
from zbackup.jobs.watch.status import InstanceStatus
from zbackup.model.errors import ConfigError, Postponed, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.operator_notes import Pause
from zbackup.model.schedule import parted
from zbackup.proc.lock import exclusive

Lane = tuple[str, str]
"""An instance's name and a destination's."""


@dataclass(frozen=True, slots=True)
class _RunningLane:
    thread: threading.Thread
    stop: threading.Event
    configured: object


class Archivers:
    """Belongs to the daemon's main thread. `told` hears, in the lanes' threads, how each archive is; `paused`
    is asked there whether an instance's jobs are not to run now."""

    def __init__(self, told: Callable[[str, ArchiveState], None], paused: Callable[[str], bool]) -> None:
        self._told, self._paused = told, paused
        self._running: dict[Lane, _RunningLane] = {}
        self._ending: list[threading.Thread] = []

    def set(self, settings: Settings) -> None:
        """The configuration is this now: lanes that are as they were go on."""
        wanted = {
            (name, to): instance
            for name, instance in settings.instance.items()
            for to in (instance.archive.to if instance.archive else ())
        }
        changed = [lane for lane, now in self._running.items() if now.configured != wanted.get(lane)]
        for lane in changed:
            self._end(lane)
        for lane, instance in wanted.items():
            if lane not in self._running:
                self._begin(settings, lane, instance)

    def stop(self) -> None:
        """Tell all lanes to end."""
        for lane in list(self._running):
            self._end(lane)

    def running(self) -> list[Lane]:
        """The lanes that have not ended yet, also when they were told to."""
        self._ending = [thread for thread in self._ending if thread.is_alive()]
        return [*self._running, *((thread.name, "") for thread in self._ending)]

    def _begin(self, settings: Settings, lane: Lane, instance: Instance) -> None:
        context = app.context(settings, instance, LogProgress())
        destination = app.choose_destination(context, lane[1])
        stop = threading.Event()
        self._told(lane[0], known_state(context, lane[1]))
        name = ":".join(("archive", *lane))
        thread = threading.Thread(target=self._run, args=(context, destination, stop), name=name, daemon=True)
        self._running[lane] = _RunningLane(thread, stop, instance)
        thread.start()

    def _run(self, ctx: Context, destination: ShipDestination, stop: threading.Event) -> None:
        def told(state: ArchiveState) -> None:
            self._told(ctx.instance, state)

        with structlog.contextvars.bound_contextvars(job="archive", instance=ctx.instance):
            while not stop.is_set():
                try:
                    KeepUp(ctx, destination, stop, told, lambda: self._paused(ctx.instance)).run()
                except Exception:
                    log.exception("archive.defect", destination=destination.name)
                    stop.wait(60)

    def _end(self, lane: Lane) -> None:
        running = self._running.pop(lane)
        running.stop.set()
        self._ending.append(running.thread)


class Waker:
    """A pipe to oneself. Signals arrive as bytes in it, so nothing is ever done inside a handler."""

    def __init__(self, signals: Iterable[signal.Signals]) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in signals:
            signal.signal(number, _noted)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def ring(self) -> None:
        """From any thread: there is something to do."""
        try:
            os.write(self._write, b"\0")
        except BlockingIOError:
            return  # it rings already

    def wait(self, seconds: float) -> set[signal.Signals]:
        """Sleep until it rings, at most so long; the signals that arrived."""
        if not select.select([self._read], [], [], seconds)[0]:
            return set()
        known = {int(s): s for s in signal.Signals}
        return {known[byte] for byte in os.read(self._read, 4096) if byte in known}


def _noted(_: int, __: FrameType | None) -> None:
    """The wakeup file descriptor has it."""


SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
STOP = {signal.SIGTERM, signal.SIGINT}

# A daemon is never done: nobody can be told to wait for that.
RUNS = (
    "{holder} runs already, and one is enough for all instances: zbackup status says how it does, SIGTERM "
    "(systemctl stop zbackup, where it is a service) ends it, SIGHUP makes it read the configuration again"
)

# How late a clock that was set may be noticed, and the longest sleep.
POLL_S = 5.0


class DaemonService:
    """`load` reads the configuration, at the start and at every reload; `before_exit` lets what was logged be
    written before the process ends without further ado."""

    def __init__(
        self,
        load: Callable[[], Settings],
        clock: Clock | None = None,
        before_exit: Callable[[], None] = lambda: None,
    ) -> None:
        self._load, self._before_exit = load, before_exit
        self._settings = load()
        self._tasks = tasks(self._settings)
        self._clock = clock or SystemClock()
        self._notifier = Notifier(os.environ)
        self._ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._journal = Journal(self._settings.daemon.state_dir)
        self._metrics = Metrics()
        self._archivers = Archivers(self._metrics.archived, lambda name: self._pause(name) is not None)
        queues = Queues()
        self._hooks = HookNotifier(queues)
        self._health = HealthNotifier(self._settings.daemon.state_dir, queues)

    def run(self) -> None:
        """Until SIGTERM or SIGINT. Raise Taken when another daemon runs, or the metrics' port is in use."""
        settings = self._settings
        with exclusive(app.daemon_lock(settings), "zbackup daemon", wait=1, taken=RUNS):
            self._waker = Waker(SIGNALS)
            if settings.daemon.metrics:
                self._metrics.serve(settings.daemon.metrics)
            workers, ships = settings.daemon.workers, settings.daemon.ships
            scheduler = Scheduler(workers, self._tell, long_workers=ships)
            do = jobs(lambda: self._settings, self._journal, self._stopping.is_set)
            worker = Worker(self._clock, self._context, self._begin, do, self._stopping.is_set)
            self._job_table = JobTable(self._clock, scheduler, worker.run)
            self._events = EventHandler(self._job_table, self._journal, self._metrics, self._notifier)
            self._job_table.set_tasks(self._tasks, histories(self._journal.read()))
            log.info("daemon.started", instances=self._names())
            self._archivers.set(settings)
            self._notifier.ready()
            self._work()
            self._stop(scheduler)

    # in the main thread

    def _work(self) -> None:
        while True:
            self._collect()
            wait = self._job_table.step()
            self._say_alive()
            arrived = self._waker.wait(self._sleep(wait))
            if arrived & STOP:
                return
            if signal.SIGHUP in arrived:
                self._reload()

    def _sleep(self, wait: float | None) -> float:
        limits = (POLL_S, wait, self._notifier.watchdog_s)
        return min(limit for limit in limits if limit is not None)

    def _say_alive(self) -> None:
        if self._notifier.watchdog_s is not None:
            self._notifier.alive()

    def _collect(self) -> None:
        """Take in what jobs reported that have ended."""
        reported = False
        while not self._ended.empty():
            ended = self._ended.get()
            if not ended.begun:
                self._job_table.not_begun((ended.outcome.instance, ended.outcome.job))
                continue
            reported = True
            instance = self._settings.instance.get(ended.outcome.instance)
            if instance is None:  # it went from the configuration meanwhile
                self._job_table.ended(ended.outcome)
                continue
            self._events.of(ended)
            self._tell_health(ended)
            self._hooks.ended(ended.outcome, instance.notify, self._job_table.failures(ended.outcome))
        if reported:
            self._events.write()

    def _tell_health(self, ended: Ended) -> None:
        outcome, report, notify = ended.outcome, ended.report, self._settings.notify
        if isinstance(report, InstanceStatus):
            seen = SeenFindings(instance=report.instance, looked=report.looked, findings=report.findings)
            self._health.of(seen, notify)
        elif outcome.job == "watch" and outcome.error:
            self._health.failed(outcome.instance, self._clock.now(), outcome.message, notify)

    def _reload(self) -> None:
        """Take on the configuration as it is now, or keep the old one if it is not valid."""
        self._notifier.reloading()
        try:
            settings = self._load()
            wanted = tasks(settings)
        except ConfigError as invalid:
            log.error("config.invalid", problems=invalid.problems, kept="the settings from before")
            self._metrics.reloaded(valid=False)
            self._notifier.status(f"reload failed, the old settings are kept: {invalid.problems[0]}")
        else:
            if fixed := fixed_at_start(self._settings, settings):
                log.warning("config.needs_restart", settings=fixed)
            for gone in set(self._settings.instance) - set(settings.instance):
                self._metrics.forget(gone)
            self._settings, self._tasks = settings, wanted
            self._job_table.set_tasks(wanted, {})
            self._archivers.set(settings)
            self._metrics.reloaded(valid=True)
            log.info("config.reloaded", instances=self._names())
            self._events.write()
        self._notifier.ready()

    def _stop(self, scheduler: Scheduler[Ended]) -> None:
        """Begin nothing any more and wait for what is running, up to the limit.

        Past it the process ends as if it were killed: the database servers end its sessions and the locks
        with them, the kernel drops its lock files, and the next start puts right what is unfinished.
        """
        self._stopping.set()
        self._notifier.stopping()
        limit = self._settings.daemon.stop_limit
        log.info(
            "daemon.stopping", running=[":".join(key) for key in self._job_table.running()], limit_s=limit
        )
        scheduler.stop(wait=False)
        self._archivers.stop()
        deadline = self._clock.monotonic() + limit
        while self._job_table.running() or self._archivers.running():
            left = deadline - self._clock.monotonic()
            if left <= 0 or self._waker.wait(self._sleep(left)) & STOP:
                self._give_up()
            self._collect()
            self._say_alive()
        self._hooks.close()
        log.info("daemon.stopped")

    def _give_up(self) -> None:
        log.error("daemon.gave_up", running=[":".join(key) for key in self._job_table.running()])
        self._before_exit()
        os._exit(ZbackupError.exit_status)

    def _names(self) -> list[str]:
        return sorted({task.key[0] for task in self._tasks})

    # in the jobs' threads

    def _context(self, instance: str) -> Context:
        settings = self._settings
        return app.context(settings, settings.instance[instance], LogProgress())

    def _begin(self, key: Key) -> None:
        if parted(key[1])[0] in TOLD and (pause := self._pause(key[0])):
            raise Postponed(f"paused until {pause.until.isoformat(timespec='seconds')}")
        log.debug("job.started")
        if instance := self._settings.instance.get(key[0]):
            self._hooks.begins(key[1], instance.notify)

    def _pause(self, instance: str) -> Pause | None:
        return app.operator_file(self._settings).read().pause_of(instance, self._clock.now())

    def _tell(self, ended: Ended) -> None:
        self._ended.put(ended)
        self._waker.ring()


def fixed_at_start(old: Settings, new: Settings) -> list[str]:
    """Settings that were changed and that only a restart takes on."""
    names = ("state_dir", "workers", "ships", "metrics")
    found = [f"daemon.{name}" for name in names if getattr(old.daemon, name) != getattr(new.daemon, name)]
    return found + (["run_dir"] if old.run_dir != new.run_dir else [])
