"""Let a recovered clone take production's place, and bring production back from aside.

What is to be done is written on the clone before anything is done; see steps for what follows. A switch
that fails before the server was started goes back by itself. Cut short, it waits for somebody's word.
"""

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace

from zbackup.catalog.switched import require_settled, switches
from zbackup.features.switch.end_of_log import discard_production, snapshot_production, snapshot_successor
from zbackup.features.switch.inspect import (
    HALF_DONE,
    clone_to_switch,
    find,
    intend,
    intent_of,
    newest,
    replicas_ahead,
    require_free_mountpoints,
    require_no_replicas_ahead,
    require_unread,
)
from zbackup.features.switch.steps import (
    all_of,
    away,
    dress,
    part_name,
    put_back,
    put_in_place,
    require_in_place,
    undress,
    unmount,
)
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import (
    CommandFailed,
    CommandTimedOut,
    ConfigError,
    DatabaseError,
    NotInService,
    Refused,
    ZbackupError,
)
from zbackup.model.event_log import log
from zbackup.model.long_value import CHUNK
from zbackup.model.record import Record
from zbackup.model.server import ServerFacts
from zbackup.model.switch import Outcome, ServiceCommands, Switch
from zbackup.plan.health.placement import require_one_snapshot_covers
from zbackup.proc.run import run

POLL_S = 0.5

# A member of a set that has just been started knows none, until it has read its files.
STARTING_S = 30.0


def service_of(ctx: Context) -> ServiceCommands:
    """Raise ConfigError when it is not configured."""
    if ctx.service is None:
        where = f"instance.{ctx.instance}.service"
        raise ConfigError(
            [f'{where}: missing; how its server is stopped, such as {{ unit = "mysql.service" }}']
        )
    return ctx.service


def inspect(ctx: Context) -> ServerFacts | None:
    """See that we can tell whether the server answers, before anybody stops it. What it says, if it does.

    Raise ConfigError: a password that only the daemon can read would be missed when it is too late.
    """
    service_of(ctx)
    try:
        return ctx.engine.inspect()
    except DatabaseError as silent:
        ctx.progress.note(f"{ctx.instance} does not answer before it is stopped: {silent}")
        return None


def stop(ctx: Context) -> None:
    """Stop it, and see that nobody answers any more. Raise CommandFailed or DatabaseError."""
    service = service_of(ctx)
    ctx.progress.phase("stopping the server", service.stop[-1])
    try:
        run(service.stop, timeout=service.limit)
    except BaseException:
        _withdraw(ctx, service)
        raise
    end = ctx.clock.monotonic() + service.limit
    while _answers(ctx):
        if ctx.clock.monotonic() > end:
            raise DatabaseError(
                f"the server of {ctx.instance} still answers {service.limit:g} s after its stop"
            )
        time.sleep(POLL_S)


def _withdraw(ctx: Context, service: ServiceCommands) -> None:
    """systemd goes on stopping when nobody waits for that any more: a server that still answers would be down
    soon. Told to start it, systemd starts it again when it is stopped.
    """
    if not service.by_systemd:
        return
    try:
        run(service.start, timeout=service.limit)
    except CommandTimedOut:
        ctx.progress.note(f"systemd still stops {service.stop[-1]}, and starts it again afterwards")
    except CommandFailed as failure:
        ctx.progress.note(f"it may still be stopped: {failure}")


def _answers(ctx: Context) -> bool:
    try:
        ctx.engine.inspect()
    except NotInService:
        return True
    except DatabaseError:
        return False
    return True


def start(ctx: Context) -> str:
    """Start it unless it runs, and see that it answers and works on the instance's datasets.

    Returns what its operator has to do before anybody can work with it, "" for nothing: then nobody can tell
    where its files are. Raise CommandFailed, DatabaseError when it does not answer in time, Refused when its
    files are elsewhere.
    """
    service = service_of(ctx)
    ctx.progress.phase("starting the server", service.start[-1])
    if not _answers(ctx):
        run(service.start, timeout=service.limit)
    begun = ctx.clock.monotonic()
    end = begun + service.limit
    while True:
        try:
            facts = ctx.engine.inspect()
            break
        except NotInService as waits:
            if ctx.clock.monotonic() > begun + STARTING_S:
                return str(waits)
        except DatabaseError as silent:
            if ctx.clock.monotonic() > end:
                raise DatabaseError(f"no answer within {service.limit:g} s: {silent}") from silent
        time.sleep(POLL_S)
    require_one_snapshot_covers(facts.data_paths, ctx.members())
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPlan:
    """The plan of a switch: dataset renames (from, to) in their order. `ahead` lists the replicas with
    transactions that the clone lacks."""

    clone: Clone
    renames: tuple[tuple[str, str], ...]
    service: ServiceCommands
    ahead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchReport:
    """The report of a switch. `aside` are the datasets of what was production before; `backup` is the first
    one of what is now, None when none could be taken. `remarks` are what somebody has to look after."""

    clone: Clone
    outcome: Outcome
    aside: tuple[str, ...]
    backup: str | None = None
    remarks: tuple[str, ...] = ()


def plan(ctx: Context, name: str) -> SwitchPlan:
    """Look and decide, and change nothing. Raise what switch() would raise before it changes anything."""
    clone = clone_to_switch(ctx, name)
    switch = clone.switch if clone.state in HALF_DONE and clone.switch else intend(ctx, clone)
    require_unread(ctx, all_of(switch))
    require_free_mountpoints(ctx, clone, switch)
    facts = inspect(ctx)
    ahead = () if clone.state in HALF_DONE else replicas_ahead(ctx, facts, clone.reached)
    renames = [(root, switch.aside(root)) for root in switch.roots]
    renames += [(part_name(ctx, clone, each.number), each.name) for each in switch.coming]
    return SwitchPlan(clone=clone, renames=tuple(renames), service=service_of(ctx), ahead=ahead)


def switch(ctx: Context, name: str, *, accept_ahead: bool = False) -> SwitchReport:
    """Let the clone take production's place; one that was cut short is finished. `accept_ahead`: replicas may
    have what the clone lacks.

    Raise NotFound, ConfigError or Refused before anything is changed. When it fails before the server was
    started, production is as it was. When the server does not start or answer, it is left for a look.
    """
    with ExitStack() as locks:
        locks.enter_context(working_on(ctx, name, "zbackup switch"))
        locks.enter_context(ctx.instance_lock("zbackup switch"))
        clone = clone_to_switch(ctx, name)
        record = clone_datasets.record_of(ctx, clone)
        intent = intent_of(clone) if clone.state in HALF_DONE else intend(ctx, clone)
        require_unread(ctx, all_of(intent))
        if clone.state not in HALF_DONE:
            clone_datasets.open_again(ctx, clone)
        require_free_mountpoints(ctx, clone, intent)
        facts = inspect(ctx)
        if clone.state not in HALF_DONE and not accept_ahead:
            require_no_replicas_ahead(ctx, facts, clone.reached)
        clone = replace(clone, state="switching", stopped=True, switch=intent)
        _write_intent(ctx, clone)
        try:
            _exchange(ctx, clone, intent, facts)
        except (ZbackupError, KeyboardInterrupt) as failure:
            _go_back(ctx, clone, failure)
            raise
        waits = _start(ctx, clone)
        clone = replace(clone, state="switched")
        clone_datasets.describe(ctx, clone)
    log.info("switch.done", clone=name)
    aside = tuple(intent.aside(each.name) for each in intent.leaving)
    remarks = (*([waits] if waits else []), *_remarks(record))
    return _with_backup(ctx, SwitchReport(clone=clone, outcome="switched", aside=aside, remarks=remarks))


def undo(ctx: Context, name: str = "", *, accept_ahead: bool = False) -> SwitchReport:
    """Bring back what was production before the newest switch (or the one to the clone `name`).
    `accept_ahead`: replicas may have what was written since.

    Also of a switch that was cut short. What was written since stays in the clone, and the backups taken
    since stay in the catalogue. Raise NotFound, ConfigError, or Refused before anything is changed.
    """
    name = name or newest(ctx)
    with ExitStack() as locks:
        locks.enter_context(working_on(ctx, name, "zbackup switch --undo"))
        locks.enter_context(ctx.instance_lock("zbackup switch --undo"))
        facts = inspect(ctx)
        clone = find(ctx, name)
        intent = intent_of(clone)
        if clone.state == "switched":
            require_settled(switches(ctx.zfs, ctx.clones, ctx.instance))
            require_in_place(ctx, intent)
            if not accept_ahead:
                require_no_replicas_ahead(ctx, facts, "")
        require_unread(ctx, all_of(intent))
        half_done, clone = clone.state == "switching", replace(clone, state="undoing")
        clone_datasets.describe(ctx, clone)
        _return(ctx, clone, intent, facts)
        if half_done:
            discard_production(ctx, clone, intent)
        waits = _start(ctx, clone)
        clone = replace(clone, state="ready", stopped=True)
        clone_datasets.describe(ctx, clone)
    log.info("switch.undone", clone=name)
    aside = tuple(part_name(ctx, clone, each.number) for each in intent.coming)
    remarks = (waits,) if waits else ()
    return _with_backup(ctx, SwitchReport(clone=clone, outcome="undone", aside=aside, remarks=remarks))


# acting


def _write_intent(ctx: Context, clone: Clone) -> None:
    """Raise Refused when it is longer than a property may be."""
    if len(clone.to_property()) > CHUNK:
        raise Refused(f"{len(intent_of(clone).leaving)} datasets are too many to be switched at once")
    clone_datasets.describe(ctx, clone)


def _exchange(ctx: Context, clone: Clone, intent: Switch, facts: ServerFacts | None) -> None:
    stop(ctx)
    clone_datasets.stop_server(ctx, clone.name)
    snapshot_production(ctx, clone, intent, facts)
    unmount(ctx, all_of(intent))
    put_in_place(ctx, clone, intent)
    dress(ctx, intent)


def _return(ctx: Context, clone: Clone, intent: Switch, facts: ServerFacts | None = None) -> None:
    """Put the instance's datasets back. What never left its place is not touched: whoever uses it may be why
    the switch failed."""
    if strayed := away(ctx, clone, intent):
        stop(ctx)
        snapshot_successor(ctx, clone, intent, facts)
        unmount(ctx, strayed)
    put_back(ctx, clone, intent)
    undress(ctx, clone, intent)


def _go_back(ctx: Context, clone: Clone, failure: ZbackupError | KeyboardInterrupt) -> None:
    """Raise ZbackupError, with both reasons, when that fails too."""
    why = str(failure) or "interrupted"
    ctx.progress.note(f"{why}; going back")
    try:
        clone = replace(clone, state="undoing")
        clone_datasets.describe(ctx, clone)
        _return(ctx, clone, intent_of(clone))
        discard_production(ctx, clone, intent_of(clone))
        start(ctx)
        clone_datasets.describe(ctx, replace(clone, state="ready"))
    except ZbackupError as second:
        again = command_line("zbackup", "switch", ctx.instance, clone.name, "--undo")
        raise ZbackupError(
            f"{why}. Going back failed, too: {second}. Fix that, then run: {again}"
        ) from second
    ctx.progress.note(f"{ctx.instance} is as it was, and runs")


def _start(ctx: Context, clone: Clone) -> str:
    try:
        return start(ctx)
    except ZbackupError as failure:
        again = command_line("zbackup", "switch", ctx.instance, clone.name)
        back = command_line("zbackup", "switch", ctx.instance, clone.name, "--undo")
        if clone.state == "undoing":
            again, back = back, again
        raise DatabaseError(
            f"the datasets are switched, but the server does not run: {failure}. Check its error log. To try "
            f"again: {again}. To go back: {back}"
        ) from failure


def _with_backup(ctx: Context, report: SwitchReport) -> SwitchReport:
    """Back up what is production now: without that, no moment from now on can be reached. That it could not
    be done is a remark first of all, which nobody who wants no notes is spared."""
    try:
        return replace(report, backup=snapshot(ctx).backup.name)
    except ZbackupError as failure:
        why = f"no backup could be taken, take one soon (zbackup snapshot): {failure}"
        return replace(report, remarks=(why, *report.remarks))


def _remarks(record: Record) -> tuple[str, ...]:
    """What a recovery could not bring along."""
    found = []
    if record.role == "replica":
        found.append("it was a replica, and follows nobody now: set its replication up again")
    if record.engine == "mongodb":
        found.append("a member of a set has to be initiated again: docs/how-to/replace-production.md")
    else:
        found.append(
            "replicas of the server before are ahead of this one: make them again from a backup. Events that "
            "were made since the backup are disabled: ALTER EVENT ... ENABLE"
        )
    return tuple(found)
