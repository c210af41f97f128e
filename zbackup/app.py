"""The composition root: from settings to the context a job works in."""

import difflib
import os
import socket
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from zbackup.catalog.local import clones
from zbackup.clock import Clock, SystemClock
from zbackup.config.clones import Replica
from zbackup.config.retention import RetentionSettings as RetentionTable
from zbackup.config.settings import Instance, Settings
from zbackup.config.ship import S3Address, Ship, ZfsAddress
from zbackup.destinations.base import Destination
from zbackup.engines.base import Engine, LogFollower, LogReader, Recovery
from zbackup.engines.log_search import FileSearch, ServerSearch
from zbackup.engines.mongodb.options import ConnectOptions as MongoConnectOptions
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.watch.operator_file import OperatorFile
from zbackup.model.cloning import CloneRules, Mask, SourceServer
from zbackup.model.cron import Cron
from zbackup.model.errors import NotFound, UsageError
from zbackup.model.progress import Progress
from zbackup.model.recovery import Limits
from zbackup.model.retention import KEEP_AT_DESTINATION, Retention
from zbackup.model.schedule import Job, Timing, job_at
from zbackup.model.shipping import hold_tag
from zbackup.plan.clones.clone_name import own_names
from zbackup.plan.due import CronSlots, expected_every, offset
from zbackup.plan.health.advice_on_arrangements import Arrangements, Expected
from zbackup.proc.run import run
from zbackup.proc.run_directory import daemon_directory, own_directory
from zbackup.proc.ssh import SshHost
from zbackup.registry import annex
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.prepared import prepared

if TYPE_CHECKING:
    from zbackup.engines.mongodb.recovery.recover import MongoRecovery
    from zbackup.engines.mysql.plain_log.plain_log import PlainLog


def choose(settings: Settings, name: str | None) -> list[Instance]:
    """The instance of that name, or all of them. Raise NotFound, with the nearest name there is."""
    chosen = [each for each in settings.instance.values() if name in (None, each.name)]
    if chosen:
        return chosen
    near = difflib.get_close_matches(name or "", settings.instance, n=1)
    hint = f'did you mean "{near[0]}"?' if near else f"there is {', '.join(settings.instance) or 'none'}"
    wanted = f'"{name}" ' if name else ""
    raise NotFound(f"no instance {wanted}in the configuration; {hint}")


def choose_one(settings: Settings, name: str | None) -> Instance:
    """The instance of that name, or the only one. Raise UsageError when a name is needed, or NotFound."""
    chosen = choose(settings, name)
    if len(chosen) > 1:
        raise UsageError(f"which instance? There is {', '.join(i.name for i in chosen)}")
    return chosen[0]


def choose_destinations(instance: Instance, name: str | None) -> list[str]:
    """The names of the instance's destinations; of all, or the one of that name if it has it."""
    return [ship.label for ship in instance.ship if name in (None, ship.label)]


def choose_destination(ctx: Context, name: str) -> ShipDestination:
    """The instance's destination of that name. Raise NotFound, saying which there are."""
    found = next((t for t in ctx.destinations if t.name == name), None)
    if found is None:
        known = ", ".join(t.name for t in ctx.destinations) or "none: see [[instance.NAME.ship]]"
        raise NotFound(f"{ctx.instance} has no destination {name}; there is {known}")
    return found


def context(settings: Settings, instance: Instance, progress: Progress) -> Context:
    """What jobs on this instance work with. Nothing is connected to or read yet."""
    kind = _MongoAdapters if instance.engine == "mongodb" else _MysqlAdapters
    return Context(
        instance=instance.name,
        engine_name=instance.engine,
        datasets=instance.datasets,
        clones=instance.clones_dataset,
        mountpoint=instance.recovery.mountpoint,
        run_dir=settings.run_dir,
        zone=settings.timezone,
        zfs=Zfs(run, prepare=prepared),
        adapters=kind(settings, instance),
        clock=SystemClock(),
        progress=progress,
        retention=_retention(instance.retention),
        destinations=tuple(_ship_destination(settings, instance, ship) for ship in instance.ship),
        cloning=_cloning(settings, instance),
        helper=_helper(settings.daemon.helper),
        drill_helper=_helper(settings.daemon.drill_helper),
        service=instance.service.orders() if instance.service else None,
        elsewhere=instance.clones_elsewhere,
        copier=lambda: annex("copyback.engine").copier(instance, _connect_any(instance)),
        undoer=lambda: annex("undo.engine").undoer(instance, _connect_any(instance)),
        archive=instance.archive.rules() if instance.archive else None,
    )


def _helper(path: Path) -> Path | None:
    return path if os.geteuid() != 0 and path.is_socket() else None


def expected(settings: Settings, instance: Instance, now: datetime) -> Expected:
    """What the configuration promises of this instance."""
    schedule, timing = instance.schedule, instance.schedule.snapshot
    every = expected_every(timing, now, settings.timezone) if timing else None
    there = any(ship.prune or ship.verify or ship.drill for ship in instance.ship)
    scheduled = bool(timing or schedule.prune or schedule.ship or schedule.drill or there)
    drills = tuple((name, expected_every(t, now, settings.timezone)) for name, t in _drills(instance) if t)
    drill_slots = (
        (n, _slots(settings, instance, job_at("drill", n) if n else "drill", t)) for n, t in _drills(instance)
    )
    return Expected(
        snapshot_every=every,
        snapshot_slots=_slots(settings, instance, "snapshot", timing),
        max_age=instance.max_age,
        daemon=scheduled,
        lock_ceiling=instance.lock.hold,
        drills=drills,
        read_all=tuple(s.label for s in instance.ship if s.verify and s.verify_read == 0),
        drill_slots=tuple((name, slots) for name, slots in drill_slots if slots),
        arrangements=Arrangements(
            noticed=bool(timing or instance.max_age),
            off_site=any(_is_elsewhere(ship, instance) for ship in instance.ship),
            policy=not _retention(instance.retention).empty,
            pruned=schedule.prune is not None,
            scheduled=timing is not None,
        ),
    )


def _slots(settings: Settings, instance: Instance, job: Job, timing: Timing | None) -> CronSlots | None:
    """When the daemon does this job, where that is said by a cron expression."""
    share = offset(":".join((instance.name, job)), instance.schedule.jitter)
    return CronSlots(timing, settings.timezone, share) if isinstance(timing, Cron) else None


def _is_elsewhere(ship: Ship, instance: Instance) -> bool:
    """Whether what is shipped there is on another pool than the instance's."""
    if isinstance(ship.to, ZfsAddress) and not ship.to.host:
        return ship.to.dataset.partition("/")[0] != instance.datasets[0].partition("/")[0]
    return True


def drill_limits(settings: Settings) -> dict[tuple[str, str], float]:
    """The seconds that each drill on schedule may take, by instance and destination."""
    return {
        (instance.name, name): instance.schedule.drill_limit
        for instance in settings.instance.values()
        for name, timing in _drills(instance)
        if timing
    }


def _drills(instance: Instance) -> tuple[tuple[str, Timing | None], ...]:
    return ("", instance.schedule.drill), *((ship.label, ship.drill) for ship in instance.ship)


def clock() -> Clock:
    """Return the clock for what has no context."""
    return SystemClock()


def operator_file(settings: Settings) -> OperatorFile:
    """Return the file that operators' notes are kept in."""
    return OperatorFile(settings.daemon.state_dir, daemon_directory(settings.run_dir))


def daemon_lock(settings: Settings) -> Path:
    """Held by the daemon that works with this run directory."""
    # No instance's lock can be called so: a name has no dot.
    return daemon_directory(settings.run_dir) / "zbackup.daemon.lock"


def clone_names(settings: Settings) -> list[str]:
    """Names of all clones of all instances."""
    return [clone.name for root in _clone_roots(settings) for clone, _ in clones(Zfs(run), root)]


def _clone_roots(settings: Settings) -> tuple[str, ...]:
    """The datasets below which clones are made, of all instances."""
    instances = settings.instance.values()
    return tuple(dict.fromkeys(p for i in instances for p in (i.clones_dataset, *i.clones_elsewhere)))


def _source(replica: Replica | None) -> SourceServer | None:
    if replica is None:
        return None
    return SourceServer(
        host=replica.host, port=replica.port, user=replica.user, password=replica.password.read
    )


def _cloning(settings: Settings, instance: Instance) -> CloneRules:
    rules = instance.clones
    return CloneRules(
        roots=_clone_roots(settings),
        reserved=frozenset[str]().union(*map(own_names, settings.instance)),
        ports=settings.clones.ports,
        memory=rules.memory,
        lease=rules.lease,
        quota=rules.quota,
        reservation=rules.reservation,
        limits=Limits(nice=rules.nice, memory=rules.memory_max, cpu=rules.cpu_quota),
        start=rules.start,
        own_root=rules.own_root,
        mask=tuple(Mask(sql=step.sql or "", run=step.run or ()) for step in rules.mask),
        replica=_source(rules.replica),
        mask_limit=rules.mask_limit,
        warn=rules.warn,
        on_warning=rules.on_warning or (),
        hook_limit=instance.notify.limit,
    )


class _MysqlAdapters:
    def __init__(self, settings: Settings, instance: Instance) -> None:
        self._settings, self._instance = settings, instance
        self._connect, self._run_dir = _connect(instance), daemon_directory(settings.run_dir)

    @cached_property
    def _plain(self) -> "PlainLog | None":
        from zbackup.engines.mysql.plain_log.plain_log import copy_of_log

        lock = self._run_dir / f"{self._instance.name}.plain-log.lock"
        return copy_of_log(self._instance.plain_log, self._connect, lock)

    @cached_property
    def engine(self) -> Engine:
        from zbackup.engines.mysql.engine import MysqlEngine

        name, lock = self._instance.name, self._instance.lock
        return MysqlEngine(
            instance=name, connect=self._connect, lock=lock, run_dir=self._run_dir, plain=self._plain
        )

    @cached_property
    def recovery(self) -> Recovery:
        from zbackup.engines.mysql.recovery.recover import MysqlRecovery

        table = self._instance.recovery
        return MysqlRecovery(flavor=self._instance.engine, table=table, closed=_closed(self._settings))

    @cached_property
    def log_reader(self) -> LogReader:
        from zbackup.engines.mysql.recovery.log_reader import MysqlLogReader

        return MysqlLogReader(flavor=self._instance.engine, plain=self._plain)

    @cached_property
    def log_search(self) -> FileSearch:
        from zbackup.engines.mysql.recovery.log_search import MysqlLogSearch

        return MysqlLogSearch(flavor=self._instance.engine, server=self._instance.recovery.server)

    @cached_property
    def follower(self) -> LogFollower:
        from zbackup.engines.mysql.archive.follow import MysqlLogFollower

        return MysqlLogFollower(self._plain)


class _MongoAdapters:
    def __init__(self, settings: Settings, instance: Instance) -> None:
        self._settings, self._instance = settings, instance
        self._connect = _connect_mongodb(instance)

    @cached_property
    def engine(self) -> Engine:
        from zbackup.engines.mongodb.engine import MongoEngine

        name, lock = self._instance.name, self._instance.lock
        run_dir = daemon_directory(self._settings.run_dir)
        return MongoEngine(instance=name, connect=self._connect, lock=lock, run_dir=run_dir)

    @cached_property
    def recovery(self) -> "MongoRecovery":
        from zbackup.engines.mongodb.recovery.recover import MongoRecovery

        return MongoRecovery(table=self._instance.recovery, closed=_closed(self._settings))

    @cached_property
    def log_reader(self) -> LogReader:
        from zbackup.engines.mongodb.recovery.log_reader import MongoLogReader

        return MongoLogReader(connect=self._connect)

    @cached_property
    def log_search(self) -> ServerSearch:
        from zbackup.engines.mongodb.recovery.log_search import MongoLogSearch

        return MongoLogSearch(connect=self._connect, recovery=self.recovery)

    @cached_property
    def follower(self) -> LogFollower:
        from zbackup.engines.mongodb.archive.follow import MongoLogFollower

        return MongoLogFollower(self._connect)


def _closed(settings: Settings) -> tuple[str, ...]:
    """Where other servers' sockets are: a recovered server has no business there."""
    sockets = (instance.socket_path for instance in settings.instance.values())
    return tuple(dict.fromkeys(str(d) for d in (settings.run_dir, *(s.parent for s in sockets if s))))


def _connect_any(instance: Instance) -> ConnectOptions | MongoConnectOptions:
    return _connect_mongodb(instance) if instance.engine == "mongodb" else _connect(instance)


def _connect_mongodb(instance: Instance) -> MongoConnectOptions:
    """The secrets are read when the engine connects, so that a restore works without them."""
    secret, uri = instance.password, instance.uri
    return MongoConnectOptions(
        socket=str(instance.socket_path or ""),
        host=instance.host or "127.0.0.1",
        port=instance.tcp_port,
        user=instance.user,
        password=secret.read if secret else None,
        auth_source=instance.auth_source,
        mechanism=instance.auth_mechanism or "",
        tls=instance.tls,
        uri=(lambda: uri) if isinstance(uri, str) else uri.read if uri else None,
    )


def _connect(instance: Instance) -> ConnectOptions:
    """The secret is read when the engine connects, so that a restore works without it."""
    secret = instance.password
    return ConnectOptions(
        socket=str(instance.socket_path or ""),
        host=instance.host or "",
        port=instance.tcp_port,
        user=instance.user,
        password=secret.read if secret else lambda: "",
        tls=instance.tls,
    )


def _ship_destination(settings: Settings, instance: Instance, ship: Ship) -> ShipDestination:
    return ShipDestination(
        adapter=destination(settings, instance.name, ship),
        tag=hold_tag(socket.gethostname(), instance.name, ship.label),
        retention=replace(_retention(ship.retention), keep_at_most=KEEP_AT_DESTINATION),
        initial=ship.initial == "allow",
        limit=ship.bandwidth or 0,
        sample=ship.verify_read,
        max_lag=timedelta(seconds=ship.max_lag) if ship.max_lag else None,
        grace=timedelta(seconds=ship.grace),
    )


def destination(settings: Settings, instance: str, ship: Ship) -> Destination:
    """Return the adapter of the destination where that instance has its copies; connects to nothing."""
    match ship.to:
        case S3Address() as to:
            # Imported here: a host without a bucket need not wait until boto3 is read.
            from zbackup.destinations.s3 import from_config

            memory = own_directory(settings.run_dir)
            return from_config.destination(
                ship, to, instance, SystemClock(), settings.daemon.state_dir, memory
            )
        case to:
            from zbackup.destinations.zfs_destination import ZfsDestination

            return ZfsDestination(
                name=ship.label,
                address=str(to),
                root=to.dataset,
                instance=instance,
                target=_ssh(ship, to) if to.host else None,
                # An instance's clones have sockets beside it; none of their names has this ending.
                control=own_directory(settings.run_dir) / f"{instance}.{ship.label}.ssh",
            )


def _ssh(ship: Ship, to: ZfsAddress) -> SshHost:
    return SshHost(
        host=to.host,
        user=to.user,
        port=to.port,
        identity=ship.ssh.identity,
        known_hosts=ship.ssh.known_hosts,
        options=tuple(f"{name}={value}" for name, value in ship.ssh.options.items()),
        sudo=ship.ssh.sudo,
        alive_s=int(ship.ssh.alive),
    )


def _retention(rules: RetentionTable) -> Retention:
    return Retention(tiers=rules.keep, last=rules.last, minimum=rules.minimum, window=rules.window)
