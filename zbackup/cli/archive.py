"""zbackup archive"""

import signal
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Annotated, Any

import typer

from zbackup import app
from zbackup.cli import completion, logs, output, prose, tables
from zbackup.cli.options import Options
from zbackup.cli.progress import shown
from zbackup.config.load import load
from zbackup.config.settings import Instance, Settings
from zbackup.jobs.archive.archive import Round, archive_destinations, archive_once
from zbackup.jobs.archive.keep_up import KeepUp
from zbackup.jobs.archive.state import ArchiveState, after_failure, after_round, read_state, write_state
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.errors import NotFound, NotRecoverable, UsageError, ZbackupError
from zbackup.plan.duration_text import length

HELP = """Archive the binary log or oplog off the host while it is written.

To the destinations of [instance.NAME.archive], every few seconds: what was acknowledged longer ago than that
survives the loss of this host. The daemon does it by itself; this command is for hosts without the daemon,
and runs until Ctrl-C or SIGTERM. What is archived is never overwritten. Of MongoDB it is what a majority of
the replica set has.

\b
zbackup archive             all instances, until it is told to stop
zbackup archive shop        one
zbackup archive shop --once what there is now, and exit
zbackup archive status      how much would be lost with this host
"""

STATUS = "status"


@dataclass(frozen=True, slots=True)
class _ArchiveTurn:
    """An instance and a destination of its log archive, and what came of it."""

    context: Context
    destination: ShipDestination
    result: Round | ZbackupError


def command(
    options: Options,
    instance: Annotated[
        str | None,
        typer.Argument(
            metavar="[INSTANCE | status]",
            help="Its name in the configuration (default: all that are archived), or the word status.",
            autocompletion=completion.instances,
            show_default=False,
        ),
    ] = None,
    of: Annotated[
        str | None,
        typer.Argument(metavar="[INSTANCE]", help="With status: of this one.", show_default=False),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Archive what there is now, and exit.")] = False,
    take_over: Annotated[
        bool,
        typer.Option(
            "--take-over",
            help="Take the log's archive over from another host, which then stops: begin an epoch, and exit.",
        ),
    ] = False,
) -> None:
    settings = load(options.config)
    if instance == STATUS and STATUS not in settings.instance:
        if once or take_over:
            raise UsageError("status archives nothing: leave out --once and --take-over")
        _status(options, settings, of)
        return
    if of is not None:
        raise UsageError(f'"{of}" is one argument too many')
    chosen = _chosen(settings, instance)
    if once or take_over:
        _once(options, settings, chosen, take_over=take_over)
    else:
        _keep_up(options, settings, chosen)


def _chosen(settings: Settings, name: str | None) -> list[Instance]:
    """The instances whose log is archived. Raise NotFound when there is none, or that one's is not."""
    found = [each for each in app.choose(settings, name) if each.archive]
    if not found:
        raise NotFound(f"no log is archived: add [instance.{name or 'NAME'}.archive] with to = [...]")
    return found


def _once(options: Options, settings: Settings, chosen: Sequence[Instance], *, take_over: bool) -> None:
    turns: list[_ArchiveTurn] = []
    with shown(options) as progress:
        for each in chosen:
            logs.bind(job="archive", instance=each.name)
            ctx = app.context(settings, each, progress)
            turns += [
                _attempt(ctx, destination, take_over=take_over) for destination in archive_destinations(ctx)
            ]
    failed = [t.result for t in turns if isinstance(t.result, ZbackupError)]
    if failed and len(turns) == 1:
        raise failed[0]
    if options.json:
        output.emit(options, "archive", [_shape(t) for t in turns], str)
    else:
        for turn in turns:
            if isinstance(turn.result, Round):
                output.say(_line(turn, turn.result))
    for turn in turns:
        if isinstance(turn.result, ZbackupError):
            about = f"{turn.context.instance} to {turn.destination.name}"
            output.print_error(turn.result, as_json=False, about=about)
    if failed:
        raise typer.Exit(failed[0].exit_status)
    if any(isinstance(t.result, Round) and t.result.gap for t in turns):
        raise typer.Exit(NotRecoverable.exit_status)


def _attempt(ctx: Context, destination: ShipDestination, *, take_over: bool) -> _ArchiveTurn:
    every = ctx.archive.every if ctx.archive else 0.0
    before = read_state(ctx, destination.name)
    try:
        done = archive_once(ctx, destination, take_over=take_over)
    except ZbackupError as failure:
        write_state(ctx, after_failure(before, destination, every, ctx.clock.now(), failure))
        return _ArchiveTurn(ctx, destination, failure)
    write_state(ctx, after_round(before, destination, every, done))
    return _ArchiveTurn(ctx, destination, done)


def _line(turn: _ArchiveTurn, done: Round) -> str:
    where = f"{turn.context.instance} at {turn.destination.adapter.address}"
    if done.end is None:
        return f"{where}: there is nothing of the log to archive yet"
    size = tables.size(done.appended) if done.appended else "nothing new"
    notes = [f"; a new epoch began: {done.new_epoch}"] if done.new_epoch else []
    notes += [f"; there is a gap: {done.gap}"] if done.gap else []
    notes += [f"; it cannot be restored from there: {done.stranded}"] if done.stranded else []
    return f"{where}: archived up to {done.end.end}, {size}{''.join(notes)}"


def _shape(turn: _ArchiveTurn) -> dict[str, Any]:
    about: dict[str, Any] = {"instance": turn.context.instance, "destination": turn.destination.name}
    if isinstance(turn.result, ZbackupError):
        return about | {"error": output.describe_error(turn.result)}
    done = turn.result
    return about | {
        "archived_to": done.looked,
        "end": done.end.end if done.end else None,
        "epoch": done.end.file.epoch if done.end else None,
        "appended": done.appended,
        "new_epoch": done.new_epoch or None,
        "gap": done.gap or None,
        "stranded": done.stranded or None,
    }


def _keep_up(options: Options, settings: Settings, chosen: Sequence[Instance]) -> None:
    stop = threading.Event()

    def told_to_stop(_: int, __: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, told_to_stop)
    threads: list[threading.Thread] = []
    with shown(options) as progress:
        for each in chosen:
            # A context of its own for each destination: what it remembers of the log is one thread's.
            for destination in archive_destinations(app.context(settings, each, progress)):
                ctx = app.context(settings, each, progress)
                keep_up = KeepUp(ctx, destination, stop, lambda _: None)
                threads.append(threading.Thread(target=keep_up.run, name=f"archive {destination.name}"))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def _status(options: Options, settings: Settings, name: str | None) -> None:
    rows: list[tuple[Context, ArchiveState | str]] = []
    with shown(options) as progress:
        for each in _chosen(settings, name):
            ctx = app.context(settings, each, progress)
            rows += [(ctx, read_state(ctx, to) or to) for to in (ctx.archive.to if ctx.archive else ())]
    if options.json:
        output.emit(options, "archive-status", [_state_shape(ctx, state) for ctx, state in rows], str)
        return
    output.say(prose.fold("\n".join(_state_line(ctx, state) for ctx, state in rows)))


def _state_shape(ctx: Context, state: ArchiveState | str) -> dict[str, Any]:
    if isinstance(state, str):
        return {"instance": ctx.instance, "destination": state, "exposed_s": None, "archived_to": None}
    exposed = state.exposed(ctx.clock.now())
    return {
        "instance": ctx.instance,
        "destination": state.destination,
        "exposed_s": exposed.total_seconds() if exposed is not None else None,
        "archived_to": state.archived,
        "end": state.end or None,
        "tried": state.tried,
        "error": state.error or None,
        "gap": state.gap or None,
        "stranded": state.stranded or None,
    }


def _state_line(ctx: Context, state: ArchiveState | str) -> str:
    if isinstance(state, str):
        return f"{ctx.instance} at {state}: not archived since this machine was started"
    exposed = state.exposed(ctx.clock.now())
    lost = (
        f"the last {length(exposed)} would be lost with this host"
        if exposed is not None
        else "the clock was set back since it was archived"
        if state.archived
        else "never archived"
    )
    end = f", archived up to {state.end}" if state.end else ""
    error = f"; it fails: {state.error}" if state.error else ""
    gap = f"; there was a gap: {state.gap}" if state.gap else ""
    stranded = f"; it cannot be restored from there: {state.stranded}" if state.stranded else ""
    return f"{ctx.instance} at {state.destination}: {lost}{end}{stranded}{error}{gap}"
