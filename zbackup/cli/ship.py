"""zbackup ship"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Annotated, Any

import typer

from zbackup import app
from zbackup.cli import completion, logs, output, tables
from zbackup.cli.command_context import AnyInstance
from zbackup.cli.options import Options
from zbackup.cli.output import plain
from zbackup.cli.progress import Notes, shown
from zbackup.config.load import load
from zbackup.config.settings import Settings
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.ship import (
    Sent,
    ShipPreview,
    ShipReport,
    diverged_text,
    locked_text,
    other_key_text,
    preview,
    ship,
)
from zbackup.model.errors import NotFound, ZbackupError
from zbackup.model.progress import Progress, Silent
from zbackup.model.shipped import OtherKey
from zbackup.plan.ship.ship import (
    Abort,
    Commit,
    Divergence,
    KeyLocked,
    NeedsInitial,
    Send,
    ShipPlan,
    Steps,
    UpToDate,
)

HELP = """Copy backups to another host, another pool or S3.

Of one instance or all of them, to one of its destinations or all ([[instance.NAME.ship]]): what is new since
the newest common snapshot is sent. The next run resumes one that was cut off. A destination lists a backup
when all of its datasets have arrived. Nothing there is ever overwritten or rolled back: where both sides have
nothing in common, it says what each has and changes nothing.

\b
zbackup ship                        all instances to all their destinations
zbackup ship shop offsite           one
zbackup ship shop offsite --initial the first time: send everything
zbackup ship --dry-run              what would be sent, and how much; changes nothing
"""

Destination = Annotated[
    str | None,
    typer.Argument(
        metavar="DESTINATION",
        help="Its name: as configured, else the host's or the pool's (default: all).",
        autocompletion=completion.destinations,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class _ShipTurn:
    """An instance and one of its destinations, and what came of it."""

    context: Context
    destination: ShipDestination
    result: ShipReport | ShipPreview | ZbackupError


def command(
    options: Options,
    instance: AnyInstance = None,
    destination: Destination = None,
    initial: Annotated[
        bool, typer.Option("--initial", help="Allow the first copy, which sends everything.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be sent, change nothing.")
    ] = False,
    parallel: Annotated[
        int, typer.Option("--parallel", metavar="N", min=1, help="Number of instances at a time.")
    ] = 1,
) -> None:
    settings = load(options.config)

    stop = Event()

    def turn(ctx: Context, destination: ShipDestination) -> ShipReport | ShipPreview:
        if dry_run:
            return preview(ctx, destination, initial=initial)
        return ship(ctx, destination, initial=initial, stop=stop.is_set)

    try:
        turns = _all_turns(options, settings, (instance, destination), turn, parallel)
    finally:
        stop.set()
    failed = [t for t in turns if isinstance(t.result, ZbackupError)]
    if failed and len(turns) == 1 and isinstance(failed[0].result, ZbackupError):
        raise failed[0].result
    _print(options, turns)
    for each in failed:
        if isinstance(each.result, ZbackupError):
            about = f"{each.context.instance} to {each.destination.name}"
            output.print_error(each.result, as_json=False, about=about)
    if failed and isinstance(failed[0].result, ZbackupError):
        raise typer.Exit(failed[0].result.exit_status)


def _all_turns(
    options: Options,
    settings: Settings,
    wanted: tuple[str | None, str | None],
    turn: Callable[[Context, ShipDestination], ShipReport | ShipPreview],
    parallel: int,
) -> list[_ShipTurn]:
    """One instance's destinations come one after the other; `parallel` instances at a time."""
    instance, destination = wanted
    chosen = app.choose(settings, instance)
    named = [(i, app.choose_destinations(i, destination)) for i in chosen]
    if not any(labels for _, labels in named):
        raise NotFound(_nowhere([i.name for i in chosen], destination))

    def of_instance(progress: Progress, number: int) -> list[_ShipTurn]:
        one, labels = named[number]
        logs.bind(job="ship", instance=one.name)
        context = app.context(settings, one, progress)
        return [_attempt(context, t, turn) for t in context.destinations if t.name in labels]

    if parallel > 1 and len(named) > 1:
        # Bars of several streams at once would write over each other.
        progress: Progress = Silent() if options.quiet else Notes()
        pool = ThreadPoolExecutor(parallel)
        try:
            rows = list(pool.map(lambda number: of_instance(progress, number), range(len(named))))
        finally:
            # Interrupted, those that have not begun are not, and the streams of the others are cut.
            pool.shutdown(wait=False, cancel_futures=True)
        return [row for some in rows for row in some]
    with shown(options) as progress:
        return [row for number in range(len(named)) for row in of_instance(progress, number)]


def _nowhere(instances: Sequence[str], destination: str | None) -> str:
    names = ", ".join(instances)
    if destination:
        return f'no destination "{destination}" of {names} in the configuration'
    return f"{names}: there is nowhere to ship to; add [[instance.NAME.ship]] with to = ..."


def _attempt(
    ctx: Context,
    destination: ShipDestination,
    turn: Callable[[Context, ShipDestination], ShipReport | ShipPreview],
) -> _ShipTurn:
    try:
        return _ShipTurn(ctx, destination, turn(ctx, destination))
    except ZbackupError as failure:
        return _ShipTurn(ctx, destination, failure)


def _print(options: Options, turns: Sequence[_ShipTurn]) -> None:
    if options.json:
        output.emit(options, "ship", [_shape(t) for t in turns], str)
        return
    for turn in turns:
        if not isinstance(turn.result, ZbackupError):
            output.say("\n".join(_lines(turn.context, turn.result)))


def _shape(turn: _ShipTurn) -> dict[str, Any]:
    about = {"instance": turn.context.instance, "destination": turn.destination.name}
    about["place"] = turn.destination.adapter.address
    match turn.result:
        case ZbackupError() as error:
            return about | {"error": output.describe_error(error)}
        case ShipPreview() as found:
            return about | {"dry_run": True} | _plan_shape(found)
        case ShipReport() as report:
            return about | {
                "dry_run": False,
                "sent": [_sent_shape(s) for s in report.sent],
                "committed": [b.name for b in report.committed],
                "newest": report.newest.name if report.newest else None,
                "newest_taken": plain(report.newest.record.taken) if report.newest else None,
            }


def _sent_shape(sent: Sent) -> dict[str, Any]:
    return _send_shape(sent.step) | {"bytes": sent.size, "seconds": round(sent.seconds, 3)}


def _send_shape(step: Send) -> dict[str, Any]:
    return {
        "snapshot": str(step.snapshot),
        "guid": str(step.part.guid),
        "base": step.origin.name if step.origin else None,
        "resumed": bool(step.token),
        "raw": step.part.raw,
    }


def _plan_shape(found: ShipPreview) -> dict[str, Any]:
    plan = found.plan
    match plan:
        case Steps(steps):
            sizes = iter(found.sizes)
            sends = [_send_shape(s) | {"bytes": next(sizes)} for s in steps if isinstance(s, Send)]
            return {
                "plan": "steps",
                "send": sends,
                "commit": [s.backup.name for s in steps if isinstance(s, Commit)],
            }
        case UpToDate(newest):
            return {"plan": "up to date", "newest": newest.name if newest else None}
        case NeedsInitial(datasets):
            return {"plan": "needs --initial", "datasets": datasets}
        case Divergence():
            return {"plan": "diverged"} | {k: plain(v) for k, v in _evidence(plan).items()}
        case OtherKey():
            return {"plan": "other key", "dataset": plan.dataset, "copy": plan.copy, "root": plan.root}
        case KeyLocked(dataset, root):
            return {"plan": "key not loaded", "dataset": dataset, "root": root}


def _evidence(plan: Divergence) -> dict[str, Any]:
    return {
        "dataset": plan.dataset,
        "line": plan.target,
        "why": plan.why,
        "here": plan.here,
        "there": plan.there,
    }


def _lines(ctx: Context, result: ShipReport | ShipPreview) -> list[str]:
    about = f"{ctx.instance} to {result.destination.name}"
    if isinstance(result, ShipPreview):
        return _plan_lines(about, ctx, result, result.plan)
    if not result.sent and not result.committed:
        return [f"{about}: {_up_to_date(result.newest.name if result.newest else None)}"]
    size, seconds = sum(s.size for s in result.sent), sum(s.seconds for s in result.sent)
    rate = f", {tables.size(round(size / seconds))}/s" if seconds > 0 else ""
    return [
        f"{about}: {', '.join(b.name for b in result.committed)}",
        *(f"  {_how(s.step)}: {tables.size(s.size)} in {tables.length(s.seconds)}" for s in result.sent),
        f"  {tables.size(size)} in all{rate}",
    ]


def _plan_lines(about: str, ctx: Context, found: ShipPreview, plan: ShipPlan) -> list[str]:
    match plan:
        case Steps(steps):
            sizes = iter(found.sizes)
            return [f"{about}: would", *(f"  {_step_text(step, sizes)}" for step in steps)]
        case UpToDate(newest):
            return [f"{about}: {_up_to_date(newest.name if newest else None)}"]
        case NeedsInitial(datasets):
            return [f"{about}: no copy is there; --initial would send all of {', '.join(datasets)}"]
        case Divergence():
            return [f"{about}: {diverged_text(ctx.instance, found.destination, plan)}"]
        case OtherKey():
            return [f"{about}: {other_key_text(ctx.instance, found.destination, plan)}"]
        case KeyLocked(dataset, root):
            return [f"{about}: {locked_text(found.destination, dataset, root)}"]


def _step_text(step: Abort | Send | Commit, sizes: Any) -> str:
    match step:
        case Abort(target, why):
            return f"give up the interrupted stream of {target}: {why}"
        case Send():
            return f"send {_how(step)}: {tables.size(next(sizes))}"
        case Commit(backup, _):
            return f"commit {backup.name}"


def _how(step: Send) -> str:
    if step.token:
        return f"{step.snapshot}, the rest of it"
    return f"{step.snapshot} since {step.origin.name}" if step.origin else f"{step.snapshot} in full"


def _up_to_date(newest: str | None) -> str:
    return f"up to date, {newest} is there" if newest else "there is no backup to ship yet"
