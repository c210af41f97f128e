"""The instance's own server, as its operator runs it: stopped and started by his service."""

import time

from zbackup.jobs.context import Context
from zbackup.model.errors import CommandFailed, CommandTimedOut, ConfigError, DatabaseError, NotInService
from zbackup.model.server import ServerFacts
from zbackup.model.switch import ServiceCommands
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
