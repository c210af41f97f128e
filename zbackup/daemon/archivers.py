"""The daemon's log archives: a thread for each instance and destination, which keeps nothing else waiting."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from zbackup import app
from zbackup.config.settings import Instance, Settings
from zbackup.daemon.worker import LogProgress
from zbackup.jobs.archive.keep_up import KeepUp
from zbackup.jobs.archive.state import ArchiveState, known_state
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.event_log import log

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
