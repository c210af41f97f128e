"""From a command line to work on instances: which ones, with what progress, and what fails of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import typer

from zbackup import app
from zbackup.cli import completion, logs, output
from zbackup.cli.options import Options
from zbackup.cli.private_key import with_private_keys
from zbackup.cli.progress import shown
from zbackup.config.load import load
from zbackup.config.settings import Instance
from zbackup.jobs.context import Context
from zbackup.model.errors import ZbackupError

Result = TypeVar("Result")

OneInstance = Annotated[
    str | None,
    typer.Argument(
        metavar="INSTANCE",
        help="Its name in the configuration; may be left out when there is one.",
        autocompletion=completion.instances,
        show_default=False,
    ),
]
AnyInstance = Annotated[
    str | None,
    typer.Argument(
        metavar="INSTANCE",
        help="Its name in the configuration (default: all of them).",
        autocompletion=completion.instances,
        show_default=False,
    ),
]


At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="DESTINATION",
        help="What is at this destination, instead of what is on this host.",
        autocompletion=completion.destinations,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    """An instance's turn, and what came of it."""

    context: Context
    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """An instance's turn that ended with an error."""

    instance: str
    error: ZbackupError


@dataclass(frozen=True, slots=True)
class CutShort:
    """The turn in which all of it ended, by Ctrl-C or a defect. Those behind it have had none."""

    instance: str
    by: BaseException


Outcomes = list[Done[Result] | Failed | CutShort]


@contextmanager
def on_one(
    options: Options,
    job: str,
    name: str | None,
    server: Path | None = None,
    private_keys: Sequence[Path] | None = None,
) -> Iterator[Context]:
    """The context of the one instance meant, with the program `server` to recover with if one is given, and
    `private_keys` to read its buckets with.

    Raise UsageError or NotFound when it is not clear which instance.
    """
    settings = load(options.config)
    instance = with_private_keys(app.choose_one(settings, name), private_keys)
    if server:
        recovery = instance.recovery.model_copy(update={"server": (str(server),)})
        instance = instance.model_copy(update={"recovery": recovery})
    logs.bind(job=job, instance=instance.name)
    with shown(options) as progress:
        yield app.context(settings, instance, progress)


@contextmanager
def on_all(options: Options, job: str) -> Iterator[list[Context]]:
    """The contexts of all instances, and of each dataset of their clones, for work that looks across them."""
    settings = load(options.config)
    logs.bind(job=job)
    with shown(options) as progress:
        own = [app.context(settings, instance, progress) for instance in app.choose(settings, None)]
        yield [each for context in own for each in context.everywhere()]


def on_each(
    options: Options,
    job: str,
    name: str | None,
    action: Callable[[Context], Result],
    private_keys: Sequence[Path] | None = None,
) -> Outcomes[Result]:
    """Do it for the instance named, or for every one, as in_turn does; see also on_one."""
    settings = load(options.config)

    def turn(instance: Instance) -> Done[Result]:
        logs.bind(job=job, instance=instance.name)
        with shown(options) as progress:
            context = app.context(settings, with_private_keys(instance, private_keys), progress)
            return Done(context, action(context))

    return in_turn([(each.name, partial(turn, each)) for each in app.choose(settings, name)])


def in_turn(turns: Sequence[tuple[str, Callable[[], Done[Result]]]]) -> Outcomes[Result]:
    """Give each instance its turn. One that fails does not keep the next from its own.

    When there is but one, its error is raised as it is. What ends all of it comes last, as CutShort, so that
    what was done before is told; where that is nothing, it is raised.
    """
    outcomes: Outcomes[Result] = []
    instance = ""
    try:
        for instance, turn in turns:
            try:
                outcomes.append(_outcome(turn))
            except ZbackupError as error:
                if len(turns) == 1:
                    raise
                outcomes.append(Failed(instance, error))
    except (Exception, KeyboardInterrupt) as end:
        if not outcomes:
            raise
        outcomes.append(CutShort(instance, end))
    return outcomes


def _outcome(turn: Callable[[], Done[Result]]) -> Done[Result]:
    try:
        return turn()
    except OSError as error:
        # A file that may not be read, or a full disk, is this instance's trouble like any other.
        raise ZbackupError(str(error) or type(error).__name__) from error


def whole(outcomes: Outcomes[Result]) -> list[Done[Result] | Failed]:
    """The same, for who has no use for a part: raise what cut them short."""
    found: list[Done[Result] | Failed] = []
    for each in outcomes:
        if isinstance(each, CutShort):
            raise each.by
        found.append(each)
    return found


def conclude(
    options: Options,
    command: str,
    outcomes: Sequence[Done[Result] | Failed | CutShort],
    *,
    shape: Callable[[Done[Result]], dict[str, Any]],
    text: Callable[[list[Done[Result]]], str],
) -> None:
    """Print what was done and what failed; leave with the first failure's exit status if there is one, and
    with what cut it short if something did."""
    done = [o for o in outcomes if isinstance(o, Done)]
    failed = [o for o in outcomes if isinstance(o, Failed)]
    cut = next((o.by for o in outcomes if isinstance(o, CutShort)), None)
    if options.json:
        output.emit(options, command, [_row(o, shape) for o in outcomes], str)
    elif done:
        output.say(text(done))
    for each in failed:
        output.print_error(each.error, as_json=False, about=each.instance)
    if cut is not None:
        if options.json:
            raise output.AlreadyPrinted(cut) from cut
        raise cut
    if failed:
        raise typer.Exit(failed[0].error.exit_status)


def _row(
    outcome: Done[Result] | Failed | CutShort, shape: Callable[[Done[Result]], dict[str, Any]]
) -> dict[str, Any]:
    match outcome:
        case Done(context):
            return {"instance": context.instance} | shape(outcome)
        case Failed(instance, error):
            return {"instance": instance, "error": output.describe_error(error)}
        case CutShort(instance, end):
            return {"instance": instance, "error": output.describe_end(end)}
