"""Prometheus metrics of the daemon. The only user of prometheus_client."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import metadata

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    start_http_server,
)
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from zbackup.clock import Clock, SystemClock
from zbackup.daemon.job_table import Key
from zbackup.jobs.archive.state import ArchiveState
from zbackup.jobs.backup.snapshot import SnapshotReport
from zbackup.jobs.drills.verdicts import Drilled
from zbackup.jobs.ship.lag import Shipped
from zbackup.jobs.watch.status import InstanceStatus
from zbackup.model.errors import Taken
from zbackup.model.schedule import Due, Outcome, parted
from zbackup.plan.due import History

SPACE = ("data", "snapshots", "clones")
LEVEL = {"ok": 0, "warning": 1, "critical": 2}
SECONDS = (0.1, 0.3, 1, 3, 10, 30, 60, 300, 900, 3600)
LOCK_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)


class _Exposures:
    """Since when archives are exposed, by the clock that never jumps."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self._started = clock, clock.monotonic()
        self.known: dict[str, dict[str, float]] = {}

    def since(self, instance: str, state: ArchiveState) -> float:
        """Return since when the archive is exposed that is in this state now."""
        known = self.known.setdefault(instance, {})
        age, before = state.exposed(self.clock.now()), known.get(state.destination)
        if before is not None and (age is None or state.error):
            return before
        found = self._started if age is None else self.clock.monotonic() - age.total_seconds()
        known[state.destination] = found
        return found


class Metrics:
    """One registry; set from the daemon's main thread, read by whoever scrapes."""

    def __init__(self, clock: Clock | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._pools: dict[str, str] = {}
        self._destinations: dict[str, list[str]] = {}
        self._drills: dict[str, list[str]] = {}
        self._exposures = _Exposures(clock or SystemClock())
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        info = Info("zbackup_build", "Version of zbackup", registry=self._registry)
        info.info({"version": metadata.version("zbackup")})
        self._describe_jobs()
        self._describe_backups()
        self._describe_destinations()
        self._describe_window()
        self._describe_health()

    def _describe_jobs(self) -> None:
        job = ("instance", "job")
        self._runs = self._counter("job_runs", "Runs of jobs by result", (*job, "result"))
        self._seconds = Histogram(
            "zbackup_job_duration_seconds",
            "How long jobs took",
            job,
            buckets=SECONDS,
            registry=self._registry,
        )
        self._lock = Histogram(
            "zbackup_lock_held_seconds",
            "How long the database was locked for a snapshot",
            ("instance", "lock"),
            buckets=LOCK_SECONDS,
            registry=self._registry,
        )
        self._failures = self._gauge("job_consecutive_failures", "Failures in a row, 0 after a success", job)
        self._success = self._gauge("job_last_success_timestamp_seconds", "Last success of a job", job)
        self._next = self._gauge("job_next_run_timestamp_seconds", "When a job is due next", job)

    def _describe_backups(self) -> None:
        instance = ("instance",)
        self._taken = self._gauge(
            "last_snapshot_timestamp_seconds", "When the newest usable snapshot was taken", instance
        )
        self._as_of = self._gauge(
            "last_snapshot_as_of_timestamp_seconds",
            "Last transaction in the newest usable snapshot",
            instance,
        )

    def _describe_destinations(self) -> None:
        destination = ("instance", "destination")
        self._arrived = self._gauge(
            "shipped", "1 when any backup has arrived at a destination, 0 while none has", destination
        )
        self._there = self._gauge(
            "shipped_timestamp_seconds", "When the newest backup at a destination was taken", destination
        )
        self._there_as_of = self._gauge(
            "shipped_as_of_timestamp_seconds", "Last transaction in the newest backup there", destination
        )
        self._exposed = self._gauge(
            "log_exposed_seconds", "How much of the log would be lost if this host died now", destination
        )
        self._drill_passed = self._gauge(
            "drill_last_success_timestamp_seconds",
            'When a drill passed last of what is at a destination ("" for this host)',
            destination,
        )
        self._drill_result = self._gauge(
            "drill_last_result", "1 when the last drill passed, 0 when it failed", destination
        )
        self._drill_every = self._gauge(
            "drill_interval_seconds", "How often a drill is to be made", destination
        )

    def _describe_window(self) -> None:
        instance = ("instance",)
        self._window = self._gauge(
            "recovery_window_start_timestamp_seconds", "Moments after this one can be restored", instance
        )
        self._gaps = self._gauge("recovery_window_gaps", "Gaps in the promised window", instance)
        self._lacking = self._gauge(
            "recovery_window_lacking_seconds", "How much of the promised window cannot be restored", instance
        )
        self._backups = self._gauge("backups", "Backups there are", instance)
        self._clones = self._gauge("clones", "Clones there are", instance)
        self._space = self._gauge("space_bytes", "Room an instance occupies", (*instance, "kind"))
        self._free = self._gauge("pool_free_bytes", "Room left on an instance's pool", (*instance, "pool"))
        self._size = self._gauge("pool_size_bytes", "Size of an instance's pool", (*instance, "pool"))

    def _describe_health(self) -> None:
        instance = ("instance",)
        self._health = self._gauge("health", "0 ok, 1 warning, 2 critical", instance)
        self._paused = self._gauge("paused", "1 while an operator has paused the scheduled jobs", instance)
        self._known = self._gauge("acknowledged_problems", "Problems an operator has acknowledged", instance)
        self._reload_ok = self._gauge("config_last_reload_successful", "1 unless the last reload was refused")
        self._reload_ok.set(1)

    def serve(self, address: tuple[str, int]) -> None:
        """Answer at this address from a thread of its own. Raise Taken when it cannot be had."""
        host, port = address
        try:
            start_http_server(port, host, registry=self._registry)
        except OSError as failure:
            raise Taken(f"cannot serve metrics at {host}:{port}: {failure.strerror or failure}") from failure

    def reloaded(self, *, valid: bool) -> None:
        """The configuration was read again."""
        self._reload_ok.set(int(valid))

    def ended(self, outcome: Outcome) -> None:
        """A job has ended."""
        result = "failure" if outcome.error else "postponed" if outcome.postponed else "success"
        kind, destination = parted(outcome.job)
        # What the last drill proved, its verdict says (`watched`): a job also fails that could try nothing.
        if kind == "drill" and result == "success" and outcome.evidence:
            _set(self._drill_passed, (outcome.instance, destination), outcome.evidence)
        self._runs.labels(outcome.instance, outcome.job, result).inc()
        self._seconds.labels(outcome.instance, outcome.job).observe(outcome.seconds)

    def planned(self, histories: Mapping[Key, History], due: Mapping[Key, Due]) -> None:
        """Set the gauges of all jobs from what is known of them; jobs that are gone have none any more."""
        for gauge in (self._failures, self._success, self._next):
            gauge.clear()
        for key, history in histories.items():
            self._failures.labels(*key).set(history.failures)
            _set(self._success, key, history.last)
            _set(self._next, key, due[key].at if key in due else None)

    def snapshot(self, report: SnapshotReport) -> None:
        """One was taken."""
        record = report.backup.record
        _set(self._taken, (record.instance,), record.taken)
        _set(self._as_of, (record.instance,), record.as_of)
        if record.lock_held_ms is not None:
            self._lock.labels(record.instance, record.lock).observe(record.lock_held_ms / 1000)

    def watched(self, status: InstanceStatus) -> None:
        """An instance was looked at."""
        name = (status.instance,)
        record = status.newest.record if status.newest else None
        _set(self._taken, name, record.taken if record else None)
        _set(self._as_of, name, record.as_of if record else None)
        _set(self._window, name, status.window.start if status.window else None)
        self._gaps.labels(*name).set(len(status.gaps))
        self._lacking.labels(*name).set(status.lost.total_seconds())
        self._backups.labels(*name).set(status.backups)
        self._clones.labels(*name).set(status.clones)
        room = status.space
        for kind, size in zip(SPACE, (room.data, room.snapshots, room.clones), strict=True):
            self._space.labels(*name, kind).set(size)
        self._pools[status.instance] = room.pool.name
        self._free.labels(*name, room.pool.name).set(room.pool.free)
        self._size.labels(*name, room.pool.name).set(room.pool.size)
        self._health.labels(*name).set(LEVEL[status.health])
        self._paused.labels(*name).set(int(status.paused is not None))
        self._known.labels(*name).set(len(status.acknowledged.problems) if status.acknowledged else 0)
        self._shipped(status.instance, status.shipped)
        self._drilled(status.instance, status.drills)

    def unseen(self, instance: str) -> None:
        """An instance could not be looked at: nobody knows how it is, and that is no reason to call it ok."""
        self._health.labels(instance).set(LEVEL["critical"])

    def archived(self, instance: str, state: ArchiveState) -> None:
        """A log archive was looked at, could not be, or is about to be for the first time. Called in the
        lanes' threads.

        The value is made when it is asked for, and grows while nothing is archived, whatever is done to the
        wall clock; from the daemon's start where it is not known when anything was.
        """
        clock, since = self._exposures.clock, self._exposures.since(instance, state)
        self._exposed.labels(instance, state.destination).set_function(lambda: clock.monotonic() - since)

    def forget(self, instance: str) -> None:
        """It is not in the configuration any more."""
        alone = (self._taken, self._as_of, self._window, self._gaps, self._lacking)
        for gauge in (*alone, self._backups, self._clones, self._health, self._paused, self._known):
            _remove(gauge, (instance,))
        for kind in SPACE:
            _remove(self._space, (instance, kind))
        self._shipped(instance, ())
        self._drilled(instance, ())
        for to in self._exposures.known.pop(instance, {}):
            _remove(self._exposed, (instance, to))
        pool = self._pools.pop(instance, "")
        for gauge in (self._free, self._size):
            _remove(gauge, (instance, pool))

    def _shipped(self, instance: str, shipped: Sequence[Shipped]) -> None:
        for gone in self._destinations.pop(instance, []):
            for gauge in (self._arrived, self._there, self._there_as_of):
                _remove(gauge, (instance, gone))
        for each in shipped:
            newest, labels = each.newest, (instance, each.destination)
            self._arrived.labels(*labels).set(int(newest is not None))
            _set(self._there, labels, newest.taken if newest else None)
            _set(self._there_as_of, labels, newest.as_of if newest else None)
        self._destinations[instance] = [each.destination for each in shipped]

    def _drilled(self, instance: str, drills: Sequence[Drilled]) -> None:
        for gone in self._drills.pop(instance, []):
            for gauge in (self._drill_passed, self._drill_result, self._drill_every):
                _remove(gauge, (instance, gone))
        for each in drills:
            labels = (instance, each.destination)
            _set(self._drill_passed, labels, each.passed.at if each.passed else None)
            if each.last:
                self._drill_result.labels(*labels).set(int(each.last.passed))
            if each.every:
                self._drill_every.labels(*labels).set(each.every.total_seconds())
        self._drills[instance] = [each.destination for each in drills]

    def _gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
        return Gauge(f"zbackup_{name}", text, labels, registry=self._registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(f"zbackup_{name}", text, labels, registry=self._registry)


def _set(gauge: Gauge, labels: tuple[str, ...], when: datetime | None) -> None:
    if when is None:
        _remove(gauge, labels)
    else:
        gauge.labels(*labels).set(when.timestamp())


def _remove(gauge: Gauge, labels: tuple[str, ...]) -> None:
    with contextlib.suppress(KeyError):
        gauge.remove(*labels)
